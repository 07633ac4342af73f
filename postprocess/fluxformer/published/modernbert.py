"""ModernBERT: an encoder with the norm before each sub-layer, gated networks and rotary positions, most of whose layers see a window only."""

from __future__ import annotations

from fluxformer.published.building import Architecture, Model, transformer
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import GATES, Config
from fluxformer.published.decoder import FULL, SLIDING, kinds_of_layers, refuse_foreign, say_longest
from fluxformer.published.rotary import by_kind

BASES = {FULL: ("global_rope_theta", 160000.0), SLIDING: ("local_rope_theta", 10000.0)}
WINDOW, EVERY = 128, 3  # local_attention and global_attn_every_n_layers, if config.json does not say them
# Biases of attention, of the network and of norms, as a model file can have them.
BIASES = {(False, False, False): "none", (True, False, True): "attention", (False, True, True): "reaction", (True, True, True): "all"}
POOLINGS = {"cls": "first", "mean": "mean"}


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class (ModernBertForMaskedLM), "" if config.json does not say it."""
    model = begin(config)
    model.vocabulary(config, tensors, "embeddings.tok_embeddings.weight")
    model.norm(tensors, "embeddings.norm", "embedding/norm_")
    for number in range(int(model.attributes["layers"])):
        layer(tensors, model, f"layers.{number}.", number + 1)
    model.norm(tensors, "final_norm", "final_norm/")
    if tensors.any("classifier.") or kind == "ModernBertForSequenceClassification":
        pooling = config.word("classifier_pooling", "cls")
        if pooling not in POOLINGS:
            raise config.refuse("classifier_pooling", f"the program has {' and '.join(POOLINGS)}")
        dense_stage(config, tensors, model, "head")
        model.classifier(config, tensors, "classifier", POOLINGS[pooling])
    if tensors.any("decoder.") or kind == "ModernBertForMaskedLM":
        dense_stage(config, tensors, model, "word_head")
        model.word_matrix(config, tensors, "decoder.weight")
        if config.flag("decoder_bias", True):
            model.arrays["word_head/b"] = tensors.take("decoder.bias", model.words)
        model.say_word_head()
    model.leave_out(tensors.drop("head."), "a dense stage without classifier or words")
    return model


def begin(config: Config) -> Model:
    """Begins the model: sizes, kinds, rotary positions and windows."""
    refuse_foreign(config)
    model = transformer(config, layers="num_hidden_layers", width="hidden_size", heads="num_attention_heads",
                        ffn=config.whole("intermediate_size"), activation=config.activation("hidden_activation", "gelu", GATES), norm="pre",
                        eps=config.eps("norm_eps", 1e-5))
    biases = config.flag("attention_bias", False), config.flag("mlp_bias", False), config.flag("norm_bias", False)
    if biases not in BIASES:
        raise config.refuse("norm_bias", "in a model file norms have biases where linear maps of layers have some, and nowhere else")
    model.attributes.update(gated="on", first_norm="off")
    model.biased(BIASES[biases])
    longest = say_longest(config, model, "max_position_embeddings")
    layers = int(model.attributes["layers"])
    every, said = config.whole("global_attn_every_n_layers", EVERY), config.has("global_attn_every_n_layers") or not config.has("layer_types")
    kinds = kinds_of_layers(config, layers, [SLIDING if number % every else FULL for number in range(layers)] if said else [],
                            f"global_attn_every_n_layers = {every}")
    # |x - y| <= local_attention / 2, of which the integer part.
    window = config.whole("local_attention", WINDOW, least=2) // 2
    model.windows([window if kind == SLIDING else 0 for kind in kinds])
    if model.head_width % 2:
        raise config.refuse("num_attention_heads", f"rotary positions turn pairs of the {model.head_width} channels of a head")
    model.rotate(by_kind(config, kinds, model.head_width, bases(config), longest))
    return model


def bases(config: Config) -> dict[str, tuple[str, float]]:
    """BASES; the base of windows, if it is null, is the other."""
    name, _ = BASES[SLIDING]
    return {**BASES, SLIDING: (name, config.number(*BASES[FULL]))} if config.is_null(name) else BASES


def layer(tensors: Checkpoint, model: Model, theirs: str, number: int) -> None:
    """Adds layer `number`, counted from 1, whose names begin with `theirs`; the first has no norm in front of attention."""
    width, ffn, ours = model.width, int(model.attributes["ffn"]), f"layers/{number}/"
    norms = {"norm1": "attn_norm", "norm2": "mlp_norm"}
    model.encoder_layer(tensors, number, theirs, {"O": "attn.Wo", "2": "mlp.Wo"}, {key: norms[key] for key in norms if number > 1 or key == "norm2"})
    for name, letters, rows in (("attn.Wqkv", "QKV", width), ("mlp.Wi", "G1", ffn)):  # one below the other
        weight = tensors.take(f"{theirs}{name}.weight", len(letters) * rows, width)
        bias = tensors.take(f"{theirs}{name}.bias", len(letters) * rows) if model.has_bias(letters[0]) else None
        for place, letter in enumerate(letters):
            part = place * rows, (place + 1) * rows
            model.arrays[f"{ours}W_{letter}"] = weight.rows(*part)
            if bias is not None:
                model.arrays[f"{ours}b_{letter}"] = bias.rows(*part)


def dense_stage(config: Config, tensors: Checkpoint, model: Model, ours: str) -> None:
    """Adds what stands in front of words and classes: a linear map, an activation and a norm."""
    bias = f"{ours}/transform_b" if config.flag("classifier_bias", False) else ""
    model.linear(tensors, "head.dense", f"{ours}/transform_W", bias, model.width, model.width)
    model.attributes[f"{ours}_activation"] = config.activation("classifier_activation", "gelu")
    model.norm(tensors, "head.norm", f"{ours}/norm_")


MODERNBERT = Architecture(prefix="model", ignored=r"(?:layers\.[0-9]+\.attn\.)?rotary_emb\.inv_freq", build=build,
                          classes=("ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification"))
