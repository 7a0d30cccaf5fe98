#!/usr/bin/env python3
"""Sets kvcost's losses beside an independent reference's, token by token, and writes what it found.

  measure.py --model M --text T --windows N --npz REF.npz          (the reference's own run)
  kvcost run configs/quick.json --set model=M --set text=T --windows N --out DIR
  bench/against_reference.py DIR/quick.json REF.npz --out results/against-reference.json

The full row passes within 0.0005 bits, an evicting row within 0.001, both with each token within 0.01.
Rounded rows flip codes at a change of 1e-7, so they pass within 0.002 bits or three times their own spread
(perturbed runs in the result file), whichever is larger."""
import argparse, json, struct, sys
from pathlib import Path
import numpy as np

NAMES = {"full": "full cache", "window-512": "the last 512 tokens", "sinks-4+508": "4 sink tokens + the last 508",
         "window-256": "the last 256 tokens", "sinks-4+252": "4 sink tokens + the last 252",
         "window-128": "the last 128 tokens", "sinks-4+124": "4 sink tokens + the last 124",
         "int8-token": "8-bit, per token", "int4-token": "4-bit, per token",
         "int4-token-values": "4-bit, only values, per token", "int4-token-keys": "4-bit, only keys, per token",
         "int4-channel-keys": "4-bit, keys per channel", "int2-token": "2-bit, per token",
         "int2-channel-keys": "2-bit, keys per channel",
         "int2-kivi-128": "2-bit, keys per channel, last 128 exact (KIVI)",
         "int4-keys-bias-removed": "4-bit keys, per token, bias removed",
         "int2-keys-bias-removed": "2-bit keys, per token, bias removed"}


def safetensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    kinds = {"F64": "<f8", "F32": "<f4"}
    return {name: np.frombuffer(data[8 + size:][slice(*info["data_offsets"])], kinds[info["dtype"]])
            .reshape(info["shape"]) for name, info in header.items() if info.get("dtype") in kinds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path); parser.add_argument("reference", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    result = json.loads(args.result.read_text())
    losses = safetensors(args.result.with_suffix(".safetensors"))
    reference = np.load(args.reference)
    report, failed = [], 0
    for theirs, ours in NAMES.items():
        row = next((r for r in result["rows"] if r["name"] == ours), None)
        if theirs not in reference or row is None:
            continue
        mine = losses[ours]
        gap = mine.reshape(-1) - reference[theirs].reshape(-1)
        rounds = any(key in row["config"] for key in ("keys", "values"))
        spread = row.get("spread_bits")
        tolerance = 0.0005 if theirs == "full" else max(0.002, 3 * (spread or 0)) if rounds else 0.001
        passed = abs(gap.mean()) <= tolerance and (rounds or np.abs(gap).max() <= 0.01)
        failed += not passed
        report.append({"row": ours, "loss_bits": float(mine.mean()), "reference_bits": float(reference[theirs].mean()),
                       "difference_bits": float(gap.mean()), "largest_token_difference_bits": float(np.abs(gap).max()),
                       "tolerance_bits": tolerance, "spread_bits": spread, "passed": bool(passed)})
        print(f'{ours:48s} {report[-1]["loss_bits"]:8.4f} {report[-1]["reference_bits"]:8.4f} '
              f'{gap.mean():+9.5f}  token {np.abs(gap).max():8.5f}  {"ok" if passed else "BEYOND " + str(tolerance)}')
    args.out.write_text(json.dumps({"command": " ".join(Path(word).name if "/" in word else word for word in sys.argv), "model": result["model"], "rows": report}, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
