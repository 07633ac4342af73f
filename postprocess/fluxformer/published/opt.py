"""OPT: a causal decoder with the norm before each sub-layer; the first token has row 2 of the table of positions."""

from __future__ import annotations

from fluxformer.published.building import Architecture, Model, NextWords, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config

EPS = 1e-5  # no entry of config.json
FIRST_POSITION = 2
LINEARS = {"Q": "self_attn.q_proj", "K": "self_attn.k_proj", "V": "self_attn.v_proj", "O": "self_attn.out_proj", "1": "fc1", "2": "fc2"}
NORMS = {"norm1": "self_attn_layer_norm", "norm2": "final_layer_norm"}


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class, "" if config.json does not say it."""
    config.must_be("do_layer_norm_before", True, "the model normalises behind its sub-layers, and has no norm behind its embedding")
    config.must_be("_remove_final_layer_norm", False, "a model file has a norm behind the last layer")
    config.must_be("enable_bias", True, "linear maps of a model file have biases")
    config.must_be("layer_norm_elementwise_affine", True, "LayerNorms of a model file have gains and biases")
    width = config.whole("hidden_size")
    config.must_be("word_embed_proj_dim", width, f"hidden_size is {width}, and project_in, the map from one to the other, has no place in a model file")
    model = transformer(config, layers="num_hidden_layers", width="hidden_size", heads="num_attention_heads", ffn=config.whole("ffn_dim"),
                        activation=config.activation("activation_function", "relu"), norm="pre", eps=EPS)
    model.attributes["causal"] = "on"
    model.vocabulary(config, tensors, "embed_tokens.weight")
    model.positions(tensors, "embed_positions.weight", config.whole("max_position_embeddings") + FIRST_POSITION, FIRST_POSITION)
    for number in range(int(model.attributes["layers"])):
        model.encoder_layer(tensors, number + 1, f"layers.{number}.", LINEARS, NORMS)
    model.norm(tensors, "final_layer_norm", "final_norm/")
    model.decoder_heads(config, tensors, kind, "OPT", NextWords("lm_head.weight", tied=True))
    model.zero_biases()
    return model


OPT = Architecture(prefix="decoder", ignored="version", classes=("OPTModel", "OPTForCausalLM", "OPTForSequenceClassification"), build=build)
