"""GPT-J: a causal decoder whose sub-layers act side by side on one norm; neighbouring channels are turned together."""

from __future__ import annotations

from fluxformer.published.building import Architecture, Model, NextWords, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config
from fluxformer.published.decoder import refuse_foreign, say_longest
from fluxformer.published.rotary import BASE, Rotary, usual

import numpy as np

LINEARS = {"Q": "attn.q_proj", "K": "attn.k_proj", "V": "attn.v_proj", "O": "attn.out_proj", "1": "mlp.fc_in", "2": "mlp.fc_out"}
NORMS = {"norm1": "ln_1", "norm2": "ln_1"}
TURNED = 64  # rotary_dim, if config.json does not say it


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class, "" if config.json does not say it."""
    refuse_foreign(config)
    config.must_be("scale_attn_weights", True, "a model file divides scores of attention by the root of the head's width")
    for name in ("rope_scaling", "rope_parameters", "rope_theta"):
        config.must_be_empty(name, "models of this family have the usual frequencies")
    width = config.whole("n_embd")
    model = transformer(config, layers="n_layer", width="n_embd", heads="n_head", ffn=config.whole("n_inner", 4 * width),
                        activation=config.activation("activation_function", "gelu_new"), norm="pre",
                        eps=config.eps("layer_norm_epsilon", 1e-5))
    model.attributes.update(causal="on", order="parallel")
    model.biased("reaction")
    say_longest(config, model, "n_positions")
    layers, turned = int(model.attributes["layers"]), config.whole("rotary_dim", 0 if config.is_null("rotary_dim") else TURNED, least=1)
    if not turned or turned % 2 or turned > model.head_width:
        raise config.refuse("rotary_dim", f"must be an even number of the {model.head_width} channels of a head")
    model.rotate(Rotary(usual(BASE, turned)[None], np.zeros(layers, np.int64), 1.0, "interleaved", fixed=True))
    model.vocabulary(config, tensors, "wte.weight")
    for number in range(layers):
        model.encoder_layer(tensors, number + 1, f"h.{number}.", LINEARS, NORMS)
    model.norm(tensors, "ln_f", "final_norm/")
    model.decoder_heads(config, tensors, kind, "GPTJ", NextWords("lm_head.weight", "lm_head.bias"))
    return model


GPTJ = Architecture(prefix="transformer", ignored=r"h\.[0-9]+\.attn\.(?:bias|masked_bias|embed_positions)",
                    classes=("GPTJModel", "GPTJForCausalLM", "GPTJForSequenceClassification"), build=build)
