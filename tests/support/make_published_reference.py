#!/usr/bin/python3
"""Reference numbers for published models from an independent implementation: torch_models.py in PyTorch, float64.

    /usr/bin/python3 tests/support/make_published_reference.py [FILE]      default: published_reference.h5 beside this script

Needs python3-torch (1.13 was used), python3-h5py and python3-numpy; the tests only need the file. Two layers of width 12, every number
random. One group per case:
    @config     the config.json of the checkpoint, as text
    @shapes     the tensors of the checkpoint: [[published name, shape], ...] as text
    tensors     their numbers, one after the other
    ids, lengths, segments, or images       the input
    hidden, attention, words, classes       the output (torch_models.py); rows of padding tokens are meaningless
"""

import json
import os
import sys

import h5py
import numpy as np
import torch

from torch_models import Bert, DeiT, DistilBert, Electra, Gpt2, Opt, Roberta, ViT

WORDS, TOKENS, CLASSES, LENGTHS, PAD = 29, 9, 4, [9, 6, 1], 1
BERT = {"model_type": "bert", "vocab_size": WORDS, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 20, "hidden_act": "gelu", "max_position_embeddings": 11, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute"}
VIT = {"model_type": "vit", "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
       "hidden_act": "relu", "layer_norm_eps": 1e-12, "image_size": [6, 4], "patch_size": [3, 2], "num_channels": 3, "qkv_bias": True}
# New cases come last: those before them keep their numbers.
CASES = {
    "bert": (Bert, BERT),
    "bert_untied": (Bert, {**BERT, "hidden_act": "gelu_new", "layer_norm_eps": 1e-6, "type_vocab_size": 3, "tie_word_embeddings": False}),
    "distilbert": (DistilBert, {"model_type": "distilbert", "vocab_size": WORDS, "dim": 12, "n_layers": 2, "n_heads": 4, "hidden_dim": 20,
                                "activation": "gelu", "max_position_embeddings": 9, "sinusoidal_pos_embds": False}),
    "gpt2": (Gpt2, {"model_type": "gpt2", "vocab_size": WORDS, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_inner": None, "n_positions": 10,
                    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}),
    "vit": (ViT, VIT),
    "roberta": (Roberta, {**BERT, "model_type": "roberta", "max_position_embeddings": 13, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
                          "pad_token_id": PAD}),
    "electra": (Electra, {**BERT, "model_type": "electra", "embedding_size": 12}),
    "opt": (Opt, {"model_type": "opt", "vocab_size": WORDS, "hidden_size": 12, "word_embed_proj_dim": 12, "num_hidden_layers": 2,
                  "num_attention_heads": 3, "ffn_dim": 20, "max_position_embeddings": 10, "activation_function": "relu",
                  "do_layer_norm_before": True, "pad_token_id": PAD}),
    "deit": (DeiT, {**VIT, "model_type": "deit", "hidden_act": "gelu"}),
}


def fill(model, random):
    """Random numbers that keep activations of order one."""
    with torch.no_grad():
        for parameter in model.parameters():
            numbers = random.standard_normal(tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(0.3 * numbers if parameter.dim() < 2 else numbers / np.sqrt(parameter[0].numel())))
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight += 1


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "published_reference.h5")
    torch.set_default_dtype(torch.float64)
    random = np.random.RandomState(20250114)
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["torch"] = str(torch.__version__)
        for name, (kind, config) in CASES.items():
            case = file.create_group(name)
            case.attrs["config"] = json.dumps(config)
            model = kind(config, CLASSES).eval()
            fill(model, random)
            if kind in (ViT, DeiT):
                inputs = {"images": random.standard_normal((2, config["num_channels"], *config["image_size"]))}
            else:
                inputs = {"ids": random.randint(0, WORDS, (len(LENGTHS), TOKENS)), "lengths": np.array(LENGTHS)}
            if kind is Roberta:  # padding is the pad word, and real words are others
                real = np.arange(TOKENS) < inputs["lengths"][:, None]
                inputs["ids"] = np.where(real, np.where(inputs["ids"] == PAD, PAD + 1, inputs["ids"]), PAD)
            if kind in (Bert, Electra):
                inputs["segments"] = random.randint(0, config["type_vocab_size"], (len(LENGTHS), TOKENS))
            for key, value in inputs.items():
                case[key] = value.astype(np.int16) if value.dtype.kind == "i" else value
            with torch.no_grad():
                outputs = model(**{key: torch.from_numpy(value) for key, value in inputs.items()})
            for key, value in outputs.items():
                case[key] = value.numpy()
            state = model.state_dict()
            case.attrs["shapes"] = json.dumps([[key, list(value.shape)] for key, value in state.items()])
            case["tensors"] = np.concatenate([value.numpy().ravel() for value in state.values()])
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
