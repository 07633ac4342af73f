"""ELECTRA: BERT with heads of its own. The discriminator's head, which tells replaced words, has no place in a model file."""

from __future__ import annotations

from fluxformer.published.bert import BUFFERS, encoder
from fluxformer.published.building import Architecture, MaskedWords, Model
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config

NARROW = 128  # embedding_size, if config.json does not say it
WORDS = MaskedWords(dense="generator_predictions.dense", norm="generator_predictions.LayerNorm", matrix="generator_lm_head.weight",
                    biases=("generator_lm_head.bias",))


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class (ElectraForMaskedLM, the generator), "" if config.json does not say it."""
    width = config.whole("hidden_size")
    if config.whole("embedding_size", NARROW) != width:
        raise config.refuse("embedding_size", f"hidden_size is {width}, and embeddings_project, the map from one to the other, has no place in a "
                            "model file")
    model = encoder(config, tensors)
    if tensors.any("classifier.dense.") or kind == "ElectraForSequenceClassification":
        model.dense_classifier(config, tensors, "classifier.dense", "gelu_erf", "classifier.out_proj")
    if tensors.any("generator_") or kind == "ElectraForMaskedLM":
        model.masked_words(config, tensors, WORDS, "gelu_erf")  # whatever hidden_act says
    return model


ELECTRA = Architecture(prefix="electra", ignored=BUFFERS,
                       classes=("ElectraModel", "ElectraForMaskedLM", "ElectraForSequenceClassification"), build=build)
