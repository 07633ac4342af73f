"""BERT: norm after each sub-layer; words, segments and learned positions under a LayerNorm."""

from __future__ import annotations

from fluxformer.published.building import Architecture, Model, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config
from fluxformer.tensors import Unfit

LINEARS = {"Q": "attention.self.query", "K": "attention.self.key", "V": "attention.self.value", "O": "attention.output.dense",
           "1": "intermediate.dense", "2": "output.dense"}
NORMS = {"norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class (BertForMaskedLM), "" if config.json does not say it."""
    config.must_be("position_embedding_type", "absolute", "a model file has a vector for each position and no others")
    config.must_be("is_decoder", False, "decoders of the BERT family have no place in a model file")
    config.must_be("add_cross_attention", False, "a model file has no cross attention")
    model = transformer(config, layers="num_hidden_layers", width="hidden_size", heads="num_attention_heads",
                        ffn=config.whole("intermediate_size"), activation=config.activation("hidden_act", "gelu"), norm="post",
                        eps=config.eps("layer_norm_eps", 1e-12))
    width = model.width
    positions = config.whole("max_position_embeddings")
    vocabulary = model.vocabulary(config, tensors, "embeddings.word_embeddings.weight")
    model.arrays["embedding/position"] = tensors.take("embeddings.position_embeddings.weight", positions, width)
    model.arrays["embedding/segment"] = tensors.take("embeddings.token_type_embeddings.weight", config.whole("type_vocab_size", 2), width)
    model.attributes["tokens"] = positions
    model.norm(tensors, "embeddings.LayerNorm", "embedding/norm_")
    for number in range(int(model.attributes["layers"])):
        model.encoder_layer(tensors, number + 1, f"encoder.layer.{number}.", LINEARS, NORMS)
    if tensors.any("classifier.") or kind == "BertForSequenceClassification":
        model.linear(tensors, "pooler.dense", "head/transform_W", "head/transform_b", width, width)
        model.attributes["head_activation"] = "tanh"
        model.classifier(config, tensors, "classifier", "first")
    if tensors.any("cls.predictions.") or kind in ("BertForMaskedLM", "BertForPreTraining"):
        word_head(config, tensors, model, vocabulary)
    model.leave_out(tensors.drop("pooler."), "a pooler without classifier")
    model.leave_out(tensors.drop("cls.seq_relationship."), "a model file cannot tell which sentence follows")
    return model


def word_head(config: Config, tensors: Checkpoint, model: Model, vocabulary: int) -> None:
    """Adds the head of the masked language model, which has so many words."""
    place = "cls.predictions."
    model.linear(tensors, place + "transform.dense", "word_head/transform_W", "word_head/transform_b", model.width, model.width)
    model.attributes["word_head_activation"] = model.attributes["activation"]
    model.norm(tensors, place + "transform.LayerNorm", "word_head/norm_")
    model.word_matrix(config, tensors, place + "decoder.weight")
    names = [name for name in (place + "bias", place + "decoder.bias") if name in tensors] or [place + "bias"]
    biases = [tensors.take(name, vocabulary) for name in names]
    if not biases[0].equals(biases[-1]):
        raise Unfit(f"{tensors.path}: {' and '.join(names)} differ, but stand for one bias")
    model.arrays["word_head/b"] = biases[0]


BERT = Architecture(prefix="bert", ignored=r"embeddings\.(?:position_ids|token_type_ids)",
                    classes=("BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification"), build=build)
