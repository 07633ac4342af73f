"""BERT, DistilBERT, GPT-2, ViT and their relatives by the book in plain PyTorch, float64, with the names of published checkpoints.

Only make_published_reference.py uses them. Every model returns a dictionary:
    hidden      [layer, sample, token, channel]     layer 0 is the embedded input, layer l the state behind layer l (of pre-norm: before the last norm)
    attention   [layer, sample, head, query, key]
    words       [sample, token, word]               logits, of models with a word head
    classes     [sample, class]                     logits
"""

import math

import torch
from torch import nn
from torch.nn import functional

ACTIVATIONS = {"gelu": functional.gelu, "relu": functional.relu,
               "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))}


class Box(nn.Module):
    """Modules and parameters by name, nothing else."""

    def __init__(self, /, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


class Conv1D(nn.Module):
    """GPT-2's linear map: the matrix is [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def attend(q, k, v, heads, hidden_keys):
    """(mixed values, attention) of queries, keys and values [sample, token, channel]; True in `hidden_keys` hides a key."""
    samples, tokens, width = q.shape
    q, k, v = (x.view(samples, tokens, heads, width // heads).transpose(1, 2) for x in (q, k, v))
    scores = (q @ k.transpose(2, 3) / math.sqrt(width // heads)).masked_fill(hidden_keys, -math.inf)
    attention = torch.softmax(scores, dim=-1)
    return (attention @ v).transpose(1, 2).reshape(samples, tokens, width), attention


def padding(tokens, lengths):
    """[sample, 1, 1, key]: True where there is no token."""
    return (torch.arange(tokens)[None, :] >= lengths[:, None])[:, None, None, :]


def bert_trunk(config, **more):
    """Embedding and layers of the BERT family, and `more` behind them."""
    width, ffn, eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]

    def layer():
        return Box(attention=Box(self=Box(query=nn.Linear(width, width), key=nn.Linear(width, width), value=nn.Linear(width, width)),
                                 output=Box(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps))),
                   intermediate=Box(dense=nn.Linear(width, ffn)),
                   output=Box(dense=nn.Linear(ffn, width), LayerNorm=nn.LayerNorm(width, eps)))

    return Box(embeddings=Box(word_embeddings=nn.Embedding(config["vocab_size"], width),
                              position_embeddings=nn.Embedding(config["max_position_embeddings"], width),
                              token_type_embeddings=nn.Embedding(config["type_vocab_size"], width),
                              LayerNorm=nn.LayerNorm(width, eps)),
               encoder=Box(layer=nn.ModuleList(layer() for _ in range(config["num_hidden_layers"]))), **more)


def bert_states(trunk, config, ids, positions, segments, lengths):
    """(hidden, attention) of a trunk of the BERT family, where the tokens have these positions."""
    parts, heads, act = trunk.embeddings, config["num_attention_heads"], ACTIVATIONS[config["hidden_act"]]
    u = parts.LayerNorm(parts.word_embeddings(ids) + parts.position_embeddings(positions) + parts.token_type_embeddings(segments))
    hidden, attention, hidden_keys = [u], [], padding(ids.shape[1], lengths)
    for layer in trunk.encoder.layer:
        inside = layer.attention.self
        mixed, seen = attend(inside.query(u), inside.key(u), inside.value(u), heads, hidden_keys)
        u = layer.attention.output.LayerNorm(u + layer.attention.output.dense(mixed))
        u = layer.output.LayerNorm(u + layer.output.dense(act(layer.intermediate.dense(u))))
        hidden.append(u)
        attention.append(seen)
    return torch.stack(hidden), torch.stack(attention)


class Bert(nn.Module):
    def __init__(self, config, classes):
        super().__init__()
        width, eps = config["hidden_size"], config["layer_norm_eps"]
        self.config, self.act = config, ACTIVATIONS[config["hidden_act"]]
        self.bert = bert_trunk(config, pooler=Box(dense=nn.Linear(width, width)))
        self.cls = Box(predictions=Box(transform=Box(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps)),
                                       decoder=nn.Linear(width, config["vocab_size"], bias=False),
                                       bias=nn.Parameter(torch.empty(config["vocab_size"]))),
                       seq_relationship=nn.Linear(width, 2))
        if config.get("tie_word_embeddings", True):
            self.cls.predictions.decoder.weight = self.bert.embeddings.word_embeddings.weight
        self.classifier = nn.Linear(width, classes)

    def forward(self, ids, lengths, segments):
        hidden, attention = bert_states(self.bert, self.config, ids, torch.arange(ids.shape[1]), segments, lengths)
        head, u = self.cls.predictions, hidden[-1]
        words = head.decoder(head.transform.LayerNorm(self.act(head.transform.dense(u)))) + head.bias
        classes = self.classifier(torch.tanh(self.bert.pooler.dense(u[:, 0])))
        return {"hidden": hidden, "attention": attention, "words": words, "classes": classes}


class Roberta(nn.Module):
    """The positions are counted over the words that are not the pad word, from the number behind its own on; its own is that of padding."""

    def __init__(self, config, classes):
        super().__init__()
        width, words = config["hidden_size"], config["vocab_size"]
        self.config = config
        self.roberta = bert_trunk(config, pooler=Box(dense=nn.Linear(width, width)))
        self.lm_head = Box(dense=nn.Linear(width, width), layer_norm=nn.LayerNorm(width, config["layer_norm_eps"]), bias=nn.Parameter(torch.empty(words)),
                           decoder=nn.Linear(width, words, bias=False))
        self.lm_head.decoder.weight = self.roberta.embeddings.word_embeddings.weight
        self.classifier = Box(dense=nn.Linear(width, width), out_proj=nn.Linear(width, classes))

    def forward(self, ids, lengths):
        pad = self.config["pad_token_id"]
        positions = torch.where(ids == pad, pad, pad + torch.cumsum(ids != pad, dim=1))
        hidden, attention = bert_states(self.roberta, self.config, ids, positions, torch.zeros_like(ids), lengths)
        head, u = self.lm_head, hidden[-1]
        words = head.decoder(head.layer_norm(functional.gelu(head.dense(u)))) + head.bias
        classes = self.classifier.out_proj(torch.tanh(self.classifier.dense(u[:, 0])))
        return {"hidden": hidden, "attention": attention, "words": words, "classes": classes}


class Electra(nn.Module):
    """A discriminator, a generator and a classifier with one trunk, whose words are as wide as its layers."""

    def __init__(self, config, classes):
        super().__init__()
        width, words = config["hidden_size"], config["vocab_size"]
        self.config = config
        self.electra = bert_trunk(config)
        self.generator_predictions = Box(LayerNorm=nn.LayerNorm(width, config["layer_norm_eps"]), dense=nn.Linear(width, width))
        self.generator_lm_head = nn.Linear(width, words)
        self.generator_lm_head.weight = self.electra.embeddings.word_embeddings.weight
        self.discriminator_predictions = Box(dense=nn.Linear(width, width), dense_prediction=nn.Linear(width, 1))
        self.classifier = Box(dense=nn.Linear(width, width), out_proj=nn.Linear(width, classes))

    def forward(self, ids, lengths, segments):
        hidden, attention = bert_states(self.electra, self.config, ids, torch.arange(ids.shape[1]), segments, lengths)
        head, u = self.generator_predictions, hidden[-1]
        words = self.generator_lm_head(head.LayerNorm(functional.gelu(head.dense(u))))
        classes = self.classifier.out_proj(functional.gelu(self.classifier.dense(u[:, 0])))
        return {"hidden": hidden, "attention": attention, "words": words, "classes": classes}


class DistilBert(nn.Module):
    def __init__(self, config, classes):
        super().__init__()
        width, ffn, eps = config["dim"], config["hidden_dim"], 1e-12
        self.heads, self.act = config["n_heads"], ACTIVATIONS[config["activation"]]

        def layer():
            return Box(attention=Box(**{name: nn.Linear(width, width) for name in ("q_lin", "k_lin", "v_lin", "out_lin")}),
                       sa_layer_norm=nn.LayerNorm(width, eps), ffn=Box(lin1=nn.Linear(width, ffn), lin2=nn.Linear(ffn, width)),
                       output_layer_norm=nn.LayerNorm(width, eps))

        self.distilbert = Box(embeddings=Box(word_embeddings=nn.Embedding(config["vocab_size"], width),
                                             position_embeddings=nn.Embedding(config["max_position_embeddings"], width),
                                             LayerNorm=nn.LayerNorm(width, eps)),
                              transformer=Box(layer=nn.ModuleList(layer() for _ in range(config["n_layers"]))))
        self.vocab_transform, self.vocab_layer_norm = nn.Linear(width, width), nn.LayerNorm(width, eps)
        self.vocab_projector = nn.Linear(width, config["vocab_size"])
        self.vocab_projector.weight = self.distilbert.embeddings.word_embeddings.weight
        self.pre_classifier, self.classifier = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, ids, lengths):
        parts = self.distilbert.embeddings
        u = parts.LayerNorm(parts.word_embeddings(ids) + parts.position_embeddings(torch.arange(ids.shape[1])))
        hidden, attention, hidden_keys = [u], [], padding(ids.shape[1], lengths)
        for layer in self.distilbert.transformer.layer:
            inside = layer.attention
            mixed, seen = attend(inside.q_lin(u), inside.k_lin(u), inside.v_lin(u), self.heads, hidden_keys)
            u = layer.sa_layer_norm(u + inside.out_lin(mixed))
            u = layer.output_layer_norm(u + layer.ffn.lin2(self.act(layer.ffn.lin1(u))))
            hidden.append(u)
            attention.append(seen)
        words = self.vocab_projector(self.vocab_layer_norm(self.act(self.vocab_transform(u))))
        classes = self.classifier(torch.relu(self.pre_classifier(u[:, 0])))
        return {"hidden": torch.stack(hidden), "attention": torch.stack(attention), "words": words, "classes": classes}


class Gpt2(nn.Module):
    def __init__(self, config, classes):
        super().__init__()
        width, eps = config["n_embd"], config["layer_norm_epsilon"]
        ffn = config["n_inner"] or 4 * width
        self.heads, self.act = config["n_head"], ACTIVATIONS[config["activation_function"]]

        def layer():
            return Box(ln_1=nn.LayerNorm(width, eps), attn=Box(c_attn=Conv1D(width, 3 * width), c_proj=Conv1D(width, width)),
                       ln_2=nn.LayerNorm(width, eps), mlp=Box(c_fc=Conv1D(width, ffn), c_proj=Conv1D(ffn, width)))

        self.transformer = Box(wte=nn.Embedding(config["vocab_size"], width), wpe=nn.Embedding(config["n_positions"], width),
                               h=nn.ModuleList(layer() for _ in range(config["n_layer"])), ln_f=nn.LayerNorm(width, eps))
        self.lm_head = nn.Linear(width, config["vocab_size"], bias=False)
        self.lm_head.weight = self.transformer.wte.weight
        self.score = nn.Linear(width, classes, bias=False)

    def forward(self, ids, lengths):
        tokens = torch.arange(ids.shape[1])
        u = self.transformer.wte(ids) + self.transformer.wpe(tokens)
        hidden, attention = [u], []
        hidden_keys = padding(len(tokens), lengths) | (tokens[None, :] > tokens[:, None])
        for layer in self.transformer.h:
            mixed, seen = attend(*layer.attn.c_attn(layer.ln_1(u)).chunk(3, dim=-1), self.heads, hidden_keys)
            u = u + layer.attn.c_proj(mixed)
            u = u + layer.mlp.c_proj(self.act(layer.mlp.c_fc(layer.ln_2(u))))
            hidden.append(u)
            attention.append(seen)
        last = self.transformer.ln_f(u)
        classes = self.score(last[torch.arange(len(ids)), lengths - 1])
        return {"hidden": torch.stack(hidden), "attention": torch.stack(attention), "words": self.lm_head(last), "classes": classes}


class Opt(nn.Module):
    """The first token has row 2 of the table of positions."""

    def __init__(self, config, classes):
        super().__init__()
        width, ffn, eps = config["hidden_size"], config["ffn_dim"], 1e-5
        self.heads, self.act = config["num_attention_heads"], ACTIVATIONS[config["activation_function"]]

        def layer():
            return Box(self_attn=Box(**{name: nn.Linear(width, width) for name in ("k_proj", "v_proj", "q_proj", "out_proj")}),
                       self_attn_layer_norm=nn.LayerNorm(width, eps), fc1=nn.Linear(width, ffn), fc2=nn.Linear(ffn, width),
                       final_layer_norm=nn.LayerNorm(width, eps))

        self.model = Box(decoder=Box(embed_tokens=nn.Embedding(config["vocab_size"], width),
                                     embed_positions=nn.Embedding(config["max_position_embeddings"] + 2, width),
                                     final_layer_norm=nn.LayerNorm(width, eps),
                                     layers=nn.ModuleList(layer() for _ in range(config["num_hidden_layers"]))))
        self.lm_head = nn.Linear(width, config["vocab_size"], bias=False)
        self.lm_head.weight = self.model.decoder.embed_tokens.weight
        self.score = nn.Linear(width, classes, bias=False)

    def forward(self, ids, lengths):
        parts, tokens = self.model.decoder, torch.arange(ids.shape[1])
        u = parts.embed_tokens(ids) + parts.embed_positions(tokens + 2)
        hidden, attention = [u], []
        hidden_keys = padding(len(tokens), lengths) | (tokens[None, :] > tokens[:, None])
        for layer in parts.layers:
            inside, x = layer.self_attn, layer.self_attn_layer_norm(u)
            mixed, seen = attend(inside.q_proj(x), inside.k_proj(x), inside.v_proj(x), self.heads, hidden_keys)
            u = u + inside.out_proj(mixed)
            u = u + layer.fc2(self.act(layer.fc1(layer.final_layer_norm(u))))
            hidden.append(u)
            attention.append(seen)
        last = parts.final_layer_norm(u)
        classes = self.score(last[torch.arange(len(ids)), lengths - 1])
        return {"hidden": torch.stack(hidden), "attention": torch.stack(attention), "words": self.lm_head(last), "classes": classes}


def vit_trunk(config, front, **more):
    """Embedding, layers and final norm of the ViT family, with the tokens `front` in front of the patches, and `more` behind them."""
    width, ffn, eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
    patch = tuple(config["patch_size"])
    tokens = len(front) + math.prod(size // step for size, step in zip(config["image_size"], patch, strict=True))
    bias = config["qkv_bias"]

    def layer():
        return Box(layernorm_before=nn.LayerNorm(width, eps), layernorm_after=nn.LayerNorm(width, eps),
                   attention=Box(attention=Box(**{name: nn.Linear(width, width, bias=bias) for name in ("query", "key", "value")}),
                                 output=Box(dense=nn.Linear(width, width))),
                   intermediate=Box(dense=nn.Linear(width, ffn)), output=Box(dense=nn.Linear(ffn, width)))

    learned = {name: nn.Parameter(torch.empty(1, 1, width)) for name in (*front, "mask_token")}
    return Box(embeddings=Box(**learned, position_embeddings=nn.Parameter(torch.empty(1, tokens, width)),
                              patch_embeddings=Box(projection=nn.Conv2d(config["num_channels"], width, patch, patch))),
               encoder=Box(layer=nn.ModuleList(layer() for _ in range(config["num_hidden_layers"]))),
               layernorm=nn.LayerNorm(width, eps), **more)


def vit_states(trunk, config, front, images):
    """(hidden, attention) of a trunk of the ViT family."""
    parts, heads, act = trunk.embeddings, config["num_attention_heads"], ACTIVATIONS[config["hidden_act"]]
    patches = parts.patch_embeddings.projection(images).flatten(2).transpose(1, 2)
    learned = [getattr(parts, name).expand(len(images), -1, -1) for name in front]
    u = torch.cat([*learned, patches], dim=1) + parts.position_embeddings
    hidden, attention, nothing = [u], [], torch.zeros(1, 1, 1, u.shape[1], dtype=torch.bool)
    for layer in trunk.encoder.layer:
        inside, x = layer.attention.attention, layer.layernorm_before(u)
        mixed, seen = attend(inside.query(x), inside.key(x), inside.value(x), heads, nothing)
        u = u + layer.attention.output.dense(mixed)
        u = u + layer.output.dense(act(layer.intermediate.dense(layer.layernorm_after(u))))
        hidden.append(u)
        attention.append(seen)
    return torch.stack(hidden), torch.stack(attention)


class ViT(nn.Module):
    def __init__(self, config, classes):
        super().__init__()
        width = config["hidden_size"]
        self.config = config
        self.vit = vit_trunk(config, ["cls_token"], pooler=Box(dense=nn.Linear(width, width)))
        self.classifier = nn.Linear(width, classes)

    def forward(self, images):
        hidden, attention = vit_states(self.vit, self.config, ["cls_token"], images)
        return {"hidden": hidden, "attention": attention, "classes": self.classifier(self.vit.layernorm(hidden[-1])[:, 0])}


class DeiT(nn.Module):
    """ViT with a second token in front of the patches; the logits are the mean of those of the two tokens."""
    front = "cls_token", "distillation_token"

    def __init__(self, config, classes):
        super().__init__()
        width = config["hidden_size"]
        self.config = config
        self.deit = vit_trunk(config, self.front, pooler=Box(dense=nn.Linear(width, width)))
        self.cls_classifier, self.distillation_classifier = nn.Linear(width, classes), nn.Linear(width, classes)

    def forward(self, images):
        hidden, attention = vit_states(self.deit, self.config, self.front, images)
        last = self.deit.layernorm(hidden[-1])
        classes = (self.cls_classifier(last[:, 0]) + self.distillation_classifier(last[:, 1])) / 2
        return {"hidden": hidden, "attention": attention, "classes": classes}
