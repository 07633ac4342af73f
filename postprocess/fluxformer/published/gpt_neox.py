"""GPT-NeoX, Pythia: causal decoders whose sub-layers act side by side, on norms of their own; a share of each head's channels is turned."""

from __future__ import annotations

from fluxformer.published.building import Architecture, Model, NextWords, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config
from fluxformer.published.decoder import FULL, kinds_of_layers, refuse_foreign, say_longest
from fluxformer.published.rotary import alike, share_of

LINEARS = {"O": "attention.dense", "1": "mlp.dense_h_to_4h", "2": "mlp.dense_4h_to_h"}
NORMS = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
TURNED = 0.25  # rotary_pct, if config.json does not say it


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class, "" if config.json does not say it."""
    refuse_foreign(config)
    model = transformer(config, layers="num_hidden_layers", width="hidden_size", heads="num_attention_heads",
                        ffn=config.whole("intermediate_size"), activation=config.activation("hidden_act", "gelu"), norm="pre",
                        eps=config.eps("layer_norm_eps", 1e-5))
    model.attributes["causal"] = "on"
    if config.flag("use_parallel_residual", True):
        model.attributes["order"] = "parallel"
    model.biased("all" if config.flag("attention_bias", True) else "reaction")
    longest = say_longest(config, model, "max_position_embeddings")
    layers = int(model.attributes["layers"])
    kinds_of_layers(config, layers, [FULL] * layers, "the family, which has no windows")
    share, turned = share_of(config, ["rotary_pct", "partial_rotary_factor"], model.head_width, TURNED)
    model.rotate(alike(config, layers, turned, ["rotary_emb_base", "rope_theta"], longest, share))
    model.vocabulary(config, tensors, "embed_in.weight")
    for number in range(layers):
        model.encoder_layer(tensors, number + 1, f"layers.{number}.", LINEARS, NORMS)
        rows_by_head(tensors, model, f"layers.{number}.attention.query_key_value", f"layers/{number + 1}/")
    model.norm(tensors, "final_layer_norm", "final_norm/")
    model.decoder_heads(config, tensors, kind, "GPTNeoX", NextWords("embed_out.weight"))
    return model


def rows_by_head(tensors: Checkpoint, model: Model, theirs: str, ours: str) -> None:
    """Adds queries, keys and values from one matrix, whose rows are c of q, c of k, c of v of the first head, then those of the next."""
    heads, c, width = int(model.attributes["heads"]), model.head_width, model.width
    weight = tensors.take(f"{theirs}.weight", 3 * width, width)
    bias = tensors.take(f"{theirs}.bias", 3 * width) if model.has_bias("Q") else None
    for place, letter in enumerate("QKV"):
        rows = place * c, (place + 1) * c
        model.arrays[f"{ours}W_{letter}"] = weight.rows_of_blocks(heads, *rows)
        if bias is not None:
            model.arrays[f"{ours}b_{letter}"] = bias.rows_of_blocks(heads, *rows)


GPT_NEOX = Architecture(prefix="gpt_neox", ignored=r"layers\.[0-9]+\.attention\.(?:bias|masked_bias|rotary_emb\.inv_freq)", build=build,
                        classes=("GPTNeoXModel", "GPTNeoXForCausalLM", "GPTNeoXForSequenceClassification"))
