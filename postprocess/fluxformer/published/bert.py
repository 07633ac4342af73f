"""BERT: norm after each sub-layer; words, segments and learned positions under a LayerNorm."""

from __future__ import annotations

from fluxformer.published.building import Architecture, MaskedWords, Model, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config

LINEARS = {"Q": "attention.self.query", "K": "attention.self.key", "V": "attention.self.value", "O": "attention.output.dense",
           "1": "intermediate.dense", "2": "output.dense"}
NORMS = {"norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}
BUFFERS = r"embeddings\.(?:position_ids|token_type_ids)"
WORDS = MaskedWords(dense="cls.predictions.transform.dense", norm="cls.predictions.transform.LayerNorm",
                    matrix="cls.predictions.decoder.weight", biases=("cls.predictions.bias", "cls.predictions.decoder.bias"))


def encoder(config: Config, tensors: Checkpoint, first_position: int = 0) -> Model:
    """Begins a model of the BERT family with embedding and layers; token 0 has the row `first_position` of the table of positions."""
    config.must_be("position_embedding_type", "absolute", "a model file has a vector for each position and no others")
    config.must_be("is_decoder", False, "decoders of the BERT family have no place in a model file")
    config.must_be("add_cross_attention", False, "a model file has no cross attention")
    model = transformer(config, layers="num_hidden_layers", width="hidden_size", heads="num_attention_heads",
                        ffn=config.whole("intermediate_size"), activation=config.activation("hidden_act", "gelu"), norm="post",
                        eps=config.eps("layer_norm_eps", 1e-12))
    positions = config.whole("max_position_embeddings")
    if positions <= first_position:
        raise config.refuse("max_position_embeddings", f"must be more than {first_position}, the row of the first token")
    model.vocabulary(config, tensors, "embeddings.word_embeddings.weight")
    model.positions(tensors, "embeddings.position_embeddings.weight", positions, first_position)
    model.arrays["embedding/segment"] = tensors.take("embeddings.token_type_embeddings.weight", config.whole("type_vocab_size", 2), model.width)
    model.norm(tensors, "embeddings.LayerNorm", "embedding/norm_")
    for number in range(int(model.attributes["layers"])):
        model.encoder_layer(tensors, number + 1, f"encoder.layer.{number}.", LINEARS, NORMS)
    return model


def leave_out_pooler(tensors: Checkpoint, model: Model) -> None:
    """Leaves out the pooler that no class head uses."""
    model.leave_out(tensors.drop("pooler."), "a pooler without classifier")


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class (BertForMaskedLM), "" if config.json does not say it."""
    model = encoder(config, tensors)
    if tensors.any("classifier.") or kind == "BertForSequenceClassification":
        model.dense_classifier(config, tensors, "pooler.dense", "tanh", "classifier")
    if tensors.any("cls.predictions.") or kind in ("BertForMaskedLM", "BertForPreTraining"):
        model.masked_words(config, tensors, WORDS, str(model.attributes["activation"]))
    leave_out_pooler(tensors, model)
    model.leave_out(tensors.drop("cls.seq_relationship."), "a model file cannot tell which sentence follows")
    return model


BERT = Architecture(prefix="bert", ignored=BUFFERS,
                    classes=("BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification"), build=build)
