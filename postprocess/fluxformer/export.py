"""Turns a Transformer of Fluxformer into a state dict for PyTorch, in the format safetensors.

    fluxformer export MODEL.h5 STATE.safetensors
    fluxformer export MODEL.h5 STATE.safetensors --dtype float32

MODEL.h5 is the output of any run, or a model file. The names are those of nn.TransformerEncoder:

    layers.<i>.self_attn.in_proj_weight, ...   norm.weight, norm.bias      (the final LayerNorm of a pre-norm model)

and, of what stands before and behind it, those of nn.Linear, nn.Embedding and nn.LayerNorm:

    embedding.weight, .bias      numbers to channels      words.weight, position.weight, segment.weight, class_token
    embedding_norm.weight, .bias                          head_transform.weight, .bias      head.weight, .bias
    word_head_transform.weight, .bias      word_head_norm.weight, .bias      word_head.weight (only if it is not words.weight), .bias

A class_token of several rows stands for the first tokens; with pooling = front head.weight reads their states side by side.
What the names do not say is in the metadata: heads, norm_first, activation (gelu, gelu_tanh or relu), layer_norm_eps, causal, pooling,
head_activation, word_head_activation; word_head = tied: words.weight guesses words, without a bias. In PyTorch:

    with safetensors.safe_open("STATE.safetensors", "pt") as file:
        said, state = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    activation = {"gelu": F.gelu, "relu": F.relu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}[said["activation"]]
    layer = nn.TransformerEncoderLayer(width, int(said["heads"]), ffn, dropout=0, activation=activation, batch_first=True,
                                       layer_norm_eps=float(said["layer_norm_eps"]), norm_first=said["norm_first"] == "true")

PyTorch's encoder has no weights that vary with depth, no diffusion (kappa), no strengths (alpha, rho) but 1, no other order, kernel or
normalisation, no RMSNorm, rotary positions, gated networks, groups of keys, windows or layers without biases: models with these are refused
with status 2 and the name of what they have. Status 1: the disk is full.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.hdf5_file import RunError, open_file, reading
from fluxformer.io import plain
from fluxformer.model_file import Stored, refuse_of_today, require_one_step_a_layer, whole
from fluxformer.part_file import refuse_place
from fluxformer.safetensors import write_safetensors
from fluxformer.tensors import Tensor, Unfit

import h5py
import numpy as np

# Attributes of /model, what they must be, and what they are if they are missing.
FIXED = {"kind": "transformer", "weights": "constant", "order": "sequential", "residual": "on", "subflow": "euler", "kernel": "dot",
         "normalisation": "softmax"}
ACTIVATIONS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_tanh", "relu": "relu"}  # ours, and the names of the metadata
LAYER = {"W_O": "self_attn.out_proj.weight", "b_O": "self_attn.out_proj.bias", "W_1": "linear1.weight", "b_1": "linear1.bias",
         "W_2": "linear2.weight", "b_2": "linear2.bias", "norm1_gain": "norm1.weight", "norm1_bias": "norm1.bias",
         "norm2_gain": "norm2.weight", "norm2_bias": "norm2.bias"}
# Arrays around the layers: ours, PyTorch's, axes; "d" is the width, None any size.
AROUND: dict[str, tuple[str, tuple[str | None, ...]]] = {
    "embedding/W": ("embedding.weight", ("d", None)), "embedding/b": ("embedding.bias", ("d",)),
    "embedding/words": ("words.weight", (None, "d")), "embedding/position": ("position.weight", (None, "d")),
    "embedding/segment": ("segment.weight", (None, "d")), "embedding/class_token": ("class_token", ("d",)),
    "embedding/norm_gain": ("embedding_norm.weight", ("d",)), "embedding/norm_bias": ("embedding_norm.bias", ("d",)),
    "final_norm/gain": ("norm.weight", ("d",)), "final_norm/bias": ("norm.bias", ("d",)),
    "head/transform_W": ("head_transform.weight", ("d", "d")), "head/transform_b": ("head_transform.bias", ("d",)),
    "head/W": ("head.weight", (None, "d")), "head/b": ("head.bias", (None,)),
    "word_head/transform_W": ("word_head_transform.weight", ("d", "d")), "word_head/transform_b": ("word_head_transform.bias", ("d",)),
    "word_head/norm_gain": ("word_head_norm.weight", ("d",)), "word_head/norm_bias": ("word_head_norm.bias", ("d",)),
    "word_head/W": ("word_head.weight", (None, "d")), "word_head/b": ("word_head.bias", (None,))}


def stacked(parts: list[Tensor]) -> Tensor:
    """Several tensors as one, stacked along the first axis."""
    return Tensor(parts[0].name, (sum(part.shape[0] for part in parts), *parts[0].shape[1:]),
                  lambda: np.concatenate([piece for part in parts for piece in part.pieces()]))


def of_class_tokens(stored: Stored, width: int, pooling: str) -> dict[str, tuple[int | None, ...]]:
    """Shapes of arrays that depend on the number of class tokens: a vector or rows, and a head that may read them side by side."""
    if "embedding/class_token" not in stored:
        return {}
    front = stored.shape("embedding/class_token")[:-1]
    seen = front[0] if front and pooling == "front" else 1
    return {"embedding/class_token": (*front, width), "head/W": (None, seen * width)}


def convert(path: str, model: h5py.Group) -> tuple[dict[str, Tensor], dict[str, str], list[str]]:
    """Converts a model: PyTorch's tensors, the metadata, and notes of what is left out.

    Parameters
    ----------
    path : str
        Path of the file, for messages.
    model : h5py.Group
        /model of a file that stays open until the tensors are read.

    Raises
    ------
    Unfit
        If the model has what PyTorch's encoder does not have, or does not hold together.
    """
    attributes = {name: plain(value) for name, value in model.attrs.items()}
    for name, wanted in FIXED.items():
        if attributes.get(name, wanted) != wanted:
            raise Unfit(f"{path}: /model@{name} is {attributes[name]}: PyTorch's encoder is {wanted} only")
    stored = Stored(path, model)
    refuse_of_today(path, attributes, stored, "PyTorch's encoder")
    activation, norm = attributes.get("activation"), attributes.get("norm")
    if norm not in ("pre", "post"):
        raise Unfit(f"{path}: /model@norm is {norm}: PyTorch's encoder has pre and post")
    if activation not in ACTIVATIONS:
        raise Unfit(f"{path}: /model@activation is {activation!r}, not one of {', '.join(ACTIVATIONS)}")
    layers, width, ffn, heads = (whole(path, attributes, name) for name in ("layers", "width", "ffn", "heads"))
    require_one_step_a_layer(path, attributes, model, "PyTorch's encoder")
    state = {}
    for number in range(1, layers + 1):
        here, there = f"layers/{number}/", f"layers.{number - 1}."
        for kind, shape in (("W", (width, width)), ("b", (width,))):
            name = f"{there}self_attn.in_proj_{'weight' if kind == 'W' else 'bias'}"
            state[name] = stacked([stored.take(f"{here}{kind}_{letter}", *shape) for letter in "QKV"])
        for ours, theirs in LAYER.items():
            extents = {"W_O": (width, width), "W_1": (ffn, width), "b_1": (ffn,), "W_2": (width, ffn)}.get(ours, (width,))
            state[there + theirs] = stored.take(here + ours, *extents)
        stored.must_be(f"{here}kappa", 0, "PyTorch's encoder has no diffusion of tokens")
        stored.must_be(f"{here}nu", 0, "PyTorch's encoder has no transport over tokens")
    for name in ("alpha", "rho"):
        stored.must_be(f"equation/{name}", 1, "PyTorch's encoder has sub-layers of strength 1")
    if norm == "post" and "final_norm/gain" in stored:
        raise Unfit(f"{path}: /model/final_norm/gain is there, but a post-norm model ends with the norm of its last layer")
    extents_around = of_class_tokens(stored, width, str(attributes.get("pooling", "mean")))
    for ours, (theirs, axes) in AROUND.items():
        if ours in stored:
            state[theirs] = stored.take(ours, *extents_around.get(ours, tuple(width if axis == "d" else None for axis in axes)))
    notes = ["left out: the vocabulary (a state dict holds no words)"] if stored.drop("embedding/vocabulary") else []
    if left := stored.left():
        raise Unfit(f"{path}: /model/{left[0]} has no place in a state dict of PyTorch's encoder")
    said = {"format": "pt", "layers": layers, "width": width, "heads": heads, "ffn": ffn, "norm_first": "true" if norm == "pre" else "false",
            "activation": ACTIVATIONS[activation], "layer_norm_eps": attributes.get("norm_eps", 1e-5),
            "causal": "true" if attributes.get("causal") == "on" else "false", "pooling": attributes.get("pooling", "mean"),
            "head_activation": attributes.get("head_activation", "none"), "word_head_activation": attributes.get("word_head_activation", "none")}
    if attributes.get("word_head") == "on":
        said["word_head"] = "tied"
    return state, {name: str(value) for name, value in said.items()}, notes


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fluxformer export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model file, or output of any run")
    parser.add_argument("state", help="file to write, STATE.safetensors")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="kind of numbers (default float64, as they are)")
    parser.add_argument("--overwrite", action="store_true", help="replace STATE if it is there")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """`fluxformer export`: writes the state dict and prints what it holds."""
    options = parse(arguments)
    refuse_place(options.state, (options.model,), options.overwrite)
    with open_file(options.model) as file:
        if not isinstance(file.get("model"), h5py.Group):
            raise RunError(f"{options.model}: holds no model (no group /model)")
        with reading(options.model, "/model"):
            state, metadata, notes = convert(options.model, file["model"])
        write_safetensors(options.state, state, {"float64": "F64", "float32": "F32"}[options.dtype], metadata)
    for note in notes:
        print(note)
    print(f"{options.state}: {len(state)} tensors, {sum(tensor.size for tensor in state.values())} numbers; "
          + ", ".join(f"{name} {value}" for name, value in metadata.items() if name != "format"))
