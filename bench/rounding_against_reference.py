#!/usr/bin/env python3
"""Rounds a real model's keys and values in every form, here and by kvcost, and compares bit for bit.

  bench/rounding_against_reference.py MODEL IDS.json --reference DIR --out results/rounding-against-reference.json

MODEL is a Hugging Face folder or a GGUF file, IDS a JSON list of token ids of which the first --length make a
window, DIR holds measure.py, whose own rounding function is asked too where it has the form. The keys and values
come from transformers, not from kvcost. Three things must be equal in every bit: x' of kvcost and of the NumPy
transcription in tests/experiments/data/make_minmax.py; x' and what its packed bytes decode to, read here by their
documented layout; and x' of the reference's function. Needs numpy, torch, transformers (and gguf)."""
import argparse, importlib.util, itertools, json, os, subprocess, sys, tempfile
from pathlib import Path
import numpy as np, torch
from transformers import AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

ROOT = Path(__file__).resolve().parent.parent
F = np.float32


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def forms(channels):
    axes = [{"axis": "token", "group": 64}, {"axis": "token", "group": 32}, {"axis": "token", "group": 20},
            {"axis": "token", "group": channels}, {"axis": "token", "group": channels - 8},
            {"axis": "channel", "group": 32}, {"axis": "channel", "group": 50}, {"axis": "tensor"}]
    kinds = [{}, {"symmetric": True}, {"zero": "integer"}, {"clip": 0.75}, {"symmetric": True, "clip": 0.7},
             {"zero": "integer", "clip": 0.6}, {"scales": "fp16"}, {"scales": "bf16"},
             {"symmetric": True, "scales": "fp16"}, {"zero": "integer", "scales": "fp16"},
             {"zero": "integer", "scales": "bf16"}, {"clip": 0.9, "scales": "fp16"}]
    for n, (axis, kind) in enumerate(itertools.product(axes, kinds)):
        yield {"bits": 2 + n % 7, **axis, **kind}
    for bits in range(1, 9):
        yield {"bits": bits, "axis": "token", "group": 64}
        yield {"bits": bits, "axis": "channel", "group": 32}
        if bits > 1:
            yield {"bits": bits, "axis": "token", "group": 64, "symmetric": True}


@torch.inference_mode()
def dump(model_path, ids):
    """Tensor name -> [tokens, kv_heads, head_dim] of three layers, and the key biases."""
    where = ({"pretrained_model_name_or_path": os.path.dirname(os.path.abspath(model_path)),
              "gguf_file": os.path.basename(model_path)} if model_path.endswith(".gguf")
             else {"pretrained_model_name_or_path": model_path})
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
    layers = model.model.layers
    chosen, out = sorted({0, len(layers) // 2, len(layers) - 1}), {}
    d = getattr(model.config, "head_dim", None) or model.config.hidden_size // model.config.num_attention_heads

    def attend(module, query, key, value, attention_mask, scaling, **kw):
        if module.layer_idx in chosen:
            out[f"layer{module.layer_idx}.keys"] = key[0].transpose(0, 1)
            out[f"layer{module.layer_idx}.values"] = value[0].transpose(0, 1)
        attended = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling,
                                                                    enable_gqa=True)
        return attended.transpose(1, 2).contiguous(), None

    ALL_ATTENTION_FUNCTIONS.register("dump", attend)
    model.set_attn_implementation("dump")
    for i in chosen:
        def before(mod, args, result, i=i):
            out[f"layer{i}.keys_before_rope"] = result[0].unflatten(-1, (-1, d))
            if mod.bias is not None:
                out[f"layer{i}.keys_before_rope.bias"] = mod.bias.view(-1, d)
        layers[i].self_attn.k_proj.register_forward_hook(before)
    model(torch.tensor([ids]), use_cache=False)
    return {name: np.ascontiguousarray(x.numpy(), dtype=F) for name, x in out.items()}


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(x.tobytes() for x in tensors.values()))


def read_safetensors(path):
    data = np.memmap(path, mode="r")
    size = int.from_bytes(data[:8].tobytes(), "little")
    kinds = {"F32": "<f4", "U8": "u1"}
    return {name: data[8 + size:][slice(*info["data_offsets"])].view(kinds[info["dtype"]]).reshape(info["shape"])
            for name, info in json.loads(data[8:8 + size].tobytes()).items() if name != "__metadata__"}


def group_numbers(shape, form):
    """For each number, token by token: which group it is in, by order of first appearance. And how many."""
    t, h, d = shape
    token, channel = np.divmod(np.arange(t * h * d), h * d)
    size = form.get("group")
    if form["axis"] == "tensor":
        return np.zeros(t * h * d, int), 1
    if form["axis"] == "channel":
        return token // size * (h * d) + channel, -(-t // size) * h * d
    span = d if size <= d else h * d
    parts = -(-span // size)
    return token * (h * d // span * parts) + channel // span * parts + channel % span // size, t * h * d // span * parts


def stored_numbers(packed, count, kind):
    if kind == "fp16":
        return packed[:2 * count].view("<f2").astype(F), packed[2 * count:]
    if kind == "bf16":
        return (packed[:2 * count].view("<u2").astype("<u4") << 16).view("<f4"), packed[2 * count:]
    return packed[:4 * count].view("<f4"), packed[4 * count:]


def decode(packed, shape, form):
    """x' from the packed bytes: the steps of all groups, their zeros, then codes of `bits` bits, lowest bit first."""
    packed, bits, kind = np.array(packed), form["bits"], form.get("scales", "fp32")
    group, groups = group_numbers(shape, form)
    step, packed = stored_numbers(packed, groups, kind)
    symmetric, integer = form.get("symmetric", False), form.get("zero") == "integer"
    if not symmetric:
        zero, packed = stored_numbers(packed, groups, "fp32" if integer else kind)
    numbers = int(np.prod(shape))
    all_bits = np.unpackbits(packed, bitorder="little")[:numbers * bits].reshape(numbers, bits).astype(np.int64)
    code = all_bits @ (1 << np.arange(bits))
    if symmetric or integer:
        code = code - 2 ** (bits - 1)
    step = step[group]
    if symmetric:
        out = code.astype(F) * step
    elif integer:
        out = np.where(step == 0, zero[group], (code.astype(F) - zero[group]) * step)
    else:
        out = code.astype(F) * step + zero[group]
    return out.reshape(shape)


def same_bits(a, b):
    """A code is a whole number and has no -0."""
    return (np.asarray(a) + F(0)).tobytes() == (np.asarray(b) + F(0)).tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"); parser.add_argument("ids", type=Path)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bench/round_dump")
    parser.add_argument("--length", type=int, default=2048); parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    numpy_side = load("make_minmax", ROOT / "tests/experiments/data/make_minmax.py")
    reference = load("measure", args.reference / "measure.py")
    tensors = dump(args.model, json.loads(args.ids.read_text())[:args.length])
    shape = next(iter(tensors.values())).shape
    listed = list(forms(shape[1] * shape[2]))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_safetensors(folder / "in.safetensors", tensors)
        # The same forms once more with the key bias removed; kvcost takes the bias only where it is given.
        sent = listed + [{"bias_removed": True, **form} for form in listed if form["axis"] != "tensor"]
        (folder / "forms.json").write_text(json.dumps([{"codec": "minmax", **form} for form in sent]))
        subprocess.run([args.program, folder / "forms.json", folder / "in.safetensors", folder / "out.safetensors"],
                       check=True)
        theirs = read_safetensors(folder / "out.safetensors")
        counts = {"numpy": 0, "packed": 0, "reference": 0}
        unequal = []
        for name, x in tensors.items():
            if name.endswith(".bias"):
                continue
            bias = tensors.get(name + ".bias")
            for i, form in enumerate(sent):
                removes = form.get("bias_removed", False)
                if removes and bias is None:
                    continue
                off = bias if removes else F(0)
                got = theirs[f"{name}/{i}"]
                checks = {"numpy": numpy_side.round_all(x - off, form) + off,
                          "packed": decode(theirs[f"{name}/{i}/packed"], x.shape, form) + off}
                if not set(form) - {"bits", "axis", "group"}:
                    t, h, d = x.shape
                    whole = form["axis"] == "tensor" or form["axis"] == "token" and form["group"] > d
                    rows = torch.from_numpy(x.reshape(t, 1, h * d) if whole else x).transpose(0, 1)
                    checks["reference"] = reference.fake_quant(rows, form).transpose(0, 1).reshape(x.shape).numpy()
                for check, want in checks.items():
                    counts[check] += 1
                    if not same_bits(got, want):
                        gap = np.abs(np.asarray(got) - np.asarray(want)).max()
                        unequal.append({"tensor": name, "form": form, "against": check, "largest_difference": float(gap)})
    report = {"command": " ".join(["bench/rounding_against_reference.py", Path(args.model).name, args.ids.name]),
              "model": Path(args.model).name, "tokens": shape[0], "kv_heads": shape[1], "head_dim": shape[2],
              "tensors": sorted(name for name in tensors if not name.endswith(".bias")), "forms": len(sent),
              "equal_bit_for_bit": {check: counts[check] - sum(u["against"] == check for u in unequal) for check in counts},
              "compared": counts, "unequal": unequal}
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({key: report[key] for key in ("compared", "equal_bit_for_bit")}))
    sys.exit(1 if unequal else 0)


if __name__ == "__main__":
    main()
