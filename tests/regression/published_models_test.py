#!/usr/bin/env python3
"""`fluxformer import CHECKPOINT config.json`: the model file of a published model has the hidden states, the attention and the logits
that PyTorch has, whatever class, names, prefix, kind of number or format it was published with.

The references are published_reference.h5 and language_models_reference.h5 of tests/support (PyTorch, float64); numpy_model.py computes what a model file says.
"""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

import safetensors_file  # noqa: E402
from numpy_model import Model  # noqa: E402
from published_case import CLASSES, ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import ENVIRONMENT, FolderTest, call  # noqa: E402

CASES = {"bert": "Bert", "bert_untied": "Bert", "distilbert": "DistilBert", "gpt2": "GPT2", "vit": "ViT", "roberta": "Roberta",
         "electra": "Electra", "opt": "OPT", "deit": "DeiT", "llama": "Llama", "llama_biased": "Llama", "mistral": "Mistral", "qwen2": "Qwen2",
         "qwen3": "Qwen3", "gpt_neox": "GPTNeoX", "gpt_neox_sequential": "GPTNeoX", "gptj": "GPTJ", "modernbert": "ModernBert",
         "modernbert_biased": "ModernBert"}
EVERY = [(name, kind) for name, family in CASES.items() for kind in CLASSES if kind.startswith(family)]
# float64: two layers of sums of at most 48 terms of order one, and logits of 12: some hundred roundings of 1.1e-16.
TOLERANCE = 1e-12


def computed_by_numpy(path, case):
    """hidden, attention, words and classes of a model file on the inputs of a case."""
    model = Model(path)
    tokens = case["ids"].astype(int) if "ids" in case else case.patches()
    hidden, attention = model.states(tokens, case.lengths, case["segments"].astype(int) if "segments" in case else None)
    return {"hidden": hidden, "attention": attention, "words": model.words(hidden[-1]), "classes": model.classes(hidden[-1], case.lengths)}


def real_rows(name, array, case):
    """Those of real tokens (of attention: queries)."""
    if name == "classes":
        return array
    return {"hidden": lambda: array[:, case.real], "words": lambda: array[case.real],
            "attention": lambda: array.swapaxes(2, 3)[:, case.real]}[name]()


class PublishedTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = self.path("model.h5")

    def accepted(self, checkpoint, config, *options):
        done = call("import", checkpoint, config, "--output", self.model, "--overwrite", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def same_as_torch(self, case, outputs, compute=computed_by_numpy):
        """`compute(model file, case)` gives the reference's `outputs`, and none of the heads that are not among them."""
        found = compute(self.model, case)
        for name in ("hidden", "attention", "words", "classes"):
            if name not in outputs:
                self.assertIsNone(found[name], name)
                continue
            self.assertEqual(found[name].shape, case[name].shape, name)
            got, wanted = (real_rows(name, one, case) for one in (found[name], case[name]))
            self.assertLess(abs(got - wanted).max(), TOLERANCE * abs(wanted).max(), name)


def outputs_of(kind):
    """What a model of a class computes."""
    words = ("words",) if kind.endswith(("MaskedLM", "PreTraining", "LMHeadModel", "CausalLM")) else ()
    return ("hidden", "attention", *words, *(("classes",) if "Classification" in kind else ()))


class Published(PublishedTest):
    def test_every_class_computes_what_pytorch_computes(self):
        for name, kind in EVERY:
            with self.subTest(name, kind=kind):
                case = Case(name)
                self.accepted(*save(self.folder, *case.published(kind)))
                self.same_as_torch(case, outputs_of(kind))

    def test_the_file_says_what_it_is(self):
        case = Case("bert")
        self.accepted(*save(self.folder, *case.published("BertForSequenceClassification")))
        with h5py.File(self.model, "r") as file:
            self.assertEqual((file.attrs["schema_version"], file.attrs["status"]), (1, "done"))
            self.assertEqual(dict(file["model"].attrs),
                             dict(kind="transformer", layers=2, knots=2, width=12, heads=3, ffn=20, activation="gelu_erf", norm="post",
                                  norm_eps=1e-12, order="sequential", residual="on", causal="off", kernel="dot", inputs=0, tokens=11,
                                  classes=4, pooling="first", head_activation="tanh"))
            kinds = set()
            file["model"].visititems(lambda _, item: kinds.add(item.dtype) if isinstance(item, h5py.Dataset) else None)
            self.assertEqual(kinds, {np.dtype(np.float64)})

    def test_the_relatives_of_roberta_have_its_names(self):
        case = Case("roberta")
        for word, family in (("xlm-roberta", "XLMRoberta"), ("camembert", "Camembert")):
            for kind in ("ForMaskedLM", "ForSequenceClassification"):
                config, tensors = case.published(f"Roberta{kind}")
                self.accepted(*save(self.folder, {**config, "model_type": word, "architectures": [family + kind]}, tensors))
                self.same_as_torch(case, outputs_of(kind))
        with h5py.File(self.model, "r") as file:
            self.assertEqual((file["model"].attrs["tokens"], file["model"].attrs["pad_word"]), (11, 1))

    def test_positions_that_begin_elsewhere_would_be_seen(self):
        # The mistake that the importer must not make: token 0 has the first row of the published table.
        for name, kind, place in (("roberta", "RobertaModel", "roberta.embeddings.position_embeddings.weight"),
                                  ("opt", "OPTModel", "model.decoder.embed_positions.weight")):
            case = Case(name)
            self.accepted(*save(self.folder, *case.published(kind)))
            right, wrong = Model(self.model), Model(self.model)
            wrong.arrays["embedding/position"] = case.tensors[place]
            hidden = [model.states(case["ids"].astype(int), case.lengths)[0] for model in (right, wrong)]
            self.assertGreater(abs(hidden[0] - hidden[1])[:, case.real].max(), 1e-2 * abs(hidden[0]).max())

    def test_a_deit_without_teacher_has_a_head_on_its_first_token(self):
        case, classes = Case("deit"), 4
        config, tensors = case.published("DeiTModel")
        head = {"classifier.weight": np.linspace(-1, 1, classes * 12).reshape(classes, 12), "classifier.bias": np.linspace(0, 1, classes)}
        self.accepted(*save(self.folder, {**config, "architectures": ["DeiTForImageClassification"]}, {**tensors, **head}))
        first = case["hidden"][-1][:, 0]
        centred = first - first.mean(-1, keepdims=True)
        normalised = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + config["layer_norm_eps"]) * tensors["deit.layernorm.weight"]
                      + tensors["deit.layernorm.bias"])
        found = computed_by_numpy(self.model, case)["classes"]
        np.testing.assert_allclose(found, normalised @ head["classifier.weight"].T + head["classifier.bias"], rtol=0, atol=1e-12 * abs(found).max())

    def test_what_is_left_out_is_said(self):
        for name, kind, words in (("bert", "BertModel", ("bert.pooler.dense.weight", "without classifier")),
                                  ("bert", "BertForPreTraining", ("bert.pooler.dense.bias", "cls.seq_relationship.weight")),
                                  ("vit", "ViTModel", ("vit.pooler.dense.weight",)),
                                  ("roberta", "RobertaModel", ("roberta.pooler.dense.weight", "without classifier")),
                                  ("deit", "DeiTModel", ("deit.pooler.dense.bias",))):
            said = self.accepted(*save(self.folder, *Case(name).published(kind)))
            for word in words:
                self.assertIn(word, said)
        config, tensors = Case("electra").published("ElectraModel")
        head = {name: array for name, array in Case("electra").tensors.items() if name.startswith("discriminator_predictions.")}
        said = self.accepted(*save(self.folder, {**config, "architectures": ["ElectraForPreTraining"]}, {**tensors, **head}))
        self.assertIn("discriminator_predictions.dense_prediction.weight (the head of ElectraForPreTraining has no place", said)
        self.assertNotIn("left out", self.accepted(*save(self.folder, *Case("bert").published("BertForSequenceClassification"))))

    def test_prefixes_old_names_and_buffers_are_known(self):
        buffers = {"bert": {"embeddings.position_ids": np.arange(11)}, "distilbert": {"embeddings.position_ids": np.arange(9)},
                   "gpt2": {"h.1.attn.bias": np.ones((1, 1, 10, 10)), "h.0.attn.masked_bias": np.array(-1e4)}, "vit": {},
                   "roberta": {"embeddings.position_ids": np.arange(13), "embeddings.token_type_ids": np.zeros(13)},
                   "electra": {"embeddings.position_ids": np.arange(11)}, "opt": {"decoder.version": np.array(3.0)}, "deit": {},
                   "llama": {"layers.2.self_attn.rotary_emb.inv_freq": np.ones(4)}, "mistral": {"rotary_emb.inv_freq": np.ones(3)}, "qwen2": {}, "qwen3": {},
                   "gpt_neox": {"layers.0.attention.bias": np.ones((1, 1, 9, 9)), "layers.1.attention.masked_bias": np.array(-1e9),
                                "layers.2.attention.rotary_emb.inv_freq": np.ones(2)},
                   "gptj": {"h.0.attn.bias": np.ones((1, 1, 9, 9)), "h.1.attn.masked_bias": np.array(-1e9)}, "modernbert": {}}
        for name, kind, prefix in (("bert", "BertForMaskedLM", "bert."), ("distilbert", "DistilBertForMaskedLM", "distilbert."),
                                   ("gpt2", "GPT2LMHeadModel", "transformer."), ("vit", "ViTForImageClassification", "vit."),
                                   ("roberta", "RobertaForMaskedLM", "roberta."), ("electra", "ElectraForMaskedLM", "electra."),
                                   ("opt", "OPTForCausalLM", "model."), ("deit", "DeiTForImageClassificationWithTeacher", "deit."),
                                   ("llama", "LlamaForCausalLM", "model."), ("mistral", "MistralForSequenceClassification", "model."),
                                   ("gpt_neox", "GPTNeoXForCausalLM", "gpt_neox."), ("gptj", "GPTJForCausalLM", "transformer."),
                                   ("modernbert", "ModernBertForMaskedLM", "model.")):
            case = Case(name)
            config, tensors = case.published(kind)
            for renamed in (lambda one: one.removeprefix(prefix), lambda one: "model." + one,
                            lambda one: one.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")):
                changed = {renamed(one): array for one, array in tensors.items()}
                with self.subTest(name, first=next(iter(changed))):
                    self.accepted(*save(self.folder, config, {**changed, **buffers[name]}))
                    self.same_as_torch(case, outputs_of(kind))

    def test_what_config_json_leaves_out_is_the_published_default(self):
        for name, kind, entries in (("bert", "BertForMaskedLM", ("layer_norm_eps", "hidden_act", "position_embedding_type", "type_vocab_size")),
                                    ("gpt2", "GPT2LMHeadModel", ("layer_norm_epsilon", "activation_function", "n_inner")),
                                    ("distilbert", "DistilBertForMaskedLM", ("activation",)),
                                    ("vit", "ViTForImageClassification", ("layer_norm_eps", "num_channels", "qkv_bias")),
                                    ("roberta", "RobertaForMaskedLM", ("pad_token_id", "hidden_act", "position_embedding_type")),
                                    ("electra", "ElectraForMaskedLM", ("layer_norm_eps", "hidden_act", "type_vocab_size")),
                                    ("opt", "OPTForCausalLM", ("activation_function", "do_layer_norm_before", "word_embed_proj_dim")),
                                    ("deit", "DeiTForImageClassificationWithTeacher", ("layer_norm_eps", "hidden_act", "num_channels", "qkv_bias")),
                                    ("llama", "LlamaForCausalLM", ("hidden_act", "rope_theta", "tie_word_embeddings", "attention_bias")),
                                    ("mistral", "MistralForCausalLM", ("hidden_act", "rope_theta", "rope_scaling", "tie_word_embeddings",
                                                                      "max_position_embeddings")),
                                    ("gpt_neox", "GPTNeoXForCausalLM", ("layer_norm_eps", "hidden_act", "rotary_emb_base", "use_parallel_residual",
                                                                       "tie_word_embeddings")),
                                    ("gptj", "GPTJForCausalLM", ("n_inner", "activation_function", "layer_norm_epsilon", "tie_word_embeddings")),
                                    ("modernbert", "ModernBertForMaskedLM", ("norm_eps", "hidden_activation", "global_attn_every_n_layers", "global_rope_theta",
                                                                            "classifier_activation"))):
            case = Case(name)
            config, tensors = case.published(kind)
            self.accepted(*save(self.folder, {key: value for key, value in config.items() if key not in entries and key != "architectures"}, tensors))
            self.same_as_torch(case, outputs_of(kind))

    def test_tied_matrices_may_be_there_twice(self):
        for name, kind, tied in (("bert", "BertForMaskedLM", "cls.predictions.decoder.weight"), ("gpt2", "GPT2LMHeadModel", "lm_head.weight"),
                                 ("distilbert", "DistilBertForMaskedLM", "vocab_projector.weight"),
                                 ("roberta", "RobertaForMaskedLM", "lm_head.decoder.weight"), ("opt", "OPTForCausalLM", "lm_head.weight"),
                                 ("electra", "ElectraForMaskedLM", "generator_lm_head.weight")):
            case = Case(name)
            config, tensors = case.published(kind)
            self.accepted(*save(self.folder, config, {**tensors, tied: case.tensors[tied]}))
            self.same_as_torch(case, outputs_of(kind))
            with h5py.File(self.model, "r") as file:
                self.assertNotIn("W", file["model/word_head"])

    def test_the_bias_of_the_words_has_two_names(self):
        for name, kind, place in (("bert", "BertForMaskedLM", "cls.predictions."), ("roberta", "RobertaForMaskedLM", "lm_head.")):
            case = Case(name)
            config, tensors = case.published(kind)
            bias = tensors[f"{place}bias"]
            for biases in ({f"{place}decoder.bias": bias}, {f"{place}bias": bias, f"{place}decoder.bias": bias}):
                rest = {name: array for name, array in tensors.items() if name != f"{place}bias"}
                self.accepted(*save(self.folder, config, {**rest, **biases}))
                self.same_as_torch(case, outputs_of(kind))

    def test_a_vit_without_biases_of_queries_has_zeros(self):
        config, tensors = Case("vit").published("ViTModel")
        rest = {name: array for name, array in tensors.items() if not name.endswith(("query.bias", "key.bias", "value.bias"))}
        self.accepted(*save(self.folder, {**config, "qkv_bias": False}, rest))
        model = Model(self.model)
        self.assertEqual([abs(model.arrays[f"layers/2/b_{letter}"]).max() for letter in "QKV"], [0, 0, 0])
        np.testing.assert_array_equal(model.arrays["layers/2/W_K"], tensors["vit.encoder.layer.1.attention.attention.key.weight"])

    def test_every_kind_of_number_is_stored_as_it_is(self):
        config, tensors = Case("gpt2").published("GPT2LMHeadModel")
        name, ours = "transformer.h.1.attn.c_attn.weight", "layers/2/W_K"
        for kind, convert, back in (("F32", np.float32, np.float64), ("F16", np.float16, np.float64),
                                    ("BF16", safetensors_file.bfloat16, lambda x: (x.astype(np.uint32) << 16).view(np.float32))):
            with self.subTest(kind):
                numbers = {one: convert(array) for one, array in tensors.items()}
                self.accepted(*save(self.folder, config, numbers, {one: kind for one in numbers}))
                model = Model(self.model)
                np.testing.assert_array_equal(model.arrays[ours], back(numbers[name])[:, 12:24].T)
                np.testing.assert_array_equal(model.arrays["embedding/words"], back(numbers["transformer.wte.weight"]))

    def test_npz_and_torch_files_give_the_same(self):
        case = Case("bert")
        config, tensors = case.published("BertForMaskedLM")
        _, config_path = save(self.folder, config, tensors)
        np.savez(self.path("model.npz"), **tensors)
        names = ["model.npz"]
        try:
            import torch
            for name in ("pytorch_model.bin", "model.pt"):
                torch.save({one: torch.from_numpy(array) for one, array in tensors.items()}, self.path(name))
                names.append(name)
        except ImportError:
            print("PyTorch is not installed: .bin is not tested", file=sys.stderr)
        for name in names:
            with self.subTest(name):
                self.accepted(self.path(name), config_path)
                self.same_as_torch(case, outputs_of("BertForMaskedLM"))

    def test_a_vocabulary_comes_into_the_file(self):
        paths = save(self.folder, *Case("gpt2").published("GPT2LMHeadModel"))
        words = [f"wört{number}" for number in range(29)]
        with open(self.path("vocab.txt"), "w", encoding="utf-8", newline="") as stream:
            stream.write("".join(word + "\r\n" for word in words))
        with open(self.path("vocab.json"), "w", encoding="utf-8") as stream:
            stream.write("{" + ", ".join(f'"{words[number]}": {number}' for number in reversed(range(29))) + "}")
        for name in ("vocab.txt", "vocab.json"):
            self.accepted(*paths, "--words", self.path(name))
            with h5py.File(self.model, "r") as file:
                self.assertEqual([*file["model/embedding/vocabulary"].asstr()], words)

    def test_a_large_model_takes_little_memory(self):
        config, tensors = Case("bert").published("BertModel")
        # 24 million numbers: 96 MB as float32, 192 MB in the model file. Without streaming both would have to be in memory.
        tensors = {**tensors, "bert.embeddings.word_embeddings.weight": np.zeros((2000000, 12))}
        tensors = {name: array.astype(np.float32) for name, array in tensors.items()}
        checkpoint, config = save(self.folder, {**config, "vocab_size": 2000000}, tensors)
        script = ("import sys, resource\nfrom fluxformer.__main__ import main\nimport fluxformer.published.command\n"
                  "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\nmain(sys.argv[1:])\n"
                  "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)")
        done = subprocess.run([sys.executable, "-c", script, "import", checkpoint, config, "--output", self.model], env=ENVIRONMENT,
                              capture_output=True, text=True, check=True)
        self.assertEqual(os.path.getsize(self.model) // 10**6, 192)
        # The mapped file (96 MB, which the system takes back when it likes) and pieces of some MB.
        self.assertLess(int(done.stdout.split()[-1]), 150e3, "kB")


if __name__ == "__main__":
    unittest.main()
