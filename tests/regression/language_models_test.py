#!/usr/bin/env python3
"""`fluxformer import` of language models of today: frequencies of rotary positions are those that were published, mistakes that the importer must
not make would be seen, older and newer files of one model give the same, and models of known sizes have the known number of weights.

published_models_test.py compares states, attention and logits of these families with PyTorch.
"""

import json
import math
import os
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

import safetensors_file  # noqa: E402
from numpy_model import Model  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from language_model_shapes import shapes  # noqa: E402
from python_package import FolderTest, call  # noqa: E402

from fluxformer.published.command import convert  # noqa: E402
from fluxformer.published.config import Config  # noqa: E402
from fluxformer.published.rotary import frequencies  # noqa: E402

BASES = {"llama": "LlamaModel", "llama_biased": "LlamaModel", "mistral": "MistralModel", "qwen2": "Qwen2Model", "qwen3": "Qwen3Model",
         "gpt_neox": "GPTNeoXModel", "gptj": "GPTJModel", "modernbert": "ModernBertModel", "modernbert_biased": "ModernBertModel"}
# Entries of config.json of published models, and their number of weights.
SIZES = {
    "SmolLM-135M": (134515008, {"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
                                "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True}),
    "Qwen2.5-0.5B": (494032768, {"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
                                 "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True}),
    "Qwen3-0.6B": (596049920, {"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
                               "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True}),
    "TinyLlama-1.1B": (1100048384, {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
                                    "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000}),
    "Llama-3.2-1B": (1235814400, {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
                                  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": True}),
    "Mistral-7B": (7241732096, {"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                                "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000}),
    "Pythia-70M": (70426624, {"model_type": "gpt_neox", "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 8,
                              "vocab_size": 50304}),
    "Pythia-160M": (162322944, {"model_type": "gpt_neox", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
                                "num_attention_heads": 12, "vocab_size": 50304}),
    "ModernBERT-base": (149014272, {"model_type": "modernbert", "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22,
                                    "num_attention_heads": 12, "vocab_size": 50368}),
}


class LanguageModels(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = self.path("model.h5")

    def imported(self, config, tensors, *options, kinds=None):
        """What import says; self.model is the file."""
        done = call("import", *save(self.folder, config, tensors, kinds), "--output", self.model, "--overwrite", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def everything(self):
        """(attributes, arrays) of the model file."""
        model = Model(self.model)
        return dict(model.attributes), model.arrays

    def assert_same(self, expected):
        attributes, arrays = self.everything()
        self.assertEqual(attributes, expected[0])
        self.assertEqual(sorted(arrays), sorted(expected[1]))
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, expected[1][name], name)


class Frequencies(LanguageModels):
    def of(self, entries, base, turned, longest=None):
        with open(self.path("config.json"), "w", encoding="utf-8") as stream:
            json.dump(entries, stream)
        return frequencies(Config(self.path("config.json")), base, turned, longest)

    def kinds_of_pairs(self, found, base, factor):
        """How many of the pairs are kept, mixed and divided, in this order."""
        usual = base ** (-np.arange(0, 128, 2) / 128)
        kept, divided = found.theta == usual, np.isclose(found.theta, usual / factor, rtol=1e-15, atol=0)
        np.testing.assert_array_equal(np.sort(np.where(kept, 0, np.where(divided, 2, 1))), np.where(kept, 0, np.where(divided, 2, 1)))
        return int(kept.sum()), int((~kept & ~divided).sum()), int(divided.sum())

    def test_llama3_keeps_29_pairs_mixes_6_and_divides_29(self):
        scheme = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
        found = self.of(scheme, 5e5, 128)
        self.assertEqual(self.kinds_of_pairs(found, 5e5, 8), (29, 6, 29))
        self.assertEqual(found.scale, 1)

    def test_yarn_keeps_24_pairs_mixes_16_and_divides_24(self):
        scheme = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
        found = self.of(scheme, 1e6, 128)
        self.assertEqual(self.kinds_of_pairs(found, 1e6, 4), (24, 16, 24))
        self.assertAlmostEqual(found.scale, 1.1386294361, delta=5e-11)
        np.testing.assert_array_equal(self.of({"type": "yarn", "factor": 4.0}, 1e6, 128, 32768).theta, found.theta)  # of max_position_embeddings
        for more, scale in (({"attention_factor": 0.9}, 0.9), ({"mscale": 1.0, "mscale_all_dim": 0}, found.scale), ({"mscale": 0.7, "mscale_all_dim": 0.7}, 1),
                            ({"mscale": 2.0, "mscale_all_dim": 1.0}, (1 + 0.2 * np.log(4)) / (1 + 0.1 * np.log(4))), ({"factor": 1.0}, 1)):
            self.assertAlmostEqual(self.of({**scheme, **more}, 1e6, 128).scale, scale, delta=1e-15)

    def test_yarn_is_its_ramp_pair_by_pair(self):
        # Ramps that begin in front of the first pair, end behind the last channel, have no length, or keep their fractions.
        for base, turned, more in ((1e4, 12, {}), (1e4, 12, {"truncate": False}), (100.0, 6, {"beta_slow": 0.001}), (1e4, 6, {"beta_fast": 800.0, "beta_slow": 400.0}),
                                   (1e6, 16, {"beta_fast": 8.0, "beta_slow": 0.25, "truncate": False})):
            fast, slow, length, factor = more.get("beta_fast", 32), more.get("beta_slow", 1), 2048, 3.0
            low, high = (turned * math.log(length / (2 * math.pi * turns)) / (2 * math.log(base)) for turns in (fast, slow))
            if more.get("truncate", True):
                low, high = math.floor(low), math.ceil(high)
            low, high = max(low, 0), min(high, turned - 1)
            expected = []
            for pair in range(turned // 2):
                ramp = min(max((pair - low) / (high - low if high != low else 0.001), 0), 1)
                theta = base ** (-2 * pair / turned)
                expected.append(theta * ramp / factor + theta * (1 - ramp))
            found = self.of({"type": "yarn", "factor": factor, "original_max_position_embeddings": length, **more}, base, turned)
            np.testing.assert_allclose(found.theta, expected, rtol=1e-15, atol=0)

    def test_linear_divides_and_dynamic_is_the_usual_up_to_its_length(self):
        usual = self.of({}, 10000, 16).theta
        np.testing.assert_array_equal(self.of({"type": "linear", "factor": 4}, 10000, 16).theta, usual / 4)
        found = self.of({"rope_type": "dynamic", "factor": 4}, 10000, 16, 2048)
        np.testing.assert_array_equal(found.theta, usual)
        self.assertFalse(found.fixed)
        config, tensors = Case("mistral").published("MistralModel")
        self.imported(config, tensors)
        attributes, arrays = self.everything()
        self.assertNotIn("beyond_longest", attributes)
        self.imported({**config, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, tensors)
        self.assert_same(({**attributes, "beyond_longest": "refused"}, arrays))


class Mistakes(LanguageModels):
    """Each of these moves some state of the reference by a hundredth of the largest, or more."""

    def assert_visible(self, change, *names):
        for name in names:
            case = Case(name)
            self.imported(*case.published(BASES[name]))
            model = Model(self.model)

            def off(model=model, case=case):
                """The largest distance of a state from that of the reference, over the largest state."""
                hidden, _ = model.states(case["ids"].astype(int), case.lengths)
                return abs(hidden - case["hidden"])[:, case.real].max() / abs(case["hidden"][:, case.real]).max()

            with self.subTest(name):
                self.assertLess(off(), 1e-12)
                change(model)
                self.assertGreater(off(), 1e-2)

    def test_no_scaling(self):
        def change(model):
            pairs = model.arrays["rotary/theta"].shape[1]
            model.arrays["rotary/theta"] = 10000.0 ** (-np.arange(pairs)[None] / pairs)
        self.assert_visible(change, "llama", "llama_biased", "qwen2", "qwen3")

    def test_half_for_interleaved_and_back(self):
        self.assert_visible(lambda model: model.attributes.update(rotary_layout="half"), "gptj")
        self.assert_visible(lambda model: model.attributes.update(rotary_layout="interleaved"), "llama", "gpt_neox")

    def test_no_factor_of_cosines_and_sines(self):
        self.assert_visible(lambda model: model.attributes.update(rotary_scale=1.0), "qwen2", "qwen3")

    def test_a_window_off_by_one(self):
        for step in (-1, 1):
            def change(model, step=step):
                model.arrays["window"] += step * (model.arrays["window"] > 0)
            self.assert_visible(change, "mistral", "qwen2", "modernbert", "modernbert_biased")

    def test_sequential_for_parallel(self):
        self.assert_visible(lambda model: model.attributes.update(order="sequential"), "gpt_neox", "gptj")

    def test_one_table_for_two_kinds_of_layers(self):
        for row in (0, 1):
            def change(model, row=row):
                model.arrays["rotary/table"][:] = row
            self.assert_visible(change, "modernbert", "modernbert_biased")

    def test_gate_and_up_or_the_halves_of_wi_exchanged(self):
        def change(model):
            for number in range(1, int(model.attributes["layers"]) + 1):
                for kind in ("W", "b") if f"layers/{number}/b_G" in model.arrays else ("W",):
                    gate, up = f"layers/{number}/{kind}_G", f"layers/{number}/{kind}_1"
                    model.arrays[gate], model.arrays[up] = model.arrays[up], model.arrays[gate]
        self.assert_visible(change, "llama", "llama_biased", "mistral", "qwen2", "qwen3", "modernbert", "modernbert_biased")

    def test_layer_norm_for_rms_norm(self):
        self.assert_visible(lambda model: model.attributes.update(norm_map="layer"), "llama", "llama_biased", "mistral", "qwen2", "qwen3")

    def test_groups_dealt_out_in_turn_no_norm_of_queries_and_a_norm_in_front_of_all(self):
        def dealt(model):
            heads, groups = int(model.attributes["heads"]), int(model.attributes["groups"])
            for name in [name for name in model.arrays if name.endswith(("W_K", "W_V", "b_K", "b_V"))]:
                blocks = np.split(model.arrays[name], groups)
                model.arrays[name] = np.concatenate([blocks[head % groups] for head in range(heads)])
            model.attributes["groups"] = heads
        self.assert_visible(dealt, "llama", "mistral", "qwen2", "qwen3")
        self.assert_visible(lambda model: [model.arrays.pop(f"layers/{number}/q_gain") for number in (1, 2, 3)], "qwen3")

        def normed(model):
            model.attributes["first_norm"] = "on"
            model.arrays["layers/1/norm1_gain"] = np.ones(24)
        self.assert_visible(normed, "modernbert", "modernbert_biased")


class Forms(LanguageModels):
    def test_newer_entries_say_the_same(self):
        for name, gone, new in (
                ("llama", ("rope_scaling", "rope_theta"), {"rope_parameters": {**Case("llama").config["rope_scaling"], "rope_theta": 10000.0}}),
                ("llama", (), {"rope_parameters": {**Case("llama").config["rope_scaling"], "rope_theta": 10000}, "layer_types": ["full_attention"] * 3}),
                ("llama_biased", (), {"rope_scaling": {"rope_type": "linear", "factor": 2.5}, "pretraining_tp": 2}),
                ("mistral", (), {"layer_types": ["sliding_attention"] * 3, "num_key_value_heads": 2, "rope_scaling": {"rope_type": "default"}}),
                ("qwen2", (), {"layer_types": ["full_attention", *["sliding_attention"] * 2]}),
                ("qwen2", ("max_window_layers",), {"layer_types": ["full_attention", *["sliding_attention"] * 2]}),
                ("qwen3", (), {"sliding_window": 3, "use_sliding_window": False, "max_window_layers": 1, "layer_types": ["full_attention"] * 3}),
                ("gpt_neox", ("rotary_pct", "rotary_emb_base"), {
                    "rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.7}}),
                ("gpt_neox", (), {"partial_rotary_factor": 0.7, "rope_theta": 10000.0, "rope_scaling": None, "attention_bias": True}),
                ("modernbert", ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta"), {
                    "layer_types": ["full_attention", *["sliding_attention"] * 2, "full_attention"],
                    "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 160000.0}, "sliding_attention": {"rope_theta": 100.0}}}),
                ("modernbert", (), {"local_attention": 6, "position_embedding_type": "absolute"})):
            with self.subTest(name, new=new):
                config, tensors = Case(name).published(BASES[name])
                self.imported(config, tensors)
                expected = self.everything()
                self.imported({**{key: value for key, value in config.items() if key not in gone}, **new}, tensors)
                self.assert_same(expected)

    def test_what_is_null_is_not_what_is_absent(self):
        config, tensors = Case("mistral").published("MistralModel")
        self.imported({**config, "sliding_window": None}, tensors)
        self.assertNotIn("window", self.everything()[1])
        del config["sliding_window"]
        self.imported(config, tensors)
        self.assertEqual(list(self.everything()[1]["window"]), [4096] * 3)
        config, tensors = Case("modernbert").published("ModernBertModel")
        for change, base in (({"local_rope_theta": None}, 160000.0), ({}, 10000.0)):
            self.imported({**{name: value for name, value in config.items() if name != "local_rope_theta"}, **change}, tensors)
            arrays = self.everything()[1]
            np.testing.assert_allclose(arrays["rotary/theta"][arrays["rotary/table"][1]], base ** (-np.arange(3) / 3), rtol=1e-15, atol=0)

    def test_the_file_says_what_it_is(self):
        common = {"kind": "transformer", "layers": 3, "knots": 3, "width": 20, "heads": 4, "ffn": 28, "activation": "silu", "norm": "pre",
                  "norm_eps": 1e-5, "order": "sequential", "residual": "on", "causal": "on", "kernel": "dot", "inputs": 0, "tokens": 0, "classes": 0,
                  "head_width": 8, "groups": 2, "norm_map": "rms", "gated": "on", "biases": "none", "longest": 64, "rotary_layout": "half"}
        self.imported(*Case("qwen3").published("Qwen3ForCausalLM"))
        attributes, arrays = self.everything()
        self.assertAlmostEqual(attributes.pop("rotary_scale"), 0.1 * np.log(4) + 1, delta=1e-15)
        self.assertEqual(attributes, common)
        shapes_of_layer = {name.removeprefix("layers/2/"): array.shape for name, array in arrays.items() if name.startswith("layers/2/")}
        self.assertEqual(shapes_of_layer, {"W_Q": (32, 20), "W_K": (16, 20), "W_V": (16, 20), "W_O": (20, 32), "W_G": (28, 20), "W_1": (28, 20),
                                           "W_2": (20, 28), "q_gain": (8,), "k_gain": (8,), "norm1_gain": (20,), "norm2_gain": (20,)})
        self.assertEqual(sorted(name for name in arrays if not name.startswith("layers/")),
                         ["embedding/words", "final_norm/gain", "rotary/table", "rotary/theta", "word_head/W"])
        self.assertEqual((arrays["rotary/theta"].shape, arrays["rotary/table"].dtype.kind, list(arrays["rotary/table"])), ((1, 4), "i", [0, 0, 0]))
        self.imported(*Case("qwen2").published("Qwen2ForCausalLM"))
        attributes, arrays = self.everything()
        self.assertEqual((attributes["biases"], attributes["word_head"], list(arrays["window"])), ("qkv", "on", [0, 3, 3]))
        self.assertNotIn("embedding/position", arrays)
        self.imported(*Case("gptj").published("GPTJForCausalLM"))
        attributes, arrays = self.everything()
        said = [attributes[name] for name in ("order", "biases", "rotary_layout", "longest")]
        self.assertEqual(said, ["parallel", "reaction", "interleaved", 64])
        np.testing.assert_array_equal(arrays["layers/3/norm1_gain"], arrays["layers/3/norm2_gain"])
        self.assertNotIn("groups", attributes)
        self.imported(*Case("modernbert").published("ModernBertForMaskedLM"))
        attributes, arrays = self.everything()
        self.assertEqual((attributes["first_norm"], attributes["biases"], attributes["causal"], list(arrays["window"])), ("off", "none", "off", [0, 3, 3, 0]))
        self.assertEqual([name for name in arrays if name.startswith("layers/1/norm")], ["layers/1/norm2_gain"])
        self.assertEqual((list(arrays["rotary/table"]), arrays["rotary/theta"].shape), ([0, 1, 1, 0], (2, 3)))

    def test_biases_are_those_that_are_announced(self):
        config, tensors = Case("llama_biased").published("LlamaModel")
        place = {"attention": "self_attn", "mlp": ".mlp."}
        for words, biases in ((("attention", "mlp"), "all"), (("attention",), "attention"), (("mlp",), "reaction"), ((), "none")):
            kept = {name: array for name, array in tensors.items() if not name.endswith("bias") or any(place[word] in name for word in words)}
            self.imported({**config, **{f"{word}_bias": word in words for word in place}}, kept)
            attributes, arrays = self.everything()
            self.assertEqual(attributes.get("biases"), biases if biases != "all" else None)
            self.assertEqual(sum("/b_" in name for name in arrays), sum(name.endswith("bias") for name in kept))

    def test_tied_words_may_be_there_twice(self):
        for name, kind, table, matrix in (("llama_biased", "LlamaForCausalLM", "model.embed_tokens.weight", "lm_head.weight"),
                                          ("gpt_neox", "GPTNeoXForCausalLM", "gpt_neox.embed_in.weight", "embed_out.weight"),
                                          ("gptj", "GPTJForCausalLM", "transformer.wte.weight", "lm_head.weight"),
                                          ("modernbert", "ModernBertForMaskedLM", "model.embeddings.tok_embeddings.weight", "decoder.weight")):
            config, tensors = Case(name).published(kind)
            config = {**config, "tie_word_embeddings": True}
            self.imported(config, {key: array for key, array in tensors.items() if key != matrix})
            expected = self.everything()
            self.assertNotIn("word_head/W", expected[1])
            self.assertEqual("word_head/b" not in expected[1], expected[0].get("word_head") == "on")
            self.imported(config, {**tensors, matrix: tensors[table]})
            self.assert_same(expected)

    def test_heads_without_a_place_are_left_out(self):
        for name, kind, family, trunk, head in (("llama", "LlamaModel", "LlamaForTokenClassification", "model.", "score.weight"),
                                                ("llama", "LlamaModel", "LlamaForQuestionAnswering", "transformer.", "qa_outputs.weight"),
                                                ("gpt_neox", "GPTNeoXModel", "GPTNeoXForTokenClassification", "gpt_neox.", "classifier.weight"),
                                                ("modernbert", "ModernBertModel", "ModernBertForTokenClassification", "model.", "head.dense.weight")):
            config, tensors = Case(name).published(kind)
            self.imported(config, tensors)
            expected = self.everything()
            renamed = {key.replace("model.", trunk, 1) if key.startswith("model.") else key: array for key, array in tensors.items()}
            for wrapper in ("", "module.", "model."):
                wrapped = {wrapper + key: array for key, array in {**renamed, head: np.ones((2, 2))}.items()}
                said = self.imported({**config, "architectures": [family]}, wrapped)
                self.assertIn(f"left out: {wrapper}{head} (the head of {family} has no place", said)
                self.assert_same(expected)

    def test_one_output_is_a_score(self):
        config, tensors = Case("llama").published("LlamaForSequenceClassification")
        said = self.imported({**config, "id2label": {"0": "reward"}}, {**tensors, "score.weight": tensors["score.weight"][:1]})
        self.assertIn("score has one output: a score, no class", said)

    def test_a_dense_stage_without_a_head_is_left_out(self):
        config, tensors = Case("modernbert").published("ModernBertModel")
        said = self.imported(config, {**tensors, "head.norm.weight": np.ones(24)})
        self.assertIn("left out: head.norm.weight", said)

    def test_numbers_of_32_bits_may_be_stored_so(self):
        config, tensors = Case("qwen3").published("Qwen3ForCausalLM")
        self.imported(config, tensors)
        expected, size = self.everything(), os.path.getsize(self.model)
        for kind, to in (("F16", np.float16), ("F32", np.float32), ("BF16", None)):
            # Those of 16 bits are exact in all three but BF16, which is cut here.
            source = {name: array.astype(to) if to else safetensors_file.bfloat16(array) for name, array in tensors.items()}
            self.imported(config, source, "--store", "float32", kinds={name: kind for name in tensors})
            attributes, arrays = self.everything()
            self.assertEqual({array.dtype.name for name, array in arrays.items() if not name.startswith("rotary/")}, {"float32"})
            self.assertEqual(arrays["rotary/theta"].dtype, np.float64)
            self.assertLess(os.path.getsize(self.model), 0.7 * size)
            if to:
                self.assert_same(expected)
            else:
                self.imported(config, source, kinds={name: kind for name in tensors})
                self.assert_same((attributes, arrays))
        third = {**tensors, "model.norm.weight": np.full(20, 1 / 3)}
        done = call("import", *save(self.folder, config, third), "--output", self.path("other.h5"), "--store", "float32")
        self.assert_refused(done, "model.norm.weight holds numbers that float32 does not hold", "leave out --store float32")
        self.assertFalse(os.path.exists(self.path("other.h5")))
        # What is computed from tensors stays in 64 bits.
        config, tensors = Case("deit").published("DeiTForImageClassificationWithTeacher")
        self.imported(config, {name: array.astype(np.float32) for name, array in tensors.items()}, "--store", "float32")
        arrays = self.everything()[1]
        self.assertEqual((arrays["head/W"].dtype, arrays["layers/1/W_Q"].dtype), (np.float64, np.float32))

    def test_models_of_known_sizes_have_the_known_number_of_weights(self):
        for name, (weights, config) in SIZES.items():
            with self.subTest(name):
                heads = ("score.", "classifier.", "head.", "decoder.")
                tensors = {key: shape for key, shape in shapes(config, 2).items() if not key.startswith(heads)}
                self.assertEqual(sum(int(np.prod(shape)) for shape in tensors.values()), weights)
                kind = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
                        "gpt_neox": "GPTNeoXForCausalLM", "modernbert": "ModernBertModel"}[config["model_type"]]
                _, path = save(self.folder, {**config, "architectures": [kind]}, {})
                self.write_hole(self.path("model.safetensors"), tensors)
                model = convert(self.path("model.safetensors"), path)
                self.assertEqual(model.weights, weights)

    def write_hole(self, path, tensors):
        """A safetensors file of these shapes, in BF16, without the numbers: the disk stays empty."""
        header, end = {}, 0
        for name, shape in tensors.items():
            begin, end = end, end + 2 * int(np.prod(shape))
            header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        with open(path, "wb") as stream:
            stream.write(struct.pack("<Q", len(text)) + text)
            stream.truncate(8 + len(text) + end)


class Elsewhere(LanguageModels):
    def test_export_and_convert_refuse_what_they_do_not_have_by_name(self):
        for name, kind, part in (("llama", "LlamaForCausalLM", "/model@norm_map is rms"), ("gpt_neox", "GPTNeoXModel", "/model@rotary_layout is half"),
                                 ("gptj", "GPTJModel", "/model@biases is reaction"), ("modernbert_biased", "ModernBertModel", "/model@gated is on")):
            self.imported(*Case(name).published(kind))
            with h5py.File(self.model, "r+") as file:
                file["model"].attrs["order"] = "sequential"  # which export would name first
            self.assert_refused(call("export", self.model, self.path("out.safetensors")), "model.h5", part, "PyTorch's encoder is")
            self.assert_refused(call("convert", self.model, "--knots", 2, "--output", self.path("pde.h5")), "model.h5", part, "convert takes is")
        self.imported(*Case("gpt2").published("GPT2Model"))
        for change, part in ((lambda model: model.attrs.update(groups=1), "/model@groups is 1: PyTorch's encoder is 3 only"),
                             (lambda model: model.attrs.update(groups=3, head_width=2), "/model@head_width is 2: PyTorch's encoder is 4 only"),
                             (lambda model: model.attrs.update(head_width=4, first_norm="off"), "/model@first_norm is off"),
                             (lambda model: (model.attrs.update(first_norm="on"), model.update(window=np.array([2, 0])))[0], "/model/window is not 0")):
            with h5py.File(self.model, "r+") as file:
                change(file["model"])
            self.assert_refused(call("export", self.model, self.path("out.safetensors")), "model.h5", part)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(("out", "pde"))], [])


if __name__ == "__main__":
    unittest.main()
