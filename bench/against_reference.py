#!/usr/bin/env python3
"""Sets kvcost's losses beside an independent reference's, token by token, and writes what it found.

  measure.py --model M --text T --windows N --npz REF.npz          (the reference's own run)
  kvcost run configs/quick.json --set model=M --set text=T --windows N --out DIR
  bench/against_reference.py DIR/quick.json REF.npz --out results/against-reference.json
  bench/against_reference.py --table results/against-reference*.json

The full row passes within 0.0005 bits, an evicting row within 0.001, both with each token within 0.01.
Rounded rows flip codes at a change of 1e-7: one run is one draw of their loss. They pass when the means over draws
(the run and its perturbed repeats in the result; the reference's run and those of --noise SEED.npz...) lie within
0.002 bits or three times the spread of one draw, whichever is larger: the larger of the two sides' spreads."""
import argparse, json, struct, sys
from pathlib import Path

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
    import numpy as np
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    kinds = {"F64": "<f8", "F32": "<f4"}
    return {name: np.frombuffer(data[8 + size:][slice(*info["data_offsets"])], kinds[info["dtype"]])
            .reshape(info["shape"]) for name, info in header.items() if info.get("dtype") in kinds}


def print_table(paths):
    reports = [json.loads(Path(path).read_text()) for path in paths]

    def largest(rows, key):
        return max(rows, key=lambda row: abs(row[key]))[key]

    def exact(row):
        return not row["spread_bits"]

    for report in reports:
        for row in report["rows"]:
            row["spreads"] = 0 if exact(row) else row["difference_bits"] / row["spread_bits"]
    lines = [[""] + [report["model"] for report in reports]]
    for title, wanted, key, form in (
            ("full cache: difference, bits", lambda row: row["row"] == "full cache", "difference_bits", "+.0e"),
            ("rows that evict: largest difference, bits", lambda row: exact(row) and row["row"] != "full cache",
             "difference_bits", "+.0e"),
            ("both: largest difference at one token, bits", exact, "largest_token_difference_bits", ".0e"),
            ("rows that round: largest difference, spreads", lambda row: not exact(row), "spreads", "+.1f")):
        lines.append([title] + [format(largest(filter(wanted, report["rows"]), key), form) for report in reports])
    lines.append(["rows"] + [str(len(report["rows"])) for report in reports])
    for cells in lines:
        print(f"{cells[0]:46s}" + "".join(f"  {cell:>28s}" for cell in cells[1:]))


def main():
    if sys.argv[1:2] == ["--table"]:
        return print_table(sys.argv[2:])
    import numpy as np
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--noise", nargs="*", default=[], help="runs of measure.py --noise 1e-7 --noise-seed 1, 2...")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    result = json.loads(args.result.read_text())
    losses = safetensors(args.result.with_suffix(".safetensors"))
    reference = np.load(args.reference)
    noise = [np.load(path) for path in args.noise]
    report, failed = [], 0
    for theirs, ours in NAMES.items():
        row = next((r for r in result["rows"] if r["name"] == ours), None)
        if theirs not in reference or row is None:
            continue
        rounds = any(key in row["config"] for key in ("keys", "values"))
        mine = [losses[ours].mean()] + [repeat.mean() for repeat in losses.get(ours + "\tperturbed", [])]
        his = [reference[theirs].mean()] + [run[theirs].mean() for run in noise if rounds and theirs in run]
        difference = np.mean(mine) - np.mean(his)
        token = np.abs(losses[ours].reshape(-1) - reference[theirs].reshape(-1)).max()
        spread = max(np.std(draws, ddof=1) if len(draws) > 2 else 0 for draws in (mine, his))
        tolerance = 0.0005 if theirs == "full" else max(0.002, 3 * spread) if rounds else 0.001
        passed = abs(difference) <= tolerance and (rounds or token <= 0.01)
        failed += not passed
        report.append({"row": ours, "loss_bits": float(np.mean(mine)), "draws": len(mine),
                       "reference_bits": float(np.mean(his)), "reference_draws": len(his),
                       "difference_bits": float(difference), "largest_token_difference_bits": float(token),
                       "tolerance_bits": float(tolerance), "spread_bits": float(spread) if rounds else None,
                       "passed": bool(passed)})
        print(f'{ours:48s} {np.mean(mine):8.4f} ({len(mine)}) {np.mean(his):8.4f} ({len(his)}) {difference:+9.5f}  '
              f'token {token:8.5f}  {"ok" if passed else "BEYOND"} {tolerance:.4f}')
    args.out.write_text(json.dumps({"command": " ".join(Path(word).name if "/" in word else word for word in sys.argv), "model": result["model"], "rows": report}, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
