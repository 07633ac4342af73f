"""What the decoders of today have in common, and what some of them have and a model file does not."""

from __future__ import annotations

from collections.abc import Sequence

from fluxformer.published.building import Model
from fluxformer.published.config import Config

FULL, SLIDING = "full_attention", "sliding_attention"  # words of layer_types
# Entries that would change what is computed, and why they cannot be followed.
EXPERTS, CAPPED, SCALED = "a model file has one network a layer, no experts", "a model file has no capped logits", "a model file has no such factor"
FOREIGN = {**dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size"), EXPERTS),
           **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping", "logits_soft_cap"), CAPPED),
           **dict.fromkeys(("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling", "query_pre_attn_scalar",
                            "scale_embedding"), SCALED),
           **dict.fromkeys(("alibi", "use_alibi", "alibi_bias_max"), "a model file has no attention that is biased by distance (ALiBi)"),
           **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), "a model file has no latent attention"),
           **dict.fromkeys(("no_rope_layers", "no_rope_layer_interval"), "all layers of a model file have positions or none has"),
           "rope_interleaved": "the layout of rotary positions of this family is half", "clip_qkv": "a model file does not clip queries and keys",
           "attention_chunk_size": "a model file has windows but no chunks", "add_cross_attention": "a model file has no cross attention",
           "use_mrope": "the program has no rotary positions of several axes (mrope)"}


def refuse_foreign(config: Config) -> None:
    """Unfit if config.json has an entry, not null, false or 0, of what a model file does not have."""
    for name, why in FOREIGN.items():
        config.must_be_empty(name, why)


def say_longest(config: Config, model: Model, name: str) -> int | None:
    """Says in the model file for how many tokens a line was meant: the entry `name`, which is returned; None if it is not there."""
    if not config.has(name):
        return None
    longest = config.whole(name)
    model.attributes["longest"] = longest
    return longest


def kinds_of_layers(config: Config, layers: int, expected: Sequence[str], why: str) -> list[str]:
    """The kind of attention of each layer, which the entry layer_types may say.

    Parameters
    ----------
    config : Config
    layers : int
    expected : sequence of str
        The kinds that other entries say; empty if they say none.
    why : str
        What says so, for the message if layer_types contradicts it.
    """
    if not config.has("layer_types"):
        return list(expected)
    kinds = config.names("layer_types")
    if len(kinds) != layers or not set(kinds) <= {FULL, SLIDING}:
        raise config.refuse("layer_types", f"must say {FULL} or {SLIDING} for each of {layers} layers")
    if expected and kinds != list(expected):
        raise config.refuse("layer_types", f"contradicts {why}")
    return kinds
