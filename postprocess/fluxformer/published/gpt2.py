"""GPT-2: norm before each sub-layer, causal; its matrices are stored [in, out], queries, keys and values in one."""

from __future__ import annotations

from fluxformer.published.building import Architecture, Model, NextWords, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config



def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class, "" if config.json does not say it."""
    config.must_be("scale_attn_weights", True, "a model file divides scores of attention by the root of the head's width")
    config.must_be("scale_attn_by_inverse_layer_idx", False, "a model file divides scores of attention alike in all layers")
    config.must_be("add_cross_attention", False, "a model file has no cross attention")
    width = config.whole("n_embd")
    model = transformer(config, layers="n_layer", width="n_embd", heads="n_head", ffn=config.whole("n_inner", 4 * width),
                        activation=config.activation("activation_function", "gelu_new"), norm="pre",
                        eps=config.eps("layer_norm_epsilon", 1e-5))
    model.attributes["causal"] = "on"
    model.vocabulary(config, tensors, "wte.weight")
    model.positions(tensors, "wpe.weight", config.whole("n_positions"))
    for number in range(int(model.attributes["layers"])):
        layer(tensors, model, f"h.{number}.", f"layers/{number + 1}/")
    model.norm(tensors, "ln_f", "final_norm/")
    model.decoder_heads(config, tensors, kind, "GPT2", NextWords("lm_head.weight", tied=True))
    model.zero_biases()
    return model


def layer(tensors: Checkpoint, model: Model, theirs: str, ours: str) -> None:
    """Adds one layer; its names begin with `theirs` in the checkpoint and with `ours` in the model file."""
    width, ffn = model.width, int(model.attributes["ffn"])
    stacked = tensors.take(f"{theirs}attn.c_attn.weight", width, 3 * width).transposed()
    bias = tensors.take(f"{theirs}attn.c_attn.bias", 3 * width)
    for place, letter in enumerate("QKV"):
        rows = place * width, (place + 1) * width
        model.arrays[f"{ours}W_{letter}"], model.arrays[f"{ours}b_{letter}"] = stacked.rows(*rows), bias.rows(*rows)
    for letter, name, inputs, outputs in (("O", "attn.c_proj", width, width), ("1", "mlp.c_fc", width, ffn), ("2", "mlp.c_proj", ffn, width)):
        model.arrays[f"{ours}W_{letter}"] = tensors.take(f"{theirs}{name}.weight", inputs, outputs).transposed()
        model.arrays[f"{ours}b_{letter}"] = tensors.take(f"{theirs}{name}.bias", outputs)
    model.norm(tensors, f"{theirs}ln_1", f"{ours}norm1_")
    model.norm(tensors, f"{theirs}ln_2", f"{ours}norm2_")


GPT2 = Architecture(prefix="transformer", ignored=r"h\.[0-9]+\.attn\.(?:bias|masked_bias)",
                    classes=("GPT2Model", "GPT2LMHeadModel", "GPT2ForSequenceClassification"), build=build)
