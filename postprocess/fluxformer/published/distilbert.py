"""DistilBERT: BERT with other names, without segments; its eps is no entry of config.json."""

from __future__ import annotations

from fluxformer.published.building import Architecture, MaskedWords, Model, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config

EPS = 1e-12
LINEARS = {"Q": "attention.q_lin", "K": "attention.k_lin", "V": "attention.v_lin", "O": "attention.out_lin", "1": "ffn.lin1", "2": "ffn.lin2"}
NORMS = {"norm1": "sa_layer_norm", "norm2": "output_layer_norm"}
WORDS = MaskedWords(dense="vocab_transform", norm="vocab_layer_norm", matrix="vocab_projector.weight", biases=("vocab_projector.bias",))


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class, "" if config.json does not say it."""
    model = transformer(config, layers="n_layers", width="dim", heads="n_heads", ffn=config.whole("hidden_dim"),
                        activation=config.activation("activation", "gelu"), norm="post", eps=EPS)
    model.vocabulary(config, tensors, "embeddings.word_embeddings.weight")
    model.positions(tensors, "embeddings.position_embeddings.weight", config.whole("max_position_embeddings"))
    model.norm(tensors, "embeddings.LayerNorm", "embedding/norm_")
    for number in range(int(model.attributes["layers"])):
        model.encoder_layer(tensors, number + 1, f"transformer.layer.{number}.", LINEARS, NORMS)
    if tensors.any("pre_classifier.") or tensors.any("classifier.") or kind == "DistilBertForSequenceClassification":
        model.dense_classifier(config, tensors, "pre_classifier", "relu", "classifier")
    if tensors.any("vocab_") or kind == "DistilBertForMaskedLM":
        model.masked_words(config, tensors, WORDS, str(model.attributes["activation"]))
    return model


DISTILBERT = Architecture(prefix="distilbert", ignored=r"embeddings\.position_ids",
                          classes=("DistilBertModel", "DistilBertForMaskedLM", "DistilBertForSequenceClassification"), build=build)
