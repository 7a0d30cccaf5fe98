#!/usr/bin/env python3
"""What KL, top-1 agreement and probabilities cost beside the loss: one rounded row's unit, which has them all, against
its perturbed units, which have losses only. Both in turn, from the run's own unit files.

  bench/extras_cost.py MODEL.gguf TEXT --out results/extras-cost.json      on a quiet machine"""
import argparse, json, os, struct, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = "4-bit, per token"


def units(folder):
    """(perturbed, seconds) of every unit of ROW."""
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))["__metadata__"]
        identity = json.loads(header["identity"])
        if identity["row"]:
            yield identity["perturb"] is not None, json.loads(header["facts"])["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"); parser.add_argument("text")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    with_all, losses_only = [], []
    for _ in range(args.turns):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ROOT / "build/release/kvcost", "run", ROOT / "configs/quick.json", "--out", folder,
                            "--store", f"{folder}/units", "--set", f"model={args.model}", "--set", f"text={args.text}",
                            "--windows", "1", "--rows", f"^{ROW}$"], check=True, stdout=subprocess.DEVNULL)
            for perturbed, seconds in units(Path(folder) / "units"):
                (losses_only if perturbed else with_all).append(seconds)
    cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    report = {"machine": f"{cpu}, {os.cpu_count()} cores", "model": Path(args.model).name, "row": ROW,
              "command": " ".join(Path(word).name if "/" in word else word for word in sys.argv),
              "seconds_with_all": with_all, "seconds_losses_only": losses_only,
              "ratio": min(with_all) / min(losses_only)}
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
