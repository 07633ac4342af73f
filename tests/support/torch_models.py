"""BERT, DistilBERT, GPT-2 and ViT by the book in plain PyTorch, float64, with the names of published checkpoints.

Only make_published_reference.py uses them. Every model returns a dictionary:
    hidden      [layer, sample, token, channel]     layer 0 is the embedded input, layer l the state behind layer l (GPT-2: before ln_f)
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


class Bert(nn.Module):
    def __init__(self, config, classes):
        super().__init__()
        width, ffn, eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
        self.heads, self.act = config["num_attention_heads"], ACTIVATIONS[config["hidden_act"]]

        def layer():
            return Box(attention=Box(self=Box(query=nn.Linear(width, width), key=nn.Linear(width, width), value=nn.Linear(width, width)),
                                     output=Box(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps))),
                       intermediate=Box(dense=nn.Linear(width, ffn)),
                       output=Box(dense=nn.Linear(ffn, width), LayerNorm=nn.LayerNorm(width, eps)))

        self.bert = Box(embeddings=Box(word_embeddings=nn.Embedding(config["vocab_size"], width),
                                       position_embeddings=nn.Embedding(config["max_position_embeddings"], width),
                                       token_type_embeddings=nn.Embedding(config["type_vocab_size"], width),
                                       LayerNorm=nn.LayerNorm(width, eps)),
                        encoder=Box(layer=nn.ModuleList(layer() for _ in range(config["num_hidden_layers"]))),
                        pooler=Box(dense=nn.Linear(width, width)))
        self.cls = Box(predictions=Box(transform=Box(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps)),
                                       decoder=nn.Linear(width, config["vocab_size"], bias=False),
                                       bias=nn.Parameter(torch.empty(config["vocab_size"]))),
                       seq_relationship=nn.Linear(width, 2))
        if config.get("tie_word_embeddings", True):
            self.cls.predictions.decoder.weight = self.bert.embeddings.word_embeddings.weight
        self.classifier = nn.Linear(width, classes)

    def forward(self, ids, lengths, segments):
        parts = self.bert.embeddings
        u = parts.LayerNorm(parts.word_embeddings(ids) + parts.position_embeddings(torch.arange(ids.shape[1])) + parts.token_type_embeddings(segments))
        hidden, attention, hidden_keys = [u], [], padding(ids.shape[1], lengths)
        for layer in self.bert.encoder.layer:
            inside = layer.attention.self
            mixed, seen = attend(inside.query(u), inside.key(u), inside.value(u), self.heads, hidden_keys)
            u = layer.attention.output.LayerNorm(u + layer.attention.output.dense(mixed))
            u = layer.output.LayerNorm(u + layer.output.dense(self.act(layer.intermediate.dense(u))))
            hidden.append(u)
            attention.append(seen)
        head = self.cls.predictions
        words = head.decoder(head.transform.LayerNorm(self.act(head.transform.dense(u)))) + head.bias
        classes = self.classifier(torch.tanh(self.bert.pooler.dense(u[:, 0])))
        return {"hidden": torch.stack(hidden), "attention": torch.stack(attention), "words": words, "classes": classes}


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


class ViT(nn.Module):
    def __init__(self, config, classes):
        super().__init__()
        width, ffn, eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
        self.heads, self.act = config["num_attention_heads"], ACTIVATIONS[config["hidden_act"]]
        patch = tuple(config["patch_size"])
        tokens = 1 + math.prod(size // step for size, step in zip(config["image_size"], patch, strict=True))
        bias = config["qkv_bias"]

        def layer():
            return Box(layernorm_before=nn.LayerNorm(width, eps), layernorm_after=nn.LayerNorm(width, eps),
                       attention=Box(attention=Box(**{name: nn.Linear(width, width, bias=bias) for name in ("query", "key", "value")}),
                                     output=Box(dense=nn.Linear(width, width))),
                       intermediate=Box(dense=nn.Linear(width, ffn)), output=Box(dense=nn.Linear(ffn, width)))

        self.vit = Box(embeddings=Box(cls_token=nn.Parameter(torch.empty(1, 1, width)), mask_token=nn.Parameter(torch.empty(1, 1, width)),
                                      position_embeddings=nn.Parameter(torch.empty(1, tokens, width)),
                                      patch_embeddings=Box(projection=nn.Conv2d(config["num_channels"], width, patch, patch))),
                       encoder=Box(layer=nn.ModuleList(layer() for _ in range(config["num_hidden_layers"]))),
                       layernorm=nn.LayerNorm(width, eps), pooler=Box(dense=nn.Linear(width, width)))
        self.classifier = nn.Linear(width, classes)

    def forward(self, images):
        parts = self.vit.embeddings
        patches = parts.patch_embeddings.projection(images).flatten(2).transpose(1, 2)
        u = torch.cat([parts.cls_token.expand(len(images), -1, -1), patches], dim=1) + parts.position_embeddings
        hidden, attention, nothing = [u], [], torch.zeros(1, 1, 1, u.shape[1], dtype=torch.bool)
        for layer in self.vit.encoder.layer:
            inside, x = layer.attention.attention, layer.layernorm_before(u)
            mixed, seen = attend(inside.query(x), inside.key(x), inside.value(x), self.heads, nothing)
            u = u + layer.attention.output.dense(mixed)
            u = u + layer.output.dense(self.act(layer.intermediate.dense(layer.layernorm_after(u))))
            hidden.append(u)
            attention.append(seen)
        classes = self.classifier(self.vit.layernorm(u)[:, 0])
        return {"hidden": torch.stack(hidden), "attention": torch.stack(attention), "classes": classes}
