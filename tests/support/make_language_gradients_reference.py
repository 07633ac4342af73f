#!/usr/bin/python3
"""Gradients and Hessian products of language models of today by PyTorch's double backward, float64: the forward passes of
torch_language_models.py, at one and at two depth cells a layer.

    /usr/bin/python3 tests/support/make_language_gradients_reference.py [FOLDER]      default: the folder of this script

Needs python3-torch (1.13 was used), python3-h5py and python3-numpy; the tests only need the files, language_gradients_<case>.h5. Each is a model
file, as `import` writes it, of random numbers of 16 bits. Of 4 lines of 9 words three are padded, one to a single word. The loss is the mean cross
entropy of all next words but 0 and 1, or of some words that a model of masked words has to guess.

/reference
    ids                     [sample, token]
    lengths                 [sample]
    targets                 [target, (sample, token whose state is read, word)]
    paths                   the arrays of the model that are trained; numbers below are those of all of them, in this order
    direction               [number]   v
    cells_<M>/logits        [sample, token, word]   of M depth cells
    cells_<M>/loss          [1]
    cells_<M>/slopes        [sample, row]   norm of N times the derivative of the loss in the state of a sample, N samples
    cells_<M>/gradient      [number]
    cells_<M>/hessian       [number]   H v
    cells_<M>/gauss_newton  [number]   H_o v = J^T L J v

The importer puts rows of tensors into arrays; so it does with rows of gradients.
"""

import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "postprocess"), os.path.join(HERE, "..", "regression")]

from fluxformer.model_file import write_model  # noqa: E402 (the folders are put on the path first)
from fluxformer.published.command import convert  # noqa: E402
from fluxformer.tensors import Tensor  # noqa: E402

import h5py  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

from language_model_shapes import shapes  # noqa: E402
from make_language_models_reference import random_tensor  # noqa: E402
from make_torch_hessian_reference import products  # noqa: E402
from published_case import CLASSES, save  # noqa: E402
from torch_language_models import outputs  # noqa: E402

WORDS, TOKENS, LENGTHS, NEVER = 11, 9, [9, 6, 1, 8], (0, 1)
DECODER = {"vocab_size": WORDS, "hidden_size": 6, "intermediate_size": 5, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
           "hidden_act": "silu", "rms_norm_eps": 1e-3, "max_position_embeddings": 64, "tie_word_embeddings": False}
# (class, config.json). Some angles are of order one, so that each of their scalings is seen within a line.
CASES = {
    "qwen3": ("Qwen3ForCausalLM", {**DECODER, "model_type": "qwen3", "head_dim": 8, "rope_theta": 50.0,
                                   "rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "tie_word_embeddings": True}),
    "gpt_neox": ("GPTNeoXForCausalLM", {"model_type": "gpt_neox", "vocab_size": WORDS, "hidden_size": 12, "intermediate_size": 5, "num_hidden_layers": 2,
                                        "num_attention_heads": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-3, "max_position_embeddings": 64,
                                        "rotary_pct": 0.7, "rotary_emb_base": 20, "use_parallel_residual": True, "tie_word_embeddings": False}),
    "mistral": ("MistralForCausalLM", {**DECODER, "model_type": "mistral", "head_dim": 4, "rope_theta": 20.0, "sliding_window": 4}),
    "modernbert": ("ModernBertForMaskedLM", {
        "model_type": "modernbert", "vocab_size": WORDS, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 2, "num_attention_heads": 2,
        "hidden_activation": "gelu", "norm_eps": 1e-3, "max_position_embeddings": 64, "local_attention": 5,
        "layer_types": ["full_attention", "sliding_attention"],
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 40.0},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 5.0}},
        "classifier_activation": "gelu", "classifier_pooling": "cls"}),
}
# [sample, token, word]: all of them within the lines; one token is the last of its line.
MASKED = [[0, 0, 4], [0, 5, 2], [0, 8, 9], [1, 3, 0], [2, 0, 7], [3, 1, 3], [3, 6, 10]]
# The last map of each sub-layer: an Euler cell of length h is a layer in which it is h times as large.
LAST_MAPS = tuple(f".{name}.{kind}" for name in ("o_proj", "down_proj", "attention.dense", "dense_4h_to_h", "Wo") for kind in ("weight", "bias"))


def refined(config, tensors, cells):
    """(config, tensors) whose layers are `cells` depth cells of equal length for each layer, with its weights."""
    layers, copies = config["num_hidden_layers"], {}
    config = {**config, "num_hidden_layers": layers * cells}
    if "layer_types" in config:
        config["layer_types"] = [kind for kind in config["layer_types"] for _ in range(cells)]
    for name, tensor in tensors.items():
        if (place := re.fullmatch(r"(.*\.layers)\.(\d+)\.(.*)", name)) is None:
            copies[name] = tensor
            continue
        for cell in range(cells):
            number = int(place[2]) * cells + cell
            copies[f"{place[1]}.{number}.{place[3]}"] = tensor / cells if name.endswith(LAST_MAPS) else tensor
    return config, copies


def next_words(ids):
    """[target, (sample, token, word)]"""
    return [[sample, token, int(ids[sample, token + 1])] for sample, length in enumerate(LENGTHS) for token in range(length - 1)
            if ids[sample, token + 1] not in NEVER]


def imported(config, tensors):
    """The model that the importer makes of tensors."""
    with tempfile.TemporaryDirectory() as folder:
        model = convert(*save(folder, config, {name: tensor.detach().numpy() for name, tensor in tensors.items()}))
        model.arrays = {path: np.concatenate([*array.pieces()]).reshape(array.shape) if isinstance(array, Tensor) else array
                        for path, array in model.arrays.items()}
    return model


def write(path, kind, config, random):
    config = {**config, "architectures": [kind]}
    sizes = shapes(config, 1)
    tensors = {name: torch.from_numpy(random_tensor(name, shape, random).astype(np.float64)).requires_grad_()
               for name, shape in sizes.items() if name.startswith(CLASSES[kind])}
    heads_of_classes = {name: torch.zeros(shape) for name, shape in sizes.items() if name not in tensors}
    ids = random.randint(0, WORDS, (len(LENGTHS), TOKENS))
    targets = np.array(MASKED if "MaskedLM" in kind else next_words(ids))
    direction = {name: torch.from_numpy(random.standard_normal(tuple(tensor.shape)).astype(np.float16).astype(np.float64))
                 for name, tensor in tensors.items()}
    model = imported(config, tensors)
    write_model(path, model.attributes, model.arrays, origin={"torch": str(torch.__version__)})
    with h5py.File(path, "a", libver="latest") as file:
        reference = file.create_group("reference")
        reference["ids"], reference["lengths"], reference["targets"] = ids, LENGTHS, targets

        paths = sorted(set(model.arrays) - {"window", "rotary/theta", "rotary/table"})
        reference.create_dataset("paths", data=paths, dtype=h5py.string_dtype())

        def put(place, arrays):
            found = imported(config, dict(zip(tensors, arrays, strict=True))).arrays
            reference[place] = np.concatenate([found[path].ravel() for path in paths])

        put("direction", direction.values())
        for cells in (1, 2):
            ran = outputs(*refined(config, {**heads_of_classes, **tensors}, cells), torch.from_numpy(ids), torch.tensor(LENGTHS))
            found = ran["words"]
            sample, token, word = torch.from_numpy(targets).T
            slopes = torch.autograd.grad(torch.nn.functional.cross_entropy(found[sample, token], word), ran["states"], retain_graph=True)
            results = products([*tensors.values()], found[sample, token], lambda z, word=word: torch.nn.functional.cross_entropy(z, word),
                               [*direction.values()])
            group = f"cells_{cells * config['num_hidden_layers']}"
            reference[f"{group}/logits"], reference[f"{group}/loss"] = found.detach().numpy(), [results[0].item()]
            reference[f"{group}/slopes"] = len(ids) * np.stack([slope.square().sum((1, 2)).sqrt() for slope in slopes], axis=1)
            for name, arrays in zip(("gradient", "hessian", "gauss_newton"), results[1:], strict=True):
                put(f"{group}/{name}", arrays)
            print(f"{path}: {group}: loss {results[0].item():.6f} of {len(targets)} words")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    torch.set_default_dtype(torch.float64)
    random = np.random.RandomState(20251129)
    for name, (kind, config) in CASES.items():
        path = os.path.join(folder, f"language_gradients_{name}.h5")
        write(path, kind, config, random)
        print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
