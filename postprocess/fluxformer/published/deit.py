"""DeiT: a ViT with a second token in front of the patches, which learned from a teacher and has a class head of its own."""

from __future__ import annotations

from fluxformer.published.building import Architecture, Model, class_count
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config
from fluxformer.published.vit import NEWER, encoder, leave_out_pooler

import numpy as np

FRONT = ("cls_token", "distillation_token")
HEADS = ("cls_classifier", "distillation_classifier")  # of the front tokens


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class, "" if config.json does not say it."""
    model = encoder(config, tensors, FRONT)
    if tensors.any("classifier.") or kind == "DeiTForImageClassification":
        model.classifier(config, tensors, "classifier", "first")
    elif any(tensors.any(f"{head}.") for head in HEADS) or kind == "DeiTForImageClassificationWithTeacher":
        mean_of_heads(config, tensors, model)
    leave_out_pooler(tensors, model)
    return model


def mean_of_heads(config: Config, tensors: Checkpoint, model: Model) -> None:
    """Adds the mean of a class head for each front token, as one matrix on the states of these tokens side by side."""
    classes, share = class_count(config, tensors, HEADS[0]), 1 / len(HEADS)
    model.arrays["head/W"] = share * np.hstack([tensors.take(f"{head}.weight", classes, model.width).whole() for head in HEADS])
    model.arrays["head/b"] = share * np.sum([tensors.take(f"{head}.bias", classes).whole() for head in HEADS], axis=0)
    model.attributes.update(classes=classes, pooling="front")


DEIT = Architecture(prefix="deit", ignored=r"embeddings\.mask_token", build=build, renamed=NEWER,
                    classes=("DeiTModel", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher"))
