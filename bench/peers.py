#!/usr/bin/env python3
"""Times kvcost and its peers in turn on one quiet machine, and writes the ratios.

  bench/peers.py MODEL.gguf TEXT --config configs/quick.json --reference DIR --python PYTHON --out results/speed.json

DIR holds measure.py (whole score matrices, dense masks) and sdpa_time.py (transformers with SDPA), which PYTHON
runs with torch and transformers installed. Nothing else may run meanwhile: spinning threads that lose their
partner cost tens of times over."""
import argparse, json, os, re, subprocess, sys, tempfile, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"


def run(command):
    """Standard output, seconds and peak resident bytes of one process."""
    start = time.time()
    child = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]}: exit status {os.waitstatus_to_exitcode(status)}")
    return output, time.time() - start, usage.ru_maxrss * 1024


def kvcost_rows(args, *settings):
    """Row name -> seconds per window, measured afresh; and the peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        command = [BUILD / "kvcost", "run", args.config, "--out", folder, "--store", f"{folder}/units", "--set",
                   f"model={args.model}", "--set", f"text={args.text}", "--windows", "1", *settings]
        _, _, peak = run(command)
        result = json.loads(next(Path(folder).glob("*.json")).read_text())
        return {row["name"]: row["seconds"] for row in result["rows"]}, peak


def best(old, new):
    return {name: min(seconds, old.get(name, seconds)) for name, seconds in new.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"); parser.add_argument("text")
    parser.add_argument("--config", default=ROOT / "configs" / "quick.json")
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    rows, long_rows, limits, sdpa, reference, peak, weights = {}, {}, [], {}, {}, 0, 0
    for turn in range(args.turns):
        limits.append(json.loads(run([BUILD / "bench" / "limit_bench", args.model, 1])[0]))
        output, _, _ = run([args.python, args.reference / "sdpa_time.py", args.model, 1])
        sdpa = best(sdpa, {name: float(s) for name, s in re.findall(r"^(.+) best ([\d.]+) s", output, re.M)})
        measured, used = kvcost_rows(args)
        rows, peak = best(rows, measured), max(peak, used)
        if turn == 0:
            output, _, _ = run([args.python, args.reference / "measure.py", "--model", args.model, "--text", args.text,
                                "--windows", 1, "--rows", "window-512|int4-token$"])
            reference = {name: float(s) for name, s in re.findall(r"^(\S+) .*\s([\d.]+) s$", output, re.M)}
            long_rows, _ = kvcost_rows(args, "--set", "windows.length=8192", "--rows", "the last 512 tokens")
        print(f"turn {turn + 1} of {args.turns} done", file=sys.stderr, flush=True)

    weights = limits[0]["weight_bytes"]
    names = list(rows)
    full, window = rows[names[0]], rows["the last 512 tokens"]
    rounded = {name: rows[name] for name in names[1:] if "bit" in name}
    limit = min(turn["limit_seconds"] for turn in limits)
    masked = sdpa["window mask"]
    cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    report = {
        "machine": f"{cpu}, {os.cpu_count()} cores", "turns": args.turns, "command": " ".join(Path(word).name if "/" in word else word for word in sys.argv),
        "model": Path(args.model).name, "seconds_per_window": rows, "limit": limits, "sdpa_seconds": sdpa,
        "reference_seconds": reference, "window_512_at_8192_seconds": long_rows["the last 512 tokens"],
        "peak_bytes": peak, "weight_bytes": weights,
        "ratios": {
            "share_of_limit_full_row": limit / full,
            "slowest_rounded_row_over_full": max(rounded.values()) / full,
            "window_512_over_full": window / full,
            "measure_py_over_kvcost_full": reference["full"] / full,
            "sdpa_over_kvcost_full": sdpa["causal"] / full,
            "sdpa_sweep_over_kvcost_sweep": (sdpa["causal"] + masked * (len(rows) - 1)) / sum(rows.values()),
            "window_512_8192_over_2048": long_rows["the last 512 tokens"] / window,
            "peak_beyond_weights_bytes": peak - weights,
        },
    }
    temporary = args.out.with_suffix(".part")
    temporary.write_text(json.dumps(report, indent=1) + "\n")
    temporary.rename(args.out)
    print(json.dumps(report["ratios"], indent=1))


if __name__ == "__main__":
    main()
