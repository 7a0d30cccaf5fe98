#!/usr/bin/env python3
"""Makes ggml.safetensors: keys ("x", [tokens, kv_heads, head_dim]) and what the gguf package, llama.cpp's own in
Python, makes of them in each cache type ("TYPE.blocks").
Needs: pip install gguf safetensors numpy."""
import pathlib
import sys
from importlib.metadata import version

import numpy as np
from gguf import GGMLQuantizationType, quants
from safetensors.numpy import save_file

TOKENS, HEADS, DIM = 27, 3, 64
rng = np.random.default_rng(11)
x = rng.standard_normal((TOKENS, HEADS, DIM)) * 10.0 ** rng.uniform(-6, 3, (TOKENS, HEADS, 1))
x += np.where(rng.random((TOKENS, HEADS, 1)) < 0.3, rng.standard_normal((TOKENS, HEADS, 1)) * 500, 0)
x = x.astype(np.float32)
x[0] = 0
x[1] = 5.25                                        # constant
x[2] = -5.25
x[3, 0] = np.arange(DIM) % 32 - 16                 # halves between codes, of every type in turn
x[3, 1] = (np.arange(DIM) % 32 - 16) / 2
x[3, 2] = (np.arange(DIM) % 32) / 2
x[4, 0] = (np.arange(DIM) % 32 - 13.5) * 127 / 13.5
x[4, 1] = np.resize([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 63.5, -126.5, 0.49999997], DIM)
x[4, 2] = np.resize([15, 0, 0.5, 1.5, 2.5, 14.5, 7.5], DIM)
x[5, 0] = np.resize([1, -3, 3, 2], DIM)            # two numbers of the largest size: the first one counts
x[5, 1] = np.resize([1, 3, -3, 2], DIM)
x[5, 2] = np.resize([31, 0.5, 1.5, 30.5], DIM)
x[6] = (rng.standard_normal((HEADS, DIM)) * 1e-7).astype(np.float32)   # scales that fp16 holds as subnormals,
x[7] = (rng.standard_normal((HEADS, DIM)) * 1e-20).astype(np.float32)  # and as 0
x[8] = (rng.standard_normal((HEADS, DIM)) * 3e5).astype(np.float32)    # minima above fp16's largest
x[9, 0] = (rng.standard_normal(DIM) * 3e7).astype(np.float32)          # and scales
tensors = {"x": x}
np.seterr(over="ignore", invalid="ignore")
for name in ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]:
    tensors[name + ".blocks"] = quants.quantize(x.reshape(-1, DIM), GGMLQuantizationType[name.upper()])
out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("ggml.safetensors"))
save_file(tensors, out, {"origin": "gguf-py " + version("gguf")})
