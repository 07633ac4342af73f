#!/usr/bin/env python3
"""`fluxformer import` refuses language models of today that are damaged, contradict themselves or have what the program does not have: exit code 2,
one line that names the entry of config.json or the tensor, and no file left behind. One fault each."""

import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)

import safetensors_file  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402
from published_damage_test import DamageTest  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from language_model_shapes import shapes  # noqa: E402

FULL, SLIDING = "full_attention", "sliding_attention"
LLAMA3 = Case("llama").config["rope_scaling"]
YARN = {"rope_type": "yarn", "factor": 4.0}


def without(entries, name):
    return {key: value for key, value in entries.items() if key != name}


class Entries(DamageTest):
    def refused_entries(self, name, kind, cases):
        """Each case is changed entries (... for one that is left out), and what the message says."""
        config, tensors = Case(name).published(kind)
        for change, *parts in cases:
            with self.subTest(kind, change=change):
                changed = {key: value for key, value in {**config, **change}.items() if value is not ...}
                self.refused(changed, tensors, "config.json", *parts)

    def test_rotary_positions(self):
        whole = "rope_scaling.rope_type"
        self.refused_entries("llama", "LlamaForCausalLM", [
            *(({"rope_scaling": {"rope_type": word, "factor": 2.0}}, f'{whole} = "{word}"', "default, linear, dynamic, llama3, yarn")
              for word in ("longrope", "mrope", "ntk", "su", "proportional")),
            ({"rope_scaling": {"type": "longrope"}}, 'rope_scaling.type = "longrope"'),
            ({"rope_scaling": {"rope_type": "default", "mrope_section": [1, 1, 2]}}, "rope_scaling.mrope_section", "no such entry"),
            ({"rope_scaling": {"rope_type": "linear", "type": "dynamic", "factor": 2.0}}, "rope_scaling.type", "contradicts rope_type = linear"),
            ({"rope_scaling": {"factor": 2.0}}, "rope_scaling.rope_type is missing"),
            ({"rope_scaling": {"rope_type": 3}}, f"{whole} = 3", "must be a text"), ({"rope_scaling": "linear"}, "rope_scaling", "must hold entries"),
            ({"rope_scaling": {"rope_type": "linear"}}, "rope_scaling.factor is missing"),
            *(({"rope_scaling": {"rope_type": kind, "factor": 0.5}}, "rope_scaling.factor = 0.5", "from 1 on") for kind in ("linear", "dynamic")),
            ({"rope_scaling": {"rope_type": "linear", "factor": "2"}}, "rope_scaling.factor", "must be a number"),
            ({"rope_scaling": {"rope_type": "linear", "factor": float("inf")}}, "rope_scaling.factor", "must be a number"),
            ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "max_position_embeddings": ...}, "rope_scaling.factor", "max_position_embeddings"),
            *(({"rope_scaling": without(LLAMA3, name)}, f"rope_scaling.{name}") for name in LLAMA3 if name != "rope_type"),
            ({"rope_scaling": {**LLAMA3, "high_freq_factor": 1.0}}, "rope_scaling.high_freq_factor", "must be above low_freq_factor = 1"),
            ({"rope_scaling": {**LLAMA3, "original_max_position_embeddings": 64.5}}, "rope_scaling.original_max_position_embeddings", "whole number"),
            ({"rope_scaling": {**LLAMA3, "beta_fast": 32}}, "rope_scaling.beta_fast", "no such entry"),
            ({"rope_scaling": YARN, "max_position_embeddings": ...}, "rope_scaling.original_max_position_embeddings", "max_position_embeddings is not"),
            ({"rope_scaling": {**YARN, "beta_fast": 1.0}}, "rope_scaling.beta_fast", "must be above beta_slow = 1"),
            ({"rope_scaling": {**YARN, "attention_factor": 0}}, "rope_scaling.attention_factor", "above 0"),
            ({"rope_scaling": {**YARN, "truncate": "no"}}, "rope_scaling.truncate", "true or false"),
            ({"rope_theta": 0}, "rope_theta = 0", "above 0"), ({"rope_theta": "1e4"}, "rope_theta", "must be a number"),
            ({"rope_scaling": None, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, "rope_parameters.rope_theta",
             "contradicts rope_theta = 10000"),
            ({"rope_parameters": {"rope_type": "default"}}, "rope_parameters", "contradicts rope_scaling"),
            ({"rope_scaling": None, "rope_parameters": {FULL: {"rope_type": "default"}}}, f"rope_parameters.{FULL}", "no such entry"),
            ({"rope_scaling": {**LLAMA3, "partial_rotary_factor": 0.5}}, "rope_scaling.partial_rotary_factor", "this model turns 1 of the channels"),
            ({"partial_rotary_factor": 0.5}, "partial_rotary_factor", "turns all channels"), ({"rope_interleaved": True}, "rope_interleaved", "is half")])
        self.refused_entries("gpt_neox", "GPTNeoXModel", [
            ({"rotary_pct": 0.5}, "rotary_pct", "3 of the 6 channels"), ({"rotary_pct": 1.5}, "rotary_pct", "9 of the 6"),
            ({"rotary_pct": 0.1}, "rotary_pct", "0 of the 6"),
            ({"partial_rotary_factor": 0.4}, "partial_rotary_factor", "contradicts rotary_pct = 0.7"),
            ({"rope_theta": 5e5}, "rope_theta", "contradicts rotary_emb_base = 10000"),
            ({"rope_parameters": {"partial_rotary_factor": 0.4}}, "rope_parameters.partial_rotary_factor", "contradicts rotary_pct = 0.7")])
        self.refused_entries("gptj", "GPTJModel", [
            *(({"rotary_dim": value}, "rotary_dim", "even number of the 6") for value in (3, 8, None, ...)),
            ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling", "usual frequencies")])
        self.refused_entries("modernbert_biased", "ModernBertModel", [
            ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling", "which rope_parameters says"),
            ({"rope_parameters": {"rope_type": "default"}}, "rope_parameters.rope_type", "kinds of layers are"),
            ({"rope_parameters": {FULL: {"rope_theta": 1e4, "partial_rotary_factor": 0.5}, SLIDING: {}}},
             f"rope_parameters.{FULL}.partial_rotary_factor", "turns all"),
            ({"rope_parameters": {FULL: {"rope_theta": 1e4}}}, f"rope_parameters.{SLIDING} is missing"),
            ({"rope_parameters": {FULL: {"rope_theta": 1e4}, SLIDING: YARN}}, "rope_parameters", "not the same in all layers")])
        self.refused_entries("modernbert", "ModernBertModel", [({"local_rope_theta": -1}, "local_rope_theta", "above 0"),
            ({"rope_parameters": {FULL: {"rope_theta": 1e4}, SLIDING: {}}}, f"rope_parameters.{FULL}.rope_theta", "contradicts global_rope_theta = 160000")])

    def test_heads_and_groups(self):
        self.refused_entries("llama", "LlamaModel", [
            ({"num_key_value_heads": 3}, "num_key_value_heads = 3", "does not divide num_attention_heads = 4"),
            ({"num_key_value_heads": 8}, "num_key_value_heads", "does not divide"),
            ({"num_key_value_heads": 0}, "num_key_value_heads", "whole number"), ({"head_dim": 7}, "head_dim = 7", "pairs of the 7 channels"),
            ({"head_dim": ..., "num_attention_heads": 6}, "num_attention_heads = 6", "does not divide hidden_size = 20"),
            ({"head_dim": None}, "head_dim", "pairs of the 5 channels"), ({"head_dim": 8.0}, "head_dim", "whole number")])
        config, tensors = Case("llama").published("LlamaModel")
        for change, part in (({"head_dim": 6}, "q_proj.weight is 32 x 20 where config.json makes it 24 x 20"),
                             ({"num_key_value_heads": 4}, "k_proj.weight is 16 x 20 where config.json makes it 32 x 20"),
                             ({"num_key_value_heads": None}, "k_proj.weight is 16 x 20 where config.json makes it 32 x 20")):
            self.refused({**config, **change}, tensors, "model.safetensors", part)

    def test_windows(self):
        self.refused_entries("llama", "LlamaModel", [
            ({"sliding_window": 4}, "sliding_window = 4", "no windows"),
            ({"layer_types": [FULL, SLIDING, FULL]}, "layer_types", "contradicts the family, which has no windows")])
        self.refused_entries("mistral", "MistralModel", [
            ({"sliding_window": 0}, "sliding_window = 0", "from 1"), ({"sliding_window": 4.0}, "sliding_window", "whole number"),
            ({"layer_types": [FULL, SLIDING, FULL]}, "layer_types", "contradicts sliding_window = 4"),
            ({"layer_types": [SLIDING] * 3, "sliding_window": None}, "layer_types", "contradicts sliding_window = null"),
            ({"layer_types": [SLIDING] * 2}, "layer_types", "for each of 3 layers"),
            ({"layer_types": ["chunked_attention"] * 3}, "layer_types", f"must say {FULL} or {SLIDING}"),
            ({"layer_types": SLIDING}, "layer_types", "list of texts")])
        self.refused_entries("qwen2", "Qwen2Model", [
            ({"layer_types": [SLIDING] * 3}, "layer_types", "contradicts max_window_layers = 1"),
            ({"layer_types": [SLIDING] * 3, "use_sliding_window": False}, "layer_types", "contradicts use_sliding_window"),
            ({"use_sliding_window": "yes"}, "use_sliding_window", "true or false"), ({"sliding_window": -1}, "sliding_window", "from 1"),
            ({"max_window_layers": -1}, "max_window_layers", "from 0")])
        self.refused_entries("modernbert", "ModernBertModel", [
            ({"local_attention": 1}, "local_attention = 1", "from 2"), ({"local_attention": -1}, "local_attention = -1", "from 2"),
            ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers", "from 1"),
            ({"layer_types": [FULL] * 4}, "layer_types", "contradicts global_attn_every_n_layers = 3")])
        self.refused_entries("gpt_neox", "GPTNeoXModel", [({"layer_types": [SLIDING] * 3}, "layer_types", "no windows")])

    def test_what_a_model_file_does_not_have(self):
        foreign = [("num_experts", 8, "no experts"), ("num_local_experts", 8, "no experts"), ("attn_logit_softcapping", 50.0, "no capped logits"),
                   ("final_logit_softcapping", 30.0, "no capped logits"), ("alibi", True, "ALiBi"), ("embedding_multiplier", 12.0, "no such factor"),
                   ("kv_lora_rank", 512, "no latent attention"), ("add_cross_attention", True, "no cross attention"), ("use_mrope", True, "mrope"),
                   ("attention_chunk_size", 8192, "no chunks"), ("auto_map", {"AutoModel": "own.py"}, "a program of its own"),
                   ("quantization_config", {"quant_method": "gptq"}, "quantised")]
        for name, kind in (("qwen3", "Qwen3Model"), ("gpt_neox", "GPTNeoXModel"), ("gptj", "GPTJModel"), ("modernbert", "ModernBertModel")):
            self.refused_entries(name, kind, [({entry: value}, entry, part) for entry, value, part in foreign])
        self.refused_entries("gptj", "GPTJModel", [({"scale_attn_weights": False}, "scale_attn_weights", "root of the head's width")])
        self.refused_entries("llama", "LlamaModel", [
            *(({"model_type": word}, "model_type", part) for word, part in (
                ("mixtral", "experts"), ("qwen3_moe", "experts"), ("gemma2", "capped"), ("bloom", "ALiBi"), ("mpt", "ALiBi"), ("falcon", "ALiBi"),
                ("olmo2", "behind its sub-layers"), ("deepseek_v3", "latent"), ("mamba", "state-space"), ("qwen2_vl", "mrope"))),
            ({"hidden_act": "gelu_fast"}, "hidden_act", "silu"), ({"rms_norm_eps": -1e-6}, "rms_norm_eps"), ({"rms_norm_eps": False}, "rms_norm_eps"),
            ({"attention_bias": 0}, "attention_bias", "true or false"), ({"mlp_bias": "no"}, "mlp_bias", "true or false")])
        self.refused_entries("modernbert", "ModernBertForSequenceClassification", [
            ({"classifier_pooling": "max"}, "classifier_pooling", "cls and mean"), ({"norm_bias": True}, "norm_bias", "nowhere else"),
            ({"attention_bias": True}, "norm_bias", "nowhere else"), ({"norm_eps": 0}, "norm_eps", "above 0")])
        # BERT's linear maps are not gated: its activations stay those that it had.
        self.refused_entries("bert", "BertModel", [({"hidden_act": "silu"}, "hidden_act", "the program has gelu")])


class Weights(DamageTest):
    def test_biases_and_norms_that_are_missing_or_not_announced(self):
        place = "model.layers.1.self_attn"
        config, tensors = Case("llama").published("LlamaForCausalLM")
        for name, size in ((f"{place}.q_proj.bias", 32), (f"{place}.o_proj.bias", 20), ("model.layers.0.mlp.gate_proj.bias", 28), ("model.norm.bias", 20),
                           ("lm_head.bias", 29), (f"{place}.q_norm.weight", 8), ("model.layers.3.mlp.up_proj.weight", 3),
                           ("model.layers.0.mlp.experts.0.up_proj.weight", 3), ("model.layers.0.pre_feedforward_layernorm.weight", 20)):
            self.refused(config, {**tensors, name: np.ones(size)}, f"no place for {name}")
        for name, kind, gone in (("llama_biased", "LlamaModel", f"{place}.o_proj.bias"), ("llama_biased", "LlamaModel", "model.layers.2.mlp.gate_proj.bias"),
                                 ("qwen2", "Qwen2Model", f"{place}.k_proj.bias"), ("qwen3", "Qwen3Model", f"{place}.q_norm.weight"),
                                 ("qwen3", "Qwen3Model", f"{place}.k_norm.weight"), ("llama", "LlamaModel", "model.layers.1.mlp.gate_proj.weight"),
                                 ("llama", "LlamaModel", "model.norm.weight"), ("gpt_neox", "GPTNeoXModel", "gpt_neox.layers.0.attention.dense.bias"),
                                 ("gptj", "GPTJForCausalLM", "lm_head.bias"), ("gptj", "GPTJModel", "transformer.h.2.mlp.fc_in.bias"),
                                 ("modernbert", "ModernBertModel", "model.layers.1.attn_norm.weight"), ("modernbert", "ModernBertForMaskedLM", "decoder.bias"),
                                 ("modernbert", "ModernBertForMaskedLM", "head.norm.weight"),
                                 ("modernbert_biased", "ModernBertModel", "model.layers.0.mlp.Wi.bias")):
            config, tensors = Case(name).published(kind)
            with self.subTest(gone):
                here = re.sub(r"^(model|gpt_neox|transformer)\.", "", gone)
                self.refused(config, without(tensors, gone), "model.safetensors", f"{here} is missing")
        config, tensors = Case("qwen2").published("Qwen2Model")
        self.refused(config, {**tensors, f"{place}.o_proj.bias": np.ones(20)}, f"no place for {place}.o_proj.bias")
        config, tensors = Case("gpt_neox_sequential").published("GPTNeoXModel")
        self.refused(config, {**tensors, "gpt_neox.layers.0.attention.dense.bias": np.ones(24)}, "no place for gpt_neox.layers.0.attention.dense.bias")
        config, tensors = Case("modernbert").published("ModernBertModel")
        self.refused(config, {**tensors, "model.layers.0.attn_norm.weight": np.ones(24)}, "no place for model.layers.0.attn_norm.weight")
        config, tensors = Case("gptj").published("GPTJModel")
        self.refused(config, {**tensors, "transformer.h.0.ln_2.weight": np.ones(24)}, "no place for transformer.h.0.ln_2.weight")

    def test_the_head_is_the_one_that_config_json_says(self):
        for name, kind, matrix, tied in (("llama", "LlamaForCausalLM", "lm_head.weight", False), ("gpt_neox", "GPTNeoXForCausalLM", "embed_out.weight", False),
                                         ("gptj", "GPTJForCausalLM", "lm_head.weight", False), ("qwen2", "Qwen2ForCausalLM", "lm_head.weight", True),
                                         ("modernbert", "ModernBertForMaskedLM", "decoder.weight", True)):
            config, tensors = Case(name).published(kind)
            rows = Case(name).config["vocab_size"], Case(name)["hidden"].shape[-1]
            with self.subTest(name):
                if not tied:
                    self.refused(config, without(tensors, matrix), f"{matrix} is missing")
                    self.refused(without(config, "architectures"), without(tensors, matrix), f"{matrix} is missing")
                self.refused({**config, "tie_word_embeddings": True}, {**tensors, matrix: np.ones(rows)}, f"{matrix} differs from the word embeddings")
                self.refused({**config, "tie_word_embeddings": False}, {**tensors, matrix: np.ones(rows[::-1])}, f"{matrix} is {rows[1]} x {rows[0]} where")
        config, tensors = Case("llama").published("LlamaForSequenceClassification")
        self.refused(config, without(tensors, "score.weight"), "score.weight is missing")

    def test_tables_matrices_and_numbers(self):
        config, tensors = Case("llama").published("LlamaForCausalLM")
        words, gate, last = "model.embed_tokens.weight", "model.layers.0.mlp.gate_proj.weight", "model.layers.2.mlp.down_proj.weight"
        self.refused(config, {**tensors, words: tensors[words][:-1]}, f"{words} is 28 x 20 where config.json makes it 29 x 20")
        self.refused(config, {**tensors, gate: tensors[gate].T}, f"{gate} is 20 x 28 where config.json makes it 28 x 20")
        one_nan = np.where(tensors[last] == tensors[last].max(), np.nan, tensors[last])
        self.refused(config, {**tensors, last: one_nan}, f"{last} holds numbers that are not finite")
        self.refused(config, {**tensors, gate: np.zeros((28, 20), bool)}, f"{gate} holds F8_E4M3", kinds={gate: "F8_E4M3"})
        self.refused(config, {**tensors, gate: np.zeros((28, 20), np.int64)}, f"{gate} holds int64, not real numbers")
        self.refused(config, {**tensors, "module." + gate: tensors[gate]}, f"{gate} and module.{gate} are the same tensor")
        self.refused({**config, "num_hidden_layers": 4}, tensors, "layers.3.self_attn.q_proj.weight is missing")
        self.refused({**config, "num_hidden_layers": 2}, tensors, "no place for model.layers.2.")
        for kind in ("Qwen2ForCausalLM", "MixtralForCausalLM"):
            self.refused({**config, "architectures": [kind]}, tensors, f"{kind} has no place", "LlamaForCausalLM")
        config, tensors = Case("gpt_neox").published("GPTNeoXModel")
        fused = "gpt_neox.layers.0.attention.query_key_value.weight"
        self.refused(config, {**tensors, fused: tensors[fused][:48]}, f"{fused} is 48 x 24 where config.json makes it 72 x 24")
        config, tensors = Case("modernbert").published("ModernBertModel")
        halves = "model.layers.1.mlp.Wi.weight"
        self.refused(config, {**tensors, halves: tensors[halves][:20]}, f"{halves} is 20 x 24 where config.json makes it 40 x 24")

    def test_more_words_than_rows(self):
        config, tensors = Case("llama").published("LlamaForCausalLM")
        with open(self.path("vocab.txt"), "w", encoding="utf-8") as stream:
            stream.write("\n".join(f"word{number}" for number in range(30)))
        self.refused(config, tensors, "30 words, but the model has 29", options=("--words", self.path("vocab.txt")))

    def test_shards(self):
        config, tensors = Case("qwen3").published("Qwen3ForCausalLM")
        _, config_path = save(self.folder, config, {})
        os.remove(self.path("model.safetensors"))
        files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        places = {name: files[number % 2] for number, name in enumerate(tensors)}
        for file in files:
            safetensors_file.save(self.path(file), {name: tensors[name] for name, place in places.items() if place == file})
        os.mkdir(self.path("elsewhere"))
        os.rename(self.path(files[0]), self.path("elsewhere/first.safetensors"))
        os.symlink(self.path("elsewhere/first.safetensors"), self.path(files[0]))
        first, index = next(iter(places)), self.path("model.safetensors.index.json")

        def refused(weight_map, *parts):
            with open(index, "w", encoding="utf-8") as stream:
                json.dump({"metadata": {"total_size": 1}, "weight_map": weight_map}, stream)
            self.refused_paths(index, config_path, *parts)
            os.remove(index)

        refused(places, files[0], "a link out of the folder")
        os.remove(self.path(files[0]))
        refused(places, files[0], "no such file")
        os.rename(self.path("elsewhere/first.safetensors"), self.path(files[0]))
        refused({**places, first: "../" + files[0]}, "a file beside the index")
        refused({**places, first: self.path(files[0])}, "a file beside the index")
        refused({**places, first: ".."}, "a file beside the index")
        refused({**places, first: files[1]}, files[1], f"{first} is missing")
        refused(without(places, first), files[0], first, "does not say that it holds")

    def test_shapes_of_the_reference_are_those_of_the_importer(self):
        # A tensor more or less in the list of shapes would be refused: the references and the importer agree on what there is.
        for name in ("llama_biased", "qwen3", "gpt_neox_sequential", "gptj", "modernbert_biased"):
            case = Case(name)
            self.assertEqual({key: list(array.shape) for key, array in case.tensors.items()},
                             {key: list(shape) for key, shape in shapes(case.config, case["classes"].shape[1]).items()})


if __name__ == "__main__":
    unittest.main()
