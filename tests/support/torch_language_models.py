"""Llama, Mistral, Qwen, GPT-NeoX, GPT-J and ModernBERT by the book in plain PyTorch, float64: functions of config.json and of the tensors of a
checkpoint under their published names.

Only make_language_models_reference.py and make_language_gradients_reference.py use them. `outputs` gives a dictionary as in torch_models.py.
Angles are computed as published, but not in single precision.
"""

import math

import torch
from torch.nn import functional

from language_model_shapes import heads_of
from torch_models import padding

ACTIVATIONS = {"gelu": functional.gelu, "silu": functional.silu,
               "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))}


# --- angles

def inverse_frequencies(base, turned):
    return 1 / base ** (torch.arange(0, turned, 2, dtype=torch.float64) / turned)


def of_llama3(frequencies, scaling):
    longest = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    wavelength = 2 * math.pi / frequencies
    smooth = (longest / wavelength - low) / (high - low)
    between = (1 - smooth) * frequencies / scaling["factor"] + smooth * frequencies
    scaled = torch.where(wavelength > longest / low, frequencies / scaling["factor"], frequencies)
    return torch.where((wavelength >= longest / high) & (wavelength <= longest / low), between, scaled)


def of_yarn(frequencies, scaling, base, turned, longest):
    """(frequencies, factor of cosines and sines)"""
    factor, length = scaling["factor"], scaling.get("original_max_position_embeddings") or longest

    def dimension(rotations):
        return turned * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = dimension(scaling.get("beta_fast") or 32), dimension(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, turned - 1)
    ramp = ((torch.arange(turned // 2, dtype=torch.float64) - low) / (high - low + (0.001 if high == low else 0))).clamp(0, 1)
    kept = 1 - ramp

    def grown(scale):
        return 0.1 * scale * math.log(factor) + 1

    attention = scaling.get("attention_factor")
    if attention is None and scaling.get("mscale") and scaling.get("mscale_all_dim"):
        attention = grown(scaling["mscale"]) / grown(scaling["mscale_all_dim"])
    return frequencies / factor * (1 - kept) + frequencies * kept, grown(1) if attention is None else attention


def scaled_frequencies(config, turned, base):
    """(frequencies, factor of cosines and sines) of an entry rope_scaling"""
    frequencies, scaling = inverse_frequencies(base, turned), config.get("rope_scaling") or {"rope_type": "default"}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        return frequencies / scaling["factor"], 1
    if kind == "llama3":
        return of_llama3(frequencies, scaling), 1
    if kind == "yarn":
        return of_yarn(frequencies, scaling, base, turned, config["max_position_embeddings"])
    assert kind == "default"
    return frequencies, 1


# --- parts

def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def turn(x, frequencies, factor=1):
    """Queries or keys [sample, head, token, channel], whose first channels are turned half by half."""
    angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), frequencies)
    both = torch.cat((angles, angles), dim=-1)
    turned, rest = x[..., :both.shape[-1]], x[..., both.shape[-1]:]
    return torch.cat((turned * both.cos() * factor + rotate_half(turned) * both.sin() * factor, rest), dim=-1)


def turn_neighbours(x, frequencies):
    """The same, where neighbouring channels are turned together."""
    both = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), frequencies).repeat_interleave(2, dim=-1)
    turned, rest = x[..., :both.shape[-1]], x[..., both.shape[-1]:]
    return torch.cat((turned * both.cos() + rotate_every_two(turned) * both.sin(), rest), dim=-1)


def rms_norm(x, weight, eps):
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def split(x, heads):
    """[sample, head, token, channel] of [sample, token, channels of all heads]."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def attend(q, k, v, hidden):
    """(mixed values, side by side, attention); True in `hidden` hides a key. A query that sees nothing mixes nothing."""
    copies = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(copies, dim=1), v.repeat_interleave(copies, dim=1)
    # Rows that see nothing are cut out in front of the soft-max: behind it, their derivatives would not be numbers.
    nothing = hidden.all(-1, keepdim=True)
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(hidden & ~nothing, -math.inf)
    attention = torch.softmax(scores, dim=-1).masked_fill(nothing, 0)
    return (attention @ v).transpose(1, 2).flatten(2), attention


def hidden_keys(tokens, lengths, causal=True, window=None):
    """[sample, 1, query, key]: True where a key is hidden; `window`: tokens to see, itself among them, or those on each side."""
    ahead = torch.arange(tokens)[None, :] - torch.arange(tokens)[:, None]
    hidden = padding(tokens, lengths) | (ahead > 0 if causal else torch.zeros_like(ahead, dtype=torch.bool))
    if window is not None:
        hidden = hidden | (ahead <= -window if causal else ahead.abs() > window)
    return hidden


class Tensors:
    """The tensors of a checkpoint."""

    def __init__(self, tensors):
        self.tensors = tensors

    def __getitem__(self, name):
        return self.tensors[name]

    def get(self, name):
        return self.tensors.get(name)

    def linear(self, x, name):
        return functional.linear(x, self[f"{name}.weight"], self.get(f"{name}.bias"))

    def layer_norm(self, x, name, eps):
        return functional.layer_norm(x, x.shape[-1:], self[f"{name}.weight"], self.get(f"{name}.bias"), eps)


# --- Llama, Mistral, Qwen

def window_of(config, number):
    """Tokens that layer `number`, counted from 0, sees; None for all."""
    if config["model_type"] == "mistral":
        return config["sliding_window"]
    if config["model_type"].startswith("qwen") and config.get("use_sliding_window"):
        return config["sliding_window"] if number >= config["max_window_layers"] else None
    return None


def llama(config, tensors, ids, lengths):
    heads, groups, channels = heads_of(config)
    act, eps = ACTIVATIONS[config["hidden_act"]], config["rms_norm_eps"]
    frequencies, factor = scaled_frequencies(config, channels, config["rope_theta"])
    u = tensors["model.embed_tokens.weight"][ids]
    hidden, attention = [u], []
    for number in range(config["num_hidden_layers"]):
        place = f"model.layers.{number}."
        x = rms_norm(u, tensors[f"{place}input_layernorm.weight"], eps)
        q = split(tensors.linear(x, f"{place}self_attn.q_proj"), heads)
        k = split(tensors.linear(x, f"{place}self_attn.k_proj"), groups)
        v = split(tensors.linear(x, f"{place}self_attn.v_proj"), groups)
        if config["model_type"] == "qwen3":
            q = rms_norm(q, tensors[f"{place}self_attn.q_norm.weight"], eps)
            k = rms_norm(k, tensors[f"{place}self_attn.k_norm.weight"], eps)
        seen = hidden_keys(ids.shape[1], lengths, window=window_of(config, number))
        mixed, weights = attend(turn(q, frequencies, factor), turn(k, frequencies, factor), v, seen)
        u = u + tensors.linear(mixed, f"{place}self_attn.o_proj")
        x = rms_norm(u, tensors[f"{place}post_attention_layernorm.weight"], eps)
        gate, up = tensors.linear(x, f"{place}mlp.gate_proj"), tensors.linear(x, f"{place}mlp.up_proj")
        u = u + tensors.linear(act(gate) * up, f"{place}mlp.down_proj")
        hidden.append(u)
        attention.append(weights)
    last = rms_norm(u, tensors["model.norm.weight"], eps)
    matrix = tensors["model.embed_tokens.weight"] if config.get("tie_word_embeddings", False) else tensors["lm_head.weight"]
    return {"states": hidden, "hidden": torch.stack(hidden), "attention": torch.stack(attention), "words": last @ matrix.T,
            "classes": tensors.linear(last[torch.arange(len(ids)), lengths - 1], "score")}


# --- GPT-NeoX

def gpt_neox(config, tensors, ids, lengths):
    heads, width, eps = config["num_attention_heads"], config["hidden_size"], config["layer_norm_eps"]
    act, channels = ACTIVATIONS[config["hidden_act"]], width // heads
    frequencies, factor = scaled_frequencies(config, int(channels * config["rotary_pct"]), config["rotary_emb_base"])
    u, seen = tensors["gpt_neox.embed_in.weight"][ids], hidden_keys(ids.shape[1], lengths)
    hidden, attention = [u], []
    for number in range(config["num_hidden_layers"]):
        place = f"gpt_neox.layers.{number}."
        fused = tensors.linear(tensors.layer_norm(u, f"{place}input_layernorm", eps), f"{place}attention.query_key_value")
        q, k, v = fused.unflatten(2, (heads, 3 * channels)).transpose(1, 2).chunk(3, dim=-1)
        mixed, weights = attend(turn(q, frequencies, factor), turn(k, frequencies, factor), v, seen)
        mixed = tensors.linear(mixed, f"{place}attention.dense")
        x = u if config["use_parallel_residual"] else u + mixed
        x = tensors.layer_norm(x, f"{place}post_attention_layernorm", eps)
        u = u + mixed + tensors.linear(act(tensors.linear(x, f"{place}mlp.dense_h_to_4h")), f"{place}mlp.dense_4h_to_h")
        hidden.append(u)
        attention.append(weights)
    last = tensors.layer_norm(u, "gpt_neox.final_layer_norm", eps)
    return {"states": hidden, "hidden": torch.stack(hidden), "attention": torch.stack(attention), "words": tensors.linear(last, "embed_out"),
            "classes": tensors.linear(last[torch.arange(len(ids)), lengths - 1], "score")}


# --- GPT-J

def gptj(config, tensors, ids, lengths):
    heads, eps, act = config["n_head"], config["layer_norm_epsilon"], ACTIVATIONS[config["activation_function"]]
    frequencies = inverse_frequencies(10000, config["rotary_dim"])
    u, seen = tensors["transformer.wte.weight"][ids], hidden_keys(ids.shape[1], lengths)
    hidden, attention = [u], []
    for number in range(config["n_layer"]):
        place = f"transformer.h.{number}."
        x = tensors.layer_norm(u, f"{place}ln_1", eps)
        q, k, v = (split(tensors.linear(x, f"{place}attn.{name}_proj"), heads) for name in "qkv")
        mixed, weights = attend(turn_neighbours(q, frequencies), turn_neighbours(k, frequencies), v, seen)
        network = tensors.linear(act(tensors.linear(x, f"{place}mlp.fc_in")), f"{place}mlp.fc_out")
        u = tensors.linear(mixed, f"{place}attn.out_proj") + network + u
        hidden.append(u)
        attention.append(weights)
    last = tensors.layer_norm(u, "transformer.ln_f", eps)
    return {"states": hidden, "hidden": torch.stack(hidden), "attention": torch.stack(attention), "words": tensors.linear(last, "lm_head"),
            "classes": tensors.linear(last[torch.arange(len(ids)), lengths - 1], "score")}


# --- ModernBERT

def kind_and_base(config, number):
    """(whether layer `number`, counted from 0, sees all tokens, base of its frequencies)"""
    if "layer_types" in config:
        kind = config["layer_types"][number]
        return kind == "full_attention", config["rope_parameters"][kind]["rope_theta"]
    sees_all = number % config["global_attn_every_n_layers"] == 0
    return sees_all, config["global_rope_theta" if sees_all else "local_rope_theta"]


def modernbert(config, tensors, ids, lengths):
    heads, width, eps = config["num_attention_heads"], config["hidden_size"], config["norm_eps"]
    act, last_act = ACTIVATIONS[config["hidden_activation"]], ACTIVATIONS[config["classifier_activation"]]
    u = tensors.layer_norm(tensors["model.embeddings.tok_embeddings.weight"][ids], "model.embeddings.norm", eps)
    hidden, attention = [u], []
    for number in range(config["num_hidden_layers"]):
        place = f"model.layers.{number}."
        sees_all, base = kind_and_base(config, number)
        seen = hidden_keys(ids.shape[1], lengths, causal=False, window=None if sees_all else config["local_attention"] // 2)
        x = tensors.layer_norm(u, f"{place}attn_norm", eps) if tensors.get(f"{place}attn_norm.weight") is not None else u
        q, k, v = tensors.linear(x, f"{place}attn.Wqkv").unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        frequencies = inverse_frequencies(base, width // heads)
        mixed, weights = attend(turn(q, frequencies), turn(k, frequencies), v, seen)
        u = u + tensors.linear(mixed, f"{place}attn.Wo")
        first, second = tensors.linear(tensors.layer_norm(u, f"{place}mlp_norm", eps), f"{place}mlp.Wi").chunk(2, dim=-1)
        u = u + tensors.linear(act(first) * second, f"{place}mlp.Wo")
        hidden.append(u)
        attention.append(weights)
    last = tensors.layer_norm(u, "model.final_norm", eps)
    if config["classifier_pooling"] == "cls":
        pooled = last[:, 0]
    else:
        real = (torch.arange(ids.shape[1]) < lengths[:, None]).to(last.dtype)
        pooled = (last * real[..., None]).sum(1) / real.sum(1, keepdim=True)

    def dense(x):
        return tensors.layer_norm(last_act(tensors.linear(x, "head.dense")), "head.norm", eps)

    matrix = tensors.get("decoder.weight")
    matrix = tensors["model.embeddings.tok_embeddings.weight"] if matrix is None else matrix
    return {"states": hidden, "hidden": torch.stack(hidden), "attention": torch.stack(attention),
            "words": functional.linear(dense(last), matrix, tensors.get("decoder.bias")), "classes": tensors.linear(dense(pooled), "classifier")}


FAMILIES = {**dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), llama), "gpt_neox": gpt_neox, "gptj": gptj, "modernbert": modernbert}


def outputs(config, tensors, ids, lengths):
    """states (a list, of which derivatives can be taken), hidden (the same stacked), attention, words, classes."""
    return FAMILIES[config["model_type"]](config, Tensors(tensors), ids, lengths)
