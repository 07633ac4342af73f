#!/usr/bin/env python3
"""`fluxformer import`: a state dict is converted to the same model as in PyTorch, or refused with a reason.

Runs the script as a user would. The reference is tests/support/torch_reference.h5: a plain numpy forward pass over the
imported file must give PyTorch's hidden states. Status 0 if all tests pass.
"""

import os
import re
import resource
import struct
import sys
import unittest
import warnings
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

import safetensors_file  # noqa: E402
from numpy_transformer import layer, weights  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import FolderTest, call, start  # noqa: E402

REFERENCE = os.path.join(ROOT, "tests", "support", "torch_reference.h5")
USUAL = ("--heads", "4", "--norm", "pre", "--activation", "gelu_erf")


def torch_names(prefix="layers."):
    """The reference weights as nn.TransformerEncoder names them."""
    state = {}
    with h5py.File(REFERENCE, "r") as file:
        layers = file["pre_plain/model/layers"]
        for number in range(1, len(layers) + 1):
            w = {name: item[...] for name, item in layers[str(number)].items()}
            here = f"{prefix}{number - 1}."
            state[here + "self_attn.in_proj_weight"] = np.concatenate([w["W_Q"], w["W_K"], w["W_V"]])
            state[here + "self_attn.in_proj_bias"] = np.concatenate([w["b_Q"], w["b_K"], w["b_V"]])
            state[here + "self_attn.out_proj.weight"], state[here + "self_attn.out_proj.bias"] = w["W_O"], w["b_O"]
            for which in "12":
                state[f"{here}linear{which}.weight"] = w["W_" + which]
                state[f"{here}linear{which}.bias"] = w["b_" + which]
                state[f"{here}norm{which}.weight"] = w[f"norm{which}_gain"]
                state[f"{here}norm{which}.bias"] = w[f"norm{which}_bias"]
    return state


def forward(model, u):
    """Hidden states after each layer."""
    states = [u]
    for number in range(1, int(model.attrs["layers"]) + 1):
        states.append(layer(weights(model, number), states[-1], int(model.attrs["heads"]), model.attrs["norm"]))
    return np.array(states)


def limit_file_size(most):
    """Makes writing past `most` bytes fail, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


class ImportWeights(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = self.path("model.h5")

    def run_script(self, state_path, *options, **process):
        return (start if process else call)("import", state_path, self.model, *options, **process)

    def save(self, state, name="state.npz"):
        path = self.path(name)
        if name.endswith(".npz"):
            np.savez(path, **state)
        elif name.endswith(".h5"):
            with h5py.File(path, "w") as file:
                for key, value in state.items():
                    file[key] = value
        elif name.endswith(".safetensors"):
            safetensors_file.save(path, state)
        else:
            import torch
            torch.save({key: torch.from_numpy(value) for key, value in state.items()}, path)
        return path

    def accepted(self, state, *options, name="state.npz"):
        done = self.run_script(self.save(state, name), *(options or USUAL))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return h5py.File(self.model, "r")

    def refused(self, state, reason, *options, name="state.npz"):
        path = self.save(state, name) if isinstance(state, dict) else state
        done = self.run_script(path, *(options or USUAL))
        self.assert_refused(done, reason)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("model")], [])

    def same_as_torch(self, model, case):
        with h5py.File(REFERENCE, "r") as file:
            expected = file[case]["hidden"][...]
            got = forward(model, file[case]["input"][...])
        # Three layers of sums of at most 40 terms of order one: about a hundred roundings of
        # 1.1e-16.
        self.assertLess(abs(got - expected).max(), 1e-13 * abs(expected).max())

    def test_the_imported_model_has_pytorchs_hidden_states(self):
        for norm in ("pre", "post"):
            with self.subTest(norm=norm):
                options = ("--heads", "4", "--norm", norm, "--activation", "gelu_erf", "--overwrite")
                with self.accepted(torch_names(), *options) as file:
                    self.same_as_torch(file["model"], norm + "_plain")

    def test_every_format_gives_the_same_file(self):
        state = torch_names()
        nested = {name.replace(".", "/"): value for name, value in state.items()}
        formats = [("flat.h5", state), ("nested.h5", nested), ("state.safetensors", state)]
        try:
            import torch  # noqa: F401  only to see whether it is installed
            formats.append(("state.pt", state))
        except ImportError:
            print("PyTorch is not installed: .pt is not tested", file=sys.stderr)
        with self.accepted(state) as file:
            expected = {name: item[...] for name, item in file["model/layers/2"].items()}
        self.assertEqual(len(expected), 17)
        for name, arrays in formats:
            with self.subTest(name=name), self.accepted(arrays, *USUAL, "--overwrite", name=name) as file:
                for key, value in expected.items():
                    np.testing.assert_array_equal(file["model/layers/2"][key][...], value)

    def test_the_file_says_what_it_is(self):
        with self.accepted(torch_names("net.encoder.layers.")) as file:
            self.assertEqual(file.attrs["schema_version"], 1)
            self.assertEqual(file.attrs["status"], "done")
            expected = dict(kind="transformer", layers=3, width=16, heads=4, ffn=40, activation="gelu_erf", norm="pre", norm_eps=1e-5,
                            order="sequential", residual="on", kernel="dot", inputs=0, tokens=0, classes=0, knots=3)
            self.assertEqual(dict(file["model"].attrs), expected)

    def test_embedding_positions_final_norm_and_head_are_named_by_options(self):
        random = np.random.RandomState(1)
        extra = {"patch.weight": (16, 9), "patch.bias": (16,), "where": (1, 11, 16), "norm.weight": (16,),
                 "norm.bias": (16,), "out.weight": (10, 16), "out.bias": (10,), "steps": (2, 2)}
        extra = {name: random.standard_normal(shape).astype(np.float32) for name, shape in extra.items()}
        options = (*USUAL, "--embedding-weight", "patch.weight", "--embedding-bias", "patch.bias",
                   "--position", "where", "--head-weight", "out.weight", "--head-bias", "out.bias", "--ignore", "st*")
        places = {"embedding/W": "patch.weight", "embedding/b": "patch.bias", "embedding/position": "where",
                  "final_norm/gain": "norm.weight", "final_norm/bias": "norm.bias", "head/W": "out.weight",
                  "head/b": "out.bias"}
        with self.accepted({**torch_names(), **extra}, *options) as file:
            for ours, theirs in places.items():
                self.assertEqual(file["model"][ours].dtype, np.float64)
                np.testing.assert_array_equal(file["model"][ours][...], extra[theirs].squeeze())
            self.assertEqual([file["model"].attrs[name] for name in ("inputs", "tokens", "classes")], [9, 11, 10])

    def test_a_single_layer_and_layers_without_biases_are_taken(self):
        single = {name.removeprefix("layers.0."): value for name, value in torch_names().items()
                  if name.startswith("layers.0.") and not name.endswith("bias")}
        with self.accepted(single) as file:
            self.assertEqual(file["model"].attrs["layers"], 1)
            np.testing.assert_array_equal(file["model/layers/1/W_2"][...], single["linear2.weight"])
            for name in ("b_Q", "b_1", "norm2_bias"):
                self.assertFalse(file["model/layers/1"][name][...].any())

    def test_what_does_not_fit_is_refused_with_the_name(self):
        state, weight = torch_names(), "layers.1.linear1.weight"

        def without(name):
            return {key: value for key, value in state.items() if key != name}

        self.refused(state, "--heads 3 does not divide the width 16", "--heads", "3", *USUAL[2:])
        self.refused(without(weight), f"{weight} is not in the state dict")
        self.refused(without("layers.2.norm1.bias"), "layers.2.norm1.bias is not in the state dict")
        self.refused({**state, weight: state[weight].T}, f"{weight} is 16 x 40 where 40 x 16 is expected")
        self.refused({**state, weight: state[weight] * np.nan}, f"{weight} holds numbers that are not finite")
        self.refused({**state, "cls": np.zeros(16)}, "no place for cls")
        self.refused({**state, "norm.weight": np.ones(16), "norm.bias": np.zeros(16)},
                     "no place for norm.bias, norm.weight",
                     "--heads", "4", "--norm", "post", "--activation", "gelu_erf")
        self.refused({**state, "out.weight": np.zeros((10, 16))}, "no final LayerNorm", *USUAL,
                     "--head-weight", "out.weight")
        self.refused({key: value for key, value in state.items() if not key.startswith("layers.1")}, "layers 0, 2 of")
        self.refused({**state, **torch_names("decoder.layers.")}, "choose one with --prefix")
        self.refused({"conv.weight": np.zeros(3)}, "no encoder layer")
        with self.accepted({**state, **torch_names("decoder.layers.")}, *USUAL, "--prefix", "decoder.", "--ignore",
                           "layers.*"):
            pass

    def test_sizes_of_zero_are_refused(self):
        state = torch_names()
        no_ffn = {name: array[:0] if "linear1" in name else array[:, :0] if "linear2.weight" in name else array
                  for name, array in state.items()}
        self.refused(no_ffn, "layers.0.linear1.weight is 0 x 16: every size has to be at least 1")
        no_width = {name: np.zeros((0,) * array.ndim) for name, array in state.items()}
        self.refused(no_width, "layers.0.self_attn.in_proj_weight is 0 x 0: every size")
        extra = {"e": np.zeros((16, 0)), "p": np.zeros((0, 16)), "h": np.zeros((0, 16)), "norm.weight": np.ones(16), "norm.bias": np.zeros(16)}
        for option, name in (("--embedding-weight", "e"), ("--position", "p"), ("--head-weight", "h")):
            self.refused({**state, **extra}, f"{name} is {' x '.join(map(str, extra[name].shape))}: every size", *USUAL, option, name)
        one = {**state, "p": np.ones((1, 1, 16))}
        with self.accepted(one, *USUAL, "--position", "p") as file:
            self.assertEqual(file["model"].attrs["tokens"], 1)

    def test_arguments_that_are_out_of_range_or_would_not_count_are_refused(self):
        for heads in ("0", "-4", "32", "99999999999999999999"):
            self.refused(torch_names(), f"--heads {heads} does not divide the width 16; allowed are 1, 2, 4, 8, 16",
                         "--heads", heads, *USUAL[2:])
        self.refused(torch_names(), "--head-bias x needs --head-weight", *USUAL, "--head-bias", "x")
        self.refused(torch_names(), "--embedding-bias x needs --embedding-weight", *USUAL, "--embedding-bias", "x")
        self.refused(torch_names(), "--final-norm x needs --norm pre", "--heads", "4", "--norm", "post", "--activation", "relu",
                     "--final-norm", "x")
        for word in ("4.0", "four", "1e1", "9" * 5000):
            done = self.run_script(self.save(torch_names()), "--heads", word, *USUAL[2:])
            self.assertEqual(done.returncode, 2)
            self.assertIn("--heads: invalid int value", done.stderr)

    def test_arrays_of_other_kinds_are_refused_by_name(self):
        state, name = torch_names(), "layers.1.linear1.weight"
        for kind, array in (("complex128", state[name] + 1j), ("bool", state[name] > 0), ("<U4", np.full((40, 16), "text"))):
            self.refused({**state, name: array}, f"{name} holds {kind}, not real numbers")
        for array, shape in ((np.float64(1), "a single number"), (np.ones(640), "640"), (np.ones((40, 16, 1)), "40 x 16 x 1")):
            self.refused({**state, name: array}, f"{name} is {shape} where 40 x 16 is expected")
        large = np.finfo(np.longdouble).max
        for number in (np.inf, -np.inf, large):
            self.refused({**state, name: np.full((40, 16), number)}, f"{name} holds numbers that are not finite")
        self.refused({name.replace("layers.1", f"layers.{'9' * 5000}"): array for name, array in state.items()}, "encoders, behind")

    def test_names_that_stand_for_two_arrays_are_refused(self):
        self.save(torch_names(), "twice.h5")
        with h5py.File(self.path("twice.h5"), "r+") as file:
            file["layers/0/linear1/bias"] = np.zeros(40)
        self.refused(self.path("twice.h5"), "layers.0.linear1.bias is in it twice")
        path = self.save(torch_names(), "twice.npz")
        with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
            warnings.simplefilter("ignore")  # zipfile notices it too
            archive.writestr("layers.0.linear1.bias.npy", b"")
        self.refused(path, "two arrays of one name")

    def test_sizes_that_no_memory_holds_are_refused_before_they_are_read(self):
        self.save(torch_names(), "huge.h5")
        with h5py.File(self.path("huge.h5"), "r+") as file:
            file.create_dataset("huge", shape=(10**6, 10**6), chunks=True)
        self.refused(self.path("huge.h5"), "/huge is said to have 4000000000000 bytes, of which 0 are stored")
        header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
        with zipfile.ZipFile(self.path("huge.npz"), "w") as archive:
            archive.writestr("huge.npy", header + bytes(64))
        self.refused(self.path("huge.npz"), "not a readable .npz file")

    def test_places_where_no_model_can_go_are_refused(self):
        path = self.save(torch_names())
        os.mkfifo(self.path("pipe"))
        os.mkdir(self.path("folder"))
        os.mkdir(self.path("taken.h5.part"))
        os.symlink("nowhere", self.path("link"))
        for name, reason in (("pipe", "not a regular file"), ("folder", "not a regular file"), ("taken.h5", "taken.h5.part is there"),
                             ("link", "not a regular file"), ("none/model.h5", "not a folder that can be written"), ("folder/", "no name"),
                             ("state.npz", "is the file that is read")):
            with self.subTest(name):
                self.assert_refused(call("import", path, os.path.join(self.folder, name), *USUAL, "--overwrite"), reason)
        self.assert_refused(start("import", path, "", *USUAL), "'' is no name")
        self.assertTrue(os.path.exists(self.path("pipe")) and os.path.islink(self.path("link")))

    def test_an_eps_is_given_or_found_and_all_agree(self):
        def eps_of(state, *options):
            with self.accepted(state, *USUAL, "--overwrite", *options) as file:
                return file["model"].attrs["norm_eps"]

        self.assertEqual(eps_of(torch_names()), 1e-5)
        self.assertEqual(eps_of(torch_names(), "--norm-eps", "1e-12"), 1e-12)
        same = {"layers.0.norm1.eps": np.float32(1e-6), "norm.eps": np.array([1e-6]), "pixels.eps": np.float64(1e-3)}
        self.assertEqual(eps_of({**torch_names(), **same}, "--ignore", "pixels.*"), 1e-6)
        self.assertEqual(eps_of({**torch_names(), **same}, "--ignore", "pixels.*", "--norm-eps", "1e-6"), 1e-6)
        self.assertEqual(eps_of({**torch_names(), **same}, "--ignore", "*.eps"), 1e-5)

    def test_an_eps_that_contradicts_another_is_refused(self):
        for name in ("eps", "layers.0.norm1.eps", "config.layer_norm_eps", "layernorm_epsilon"):
            with self.subTest(name=name):
                self.refused({**torch_names(), name: np.float64(1e-6)}, f"{name} = 1e-06, but --norm-eps 1e-05", *USUAL, "--norm-eps", "1e-5")
        self.refused({**torch_names(), "a.eps": np.float64(1e-6), "b.eps": np.float64(1e-5)}, "b.eps = 1e-05, but a.eps = 1e-06")
        for number in (0.0, -1e-5, 1.0):
            self.refused({**torch_names(), "eps": np.float64(number)}, f"eps = {number:g}: an eps is more than 0")
            self.refused(torch_names(), f"--norm-eps {number:g}: must be more than 0", *USUAL, f"--norm-eps={number}")

    def test_the_eps_it_takes_for_granted_is_said_and_is_the_programs(self):
        done = start("import", "--help")
        self.assertRegex(" ".join(done.stdout.split()), r"--norm-eps says it \(default: PyTorch's, 1e-5\)")
        with open(os.path.join(ROOT, "src", "operators", "layer_norm.hpp"), encoding="utf-8") as source:
            self.assertEqual(float(re.search(r"layer_norm_eps = ([\de.-]+);", source.read())[1]), 1e-5)

    def test_files_that_are_not_state_dicts_are_refused(self):
        for ending in (".npz", ".h5", ".pt", ".txt"):
            path = os.path.join(self.folder, "broken" + ending)
            self.refused(path, "no such file")
            with open(path, "wb") as file:
                file.write(b"not what it says it is")
            with self.subTest(ending=ending):
                self.refused(path, path)
        with open(self.save(torch_names(), "whole.npz"), "rb") as file:
            whole = file.read()
        cut = os.path.join(self.folder, "cut.npz")
        with open(cut, "wb") as file:
            file.write(whole[:len(whole) // 2])
        self.refused(cut, "not a readable .npz file")

    def test_an_earlier_model_is_only_replaced_when_asked(self):
        with open(self.model, "w", encoding="utf-8") as file:
            file.write("precious")
        path = self.save(torch_names())
        done = self.run_script(path, *USUAL)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--overwrite", done.stderr)
        broken = self.run_script(self.save({"conv.weight": np.zeros(3)}, "broken.npz"), *USUAL, "--overwrite")
        self.assertEqual(broken.returncode, 2)
        with open(self.model, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        full = self.run_script(path, *USUAL, "--overwrite", preexec_fn=lambda: limit_file_size(20000))
        self.assertEqual(full.returncode, 1, full.stderr)
        self.assertIn("cannot be written", full.stderr)
        with open(self.model, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".part")], [])
        self.assertEqual(self.run_script(path, *USUAL, "--overwrite").returncode, 0)
        self.assertTrue(h5py.is_hdf5(self.model))


if __name__ == "__main__":
    unittest.main()
