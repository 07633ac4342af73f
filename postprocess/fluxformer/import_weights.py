"""Turns a PyTorch state dict into a model file (`model.file` of a deck).

    fluxformer import FOLDER --output MODEL.h5                          a published BERT, GPT-2, Llama, Qwen, ViT, ...
    fluxformer import CHECKPOINT config.json --output MODEL.h5          the same, from its files
    fluxformer import STATE MODEL.h5 --heads 4 --norm pre --activation gelu_erf      an encoder of your own

The first two take everything from the checkpoint and its config.json; `import x config.json --help` explains them. The rest of this
page is about the third.

STATE is the result of `model.state_dict()`, saved as
    .npz          numpy.savez(path, **{name: tensor.numpy() for name, tensor in state.items()})
    .safetensors  safetensors.torch.save_file(state, path)
    .h5           one dataset per name; groups count as dots (layers/0/linear1/weight = layers.0.linear1.weight)
    .pt, .bin     torch.save(state, path); needs python3-torch here
Its names are those of nn.TransformerEncoder (layers.0.self_attn.in_proj_weight, ..., norm.weight) or of one
nn.TransformerEncoderLayer (self_attn.in_proj_weight, ...), behind any prefix (encoder.). What wrappers put into names (module.,
_orig_mod.) is left out. --key names the part of the file that is the state dict (model), if it holds more. A state dict contains neither the
number of heads nor the position of the norm nor the activation, so these must be given. LayerNorm's eps is not in it either:
--norm-eps says it (default: PyTorch's, 1e-5). An eps that the state dict contains all the same (an entry eps or layer_norm_eps
behind any prefix) is taken, and compared with --norm-eps. Embedding, positions and head are named by options. Every array must be
used; arrays to skip are named with --ignore.

Numbers are stored in float64 as they are. Ends with status 2 and one message if the state dict does not
fit, with status 1 if the disk is full.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.model_file import write_model
from fluxformer.part_file import refuse_place
from fluxformer.published.files import USAGE
from fluxformer.state_dict import Arrays, StateDict, Unfit, listed, plain_name, read_state

import numpy as np

ATTENTION = re.compile(r"(?P<prefix>(?:.*\.)?)self_attn\.in_proj_weight")
LAYER_NORM_EPS = 1e-5  # as in src/operators/layer_norm.hpp
EPS = re.compile(r"(?:.*\.)?(?:layer_?norm_)?eps(?:ilon)?", re.IGNORECASE)
# Arrays that are renamed; in_proj holds W_Q, W_K, W_V stacked.
RENAMED = {"self_attn.out_proj.weight": "W_O", "self_attn.out_proj.bias": "b_O",
           "linear1.weight": "W_1", "linear1.bias": "b_1", "linear2.weight": "W_2", "linear2.bias": "b_2",
           "norm1.weight": "norm1_gain", "norm1.bias": "norm1_bias",
           "norm2.weight": "norm2_gain", "norm2.bias": "norm2_bias"}


def layer_prefixes(state: StateDict, wanted: str) -> tuple[str | None, list[str]]:
    """Finds the layers behind the prefix `wanted`.

    Returns
    -------
    encoder : str or None
        Prefix of the encoder; None for a layer by itself.
    layers : list of str
        Prefixes of the layers, in their order.
    """
    found = [match["prefix"] for match in map(ATTENTION.fullmatch, state.names())
             if match and match["prefix"].startswith(plain_name(wanted))]
    if not found:
        hint = " (different sizes for queries, keys and values are not supported)" if any(
            name.endswith("q_proj_weight") for name in state.names()) else ""
        raise Unfit(f"no encoder layer: no name is {wanted}...self_attn.in_proj_weight{hint}; the state dict holds "
                    f"{listed(state.names())}")
    encoders: dict[tuple[str, bool], dict[int, str]] = {}
    for prefix in found:
        numbered = re.fullmatch(r"(?P<encoder>(?:.*\.)?)layers\.(?P<number>[0-9]{1,9})\.", prefix)
        encoder, number = (numbered["encoder"], int(numbered["number"])) if numbered else (prefix, 0)
        encoders.setdefault((encoder, bool(numbered)), {})[number] = prefix
    if len(encoders) > 1:
        places = ", ".join(sorted(repr(encoder) for encoder, _ in encoders))
        raise Unfit(f"{len(encoders)} encoders, behind the prefixes {places}: choose one with --prefix")
    ((encoder, stacked), layers), = encoders.items()
    if sorted(layers) != list(range(len(layers))):
        raise Unfit(f"layers {', '.join(map(str, sorted(layers)[:20]))} of {encoder}layers: some before the last are missing")
    return (encoder if stacked else None), [layers[number] for number in range(len(layers))]


def read_layer(state: StateDict, prefix: str, width: int, ffn: int) -> Arrays:
    """Reads the arrays of one layer under the names of model files. Layers saved with bias=False get biases of 0."""
    def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name.endswith("bias") and not any(other.startswith(prefix) and other.endswith("bias")
                                             for other in state.names()):
            return np.zeros(shape)
        return state.take(prefix + name, shape)

    layer: Arrays = {}
    for kind, name, shape in (("W", "self_attn.in_proj_weight", (3 * width, width)),
                              ("b", "self_attn.in_proj_bias", (3 * width,))):
        for letter, part in zip("QKV", np.split(take(name, shape), 3)):
            layer[f"{kind}_{letter}"] = part
    shapes = {"W_O": (width, width), "W_1": (ffn, width), "b_1": (ffn,), "W_2": (width, ffn)}
    for name, ours in RENAMED.items():
        layer[ours] = take(name, shapes.get(ours, (width,)))
    layer["kappa"] = np.zeros(1)
    return layer


def norm_eps(state: StateDict, wanted: float | None, ignored: Iterable[str]) -> float:
    """The eps of all LayerNorms. A state dict holds none, but whoever saved it may have added it.

    Parameters
    ----------
    wanted : float or None
        The eps of --norm-eps, if given.
    ignored : iterable of str
        Patterns of names that do not count.
    """
    if wanted is not None and not 0 < wanted < 1:
        raise Unfit(f"--norm-eps {wanted:g}: must be more than 0 and less than 1")
    eps, source = wanted, f"--norm-eps {wanted}"
    for name in filter(EPS.fullmatch, state.left(ignored)):
        found = float(str(np.float32(state.take(name, (), squeeze=True))))  # 1e-5 of float32 is 1e-5
        if not 0 < found < 1:
            raise Unfit(f"{name} = {found:g}: an eps is more than 0 and less than 1")
        if eps is None:
            eps, source = found, f"{name} = {found:g}"
        elif not np.isclose(found, eps, rtol=1e-6, atol=0):  # a float32 has seven digits
            raise Unfit(f"{name} = {found:g}, but {source}: all LayerNorms of a model file have one eps; if it is not that of its layers, "
                        "leave it out with --ignore")
    return LAYER_NORM_EPS if eps is None else eps


def convert(state: StateDict, options: argparse.Namespace) -> tuple[dict[str, str | int | float], Arrays]:
    """Converts a state dict: attributes of /model, and arrays by their path below it. Unfit if state dict,
    options and model do not fit together."""
    eps = norm_eps(state, options.norm_eps, options.ignore)
    encoder, prefixes = layer_prefixes(state, options.prefix)
    first = prefixes[0]
    width = state.take(first + "self_attn.in_proj_weight", (None, None)).shape[1]
    ffn = state.take(first + "linear1.weight", (None, width)).shape[0]
    if options.heads < 1 or width % options.heads:
        divisors = [count for count in range(1, width + 1) if width % count == 0]
        raise Unfit(f"--heads {options.heads} does not divide the width {width}; allowed are {', '.join(map(str, divisors))}")

    arrays: Arrays = {}
    for number, prefix in enumerate(prefixes, start=1):
        for name, array in read_layer(state, prefix, width, ffn).items():
            arrays[f"layers/{number}/{name}"] = array
    inputs = tokens = classes = 0
    if options.embedding_weight:
        arrays["embedding/W"] = state.take(options.embedding_weight, (width, None))
        inputs = arrays["embedding/W"].shape[1]
        arrays["embedding/b"] = (state.take(options.embedding_bias, (width,)) if options.embedding_bias
                                 else np.zeros(width))
    if options.position:
        arrays["embedding/position"] = state.take(options.position, (None, width), squeeze=True)
        tokens = arrays["embedding/position"].shape[0]
    final_norm = options.final_norm or (f"{encoder}norm" if encoder is not None else "")
    if options.norm == "pre" and final_norm and (options.final_norm or f"{final_norm}.weight" in state):
        arrays["final_norm/gain"] = state.take(f"{final_norm}.weight", (width,))
        arrays["final_norm/bias"] = state.take(f"{final_norm}.bias", (width,))
    if options.head_weight:
        arrays["head/W"] = state.take(options.head_weight, (None, width))
        classes = arrays["head/W"].shape[0]
        arrays["head/b"] = state.take(options.head_bias, (classes,)) if options.head_bias else np.zeros(classes)
        if options.norm == "pre" and "final_norm/gain" not in arrays:
            raise Unfit("a pre-norm model normalises before its head, but the state dict has no final LayerNorm "
                        f"({final_norm or 'norm'}.weight): name it with --final-norm")

    left = state.left(options.ignore)
    if left:
        raise Unfit(f"no place for {listed(left)}: name what they are (--help), or leave them out with --ignore")
    attributes: dict[str, str | int | float] = {
        "kind": "transformer", "layers": len(prefixes), "knots": len(prefixes), "width": width, "heads": options.heads, "ffn": ffn,
        "activation": options.activation, "norm": options.norm, "norm_eps": eps, "order": "sequential", "residual": "on",
        "kernel": "dot", "inputs": inputs, "tokens": tokens, "classes": classes}
    return attributes, arrays


def refuse_idle(options: argparse.Namespace) -> None:
    """Unfit for options that would have no effect."""
    for bias, weight in (("embedding_bias", "embedding_weight"), ("head_bias", "head_weight")):
        if getattr(options, bias) and not getattr(options, weight):
            raise Unfit(f"--{bias.replace('_', '-')} {getattr(options, bias)} needs --{weight.replace('_', '-')}")
    if options.final_norm and options.norm != "pre":
        raise Unfit(f"--final-norm {options.final_norm} needs --norm pre: a post-norm model ends with the norm of its last layer")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fluxformer import", usage=USAGE, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", help="state dict: .npz, .safetensors, .h5, .hdf5, .pt, .pth or .bin")
    parser.add_argument("model", help="model file to write")
    parser.add_argument("--heads", type=int, required=True, help="number of attention heads")
    parser.add_argument("--norm", choices=("pre", "post"), required=True,
                        help="place of LayerNorm: norm_first=True is pre, False (PyTorch's default) is post")
    parser.add_argument("--activation", choices=("gelu_erf", "gelu_tanh", "relu"), required=True,
                        help="activation: PyTorch's 'gelu' is gelu_erf, its default is relu")
    parser.add_argument("--norm-eps", type=float, metavar="EPS", help="eps of every LayerNorm (default 1e-5, as in PyTorch)")
    parser.add_argument("--prefix", default="", help="prefix of the encoder layers that are taken (encoder.)")
    parser.add_argument("--final-norm", metavar="NAME", help="LayerNorm after the last layer (default: the norm of the "
                        "encoder, if it has one)")
    parser.add_argument("--embedding-weight", metavar="NAME", help="weight of the embedding, d x inputs, as in nn.Linear(inputs, d)")
    parser.add_argument("--embedding-bias", metavar="NAME", help="bias of the embedding, d numbers (default 0)")
    parser.add_argument("--position", metavar="NAME",
                        help="learned positions, tokens x d (axes of length 1 are dropped)")
    parser.add_argument("--head-weight", metavar="NAME", help="weight of the head, classes x d, as in nn.Linear(d, classes)")
    parser.add_argument("--head-bias", metavar="NAME", help="bias of the head, a number for each class (default 0)")
    parser.add_argument("--ignore", metavar="PATTERN", action="append", default=[],
                        help="names of arrays to leave out (* stands for any text; may be given several times)")
    parser.add_argument("--key", metavar="KEY", default="", help="the part of the file that is the state dict (model)")
    parser.add_argument("--overwrite", action="store_true", help="replace MODEL if it is there")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """`fluxformer import`: writes the model file and prints what it holds."""
    options = [one.split("=")[0] for one in arguments]
    folder = os.path.isdir("".join(arguments[:1])) and "--heads" not in options
    if folder or "--output" in options or any(one.endswith(".json") for one in arguments):
        from fluxformer.published.command import main as of_published
        of_published(arguments)
        return
    _import_encoder(parse(arguments))


def _import_encoder(options: argparse.Namespace) -> None:
    """Writes the model file of an encoder of one's own and prints what it holds."""
    refuse_idle(options)
    refuse_place(options.model, (options.state,), options.overwrite)
    found = read_state(options.state, options.key)
    try:
        state = StateDict(found)
        attributes, arrays = convert(state, options)
    except Unfit as failure:
        raise Unfit(f"{options.state}: {failure}") from None
    write_model(options.model, attributes, arrays)
    print(f"{options.model}: {attributes['layers']} layers, width {attributes['width']}, {attributes['heads']} heads, "
          f"ffn {attributes['ffn']}, {sum(array.size for array in arrays.values())} numbers")
