#!/usr/bin/env python3
"""Times every eviction policy against the full cache, in turn in the same runs on one quiet machine, and writes the
ratios.

  bench/eviction_ratios.py --text data/heldout --out results/eviction-ratios.json \\
      smollm2-135m=1.35 qwen2.5-coder-0.5b-instruct=1.2

Each model comes with the ratio that h2o and tova are to stay under. A turn is one run of configs/eviction.json's rows
at one capacity, the full cache first in each window, everything measured afresh; of all windows of all turns the best
counts, so that what a run pays once, when its memory is new, does not. Seconds are what the program reports for a row
and window: the forward pass and the scoring. Nothing else may run meanwhile: spinning threads that lose their partner
cost tens of times over."""
import argparse, json, os, struct, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KVCOST = ROOT / "build" / "release" / "kvcost"
TARGETED = ("h2o", "tova")


def unit_seconds(path):
    """The row's config as text, and its seconds, from one unit's header."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        meta = json.loads(file.read(size))["__metadata__"]
    return json.dumps(json.loads(meta["identity"])["row"], sort_keys=True), json.loads(meta["facts"])["seconds"]


def one_turn(model, args):
    """Row name -> best seconds of a window; the full cache's under its own name."""
    with tempfile.TemporaryDirectory() as folder:
        command = [KVCOST, "run", args.config, "--out", folder, "--store", f"{folder}/units", "--windows", args.windows,
                   "--rows", f", {args.capacity}(, seed 0)?$", "--set", f"model={model}", "--set", f"text={args.text}",
                   "--set", f"windows.length={args.length}", "--set", f"windows.scored={args.length // 2}"]
        if subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            sys.exit("failed: " + " ".join(map(str, command)))
        result = json.loads(next(Path(folder).glob("*.json")).read_text())
        names = {json.dumps(row["config"], sort_keys=True): row["name"] for row in result["rows"]}
        seconds = {}
        for path in Path(folder, "units").glob("*.safetensors"):
            row, took = unit_seconds(path)
            seconds[names[row]] = min(took, seconds.get(names[row], took))
        return result, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL=TARGET")
    parser.add_argument("--text", required=True)
    parser.add_argument("--config", default=ROOT / "configs" / "eviction.json")
    parser.add_argument("--capacity", type=int, default=512)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    targets = {}
    for entry in args.models:
        model, _, target = entry.rpartition("=")
        if not model:
            parser.error(f"'{entry}': expected MODEL=TARGET")
        targets[model] = float(target)

    best, about = {model: {} for model in targets}, {}
    for turn in range(args.turns):
        for model in targets:
            about, seconds = one_turn(model, args)
            best[model] = {name: min(took, best[model].get(name, took)) for name, took in seconds.items()}
        print(f"turn {turn + 1} of {args.turns} done", file=sys.stderr, flush=True)

    report = {"machine": f"{about['processor']}, {os.cpu_count()} cores", "capability": about["capability"],
              "threads": about["threads"], "commit": about["commit"],
              "command": " ".join(Path(word).name if word.startswith("/") else word for word in sys.argv),
              "turns": args.turns, "windows_a_turn": args.windows, "length": args.length, "capacity": args.capacity,
              "models": {}}
    for model, seconds in best.items():
        full = seconds["full cache"]
        ratios = {name: took / full for name, took in seconds.items() if name != "full cache"}
        if not ratios:
            sys.exit(f"{args.config}: no row at capacity {args.capacity}")
        slowest = max(ratio for name, ratio in ratios.items() if name.startswith(TARGETED))
        report["models"][model] = {"seconds_per_window": seconds, "ratios_to_full_cache": ratios,
                                   "target_of_h2o_and_tova": targets[model], "target_met": slowest <= targets[model]}
    temporary = args.out.with_suffix(".part")
    temporary.write_text(json.dumps(report, indent=1) + "\n")
    temporary.rename(args.out)
    for model, numbers in report["models"].items():
        print(f"{model}: target {numbers['target_of_h2o_and_tova']}, {'met' if numbers['target_met'] else 'missed'}")
        for name, ratio in sorted(numbers["ratios_to_full_cache"].items(), key=lambda item: item[1]):
            print(f"  {ratio:6.2f}  {name}")


if __name__ == "__main__":
    main()
