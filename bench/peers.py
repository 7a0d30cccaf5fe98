#!/usr/bin/env python3
"""Times kvcost and its peers in turn on one quiet machine, and writes the ratios.

  bench/peers.py MODEL.gguf TEXT --config configs/quick.json --reference DIR --python PYTHON --out results/speed.json

DIR holds measure.py (whole score matrices, dense masks) and sdpa_time.py (transformers with SDPA), which PYTHON
runs with torch and transformers installed. Nothing else may run meanwhile: spinning threads that lose their
partner cost tens of times over.

  bench/peers.py MODEL.gguf --limit --out results/speed.json   measures the limit alone, again, in a file written before
  bench/peers.py MODEL.gguf TEXT --memory --out results/speed.json   likewise the peak of memory, of the rows that hold most
  bench/peers.py --table results/speed.json...                 prints what was written, a column for each file"""
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
    """Row name -> seconds per window, measured afresh, without perturbed repeats; and the peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        config = json.loads(re.sub(r"^\s*//.*$", "", Path(args.config).read_text(), flags=re.M))
        config.pop("perturb", None)
        unperturbed = Path(folder) / Path(args.config).name
        unperturbed.write_text(json.dumps(config))
        command = [BUILD / "kvcost", "run", unperturbed, "--out", f"{folder}/out", "--store", f"{folder}/units", "--set",
                   f"model={args.model}", "--set", f"text={args.text}", "--windows", "1", *settings]
        _, _, peak = run(command)
        result = json.loads((Path(folder) / "out" / unperturbed.name).read_text())
        return {row["name"]: row["seconds"] for row in result["rows"]}, peak


def measured_limit(args):
    """The limit and the full cache's pass beside it, turn by turn in one process, the best of each."""
    return json.loads(run([BUILD / "bench" / "limit_bench", args.model, 5])[0])


def write(path, report):
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(report, indent=1) + "\n")
    temporary.rename(path)
    print(json.dumps(report["ratios"], indent=1))


def best(old, new):
    return {name: min(seconds, old.get(name, seconds)) for name, seconds in new.items()}


LINES = [("full cache, seconds a window", lambda r: f'{next(iter(r["seconds_per_window"].values())):.1f}'),
         ("share of the limit reached", lambda r: f'{r["ratios"]["share_of_limit_full_row"]:.0%}'),
         ("slowest rounded row, times the full cache's", lambda r: f'{r["ratios"]["slowest_rounded_row_over_full"]:.2f}'),
         ("the last 512 tokens, times the full cache's", lambda r: f'{r["ratios"]["window_512_over_full"]:.2f}'),
         ("the same at 8,192 tokens, times at 2,048", lambda r: f'{r["ratios"]["window_512_8192_over_2048"]:.2f}'),
         ("whole score matrices in Python, times kvcost's", lambda r: f'{r["ratios"]["measure_py_over_kvcost_full"]:.1f}'),
         ("SDPA in Python, times kvcost's", lambda r: f'{r["ratios"]["sdpa_over_kvcost_full"]:.2f}'),
         ("the sweep by SDPA with masks, times kvcost's", lambda r: f'{r["ratios"]["sdpa_sweep_over_kvcost_sweep"]:.2f}'),
         ("peak memory beyond the weights, GB", lambda r: f'{r["ratios"]["peak_beyond_weights_bytes"] / 1e9:.2f}')]


def print_table(paths):
    reports = [json.loads(Path(path).read_text()) for path in paths]
    columns = [[Path(report["model"]).stem] + [value(report) for _, value in LINES] for report in reports]
    names = [""] + [name for name, _ in LINES]
    for index, name in enumerate(names):
        print((f"{name:48s}" + "".join(f"  {column[index]:>{max(map(len, column))}}" for column in columns)).rstrip())
    print("2,048 tokens, fp32; " + ", ".join(dict.fromkeys(report["machine"] for report in reports)))


def main():
    if sys.argv[1:2] == ["--table"]:
        return print_table(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"); parser.add_argument("text", nargs="?")
    parser.add_argument("--limit", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--config", default=ROOT / "configs" / "quick.json")
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    if args.limit:
        report = json.loads(args.out.read_text())
        report["limit"] = measured_limit(args)
        report["ratios"]["share_of_limit_full_row"] = report["limit"]["share_of_limit"]
        return write(args.out, report)
    if args.memory:
        if args.text is None:
            parser.error("TEXT is needed")
        report = json.loads(args.out.read_text())
        _, report["peak_bytes"] = kvcost_rows(args, "--rows", "KIVI|keys per channel|bias removed")  # what holds most
        report["ratios"]["peak_beyond_weights_bytes"] = report["peak_bytes"] - report["weight_bytes"]
        return write(args.out, report)
    if args.text is None or args.reference is None:
        parser.error("TEXT and --reference are needed")

    rows, long_rows, sdpa, reference, peak = {}, {}, {}, {}, 0
    limit = measured_limit(args)
    for turn in range(args.turns):
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

    weights = limit["weight_bytes"]
    names = list(rows)
    full, window = rows[names[0]], rows["the last 512 tokens"]
    rounded = {name: rows[name] for name in names[1:] if "bit" in name}
    masked = sdpa["window mask"]
    cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    report = {
        "machine": f"{cpu}, {os.cpu_count()} cores", "turns": args.turns, "command": " ".join(Path(word).name if "/" in word else word for word in sys.argv),
        "model": Path(args.model).name, "seconds_per_window": rows, "limit": limit, "sdpa_seconds": sdpa,
        "reference_seconds": reference, "window_512_at_8192_seconds": long_rows["the last 512 tokens"],
        "peak_bytes": peak, "weight_bytes": weights,
        "ratios": {
            "share_of_limit_full_row": limit["share_of_limit"],
            "slowest_rounded_row_over_full": max(rounded.values()) / full,
            "window_512_over_full": window / full,
            "measure_py_over_kvcost_full": reference["full"] / full,
            "sdpa_over_kvcost_full": sdpa["causal"] / full,
            "sdpa_sweep_over_kvcost_sweep": (sdpa["causal"] + masked * (len(rows) - 1)) / sum(rows.values()),
            "window_512_8192_over_2048": long_rows["the last 512 tokens"] / window,
            "peak_beyond_weights_bytes": peak - weights,
        },
    }
    write(args.out, report)


if __name__ == "__main__":
    main()
