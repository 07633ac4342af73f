"""Networks of the shapes of BERT-base and SmolLM-135M in plain PyTorch, and their run time in ONNX Runtime.

Weights are those of this program, as `fluxformer_benchmark --write` leaves them, so that results can be compared. All states are float,
[sample][token][channel].
"""

import json
import math
import os
import shutil
import subprocess

import torch
from torch.nn import functional

BERT = {"batch": 8, "tokens": 128, "width": 768, "heads": 12, "groups": 12, "layers": 12, "ffn": 3072}
DECODER = {"batch": 4, "tokens": 256, "width": 576, "heads": 9, "groups": 3, "layers": 30, "ffn": 1536}
THETA = 10000.0


class March:
    """What this program wrote of a march: the state at its beginning and end, and the weights by path, layers/1/W_Q say."""

    def __init__(self, folder):
        with open(os.path.join(folder, "arrays.json"), encoding="utf-8") as stream:
            shapes = json.load(stream)
        self.arrays = {}
        for path, shape in shapes.items():
            file = os.path.join(folder, path.replace("/", "."))
            self.arrays[path] = torch.from_file(file, size=math.prod(shape), dtype=torch.float64).reshape(shape).float()

    def __getitem__(self, path):
        return self.arrays[path]

    def state(self, name):
        """From [token][sample][channel]."""
        return self[name].transpose(0, 1).contiguous()

    def layer(self, index, *names):
        """These arrays of a layer, below each other."""
        return torch.cat([self[f"layers/{index}/{name}"] for name in names])


class Layers(torch.nn.Module):
    """Layers with parameters of these names; `layer(u, **parameters)` is one of them."""

    names = ()

    def __init__(self, march, size):
        super().__init__()
        self.size = size
        self.march = torch.nn.ModuleList()
        for index in range(1, size["layers"] + 1):
            layer = torch.nn.Module()
            for name, arrays in self.names.items():
                layer.register_buffer(name, march.layer(index, *arrays))
            self.march.append(layer)

    def forward(self, u):
        for layer in self.march:
            u = self.layer(u, layer)
        return u


class Bert(Layers):
    """Post-norm layers with GELU (erf), written out."""

    names = {"w": ("W_Q", "W_K", "W_V"), "b": ("b_Q", "b_K", "b_V"), "w_o": ("W_O",), "b_o": ("b_O",), "g1": ("norm1_gain",), "c1": ("norm1_bias",),
             "w_1": ("W_1",), "b_1": ("b_1",), "w_2": ("W_2",), "b_2": ("b_2",), "g2": ("norm2_gain",), "c2": ("norm2_bias",)}

    def layer(self, u, p):
        batch, tokens, width, heads = (self.size[name] for name in ("batch", "tokens", "width", "heads"))
        q, k, v = (part.reshape(batch, tokens, heads, width // heads).transpose(1, 2) for part in functional.linear(u, p.w, p.b).chunk(3, dim=-1))
        weights = torch.softmax((q @ k.transpose(-2, -1)) * (width // heads) ** -0.5, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, tokens, width)
        u = functional.layer_norm(u + functional.linear(mixed, p.w_o, p.b_o), (width,), p.g1, p.c1, 1e-12)
        inner = functional.gelu(functional.linear(u, p.w_1, p.b_1))
        return functional.layer_norm(u + functional.linear(inner, p.w_2, p.b_2), (width,), p.g2, p.c2, 1e-12)


class Decoder(Layers):
    """Pre-norm layers with RMSNorm, rotary positions, groups of keys and a SiLU gate; a token sees itself and earlier ones."""

    names = {"g1": ("norm1_gain",), "w": ("W_Q", "W_K", "W_V"), "w_o": ("W_O",), "g2": ("norm2_gain",), "w_in": ("W_G", "W_1"), "w_2": ("W_2",)}

    def __init__(self, march, size):
        super().__init__(march, size)
        channels, tokens = size["width"] // size["heads"], size["tokens"]
        angle = torch.arange(tokens).double()[:, None] * THETA ** (-2 * torch.arange(channels // 2).double() / channels)
        self.register_buffer("cos", torch.cos(angle).float().repeat(1, 2)[:, None, :])
        self.register_buffer("sin", torch.cat([-torch.sin(angle), torch.sin(angle)], 1).float()[:, None, :])
        self.register_buffer("hidden", torch.full((tokens, tokens), float("-inf")).triu(1))

    @staticmethod
    def norm(u, gain):
        return u * torch.rsqrt(u.square().mean(-1, keepdim=True) + 1e-5) * gain

    def turn(self, x):
        half = x.shape[-1] // 2
        return x * self.cos + torch.cat([x[..., half:], x[..., :half]], -1) * self.sin

    def layer(self, u, p):
        batch, tokens, width, heads, groups = (self.size[name] for name in ("batch", "tokens", "width", "heads", "groups"))
        channels = width // heads
        rows = functional.linear(self.norm(u, p.g1), p.w).reshape(batch, tokens, heads + 2 * groups, channels)
        turned = self.turn(rows[:, :, :heads + groups])
        # the queries of a group below each other: keys need not be repeated
        q = turned[:, :, :heads].permute(0, 2, 1, 3).reshape(batch, groups, heads // groups * tokens, channels)
        k, v = turned[:, :, heads:].permute(0, 2, 3, 1), rows[:, :, heads + groups:].permute(0, 2, 1, 3)
        logits = (q @ k).reshape(batch, heads, tokens, tokens) * channels ** -0.5 + self.hidden
        weights = torch.softmax(logits, dim=-1).reshape(batch, groups, heads // groups * tokens, tokens)
        mixed = (weights @ v).reshape(batch, heads, tokens, channels).permute(0, 2, 1, 3).reshape(batch, tokens, width)
        u = u + functional.linear(mixed, p.w_o)
        gate, inner = functional.linear(self.norm(u, p.g2), p.w_in).chunk(2, dim=-1)
        return u + functional.linear(functional.silu(gate) * inner, p.w_2)


def has_onnxruntime(folder):
    return shutil.which("node") is not None and os.path.isdir(os.path.join(folder, "node_modules", "onnxruntime-node"))


class OnnxRuntime:
    """A network written by torch.onnx, run by onnxruntime-node of a folder with node_modules."""

    def __init__(self, modules, net, u, folder):
        self.modules = modules
        self.file, self.state = os.path.join(folder, "network.onnx"), os.path.join(folder, "state")
        self.shape = list(u.shape)
        torch.onnx.export(net, u, self.file, input_names=["u"], output_names=["y"], opset_version=17, do_constant_folding=True)
        u.numpy().tofile(self.state)

    def __call__(self, repetitions=5):
        """The version, milliseconds of processor time, the median of some runs, and the result."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnxruntime_march.js")
        text = subprocess.run(["node", script, self.modules, self.file, self.state, *map(str, self.shape), str(repetitions)], check=True,
                              capture_output=True, text=True).stdout
        result = torch.from_file(self.state + ".result", size=math.prod(self.shape), dtype=torch.float32).reshape(self.shape).clone()
        told = json.loads(text)
        return told["version"], told["milliseconds"], result
