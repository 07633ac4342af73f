#!/usr/bin/python3
"""Reference numbers for a Transformer from an independent implementation: PyTorch's nn.TransformerEncoderLayer, float64.

    /usr/bin/python3 tests/support/make_torch_reference.py [FILE]      default: torch_reference.h5 beside this script

Needs python3-torch (1.13 was used), python3-h5py and python3-numpy; the tests only need the file. Width 16, 4 heads,
ffn 40, 3 layers, 11 tokens, 3 samples; GELU in its erf form; no dropout; every gain, bias and matrix random.

One group per case, {pre,post}_{plain,padding,causal}:
    input               [sample, token, channel]
    hidden              [layer, sample, token, channel]   layer 0 is the input, layer l the state after layer l
    lengths             [sample]   real tokens; rows of `hidden` after them are meaningless
    attention_layer_1   [sample, head, query, key]        pre_plain only
    model/              a model file's /model group; attribute causal of the case: 0 or 1
All cases share the weights and the input (hard links). There is no final LayerNorm.
"""

import os
import sys

import h5py
import numpy as np
import torch

WIDTH, HEADS, FFN, LAYERS, TOKENS = 16, 4, 40, 3, 11
LENGTHS = [11, 7, 4]
SCHEMA_VERSION = 1


def draw_layer(random):
    """The weights of one layer under the names of model files, matrices [out][in], activations of order one."""
    def matrix(rows, columns):
        return random.standard_normal((rows, columns)) / np.sqrt(columns)

    def bias(size):
        return 0.3 * random.standard_normal(size)

    layer = {f"W_{name}": matrix(WIDTH, WIDTH) for name in "QKVO"}
    layer.update({f"b_{name}": bias(WIDTH) for name in "QKVO"})
    layer.update(W_1=matrix(FFN, WIDTH), b_1=bias(FFN), W_2=matrix(WIDTH, FFN), b_2=bias(WIDTH))
    for norm in ("norm1", "norm2"):
        layer[f"{norm}_gain"] = 1 + bias(WIDTH)
        layer[f"{norm}_bias"] = bias(WIDTH)
    layer["kappa"] = np.zeros(1)
    return layer


def torch_layer(weights, norm):
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, FFN, dropout=0.0, activation="gelu", layer_norm_eps=1e-5,
                                             batch_first=True, norm_first=(norm == "pre"), dtype=torch.float64)
    stacked = {kind: np.concatenate([weights[f"{kind}_{name}"] for name in "QKV"]) for kind in "Wb"}
    state = {"self_attn.in_proj_weight": stacked["W"], "self_attn.in_proj_bias": stacked["b"],
             "self_attn.out_proj.weight": weights["W_O"], "self_attn.out_proj.bias": weights["b_O"],
             "linear1.weight": weights["W_1"], "linear1.bias": weights["b_1"],
             "linear2.weight": weights["W_2"], "linear2.bias": weights["b_2"]}
    for which in ("norm1", "norm2"):
        state[f"{which}.weight"] = weights[f"{which}_gain"]
        state[f"{which}.bias"] = weights[f"{which}_bias"]
    layer.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
    return layer.eval()


def forward(layers, u, padding, causal):
    """Hidden states [layer, sample, token, channel].

    Gradients stay enabled on purpose: PyTorch then takes its plain path rather than the fused one, which packs padded
    samples into a nested tensor and leaves zeros in the padded rows.
    """
    mask = torch.triu(torch.ones(TOKENS, TOKENS, dtype=torch.bool), diagonal=1) if causal else None
    states = [u]
    for layer in layers:
        states.append(layer(states[-1], src_mask=mask, src_key_padding_mask=padding))
        assert states[-1].requires_grad, "the fused path was taken"
    return torch.stack(states).detach().numpy()


def attention_of(layer, u):
    normed = layer.norm1(u)
    weights = layer.self_attn(normed, normed, normed, need_weights=True, average_attn_weights=False)[1]
    return weights.detach().numpy()


def write_model(group, norm, shared_layers):
    attributes = dict(kind="transformer", layers=LAYERS, knots=LAYERS, width=WIDTH, heads=HEADS, ffn=FFN,
                      activation="gelu_erf", norm=norm, order="sequential", residual="on", kernel="dot", inputs=0,
                      tokens=0, classes=0)
    for name, value in attributes.items():
        group.attrs[name] = value
    group["layers"] = shared_layers


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "torch_reference.h5")
    random = np.random.RandomState(20240607)
    weights = [draw_layer(random) for _ in range(LAYERS)]
    u = random.standard_normal((len(LENGTHS), TOKENS, WIDTH))

    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["experiment"] = "torch_reference"
        file.attrs["status"] = "done"
        file.attrs["torch"] = str(torch.__version__)
        layers_group = file.create_group("shared/layers")
        for number, layer in enumerate(weights, start=1):
            for name, value in layer.items():
                layers_group[f"{number}/{name}"] = value
        file["shared/input"] = u
        for norm in ("pre", "post"):
            layers = [torch_layer(layer, norm) for layer in weights]
            for mask in ("plain", "padding", "causal"):
                lengths = LENGTHS if mask == "padding" else [TOKENS] * len(LENGTHS)
                padding = torch.arange(TOKENS)[None, :] >= torch.tensor(lengths)[:, None]
                case = file.create_group(f"{norm}_{mask}")
                case.attrs["causal"] = int(mask == "causal")
                case["input"] = file["shared/input"]
                case["lengths"] = lengths
                case["hidden"] = forward(layers, torch.from_numpy(u), padding if mask == "padding" else None,
                                         mask == "causal")
                write_model(case.create_group("model"), norm, layers_group)
                if (norm, mask) == ("pre", "plain"):
                    case["attention_layer_1"] = attention_of(layers[0], torch.from_numpy(u))
        del file["shared"]  # the cases keep the links
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
