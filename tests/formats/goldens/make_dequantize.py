#!/usr/bin/env python3
"""Makes dequantize.safetensors: random blocks of every type ("TYPE.blocks") and what the gguf package makes of
them ("TYPE.values"). Needs: pip install gguf safetensors numpy."""
import pathlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from safetensors.numpy import save_file

rng = np.random.default_rng(7)
# Where the half-precision scales lie in a block: they are drawn as numbers, subnormal and negative ones too.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208]}
tensors = {}
for name, halves in HALVES.items():
    kind = GGMLQuantizationType[name]
    numbers, size = GGML_QUANT_SIZES[kind]
    count = 512 // numbers
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in halves:
        scale = (rng.normal(size=count) * 10.0 ** rng.integers(-7, 2, count)).astype(np.float16)
        blocks[:, at:at + 2] = scale.reshape(-1, 1).view(np.uint8)
    tensors[name + ".blocks"] = blocks
    tensors[name + ".values"] = quants.dequantize(blocks, kind).astype(np.float32)
bf16 = rng.integers(0, 0x7f80, 512, dtype=np.uint16) | (rng.integers(0, 2, 512, dtype=np.uint16) << 15)
tensors["BF16.blocks"] = bf16.astype(np.uint16).reshape(-1, 1).view(np.uint8)
tensors["BF16.values"] = quants.dequantize(tensors["BF16.blocks"], GGMLQuantizationType.BF16).astype(np.float32)
out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("dequantize.safetensors"))
save_file(tensors, out, {"origin": "gguf-py " + __import__("importlib.metadata").metadata.version("gguf")})
