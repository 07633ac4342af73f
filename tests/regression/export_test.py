#!/usr/bin/env python3
"""`fluxformer export`: PyTorch's own encoder, given the exported state dict, computes the hidden states of the model; `import` reads it
back; what PyTorch's encoder does not have is refused by name."""

import json
import os
import resource
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from numpy_model import Model  # noqa: E402
from program import with_attributes, with_value  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import FolderTest, call, start  # noqa: E402

# Two layers of sums of at most 48 terms of order one, in float64: some hundred roundings of 1.1e-16.
TOLERANCE = 1e-12
FAMILIES = (("bert", "BertForMaskedLM"), ("gpt2", "GPT2ForSequenceClassification"), ("vit", "ViTForImageClassification"))


def read_back(path):
    """(tensors, metadata) of a safetensors file, by its definition alone."""
    with open(path, "rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        numbers = stream.read()
    metadata, kinds = header.pop("__metadata__"), {"F64": "<f8", "F32": "<f4"}
    return {name: np.frombuffer(numbers[slice(*one["data_offsets"])], kinds[one["dtype"]]).reshape(one["shape"]) for name, one in header.items()}, metadata


def by_pytorch(state, said, case):
    """Hidden states [layer, sample, token, channel] behind each layer of PyTorch's encoder, from the reference's embedded input."""
    import torch

    act = {"gelu": torch.nn.functional.gelu, "relu": torch.relu, "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh")}
    layer = torch.nn.TransformerEncoderLayer(int(said["width"]), int(said["heads"]), int(said["ffn"]), dropout=0, batch_first=True,
                                             activation=act[said["activation"]], layer_norm_eps=float(said["layer_norm_eps"]),
                                             norm_first=said["norm_first"] == "true", dtype=torch.float64)
    norm = torch.nn.LayerNorm(int(said["width"]), float(said["layer_norm_eps"]), dtype=torch.float64) if "norm.weight" in state else None
    encoder = torch.nn.TransformerEncoder(layer, int(said["layers"]), norm)
    # Strict: every name of PyTorch's encoder is there. Gradients stay enabled, so that it takes its plain path.
    encoder.load_state_dict({name: torch.tensor(array) for name, array in state.items() if name.startswith(("layers.", "norm."))})
    states = [torch.from_numpy(case["hidden"][0])]
    tokens = states[0].shape[1]
    hidden_keys = torch.arange(tokens)[None, :] >= torch.from_numpy(case.lengths.astype(int))[:, None]
    causal = torch.triu(torch.ones(tokens, tokens, dtype=torch.bool), 1) if said["causal"] == "true" else None
    for one in encoder.layers:
        states.append(one(states[-1], src_mask=causal, src_key_padding_mask=hidden_keys))
    return torch.stack(states).detach().numpy(), norm(states[-1]).detach().numpy() if norm else None


class ExportTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.model, self.state = self.path("model.h5"), self.path("state.safetensors")

    def imported(self, name, kind):
        case = Case(name)
        end = call("import", *save(self.folder, *case.published(kind)), "--output", self.model, "--overwrite")
        self.assertEqual(end.returncode, 0, end.stderr)
        return case

    def exported(self, *options):
        end = call("export", self.model, self.state, "--overwrite", *options)
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        return read_back(self.state), end.stdout


class Export(ExportTest):
    def test_pytorchs_encoder_computes_the_same(self):
        try:
            import torch  # noqa: F401  only to see whether it is installed
        except ImportError:
            self.skipTest("PyTorch is not installed (apt-get install python3-torch)")
        for name, kind in FAMILIES:
            with self.subTest(name):
                case = self.imported(name, kind)
                (state, said), _ = self.exported()
                got, normed = by_pytorch(state, said, case)
                wanted = case["hidden"]
                self.assertLess(abs(got - wanted)[:, case.real].max(), TOLERANCE * abs(wanted).max())
                if normed is not None:
                    self.assertLess(abs(normed - Model(self.model).last(wanted[-1]))[case.real].max(), TOLERANCE * abs(normed).max())

    def test_every_array_has_a_name_and_the_metadata_say_the_rest(self):
        self.imported("bert_untied", "BertForMaskedLM")
        (state, said), _ = self.exported()
        arrays = Model(self.model).arrays
        np.testing.assert_array_equal(state["layers.1.self_attn.in_proj_weight"], np.vstack([arrays[f"layers/2/W_{letter}"] for letter in "QKV"]))
        np.testing.assert_array_equal(state["layers.0.self_attn.in_proj_bias"], np.concatenate([arrays[f"layers/1/b_{letter}"] for letter in "QKV"]))
        for theirs, ours in (("layers.1.linear2.weight", "layers/2/W_2"), ("words.weight", "embedding/words"), ("segment.weight", "embedding/segment"),
                             ("embedding_norm.bias", "embedding/norm_bias"), ("word_head_transform.weight", "word_head/transform_W"),
                             ("word_head_norm.weight", "word_head/norm_gain"), ("word_head.weight", "word_head/W"), ("word_head.bias", "word_head/b")):
            np.testing.assert_array_equal(state[theirs], arrays[ours])
        self.assertEqual(sum(array.size for array in state.values()), sum(array.size for array in arrays.values()))
        self.assertEqual(said, {"format": "pt", "layers": "2", "width": "12", "heads": "3", "ffn": "20", "norm_first": "false", "activation": "gelu_tanh",
                                "layer_norm_eps": "1e-06", "causal": "false", "pooling": "mean", "head_activation": "none", "word_head_activation": "gelu_tanh"})
        case = self.imported("vit", "ViTForImageClassification")
        (state, said), _ = self.exported()
        self.assertEqual((said["pooling"], said["activation"], state["class_token"].shape), ("first", "relu", (12,)))
        np.testing.assert_array_equal(state["head.weight"], case.tensors["classifier.weight"])
        self.imported("deit", "DeiTForImageClassificationWithTeacher")
        (state, said), _ = self.exported()
        self.assertEqual((said["pooling"], state["class_token"].shape, state["head.weight"].shape), ("front", (2, 12), (4, 24)))

    def test_float32_is_the_nearest(self):
        self.imported("gpt2", "GPT2LMHeadModel")
        (wide, _), _ = self.exported()
        (state, _), _ = self.exported("--dtype", "float32")
        for name, array in wide.items():
            self.assertEqual(state[name].dtype, np.float32)
            np.testing.assert_array_equal(state[name], array.astype(np.float32))

    def test_import_reads_it_back(self):
        self.imported("gpt2", "GPT2Model")
        self.exported()
        before = Model(self.model)
        end = call("import", self.state, self.path("again.h5"), "--heads", 3, "--norm", "pre", "--activation", "gelu_tanh", "--position", "position.weight",
                   "--norm-eps", "1e-5", "--ignore", "words.weight")
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        after = Model(self.path("again.h5"))
        for name in set(before.arrays) - {"embedding/words"}:
            np.testing.assert_array_equal(after.arrays[name], before.arrays[name], name)

    def test_words_are_said_to_be_left_out(self):
        self.imported("gpt2", "GPT2Model")
        with h5py.File(self.model, "r+") as file:
            file["model/equation/alpha"] = file["model/equation/rho"] = np.ones(1)
            file["model/layers/1/kappa"] = np.zeros(12)
            file["model/embedding/vocabulary"] = [f"word{number}" for number in range(29)]
        (state, _), said = self.exported()
        self.assertIn("left out: the vocabulary", said)
        self.assertNotIn("vocabulary", " ".join(state))

    def test_what_pytorchs_encoder_does_not_have_is_refused_by_name(self):
        self.imported("bert", "BertForSequenceClassification")
        cases = [(with_attributes("model", **{name: value}), f"/model@{name} is {value}") for name, value in
                 (("kind", "pde"), ("weights", "linear"), ("order", "parallel"), ("residual", "off"), ("subflow", "midpoint"), ("kernel", "l2"),
                  ("normalisation", "linear"), ("norm", "sphere"), ("norm", "none"))]
        cases += [(with_attributes("model", activation="silu"), "/model@activation is 'silu'"), (with_attributes("model", heads=0), "/model@heads is 0"),
                  (with_attributes("model", layers=3, cells=3), "/model/layers/3/W_Q is missing"), (with_attributes("model", layers=1, cells=1), "/model/layers/2/W_1 has no place"),
                  (with_attributes("model", cells=4), "of 4 depth cells in 2 layers"), (with_value("model/edges", [0.0, 0.5, 2.0]), "of 2 depth cells in 2 layers"),
                  (with_attributes("model", width="12"), "/model@width is '12'"), (with_attributes("model", width=13), "W_Q is 12 x 12 where 13 x 13"),
                  (with_value("model/layers/1/nu", [0.1]), "/model/layers/1/nu is not 0: PyTorch's encoder has no transport"),
                  (with_value("model/layers/1/kappa", [0.0, 0.1]), "/model/layers/1/kappa is not 0: PyTorch's encoder has no diffusion"),
                  (with_value("model/equation/alpha", [0.5]), "/model/equation/alpha is not 1"), (with_value("model/equation/rho", [2.0]), "/model/equation/rho is not 1"),
                  (with_value("model/layers/1/half_W_1", np.ones((20, 12))), "/model/layers/1/half_W_1 has no place"),
                  (with_value("model/final_norm/gain", np.ones(12)), "/model/final_norm/gain is there, but a post-norm"),
                  (with_value("model/head/W", np.ones((4, 11))), "/model/head/W is 4 x 11 where any x 12"),
                  (with_value("model/head/W", np.full((4, 12), np.nan)), "/model/head/W holds numbers that are not finite"),
                  (with_value("model/head/W", np.ones((4, 12), int)), "/model/head/W holds int64"), (with_value("model/new", np.ones(3)), "/model/new has no place"),
                  (lambda file: file.__delitem__("model"), "holds no model"), (lambda file: file.__delitem__("model/layers/2/b_K"), "/model/layers/2/b_K is missing")]
        for change, part in cases:
            shutil.copy(self.model, self.path("odd.h5"))
            with h5py.File(self.path("odd.h5"), "r+") as file:
                change(file)
            with self.subTest(part):
                self.assert_refused(call("export", self.path("odd.h5"), self.state), "odd.h5", part)
                self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("state")], [])
        shutil.copy(self.model, self.path("odd.h5"))
        with h5py.File(self.path("odd.h5"), "r+") as file:
            file["model/head/W"][0, 0] = 1e39
        self.assert_refused(call("export", self.path("odd.h5"), self.state, "--dtype", "float32"), "head.weight holds numbers that are too large for F32")
        self.assert_refused(call("export", self.path("none.h5"), self.state), "no such file")

    def test_an_earlier_file_and_a_full_disk_are_safe(self):
        self.imported("gpt2", "GPT2Model")
        with open(self.state, "w", encoding="utf-8") as stream:
            stream.write("precious")
        self.assert_refused(call("export", self.model, self.state), "--overwrite")
        self.assert_refused(call("export", self.model, self.model, "--overwrite"), "is the file that is read")
        full = start("export", self.model, self.state, "--overwrite", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)))
        self.assertEqual((full.returncode, len(full.stderr.splitlines())), (1, 1), full.stderr)
        self.assertIn("state.safetensors: cannot be written", full.stderr)
        with open(self.state, encoding="utf-8") as stream:
            self.assertEqual(stream.read(), "precious")
        self.assertFalse(os.path.exists(self.state + ".part"))


if __name__ == "__main__":
    unittest.main()
