#!/usr/bin/env python3
"""The full-cache loss of one model read from several kinds of file: it must not depend on the kind.

  bench/formats_agree.py MODEL.gguf FOLDER [FOLDER...] --text TEXT --out results/formats-agree.json

The folders hold the same weights as safetensors, in one file or in shards. Each loss must lie within 0.0001 bits of the
first's."""
import argparse, json, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--text", default=str(ROOT / "data/heldout"))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    found = []
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ROOT / "build/release/kvcost", "run", ROOT / "configs/full.json", "--out", folder, "--store",
                            f"{folder}/units", "--set", f"model={model}", "--set", f"text={args.text}"],
                           check=True, stdout=subprocess.DEVNULL)
            result = json.loads((Path(folder) / "full.json").read_text())
        found.append({"model": Path(model).name, "weights_sha256": result["weights_sha256"],
                      "loss_bits": result["rows"][0]["loss_bits"]})
        print(f'{found[-1]["model"]:50s} {found[-1]["loss_bits"]:.7f}', flush=True)
    largest = max(abs(f["loss_bits"] - found[0]["loss_bits"]) for f in found)
    args.out.write_text(json.dumps({"command": " ".join(Path(word).name if "/" in word else word for word in sys.argv),
                                    "largest_difference_bits": largest, "models": found}, indent=1) + "\n")
    print(f"largest difference {largest:.2e} bits")
    sys.exit(0 if largest <= 1e-4 else 1)


if __name__ == "__main__":
    main()
