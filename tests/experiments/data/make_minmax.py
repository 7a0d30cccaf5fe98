#!/usr/bin/env python3
"""Makes minmax.bin and minmax.json: keys rounded in every form of the min-max codec.

A transcription of docs/definitions.md ("Rounding") into NumPy, written apart from the C++ and in whole
arrays, every operation in float32. minmax.bin holds float32 arrays [tokens, kv_heads, head_dim], little
endian: x, bias, then x' of each form of minmax.json, in its order. Needs numpy. To check the asymmetric forms
against a PyTorch function too (fake_quant(x [..., tokens, channels], spec), as in a plain reference script):
  make_minmax.py --against SCRIPT.py
"""
import argparse, importlib.util, itertools, json, os
import numpy as np

F = np.float32
TOKENS, HEADS, DIM = 13, 3, 8


def stored(x, scales):
    if scales == "fp16":
        with np.errstate(over="ignore"):
            return x.astype(np.float16).astype(F)
    if scales == "bf16":
        bits = x.astype(F).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(F)
    return x


def whole(g, form):
    """One group a row, [groups, n] -> the same, rounded."""
    bits, clip, scales = form["bits"], F(form.get("clip", 1)), form.get("scales", "fp32")
    levels, half = 2 ** bits - 1, 2 ** (bits - 1)
    lo, hi = g.min(1, keepdims=True), g.max(1, keepdims=True)
    if form.get("symmetric"):
        step = stored(np.maximum(np.abs(g).max(1, keepdims=True) * clip, F(1e-8)) / F(half - 1), scales)
        code = np.clip(np.round(g / np.where(step == 0, F(1), step)), F(-half), F(half - 1))
        return code * step
    if clip < 1:
        reach = (hi - lo) * F(0.5)
        middle = lo + reach
        lo, hi = middle - clip * reach, middle + clip * reach
    step = stored(np.maximum((hi - lo) / F(levels), F(1e-8 / levels)), scales)
    divisor = np.where(step == 0, F(1), step)
    if form.get("zero") == "integer":
        z = np.round(F(-half) - lo / divisor)
        code = np.clip(np.round(g / divisor) + z, F(-half), F(half - 1))
        return np.where(step == 0, lo, (code - z) * step)
    lo = stored(lo, scales)
    code = np.clip(np.round((g - lo) / divisor), F(0), F(levels))
    return code * step + lo


def round_all(x, form):
    """x [tokens, kv_heads, head_dim]"""
    t, h, d = x.shape
    size = form.get("group")
    parts = lambda m, n: [m[:, i:i + n] for i in range(0, m.shape[1], n)]
    if form["axis"] == "tensor":
        return whole(x.reshape(1, -1), form).reshape(x.shape)
    if form["axis"] == "channel":
        per_channel = np.ascontiguousarray(x.reshape(t, h * d).T)
        return np.concatenate([whole(p, form) for p in parts(per_channel, size)], 1).T.reshape(x.shape)
    rows = x.reshape(t * h, d) if size <= d else x.reshape(t, h * d)
    return np.concatenate([whole(p, form) for p in parts(rows, size)], 1).reshape(x.shape)


def forms():
    axes = [{"axis": "token", "group": 8}, {"axis": "token", "group": 3}, {"axis": "token", "group": 1},
            {"axis": "token", "group": 24}, {"axis": "token", "group": 10}, {"axis": "channel", "group": 5},
            {"axis": "channel", "group": 64}, {"axis": "tensor"}]
    kinds = [{}, {"symmetric": True}, {"zero": "integer"}, {"clip": 0.75}, {"symmetric": True, "clip": 0.7},
             {"zero": "integer", "clip": 0.6}, {"scales": "fp16"}, {"scales": "bf16"},
             {"symmetric": True, "scales": "fp16"}, {"zero": "integer", "scales": "fp16"},
             {"zero": "integer", "scales": "bf16"}, {"clip": 0.9, "scales": "fp16"}]
    # Every axis with every kind, the bits turning; then every number of bits.
    for n, (axis, kind) in enumerate(itertools.product(axes, kinds)):
        yield {"bits": 2 + n % 7, **axis, **kind}
    for bits in range(1, 9):
        yield {"bits": bits, "axis": "token", "group": 8}
        yield {"bits": bits, "axis": "channel", "group": 4, "zero": "integer"}
        if bits > 1:
            yield {"bits": bits, "axis": "token", "group": 8, "symmetric": True}
    yield {"bits": 4, "axis": "token", "group": 8, "bias_removed": True}
    yield {"bits": 2, "axis": "channel", "group": 5, "bias_removed": True, "scales": "fp16"}


def inputs():
    random = np.random.default_rng(7)
    x = random.standard_normal((TOKENS, HEADS, DIM)).astype(F)
    x *= np.exp(random.standard_normal((1, HEADS, DIM)) * 2).astype(F)  # channels of very different size
    bias = (random.standard_normal((1, HEADS, DIM)) * 30).astype(F)
    x += bias
    x[3, 0] = F(5.25)            # a constant group
    x[4, 1] = F(0)
    x[5, 2] = F(-1e-9) * np.arange(DIM, dtype=F)  # a range below the smallest step
    x[6, 0] = F(1e-40)           # denormals
    x[6, 0, 2] = F(-3e-41)
    x[7, 1] = [-0.0, 0.0, 1.5, 2.5, -2.5, 3.5, 0.5, 7.0]  # halves
    x[8, 2] = F(3000) + random.standard_normal(DIM).astype(F)  # far from 0
    return x, bias


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--against")
    against = ap.parse_args().against
    x, bias = inputs()
    here, listed, arrays = os.path.dirname(os.path.abspath(__file__)), [], [x, np.broadcast_to(bias, x.shape)]
    for form in forms():
        removed = bias if form.get("bias_removed") else F(0)
        arrays.append(round_all(x - removed, form) + removed)
        listed.append(form)
    if against:
        import torch
        spec = importlib.util.spec_from_file_location("against", against)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        checked = 0
        for form, want in zip(listed, arrays[2:]):
            if set(form) - {"bits", "axis", "group"}:
                continue
            whole_rows = form.get("group", 0) > DIM and form["axis"] == "token"
            heads = torch.from_numpy(x.reshape(TOKENS, 1, -1) if whole_rows else x).transpose(0, 1)
            got = module.fake_quant(heads, form).transpose(0, 1).reshape(x.shape).numpy()
            assert (got + F(0)).tobytes() == (want + F(0)).tobytes(), form
            checked += 1
        print(checked, "forms equal those of", against)
    # A code is a whole number and has no -0: adding 0 makes one into 0.
    with open(os.path.join(here, "minmax.bin"), "wb") as f:
        for i, a in enumerate(arrays):
            f.write((a if i == 0 else a + F(0)).astype("<f4").tobytes())
    with open(os.path.join(here, "minmax.json"), "w") as f:
        shape = {"tokens": TOKENS, "kv_heads": HEADS, "head_dim": DIM}
        lines = ",\n    ".join(json.dumps(form) for form in listed)
        f.write('{\n  "shape": %s,\n  "forms": [\n    %s\n  ]\n}\n' % (json.dumps(shape), lines))


if __name__ == "__main__":
    main()
