#!/usr/bin/env python3
"""`fluxformer import CHECKPOINT config.json` refuses what does not fit or is damaged: exit code 2, one line that names the tensor or the
entry of config.json, and no file left behind."""

import json
import os
import resource
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)

import safetensors_file  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import FolderTest, call, start  # noqa: E402

WEIGHT = "bert.encoder.layer.1.intermediate.dense.weight"
# A small file of two tensors: a has bytes 0 to 24, b has 24 to 40.
PAIR = {"a": np.arange(3.0), "b": np.arange(2.0)}


class DamageTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = self.path("model.h5")

    def refused_paths(self, checkpoint, config, *words, options=()):
        done = call("import", checkpoint, config, "--output", self.model, *options)
        self.assert_refused(done, *words)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("model.h5")], [])

    def refused(self, config, tensors, *words, kinds=None, options=()):
        self.refused_paths(*save(self.folder, config, tensors, kinds), *words, options=options)

    def published(self, name="bert", kind="BertForSequenceClassification"):
        return Case(name).published(kind)


class Tensors(DamageTest):
    def test_tensors_that_do_not_fit_are_named(self):
        config, tensors = self.published()

        def without(*names):
            return {name: array for name, array in tensors.items() if name not in names}

        def renamed(old, new):
            return {new if name == old else name: array for name, array in tensors.items()}

        array = tensors[WEIGHT]
        words = tensors["bert.embeddings.word_embeddings.weight"]
        cases = [
            (without(WEIGHT), "encoder.layer.1.intermediate.dense.weight is missing"),
            (without("bert.encoder.layer.0.output.LayerNorm.bias"), "encoder.layer.0.output.LayerNorm.bias is missing"),
            (without("bert.embeddings.token_type_embeddings.weight"), "embeddings.token_type_embeddings.weight is missing"),
            (without("bert.pooler.dense.weight", "bert.pooler.dense.bias"), "pooler.dense.weight is missing"),
            (without("classifier.weight", "classifier.bias"), "classifier.weight is missing"),
            (renamed(WEIGHT, WEIGHT + "s"), "encoder.layer.1.intermediate.dense.weight is missing"),
            ({**tensors, "bert.encoder.layer.2.output.dense.bias": np.ones(12)}, "no place for bert.encoder.layer.2.output.dense.bias"),
            ({**tensors, "qa_outputs.weight": np.ones((2, 12))}, "no place for qa_outputs.weight"),
            ({**tensors, "bert.encoder.layer.0.crossattention.self.query.weight": np.ones((12, 12))}, "crossattention.self.query.weight"),
            ({**tensors, "bert.encoder.layer.1.attention.self.distance_embedding.weight": np.ones((21, 4))}, "distance_embedding.weight"),
            ({**tensors, WEIGHT.removeprefix("bert."): array}, f"{WEIGHT} and {WEIGHT.removeprefix('bert.')} are the same tensor"),
            ({**tensors, "bert.embeddings.LayerNorm.gamma": np.ones(12)}, "LayerNorm.weight and bert.embeddings.LayerNorm.gamma are the same"),
            ({**tensors, WEIGHT: array.T}, f"{WEIGHT} is 12 x 20 where config.json makes it 20 x 12"),
            ({**tensors, WEIGHT: array[:-1]}, f"{WEIGHT} is 19 x 12 where"),
            ({**tensors, WEIGHT: array[:, :, None]}, f"{WEIGHT} is 20 x 12 x 1 where"),
            ({**tensors, WEIGHT: array.ravel()}, f"{WEIGHT} is 240 where"),
            ({**tensors, WEIGHT: np.array(1.0)}, f"{WEIGHT} is a single number where"),
            ({**tensors, WEIGHT: array[:0]}, f"{WEIGHT} is 0 x 12 where"),
            ({**tensors, "bert.embeddings.word_embeddings.weight": np.vstack([words, words])}, "word_embeddings.weight is 58 x 12 where config.json makes it 29 x 12"),
            ({**tensors, WEIGHT: array.astype(np.int64)}, f"{WEIGHT} holds int64, not real numbers"),
            ({**tensors, WEIGHT: array > 0}, f"{WEIGHT} holds bool, not real numbers"),
            ({**tensors, WEIGHT: np.where(array == array.max(), np.nan, array)}, f"{WEIGHT} holds numbers that are not finite"),
            ({**tensors, WEIGHT: np.where(array == array.max(), -np.inf, array).astype(np.float16)}, f"{WEIGHT} holds numbers that are not finite"),
            ({**tensors, "classifier.weight": np.ones((5, 12))}, "classifier.weight is 5 x 12 where config.json makes it 4 x 12"),
            ({}, "embeddings.word_embeddings.weight is missing; it holds nothing"),
        ]
        for changed, words in cases:
            with self.subTest(words):
                self.refused(config, changed, "model.safetensors", words)

    def test_the_word_head_is_the_one_that_config_json_says(self):
        for name, kind, tied in (("bert", "BertForMaskedLM", "cls.predictions.decoder.weight"), ("gpt2", "GPT2LMHeadModel", "lm_head.weight"),
                                 ("distilbert", "DistilBertForMaskedLM", "vocab_projector.weight"),
                                 ("roberta", "RobertaForMaskedLM", "lm_head.decoder.weight")):
            config, tensors = self.published(name, kind)
            matrix = Case(name).tensors[tied] + 1
            self.refused(config, {**tensors, tied: matrix}, f"{tied} differs from the word embeddings", '"tie_word_embeddings": false')
            self.refused({**config, "tie_word_embeddings": False}, tensors, f"{tied} is missing")
            self.refused({**config, "tie_word_embeddings": False}, {**tensors, tied: matrix.T}, f"{tied} is 12 x 29 where config.json makes it 29 x 12")
        config, tensors = self.published("bert", "BertForMaskedLM")
        self.refused(config, {**tensors, "cls.predictions.decoder.bias": np.zeros(29)}, "cls.predictions.bias and cls.predictions.decoder.bias differ")
        one, its = self.published("roberta", "RobertaForMaskedLM")
        self.refused(one, {**its, "lm_head.decoder.bias": np.zeros(29)}, "lm_head.bias and lm_head.decoder.bias differ")
        for part in ("transform.dense.weight", "transform.LayerNorm.bias", "bias"):
            rest = {name: array for name, array in tensors.items() if name != "cls.predictions." + part}
            self.refused(config, rest, f"cls.predictions.{part} is missing")

    def test_tensors_of_the_other_architectures_are_named_too(self):
        config, tensors = self.published("gpt2", "GPT2ForSequenceClassification")
        stacked = "transformer.h.0.attn.c_attn.weight"
        self.refused(config, {**tensors, stacked: tensors[stacked].T}, f"{stacked} is 36 x 12 where config.json makes it 12 x 36")
        self.refused(config, {**tensors, "score.bias": np.ones(3)}, "score.bias is 3 where config.json makes it 4")
        self.refused(config, {**tensors, "transformer.h.0.crossattention.c_attn.weight": np.ones(3)}, "no place for transformer.h.0.crossattention")
        self.refused(config, {name: array for name, array in tensors.items() if "ln_f" not in name}, "ln_f.weight is missing")
        config, tensors = self.published("vit", "ViTForImageClassification")
        patch, place = "vit.embeddings.patch_embeddings.projection.weight", "vit.embeddings.position_embeddings"
        self.refused(config, {**tensors, patch: tensors[patch].transpose(0, 2, 3, 1)}, f"{patch} is 12 x 3 x 2 x 3 where config.json makes it 12 x 3 x 3 x 2")
        self.refused(config, {**tensors, place: tensors[place][:, 1:]}, f"{place} is 1 x 4 x 12 where config.json makes it 1 x 5 x 12")
        self.refused({**config, "qkv_bias": False}, tensors, "no place for vit.encoder.layer.0.attention.attention.key.bias")
        self.refused(config, {**tensors, "decoder.0.weight": np.ones(3)}, "no place for decoder.0.weight")
        config, tensors = self.published("distilbert", "DistilBertForSequenceClassification")
        self.refused(config, {name: array for name, array in tensors.items() if "pre_" not in name}, "pre_classifier.weight is missing")
        config, tensors = self.published("roberta", "RobertaForSequenceClassification")
        place = "roberta.embeddings.position_embeddings.weight"
        self.refused(config, {**tensors, place: tensors[place][2:]}, f"{place} is 11 x 12 where config.json makes it 13 x 12")
        self.refused(config, {name: array for name, array in tensors.items() if "out_proj" not in name}, "classifier.out_proj.weight is missing")
        config, tensors = self.published("electra", "ElectraModel")
        self.refused(config, {**tensors, "electra.embeddings_project.weight": np.ones((12, 12))}, "no place for electra.embeddings_project.weight")
        config, tensors = self.published("opt", "OPTForCausalLM")
        place = "model.decoder.embed_positions.weight"
        self.refused(config, {**tensors, place: tensors[place][:10]}, f"{place} is 10 x 12 where config.json makes it 12 x 12")
        self.refused(config, {**tensors, "model.decoder.project_in.weight": np.ones((12, 6))}, "no place for model.decoder.project_in.weight")
        config, tensors = self.published("deit", "DeiTForImageClassificationWithTeacher")
        without = {name: array for name, array in tensors.items() if name != "deit.embeddings.distillation_token"}
        self.refused(config, without, "embeddings.distillation_token is missing")
        self.refused(config, {name: array for name, array in tensors.items() if not name.startswith("dist")}, "distillation_classifier.weight is missing")
        self.refused(config, {**tensors, "distillation_classifier.bias": np.ones(3)}, "distillation_classifier.bias is 3 where config.json makes it 4")


class Configs(DamageTest):
    def test_entries_that_no_model_file_can_follow_are_named(self):
        config, tensors = self.published()
        known = ("the program has bert, roberta, xlm-roberta, camembert, electra, distilbert, gpt2, opt, llama, mistral, qwen2, qwen3, "
                 "gpt_neox, gptj, modernbert, vit, deit")
        others = [("mixtral", "experts"), ("gemma2", "logits are capped"), ("bloom", "ALiBi"), ("mamba", "state-space"), ("t5", "relative"),
                  ("longformer", "within windows"), ("longformer", known),
                  ("xlm-roberta-xl", "in front of its sub-layers"), ("albert", "narrower"), ("own", "other architectures")]
        cases = [("model_type", word, part) for word, part in others] + [
            ("model_type", 3, "must be a text"), ("model_type", None, "write it into the file"),
            ("architectures", ["LlamaForCausalLM"], "LlamaForCausalLM has no place"), ("architectures", "BertModel", "list of texts"),
            ("auto_map", {"AutoModel": "modeling.Own"}, "a program of its own"), ("quantization_config", {"bits": 4}, "quantised"),
            ("pruned_heads", {"0": [1]}, "same heads"), ("is_encoder_decoder", True, "one encoder or one decoder"),
            ("position_embedding_type", "relative_key", "a vector for each position"), ("is_decoder", True, "decoders of the BERT family"),
            ("add_cross_attention", True, "cross attention"), ("hidden_act", "silu", "the program has gelu"), ("hidden_act", "gelu_fast", "the program has gelu"),
            ("layer_norm_eps", 0, "above 0 and below 1"), ("layer_norm_eps", "1e-12", "above 0 and below 1"), ("layer_norm_eps", True, "above 0 and below 1"),
            ("hidden_size", 0, "must be a whole number from 1"), ("hidden_size", -12, "must be a whole number"), ("hidden_size", 12.0, "must be a whole number"),
            ("hidden_size", True, "must be a whole number"), ("hidden_size", "12", "must be a whole number"), ("vocab_size", 10**30, "must be a whole number"),
            ("num_attention_heads", 5, "does not divide hidden_size = 12"), ("num_hidden_layers", None, "must be a whole number"),
            ("id2label", ["a", "b"], "a name for each class")]
        for name, value, part in cases:
            with self.subTest(name, value=value):
                self.refused({**config, name: value}, tensors, "config.json", name, part)
        for name in ("hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings"):
            rest = {key: value for key, value in config.items() if key != name}
            self.refused(rest, tensors, f"{name} is missing")

    def test_sizes_that_are_not_those_of_the_tensors_name_the_tensor(self):
        config, tensors = self.published()
        for name, value, tensor in (("hidden_size", 24, "word_embeddings.weight"), ("vocab_size", 30, "word_embeddings.weight"),
                                    ("num_hidden_layers", 1, "encoder.layer.1."), ("num_hidden_layers", 3, "encoder.layer.2.attention.self.query.weight"),
                                    ("num_hidden_layers", 10**9, "encoder.layer.2."), ("intermediate_size", 10**9, "layer.0.intermediate.dense.weight"),
                                    ("max_position_embeddings", 10, "position_embeddings.weight"), ("type_vocab_size", 1, "token_type_embeddings.weight")):
            with self.subTest(name, value=value):
                self.refused({**config, name: value}, tensors, "model.safetensors", tensor)

    def test_what_others_than_bert_compute_otherwise_is_refused(self):
        config, tensors = self.published("gpt2", "GPT2LMHeadModel")
        for name, value in (("scale_attn_by_inverse_layer_idx", True), ("scale_attn_weights", False), ("add_cross_attention", True),
                            ("scale_attn_weights", 1), ("activation_function", "tanh"), ("n_inner", 0), ("tie_word_embeddings", "no")):
            with self.subTest(name, value=value):
                self.refused({**config, name: value}, tensors, "config.json", name)
        config, tensors = self.published("opt", "OPTForCausalLM")
        for name, value, part in (("do_layer_norm_before", False, "behind its sub-layers"), ("word_embed_proj_dim", 6, "project_in"),
                                  ("enable_bias", False, "have biases"), ("layer_norm_elementwise_affine", False, "gains and biases"),
                                  ("_remove_final_layer_norm", True, "behind the last layer"), ("ffn_dim", 0, "whole number")):
            with self.subTest(name, value=value):
                self.refused({**config, name: value}, tensors, "config.json", name, part)
        config, tensors = self.published("roberta", "RobertaModel")
        for name, value, part in (("pad_token_id", -1, "from 0"), ("pad_token_id", 29, "the model has 29 words"), ("pad_token_id", True, "from 0"),
                                  ("max_position_embeddings", 2, "more than 2"), ("position_embedding_type", "relative_key", "for each position")):
            with self.subTest(name, value=value):
                changed = {**config, name: value, **({"max_position_embeddings": 31} if value == 29 else {})}
                place = "roberta.embeddings.position_embeddings.weight"
                self.refused(changed, {**tensors, place: np.ones((31, 12))} if value == 29 else tensors, "config.json", name, part)
        config, tensors = self.published("electra", "ElectraModel")
        self.refused({**config, "embedding_size": 6}, tensors, "config.json", "embedding_size = 6", "embeddings_project")
        self.refused({key: value for key, value in config.items() if key != "embedding_size"}, tensors, "embedding_size is missing", "embeddings_project")
        config, tensors = self.published("vit", "ViTModel")
        for name, value in (("patch_size", [7, 2]), ("patch_size", [3, 2, 1]), ("image_size", "6"), ("num_channels", 0), ("qkv_bias", 1)):
            with self.subTest(name, value=value):
                self.refused({**config, name: value}, tensors, "config.json", name)

    def test_files_that_are_no_config_are_refused(self):
        checkpoint, config = save(self.folder, *self.published())
        for content, part in ((b"", "not a config.json"), (b"[]", "begins with no {"), (b'{"model_type": "bert"', "not a config.json"), (b"\xff{}", "not a config.json"),
                              (b'{"a": 1, "a": 2}', "a is in it twice"), (b"[" * 100000, "not a config.json"), (b'{"hidden_size": ' + b"9" * 5000 + b"}", "not a config.json")):
            with open(config, "wb") as stream:
                stream.write(content)
            with self.subTest(content[:30]):
                self.refused_paths(checkpoint, config, "config.json", part)
        self.refused_paths(checkpoint, self.path("none.json"), "none.json", "no such file")


class Files(DamageTest):
    def refused_file(self, header, numbers, *words, length=None):
        _, config = save(self.folder, *self.published())
        safetensors_file.write(self.path("model.safetensors"), header, numbers, length)
        self.refused_paths(self.path("model.safetensors"), config, "model.safetensors", *words)

    def test_headers_that_do_not_hold_together_are_refused(self):
        header, numbers = safetensors_file.parts_of(PAIR)

        def changed(**entry):
            return {**header, "b": {**header["b"], **entry}}

        cases = [
            (changed(data_offsets=[24, 48]), numbers, "b: its numbers are said to end at byte 48 of 40"),
            (changed(data_offsets=[16, 32]), numbers, "b overlaps a"),
            (changed(data_offsets=[24, 40], shape=[3]), numbers, "b: 16 bytes are no 3 numbers of 8 bytes (F64)"),
            (changed(dtype="F32"), numbers, "b: 16 bytes are no 2 numbers of 4 bytes (F32)"),
            (changed(shape=[10**12, 10**12]), numbers, "b: 16 bytes are no 1000000000000 x 1000000000000 numbers"),
            (changed(shape=[-1, -2]), numbers, "b: its shape"), (changed(shape=[2.0]), numbers, "b: its shape"), (changed(shape=[True, 2]), numbers, "b: its shape"),
            (changed(shape="2"), numbers, "b: its shape"), (changed(data_offsets=[40, 24]), numbers, "b: its data_offsets"),
            (changed(data_offsets=[24]), numbers, "b: its data_offsets"), (changed(data_offsets=[-16, 0]), numbers, "b: its data_offsets"),
            (changed(dtype="F128"), numbers, "b: dtype 'F128' is not one of"), (changed(dtype=8), numbers, "b: dtype 8"),
            (changed(extra=1), numbers, "b: its entry"), ({**header, "b": [24, 40]}, numbers, "b: its entry"),
            (changed(data_offsets=[32, 48]), numbers + bytes(8), "b leaves unused bytes behind a"),
            (header, numbers + bytes(8), "8 bytes behind b belong to no tensor"), (header, numbers[:-1], "b: its numbers are said to end at byte 40 of 39: is the file cut?"),
            ({**header, "__metadata__": {"format": 1}}, numbers, "__metadata__"), ({**header, "__metadata__": "pt"}, numbers, "__metadata__"),
            (json.dumps(header).encode().replace(b'"b"', b'"a"'), numbers, "a is in it twice"),
            (b'{"a": {"dtype": "F64", "dtype": "F32"}}', numbers, "dtype is in it twice"),
            (b"[]", numbers, "does not begin with {"), (b"{", numbers, "no JSON object"), (b"{\xff}", numbers, "no JSON object"), (b"{}", numbers, "40 bytes behind the header"),
            (b'{"a":' + b"[" * 100000, numbers, "no JSON object"), (b'{"a": {"dtype": "F64", "shape": [' + b"9" * 5000 + b"]}}", numbers, "no JSON object"),
        ]
        for head, content, words in cases:
            with self.subTest(words):
                self.refused_file(head, content, words)
        for length in (0, 2**63, 10**12, len(json.dumps(header)) + 41, len(json.dumps(header)) - 1):
            with self.subTest(length=length):
                self.refused_file(header, numbers, "not a safetensors file", length=length)

    def test_files_that_are_cut_or_something_else_are_refused(self):
        checkpoint, config = save(self.folder, *self.published())
        with open(checkpoint, "rb") as stream:
            whole = stream.read()
        for content in (b"", whole[:7], whole[:8], whole[:100], whole[:len(whole) // 2], whole[:-1], whole + b"\0", b"\x80\x02pickle", bytes(10**4)):
            with open(checkpoint, "wb") as stream:
                stream.write(content)
            with self.subTest(length=len(content)):
                self.refused_paths(checkpoint, config, "model.safetensors")
        self.refused_paths(self.path("none.safetensors"), config, "no such file")
        self.refused_paths(self.path("none.gguf"), config, "no such file")
        self.refused_paths(config, config, "the ending tells the format")
        os.mkfifo(self.path("pipe.safetensors"))
        self.refused_paths(self.path("pipe.safetensors"), config, "not a regular file")
        with open(self.path("odd.npz"), "wb") as stream:
            stream.write(b"PK" + bytes(100))
        self.refused_paths(self.path("odd.npz"), config, "odd.npz", "not a readable .npz file")

    def test_kinds_of_numbers_that_are_not_read_are_named(self):
        config, tensors = self.published()
        for kind in ("F8_E4M3", "F8_E5M2"):
            self.refused(config, {**tensors, WEIGHT: np.zeros((20, 12), bool)}, f"{WEIGHT} holds {kind}", kinds={WEIGHT: kind})
        nan = safetensors_file.bfloat16(np.full((20, 12), np.nan))
        self.refused(config, {**tensors, WEIGHT: nan}, f"{WEIGHT} holds numbers that are not finite", kinds={WEIGHT: "BF16"})

    def test_vocabularies_that_do_not_fit_are_refused(self):
        paths = save(self.folder, *self.published())
        words = [f"word{number}" for number in range(29)]
        for name, content, part in (("v.txt", "\n".join(words[:14]), "14 words, but the model has 29"), ("v.txt", "\n".join([*words, "more"]), "30 words, but the model has 29"),
                                    ("v.txt", "\n".join([*words[:5], "", *words[5:-1]]), "word 5 is empty"), ("v.txt", "", "word 0 is empty"),
                                    ("v.txt", "\n".join([*words[:-1], "z\0"]), "zero byte"), ("v.json", "[1]", "not an object word: number"),
                                    ("v.json", '{"a": 0, "b": 2}', "'b' has 2 where 1 is expected"), ("v.json", '{"a": 0, "b": "1"}', "not an object word: number"),
                                    ("v.json", "{", "not a vocabulary"), ("v.json", "{}", "0 words, but the model has 29")):
            with open(self.path(name), "w", encoding="utf-8") as stream:
                stream.write(content)
            with self.subTest(content[-20:]):
                self.refused_paths(*paths, name, part, options=("--words", self.path(name)))
        with open(self.path("v.txt"), "wb") as stream:
            stream.write(b"\xff")
        self.refused_paths(*paths, "v.txt", "not a text in UTF-8", options=("--words", self.path("v.txt")))
        self.refused(*self.published("vit", "ViTModel"), "29 words, but the model has 0", options=("--words", self.write_words(words)))

    def write_words(self, words):
        with open(self.path("words.txt"), "w", encoding="utf-8") as stream:
            stream.write("\n".join(words))
        return self.path("words.txt")

    def test_a_full_disk_leaves_one_message_and_an_earlier_model(self):
        checkpoint, config = save(self.folder, *self.published())
        with open(self.model, "w", encoding="utf-8") as stream:
            stream.write("precious")
        for most in (0, 1000, 20000, 30000):  # before, amid and behind the large arrays
            full = start("import", checkpoint, config, "--output", self.model, "--overwrite",
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
            self.assertEqual((full.returncode, len(full.stderr.splitlines())), (1, 1), full.stderr)
            self.assertIn("model.h5: cannot be written", full.stderr)
            with open(self.model, encoding="utf-8") as stream:
                self.assertEqual(stream.read(), "precious")
            self.assertFalse(os.path.exists(self.model + ".part"))
        self.assertEqual(call("import", checkpoint, config, "--output", self.model, "--overwrite").returncode, 0)
        self.assertGreater(os.path.getsize(self.model), 30000)

    def test_places_where_no_model_can_go_are_refused(self):
        checkpoint, config = save(self.folder, *self.published())
        for place, part in ((checkpoint, "is the file that is read"), (config, "is the file that is read"), (self.path("no/model.h5"), "not a folder"), (self.folder, "not a regular file")):
            self.assert_refused(call("import", checkpoint, config, "--output", place, "--overwrite"), part)
        with open(self.model, "w", encoding="utf-8") as stream:
            stream.write("precious")
        self.assert_refused(call("import", checkpoint, config, "--output", self.model), "--overwrite")

    def test_a_header_of_any_length_is_not_read(self):
        _, config = save(self.folder, *self.published())
        with open(self.path("model.safetensors"), "wb") as stream:
            stream.write(struct.pack("<Q", 100_000_001) + b"{")
            stream.truncate(200_000_000)  # a hole
        self.refused_paths(self.path("model.safetensors"), config, "announce a header of 100000001 bytes")

    def test_a_pointer_that_git_left_without_its_large_files_is_named(self):
        _, config = save(self.folder, *self.published())
        with open(self.path("model.safetensors"), "w", encoding="utf-8") as stream:
            stream.write(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 440449768\n")
        self.refused_paths(self.path("model.safetensors"), config, "model.safetensors: a pointer of Git LFS", "git lfs pull")


if __name__ == "__main__":
    unittest.main()
