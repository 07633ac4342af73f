"""DistilBERT: BERT with other names, without segments; its eps is no entry of config.json."""

from __future__ import annotations

from fluxformer.published.building import Architecture, Model, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config

EPS = 1e-12
LINEARS = {"Q": "attention.q_lin", "K": "attention.k_lin", "V": "attention.v_lin", "O": "attention.out_lin", "1": "ffn.lin1", "2": "ffn.lin2"}
NORMS = {"norm1": "sa_layer_norm", "norm2": "output_layer_norm"}


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class, "" if config.json does not say it."""
    model = transformer(config, layers="n_layers", width="dim", heads="n_heads", ffn=config.whole("hidden_dim"),
                        activation=config.activation("activation", "gelu"), norm="post", eps=EPS)
    width = model.width
    positions = config.whole("max_position_embeddings")
    vocabulary = model.vocabulary(config, tensors, "embeddings.word_embeddings.weight")
    model.arrays["embedding/position"] = tensors.take("embeddings.position_embeddings.weight", positions, width)
    model.attributes["tokens"] = positions
    model.norm(tensors, "embeddings.LayerNorm", "embedding/norm_")
    for number in range(int(model.attributes["layers"])):
        model.encoder_layer(tensors, number + 1, f"transformer.layer.{number}.", LINEARS, NORMS)
    if tensors.any("pre_classifier.") or tensors.any("classifier.") or kind == "DistilBertForSequenceClassification":
        model.linear(tensors, "pre_classifier", "head/transform_W", "head/transform_b", width, width)
        model.attributes["head_activation"] = "relu"
        model.classifier(config, tensors, "classifier", "first")
    if tensors.any("vocab_") or kind == "DistilBertForMaskedLM":
        model.linear(tensors, "vocab_transform", "word_head/transform_W", "word_head/transform_b", width, width)
        model.attributes["word_head_activation"] = model.attributes["activation"]
        model.norm(tensors, "vocab_layer_norm", "word_head/norm_")
        model.word_matrix(config, tensors, "vocab_projector.weight")
        model.arrays["word_head/b"] = tensors.take("vocab_projector.bias", vocabulary)
    return model


DISTILBERT = Architecture(prefix="distilbert", ignored=r"embeddings\.position_ids",
                          classes=("DistilBertModel", "DistilBertForMaskedLM", "DistilBertForSequenceClassification"), build=build)
