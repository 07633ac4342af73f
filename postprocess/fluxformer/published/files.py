"""The files of a published model, which lie in one folder."""

from __future__ import annotations

import os

from fluxformer.tensors import Unfit

# In the order of preference: one file before several, safetensors before pickled ones.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
CONFIG = "config.json"
WORDS = ("tokenizer.json", "vocab.txt", "vocab.json")  # a vocab.json may lack added words, such as <|im_start|> of Qwen
PREPROCESSOR = "preprocessor_config.json"
# All forms of the command import.
USAGE = """fluxformer import FOLDER --output MODEL.h5                     (published: weights, config.json)
       fluxformer import CHECKPOINT config.json --output MODEL.h5     (published)
       fluxformer import STATE MODEL.h5 --heads N --norm {pre,post} --activation {gelu_erf,gelu_tanh,relu}     (an encoder of your own)
       fluxformer import --help, and fluxformer import CHECKPOINT config.json --help, list all options"""


def in_folder(folder: str, *names: str) -> str | None:
    """The path of the first of these files that the folder has."""
    return next((path for path in (os.path.join(folder, name) for name in names) if os.path.isfile(path)), None)


def weights_in(path: str) -> str:
    """The file of weights: `path` itself, or that of the folder `path`. Unfit if the folder has none, or nothing is there."""
    if not os.path.exists(path):
        raise Unfit(f"{path}: no such file or folder")
    if not os.path.isdir(path):
        return path
    weights = in_folder(path, *WEIGHTS)
    if weights is None:
        raise Unfit(f"{path}: a folder without weights; a published model has one of {', '.join(WEIGHTS)}")
    return weights


def config_beside(weights: str) -> str:
    """The config.json beside the weights. Unfit if there is none."""
    config = in_folder(os.path.dirname(weights), CONFIG)
    if config is None:
        raise Unfit(f"{weights}: no {CONFIG} is beside it; name it behind the weights: fluxformer import CHECKPOINT config.json --output MODEL.h5 "
                    "(an encoder of your own has none: fluxformer import --help)")
    return config
