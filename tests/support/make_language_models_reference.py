#!/usr/bin/python3
"""Reference numbers for the language models of today from an independent implementation: torch_language_models.py in PyTorch, float64.

    /usr/bin/python3 tests/support/make_language_models_reference.py [FILE]      default: language_models_reference.h5 beside this script

Needs python3-torch (1.13 was used), python3-h5py and python3-numpy; the tests only need the file, which has the layout of
published_reference.h5 (make_published_reference.py). Its weights are random numbers of 16 bits. Lines have an odd number of tokens, two of them are
padded; angles and windows are such that mistakes change states within them.
"""

import json
import os
import sys

import h5py
import numpy as np
import torch

from language_model_shapes import shapes
from torch_language_models import outputs

WORDS, TOKENS, CLASSES, LENGTHS = 29, 11, 4, [11, 6, 1]
LLAMA = {"model_type": "llama", "vocab_size": WORDS, "hidden_size": 20, "intermediate_size": 28, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 6, "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "rope_theta": 10000.0,
         "rope_scaling": None, "tie_word_embeddings": False}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
NEOX = {"model_type": "gpt_neox", "vocab_size": WORDS, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
        "hidden_act": "gelu", "layer_norm_eps": 1e-5, "max_position_embeddings": 64, "rotary_pct": 0.7, "rotary_emb_base": 10000,
        "use_parallel_residual": True, "tie_word_embeddings": False}
MODERNBERT = {"model_type": "modernbert", "vocab_size": WORDS, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 4,
              "num_attention_heads": 4, "hidden_activation": "gelu", "norm_eps": 1e-5, "max_position_embeddings": 64, "global_attn_every_n_layers": 3,
              "local_attention": 7, "global_rope_theta": 160000.0, "local_rope_theta": 100.0, "classifier_activation": "gelu", "classifier_pooling": "cls"}
KINDS = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
# New cases come last: those before them keep their numbers.
CASES = {
    "llama": {**LLAMA, "head_dim": 8, "rope_scaling": LLAMA3},
    "llama_biased": {**LLAMA, "hidden_size": 24, "num_key_value_heads": 1, "rope_scaling": {"type": "linear", "factor": 2.5}, "attention_bias": True,
                     "mlp_bias": True, "hidden_act": "gelu", "tie_word_embeddings": True},
    "mistral": {**LLAMA, "model_type": "mistral", "sliding_window": 4},
    "qwen2": {**LLAMA, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1, "tie_word_embeddings": True,
              "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 20.0, "beta_slow": 0.5,
                               "truncate": False, "mscale": 1.5, "mscale_all_dim": 0.5}},
    "qwen3": {**LLAMA, "model_type": "qwen3", "head_dim": 8, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    "gpt_neox": NEOX,
    "gpt_neox_sequential": {**NEOX, "use_parallel_residual": False, "attention_bias": False, "hidden_act": "gelu_new", "rotary_pct": 1.0},
    "gptj": {"model_type": "gptj", "vocab_size": WORDS, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_inner": None, "n_positions": 64, "rotary_dim": 4,
             "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": False},
    "modernbert": MODERNBERT,
    "modernbert_biased": {**{name: value for name, value in MODERNBERT.items() if not name.endswith(("_layers", "_theta"))}, "num_hidden_layers": 4,
                          "layer_types": KINDS, "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 160000.0},
                                                                    "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}},
                          "attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True, "decoder_bias": False,
                          "classifier_pooling": "mean", "hidden_activation": "silu", "tie_word_embeddings": False},
}


def random_tensor(name, shape, random):
    """Random numbers of 16 bits that keep activations of order one."""
    numbers = random.standard_normal(shape)
    if len(shape) == 1:
        numbers = 0.3 * numbers + (name.endswith("weight"))  # a norm's gain
    elif "embed" not in name or name == "embed_out.weight":
        numbers /= np.sqrt(shape[1])
    return numbers.astype(np.float16)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "language_models_reference.h5")
    torch.set_default_dtype(torch.float64)
    random = np.random.RandomState(20250711)
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["torch"] = str(torch.__version__)
        for name, config in CASES.items():
            case = file.create_group(name)
            case.attrs["config"] = json.dumps(config)
            tensors = {key: random_tensor(key, shape, random) for key, shape in shapes(config, CLASSES).items()}
            case["ids"], case["lengths"] = random.randint(0, WORDS, (len(LENGTHS), TOKENS)).astype(np.int16), np.array(LENGTHS, np.int16)
            with torch.no_grad():
                found = outputs(config, {key: torch.from_numpy(value.astype(np.float64)) for key, value in tensors.items()},
                                torch.from_numpy(case["ids"][...].astype(np.int64)), torch.tensor(LENGTHS))
            for key, value in found.items():
                case.create_dataset(key, data=value.numpy(), compression="gzip", shuffle=True)
            case.attrs["shapes"] = json.dumps([[key, list(value.shape)] for key, value in tensors.items()])
            case["tensors"] = np.concatenate([value.ravel() for value in tensors.values()])
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
