"""Llama, Mistral and Qwen: causal decoders with RMSNorm before each sub-layer, gated networks, rotary positions and grouped keys and values.

They have one set of names and differ in biases, windows and norms of queries and keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fluxformer.published.building import Architecture, Model, NextWords, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import GATES, Config
from fluxformer.published.decoder import FULL, SLIDING, kinds_of_layers, refuse_foreign, say_longest
from fluxformer.published.rotary import alike

LINEARS = {"Q": "self_attn.q_proj", "K": "self_attn.k_proj", "V": "self_attn.v_proj", "O": "self_attn.o_proj",
           "G": "mlp.gate_proj", "1": "mlp.up_proj", "2": "mlp.down_proj"}
NORMS = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
WINDOW = 4096  # sliding_window, if config.json does not say it
FIRST_WINDOW = 28  # max_window_layers of Qwen, likewise


@dataclass(frozen=True)
class Family:
    """What tells a family from the others.

    Attributes
    ----------
    name : str
        What the names of its classes begin with.
    biases : callable
        The attribute biases.
    windows : callable
        The window of each of so many layers, 0 for none.
    head_width : int
        head_dim, if config.json does not say it; 0: width / heads.
    normed : bool
        Queries and keys have norms.
    """
    name: str
    biases: Callable[[Config], str]
    windows: Callable[[Config, int], list[int]]
    head_width: int = 0
    normed: bool = False

    def build(self, config: Config, tensors: Checkpoint, kind: str) -> Model:
        """Builds the model; `kind` is its class, "" if config.json does not say it."""
        model = self.begin(config)
        model.vocabulary(config, tensors, "embed_tokens.weight")
        for number in range(int(model.attributes["layers"])):
            model.encoder_layer(tensors, number + 1, f"layers.{number}.", LINEARS, NORMS)
            for letter in "qk" if self.normed else "":
                model.arrays[f"layers/{number + 1}/{letter}_gain"] = tensors.take(f"layers.{number}.self_attn.{letter}_norm.weight", model.head_width)
        model.norm(tensors, "norm", "final_norm/")
        model.decoder_heads(config, tensors, kind, self.name, NextWords("lm_head.weight"))
        return model

    def begin(self, config: Config) -> Model:
        """Begins the model: sizes, kinds, rotary positions and windows."""
        refuse_foreign(config)
        heads, width = config.whole("num_attention_heads"), config.whole("hidden_size")
        groups = config.whole("num_key_value_heads", heads)
        if heads % groups:
            raise config.refuse("num_key_value_heads", f"does not divide num_attention_heads = {heads}")
        head_width = config.whole("head_dim") if config.has("head_dim") else self.head_width or None
        model = transformer(config, layers="num_hidden_layers", width="hidden_size", heads="num_attention_heads",
                            ffn=config.whole("intermediate_size"), activation=config.activation("hidden_act", "silu", GATES), norm="pre",
                            eps=config.eps_or_0("rms_norm_eps", 1e-6), head_width=head_width)
        turned = head_width or width // heads
        if turned % 2:
            raise config.refuse("head_dim", f"rotary positions turn pairs of the {turned} channels of a head")
        if groups != heads:
            model.attributes["groups"] = groups
        model.attributes.update(causal="on", norm_map="rms", gated="on")
        model.biased(self.biases(config))
        longest = say_longest(config, model, "max_position_embeddings")
        if config.number("partial_rotary_factor", 1.0) != 1:
            raise config.refuse("partial_rotary_factor", "this family turns all channels of a head")
        layers = int(model.attributes["layers"])
        model.rotate(alike(config, layers, turned, ["rope_theta"], longest))
        model.windows(self.windows(config, layers))
        return model

    def architecture(self) -> Architecture:
        """The family as the command knows it."""
        return Architecture(prefix="model|transformer", ignored=r"(?:layers\.[0-9]+\.self_attn\.)?rotary_emb\.inv_freq", build=self.build,
                            classes=tuple(self.name + kind for kind in ("Model", "ForCausalLM", "ForSequenceClassification")))


def biases_of_llama(config: Config) -> str:
    """attention_bias is for q, k, v, o; mlp_bias for the network."""
    return {(False, False): "none", (True, False): "attention", (False, True): "reaction", (True, True): "all"}[
        config.flag("attention_bias", False), config.flag("mlp_bias", False)]


def biases_of_qwen3(config: Config) -> str:
    """attention_bias is for q, k, v, o."""
    return "attention" if config.flag("attention_bias", False) else "none"


def no_windows(config: Config, layers: int) -> list[int]:
    """The program would have to guess what a window in such a file means."""
    config.must_be_empty("sliding_window", "models of this family have no windows")
    config.must_be_empty("use_sliding_window", "models of this family have no windows")
    kinds_of_layers(config, layers, [FULL] * layers, "the family, which has no windows")
    return [0] * layers


def windows_of_mistral(config: Config, layers: int) -> list[int]:
    """sliding_window in every layer; null: none."""
    window = 0 if config.is_null("sliding_window") else config.whole("sliding_window", WINDOW)
    kinds_of_layers(config, layers, [SLIDING if window else FULL] * layers, f"sliding_window = {window or 'null'}, which holds in every layer")
    return [window] * layers


def windows_of_qwen(config: Config, layers: int) -> list[int]:
    """Where use_sliding_window is true, sliding_window in the layers from max_window_layers on, counted from 0, or in those of layer_types."""
    if not config.flag("use_sliding_window", False):
        kinds_of_layers(config, layers, [FULL] * layers, "use_sliding_window, which is not true")
        return [0] * layers
    first = config.whole("max_window_layers", FIRST_WINDOW, least=0)
    said = not config.has("layer_types") or config.has("max_window_layers")
    kinds = kinds_of_layers(config, layers, [SLIDING if number >= first else FULL for number in range(layers)] if said else [],
                            f"max_window_layers = {first}")
    window = config.whole("sliding_window", WINDOW)
    return [window if kind == SLIDING else 0 for kind in kinds]


LLAMA = Family("Llama", biases_of_llama, no_windows).architecture()
MISTRAL = Family("Mistral", lambda config: "none", windows_of_mistral).architecture()
QWEN2 = Family("Qwen2", lambda config: "qkv", windows_of_qwen).architecture()
QWEN3 = Family("Qwen3", biases_of_qwen3, windows_of_qwen, head_width=128, normed=True).architecture()
