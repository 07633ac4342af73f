"""The tensors of published language models, by the book: functions of config.json that give the shape of each by its published name.

The sums of these sizes are the published numbers of parameters.
"""


def heads_of(config):
    """(heads, groups, channels of a head)"""
    heads = config["num_attention_heads"]
    return heads, config.get("num_key_value_heads") or heads, config.get("head_dim") or config["hidden_size"] // heads


def linear_shapes(name, rows, columns, bias):
    return {f"{name}.weight": (rows, columns), **({f"{name}.bias": (rows,)} if bias else {})}


def llama_shapes(config, classes):
    width, ffn, words, kind = config["hidden_size"], config["intermediate_size"], config["vocab_size"], config["model_type"]
    heads, groups, channels = heads_of(config)
    qkv = kind == "qwen2" or config.get("attention_bias", False)
    out, network = kind != "qwen2" and config.get("attention_bias", False), config.get("mlp_bias", False)
    found = {"model.embed_tokens.weight": (words, width), "model.norm.weight": (width,), "score.weight": (classes, width)}
    for number in range(config["num_hidden_layers"]):
        place = f"model.layers.{number}."
        found |= {f"{place}input_layernorm.weight": (width,), f"{place}post_attention_layernorm.weight": (width,)}
        found |= linear_shapes(f"{place}self_attn.q_proj", heads * channels, width, qkv)
        found |= linear_shapes(f"{place}self_attn.k_proj", groups * channels, width, qkv)
        found |= linear_shapes(f"{place}self_attn.v_proj", groups * channels, width, qkv)
        found |= linear_shapes(f"{place}self_attn.o_proj", width, heads * channels, out)
        found |= linear_shapes(f"{place}mlp.gate_proj", ffn, width, network)
        found |= linear_shapes(f"{place}mlp.up_proj", ffn, width, network)
        found |= linear_shapes(f"{place}mlp.down_proj", width, ffn, network)
        if kind == "qwen3":
            found |= {f"{place}self_attn.q_norm.weight": (channels,), f"{place}self_attn.k_norm.weight": (channels,)}
    return found if config.get("tie_word_embeddings", False) else {**found, "lm_head.weight": (words, width)}


def gpt_neox_shapes(config, classes):
    width, ffn, words, bias = config["hidden_size"], config["intermediate_size"], config["vocab_size"], config.get("attention_bias", True)
    found = {"gpt_neox.embed_in.weight": (words, width), "gpt_neox.final_layer_norm.weight": (width,), "gpt_neox.final_layer_norm.bias": (width,),
             "score.weight": (classes, width)}
    for number in range(config["num_hidden_layers"]):
        place = f"gpt_neox.layers.{number}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found |= {f"{place}{norm}.weight": (width,), f"{place}{norm}.bias": (width,)}
        found |= linear_shapes(f"{place}attention.query_key_value", 3 * width, width, bias)
        found |= linear_shapes(f"{place}attention.dense", width, width, bias)
        found |= linear_shapes(f"{place}mlp.dense_h_to_4h", ffn, width, True)
        found |= linear_shapes(f"{place}mlp.dense_4h_to_h", width, ffn, True)
    return found if config.get("tie_word_embeddings", False) else {**found, "embed_out.weight": (words, width)}


def gptj_shapes(config, classes):
    width, words = config["n_embd"], config["vocab_size"]
    ffn = config["n_inner"] or 4 * width
    found = {"transformer.wte.weight": (words, width), "transformer.ln_f.weight": (width,), "transformer.ln_f.bias": (width,),
             "lm_head.weight": (words, width), "lm_head.bias": (words,), "score.weight": (classes, width)}
    for number in range(config["n_layer"]):
        place = f"transformer.h.{number}."
        found |= {f"{place}ln_1.weight": (width,), f"{place}ln_1.bias": (width,)}
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            found |= linear_shapes(f"{place}attn.{name}", width, width, False)
        found |= linear_shapes(f"{place}mlp.fc_in", ffn, width, True) | linear_shapes(f"{place}mlp.fc_out", width, ffn, True)
    return found


def modernbert_shapes(config, classes):
    width, ffn, words = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    attention, network, norm = (config.get(f"{name}_bias", False) for name in ("attention", "mlp", "norm"))

    def norms(name):
        return {f"{name}.weight": (width,), **({f"{name}.bias": (width,)} if norm else {})}

    found = {"model.embeddings.tok_embeddings.weight": (words, width), **norms("model.embeddings.norm"), **norms("model.final_norm"),
             **linear_shapes("head.dense", width, width, config.get("classifier_bias", False)), **norms("head.norm"),
             **linear_shapes("classifier", classes, width, True)}
    for number in range(config["num_hidden_layers"]):
        place = f"model.layers.{number}."
        found |= norms(f"{place}attn_norm") if number > 0 else {}
        found |= norms(f"{place}mlp_norm")
        found |= linear_shapes(f"{place}attn.Wqkv", 3 * width, width, attention) | linear_shapes(f"{place}attn.Wo", width, width, attention)
        found |= linear_shapes(f"{place}mlp.Wi", 2 * ffn, width, network) | linear_shapes(f"{place}mlp.Wo", width, ffn, network)
    found |= {} if config.get("tie_word_embeddings", True) else {"decoder.weight": (words, width)}
    return found | ({"decoder.bias": (words,)} if config.get("decoder_bias", True) else {})


FAMILIES = {**dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), llama_shapes), "gpt_neox": gpt_neox_shapes, "gptj": gptj_shapes,
            "modernbert": modernbert_shapes}


def shapes(config, classes):
    """The shape of each tensor of a model with all heads of its family."""
    return FAMILIES[config["model_type"]](config, classes)
