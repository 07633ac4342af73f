"""ViT: norm before each sub-layer; patches by a linear map, a class token in front of them."""

from __future__ import annotations

from fluxformer.published.building import Architecture, Model, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config

import numpy as np

LINEARS = {"Q": "attention.attention.query", "K": "attention.attention.key", "V": "attention.attention.value",
           "O": "attention.output.dense", "1": "intermediate.dense", "2": "output.dense"}
# Names of version 5 of the library, and those before.
NEWER = tuple((rf"(?:encoder\.)?layers\.([0-9]+)\.{newer}\.", rf"encoder.layer.\1.{older}.") for newer, older in (
    (r"attention\.q_proj", "attention.attention.query"), (r"attention\.k_proj", "attention.attention.key"),
    (r"attention\.v_proj", "attention.attention.value"), (r"attention\.o_proj", "attention.output.dense"),
    (r"mlp\.fc1", "intermediate.dense"), (r"mlp\.fc2", "output.dense"),
    ("layernorm_before", "layernorm_before"), ("layernorm_after", "layernorm_after")))
NORMS = {"norm1": "layernorm_before", "norm2": "layernorm_after"}


def encoder(config: Config, tensors: Checkpoint, front: tuple[str, ...]) -> Model:
    """Begins a model of the ViT family with embedding, layers and final norm; `front` names the tokens in front of the patches."""
    model = transformer(config, layers="num_hidden_layers", width="hidden_size", heads="num_attention_heads",
                        ffn=config.whole("intermediate_size"), activation=config.activation("hidden_act", "gelu"), norm="pre",
                        eps=config.eps("layer_norm_eps", 1e-12))
    embedding(config, tensors, model, front)
    width, biases = model.width, config.flag("qkv_bias", True)
    for number in range(int(model.attributes["layers"])):
        here = f"encoder.layer.{number}."
        model.encoder_layer(tensors, number + 1, here, {key: LINEARS[key] for key in ("QKVO12" if biases else "O12")}, NORMS)
        for letter in "" if biases else "QKV":
            model.arrays[f"layers/{number + 1}/W_{letter}"] = tensors.take(f"{here}{LINEARS[letter]}.weight", width, width)
            model.arrays[f"layers/{number + 1}/b_{letter}"] = np.zeros(width)
    model.norm(tensors, "layernorm", "final_norm/")
    return model


def embedding(config: Config, tensors: Checkpoint, model: Model, front: tuple[str, ...]) -> None:
    """Adds the patches, the tokens in front of them and the positions of all."""
    width = model.width
    (height, across), (rows, columns) = config.pair("image_size"), config.pair("patch_size")
    channels = config.whole("num_channels", 3)
    if rows > height or columns > across:
        raise config.refuse("patch_size", f"larger than image_size ({height} x {across})")
    inputs, tokens = channels * rows * columns, (height // rows) * (across // columns) + len(front)
    place = "embeddings.patch_embeddings.projection."
    # A convolution that steps from patch to patch is a linear map of each patch, flattened by channel, row, column.
    model.arrays["embedding/W"] = tensors.take(place + "weight", width, channels, rows, columns).reshaped(width, inputs)
    model.arrays["embedding/b"] = tensors.take(place + "bias", width)
    learned = [tensors.take(f"embeddings.{name}", 1, 1, width).reshaped(width) for name in front]
    model.arrays["embedding/class_token"] = learned[0] if len(learned) == 1 else np.stack([one.whole() for one in learned])
    model.arrays["embedding/position"] = tensors.take("embeddings.position_embeddings", 1, tokens, width).reshaped(tokens, width)
    model.attributes.update(inputs=inputs, tokens=tokens)
    model.channels = channels


def leave_out_pooler(tensors: Checkpoint, model: Model) -> None:
    """Leaves out the pooler, which no class head uses."""
    model.leave_out(tensors.drop("pooler."), "the class head of a ViT has no pooler")


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class, "" if config.json does not say it."""
    model = encoder(config, tensors, ("cls_token",))
    if tensors.any("classifier.") or kind == "ViTForImageClassification":
        model.classifier(config, tensors, "classifier", "first")
    leave_out_pooler(tensors, model)
    return model


VIT = Architecture(prefix="vit", ignored=r"embeddings\.mask_token", classes=("ViTModel", "ViTForImageClassification"),
                   build=build, renamed=NEWER)
