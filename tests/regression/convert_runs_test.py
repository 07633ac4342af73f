#!/usr/bin/env python3
"""`fluxformer convert` and the program: what it writes is read, run and trained; published models keep their words and pixels; the numpy reference
of convert_test.py computes what the program computes; what cannot be converted is refused in one sentence."""

import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from numpy_equation import Equation, made_up  # noqa: E402
from program import ROOT, TRAIN_DECK, TrainTest, with_attributes, with_value  # noqa: E402
from published_case import Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import call  # noqa: E402

from fluxformer.tokens import write_token_file  # noqa: E402

RANDOM = np.random.default_rng(54)
FEATURES = RANDOM.normal(size=(3, 7, 5))
SAME = 1e-12  # some hundred roundings of 1.1e-16, of numbers of order one
# Between them every norm, kernel, normalisation, activation and order of numpy_equation.py.
KINDS = {"pre": {}, "post": {"norm": "post", "activation": "relu"}, "none": {"norm": "none", "activation": "gelu_tanh", "kappas": 12},
         "linear": {"normalisation": "linear", "activation": "relu"}, "even": {"normalisation": "sinkhorn", "iterations": 2}, "odd": {"normalisation": "sinkhorn", "iterations": 3},
         "l2": {"kernel": "l2", "norm": "none"}, "parallel": {"order": "parallel", "kappas": 12}, "macaron": {"order": "macaron"}, "sphere": {"norm": "sphere"},
         "halves": {"order": "macaron", "halves": True, "norm": "post"}, "own": {"order": "macaron", "halves": True},
         "midpoint": {"subflow": "midpoint", "order": "macaron"}, "post_midpoint": {"subflow": "midpoint", "norm": "post"}}
CONVERTED = ("pre", "none", "own")  # and run, on two numbers of cells


class ConvertRuns(TrainTest):
    def convert(self, *arguments):
        """A conversion that must succeed; what it prints."""
        end = call("convert", *arguments)
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        return end.stdout

    def run_model(self, name, *arguments, time=4):
        """(states behind each cell [cell, sample, token, channel], logits) of the program for FEATURES."""
        end = self.run_program("evolve", f"--model.file={name}.h5", "--data.set=tokens", "--data.file=tokens.h5", "--inflow.samples=3", "--start.state=inflow",
                               "--evolve.method=euler", "--evolve.cfl=1", f"--evolve.time={time}", "--output.logits=true", f"--output.file={name}_out.h5", "--quiet",
                               "--output.overwrite=true", *arguments)
        self.assertEqual(end.code, 0, end)
        with h5py.File(self.path(f"{name}_out.h5"), "r") as file:
            return file["field/u"][-1].swapaxes(1, 2), file["prediction/class_logits"][...]

    def assert_close(self, got, wanted):
        self.assertEqual(got.shape, wanted.shape)
        self.assertLess(np.abs(got - wanted).max(), SAME * np.abs(wanted).max())

    def test_the_program_computes_what_the_reference_computes_and_runs_what_was_converted(self):
        write_token_file(self.path("tokens.h5"), features=FEATURES)

        def check(name, kind):
            model = made_up(RANDOM, **kind)
            model.write(self.path(f"{name}.h5"))
            states, logits = self.run_model(name)
            self.assert_close(states, model.march(FEATURES)[1:])
            self.assert_close(logits, model.logits(FEATURES))
            if name not in CONVERTED:
                return
            self.convert(self.path(f"{name}.h5"), "--knots", 4, "--output", self.path(f"{name}_all.h5"))
            self.assert_close(self.run_model(f"{name}_all")[1], logits)
            self.convert(self.path(f"{name}.h5"), "--knots", 2, "--output", self.path(f"{name}_two.h5"))
            pde = Equation.read(self.path(f"{name}_two.h5"))
            for cells in ((), ("--mesh.cells=6",)):  # its own, one for each layer, and others
                states, logits = self.run_model(f"{name}_two", *cells)
                self.assertEqual(len(states), 6 if cells else 4)
                self.assert_close(states, pde.march(FEATURES, len(states))[1:])
                self.assert_close(logits, pde.logits(FEATURES, len(states)))

        for name, kind in KINDS.items():
            with self.subTest(name):
                check(name, kind)

    def test_a_trained_transformer_is_converted_run_and_trained_further(self):
        self.train("--mesh.layers=3", "--output.file=t.h5")
        said = self.convert(self.path("t.h5"), "--knots", 2, "--output", self.path("pde.h5"))
        self.assertRegex(said, r"pde.h5: 2 knots of 3 layers \(full\); weights linear between them miss [\d.]+ % of the sum of squares of the weights, "
                               r"after \d+ rounds? of alignment to the fit; on 3 cells")
        self.convert(self.path("t.h5"), "--knots", 3, "--how", "fit", "--output", self.path("same.h5"))
        self.assert_same_layers_as_bits("t.h5", "same.h5")
        digits = ("--data.set=digits", "--data.tokens=rows", "--inflow.samples=4", "--start.state=inflow", "--evolve.method=euler", "--evolve.cfl=1", "--evolve.time=3",
                  "--output.logits=true", "--quiet", "--output.overwrite=true")
        logits = {}
        for name in ("t", "same", "pde"):
            end = self.run_program("evolve", f"--model.file={name}.h5", *digits, f"--output.file={name}_out.h5")
            self.assertEqual(end.code, 0, end)
            logits[name] = self.open(f"{name}_out.h5")["prediction/class_logits"][...]
        np.testing.assert_array_equal(logits["same"], logits["t"])
        self.assertGreater(np.abs(logits["pde"] - logits["t"]).max(), 1e-6)
        with self.open("pde_out.h5") as file:
            self.assertEqual([file["model"].attrs[name] for name in ("kind", "layers", "knots", "cells")], ["pde", 3, 2, 3])

        self.write("further.ini", "\n".join(line for line in TRAIN_DECK.splitlines() if not line.startswith(("layers", "heads", "width", "ffn"))))
        end = self.run_program("train", "further.ini", "--model.file=pde.h5", "--validate")
        self.assertEqual(end.code, 0, end)
        self.train("--model.file=pde.h5", "--output.file=further.h5", deck="further.ini")
        with self.open("further.h5") as file:
            self.assertEqual([file["model"].attrs[name] for name in ("kind", "layers", "knots", "cells")], ["pde", 3, 2, 3])
            loss = file["training/loss"][...]
            self.assertLess(loss[-1], loss[0])

    def assert_same_layers_as_bits(self, first, second):
        one, other = (Equation.read(self.path(name)) for name in (first, second))
        self.assertEqual(sorted(one.arrays), sorted(other.arrays))
        for name, array in one.arrays.items():
            self.assertEqual(array.tobytes(), other.arrays[name].tobytes(), name)

    def test_the_file_says_where_it_comes_from_and_how(self):
        self.train("--output.file=t.h5")
        self.convert(self.path("t.h5"), "--knots", 1, "--how", "permutations", "--output", self.path("pde.h5"))
        with h5py.File(self.path("pde.h5"), "r") as file, h5py.File(self.path("t.h5"), "r") as source:
            said = dict(file.attrs)
            self.assertEqual([said[name] for name in ("experiment", "status", "converted_from", "converted_how", "clipped_kappa", "source_experiment")],
                             ["convert", "done", "t.h5", "permutations", 0, "train"])
            for name in ("created", "git_revision", "command_line"):
                self.assertEqual(said[f"source_{name}"], source.attrs[name])
            self.assertTrue(0 < said["sum_of_squares"] < said["sum_of_squares_of_weights"])
            self.assertIn(said["rounds"], range(1, 21))
            # All that the Transformer says of its layers.
            self.assertEqual({name: value for name, value in file["model"].attrs.items() if name not in ("kind", "weights", "knots", "cells")},
                             {name: value for name, value in source["model"].attrs.items() if name not in ("kind", "weights", "knots", "cells")})

    def test_published_models_keep_their_words_heads_and_pixels(self):
        case = Case("gpt2")
        save(self.folder, *case.published("GPT2LMHeadModel"))
        vocabulary = self.write("vocab.txt", "\n".join(f"word{number}é" for number in range(len(case.tensors["transformer.wte.weight"]))))
        end = call("import", self.path("model.safetensors"), self.path("config.json"), "--words", self.path(vocabulary), "--output", self.path("gpt2.h5"))
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        with h5py.File(self.path("gpt2.h5"), "r+") as file:
            file["preprocessor/mean"], file["preprocessor/deviation"] = [0.5, 0.4, 0.3], [1.0, 2.0, 3.0]
            file["preprocessor"].attrs["factor"] = 1 / 255
        self.convert(self.path("gpt2.h5"), "--knots", 2, "--output", self.path("pde.h5"))
        self.convert(self.path("gpt2.h5"), "--knots", 1, "--output", self.path("one.h5"))
        with h5py.File(self.path("pde.h5"), "r") as file, h5py.File(self.path("gpt2.h5"), "r") as source:
            for name in ("embedding/vocabulary", "embedding/words", "word_head/b", "final_norm/gain", "embedding/position"):
                np.testing.assert_array_equal(file[f"model/{name}"][...], source[f"model/{name}"][...])
            for name in ("mean", "deviation"):
                np.testing.assert_array_equal(file[f"preprocessor/{name}"][...], source[f"preprocessor/{name}"][...])
            self.assertEqual(file["preprocessor"].attrs["factor"], 1 / 255)
        write_token_file(self.path("tokens.h5"), ids=case["ids"], lengths=case["lengths"])

        def words(name):
            end = self.run_program("evolve", f"--model.file={name}", "--data.set=tokens", "--data.file=tokens.h5", f"--inflow.samples={len(case.lengths)}", "--start.state=inflow",
                                   "--evolve.method=euler", "--evolve.cfl=1", "--evolve.time=2", "--output.logits=true", "--quiet", f"--output.file=out_{name}")
            self.assertEqual(end.code, 0, end)
            return self.open(f"out_{name}")["prediction/word_logits"][...].swapaxes(0, 1)[case.real]

        self.assert_close(words("pde.h5"), case["words"][case.real])
        self.assertGreater(np.abs(words("one.h5") - case["words"][case.real]).max(), 1e-3)

    def test_a_post_norm_model_is_reported_and_not_converted(self):
        end = call("import", *save(self.folder, *Case("bert").published("BertForMaskedLM")), "--output", self.path("bert.h5"))
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertRegex(self.convert("--report", self.path("bert.h5")), r"distance of neighbours +\d\.\d{4} +\d\.\d{4}\n")
        end = call("convert", self.path("bert.h5"), "--knots", 1, "--output", self.path("pde.h5"))
        self.assertEqual((end.returncode, len(end.stderr.splitlines())), (2, 1), end.stderr)
        self.assertIn("/model@norm is post: what normalises the state itself is no step of an equation", end.stderr)

    def test_what_cannot_be_converted_is_refused_in_one_sentence(self):
        good = made_up(RANDOM).write(self.path("good.h5"))
        self.convert(good, "--knots", 2, "--output", self.path("pde.h5"))
        half = {f"model/layers/{number}/half_{name}": np.ones(shape) for number in range(1, 5) for name, shape in (("W_1", (10, 12)), ("b_1", 10))}
        cases = [(lambda file: None, self.path("pde.h5"), "its model has weights linear between 2 knots already (kind pde)"),
                 (with_attributes("model", weights="linear"), None, "linear between 4 knots already (kind transformer)"),
                 (with_attributes("model", norm="sphere"), None, "/model@norm is sphere"), (with_attributes("model", norm="post"), None, "/model@norm is post"),
                 (with_attributes("model", cells=8), None, "of 8 depth cells in 4 layers; convert takes one step for each layer"),
                 (with_attributes("/", settings="[train]\ngradient = adjoint\n[adjoint]\nmethod = 4\n"), None, "adjoint.method = 4; convert takes the layer map"),
                 (with_value("model/edges", [0, 0.5, 1, 2, 4.0]), None, "of 4 depth cells in 4 layers"),
                 (with_attributes("model", residual="off"), None, "/model@residual is off: without residual connections there is no equation"),
                 (with_attributes("model", heads=5), None, "5 heads do not divide the width 12"), (with_attributes("model", layers=3), None, "layers/4/W_1 has no place"),
                 (with_attributes("model", layers=5), None, "layers/5/"), (with_attributes("model", width="12"), None, "/model@width is '12'"),
                 (with_attributes("model", ffn=11), None, "W_1 is 10 x 12 where 11 x 12"),
                 (with_value("model/layers/2/nu", [0.1]), None, "/model/layers/2/nu is not 0: convert takes no transport over tokens"),
                 (with_value("model/layers/2/kappa", [-0.1]), None, "/model/layers/2/kappa holds numbers below 0"),
                 (with_value("model/layers/2/kappa", [[0.1]]), None, "/model/layers/2/kappa is 1 x 1 where 12 is expected"),
                 (with_value("model/layers/2/kappa", np.zeros(3)), None, "/model/layers/2/kappa is 3 where 12"),
                 (with_value("model/layers/2/kappa", np.zeros(12)), None, "some layers have one kappa, others one for each channel"),
                 (with_value("model/layers/2/W_Q", np.full((12, 12), np.nan)), None, "/model/layers/2/W_Q holds numbers that are not finite"),
                 (with_value("model/head/W", np.full((4, 12), np.inf)), None, "/model/head/W holds numbers that are not finite"),
                 (with_value("model/layers/2/W_new", np.ones(3)), None, "/model/layers/2/W_new has no place"),
                 (lambda file: [with_value(name, value)(file) for name, value in half.items()], None, "half_W_1 has no place"),
                 (lambda file: file.__delitem__("model"), None, "holds no model"), (lambda file: file.__delitem__("model/layers/3/b_1"), None, "/model/layers/3/b_1 is missing")]
        for change, path, part in cases:
            shutil.copy(path or good, self.path("odd.h5"))
            with h5py.File(self.path("odd.h5"), "r+") as file:
                change(file)
            self.refused("odd.h5", part, self.path("odd.h5"), "--knots", 2, "--output", self.path("new.h5"))
        for part, *arguments in ((("--knots 0", "has 4 layers, so that 1 to 4 knots"), good, "--knots", 0, "--output", self.path("new.h5")),
                                 ("--knots 5", good, "--knots", 5, "--output", self.path("new.h5")), ("--knots -1", good, "--knots", -1, "--output", self.path("new.h5")),
                                 ("--output and one of", good, "--knots", 2), ("--output and one of", good, "--output", self.path("new.h5")),
                                 ("--output and one of", good, "--knots", 2, "--merge", 1, "--output", self.path("new.h5")),
                                 ("--how has no effect", good, "--how", "fit", "--merge", 1, "--output", self.path("new.h5")),
                                 *((("--keep", "layers 1 to 4"), good, "--keep", wrong, "--output", self.path("new.h5"))
                                   for wrong in ("1,5", "0", "2,1", "1,1", "", "1;2")),
                                 (("--merge 4", "has 4 layers, so that 1 to 3"), good, "--merge", 4, "--output", self.path("new.h5")),
                                 ("--merge 0", good, "--merge", 0, "--output", self.path("new.h5")),
                                 (("midpoint", "merge takes euler"), made_up(RANDOM, subflow="midpoint").write(self.path("midpoint.h5")),
                                  "--merge", 1, "--output", self.path("new.h5")),
                                 ("/model@norm is post", made_up(RANDOM, norm="post").write(self.path("post.h5")), "--merge", 1, "--output", self.path("new.h5")),
                                 ("2 models", good, good, "--knots", 2, "--output", self.path("new.h5")),
                                 ("--knots has no effect", "--report", good, "--knots", 2),
                                 ("--how has no effect", "--report", good, "--how", "fit"), ("--overwrite has no effect", "--report", good, "--overwrite"),
                                 ("no such file", self.path("none.h5"), "--knots", 2, "--output", self.path("new.h5")), ("no such file", "--report", self.path("none.h5")),
                                 ("is there already", good, "--knots", 2, "--output", self.path("pde.h5")),
                                 ("is the file that is read", good, "--knots", 2, "--output", good, "--overwrite"),
                                 ("not a readable HDF5 file", self.path("train.ini"), "--knots", 2, "--output", self.path("new.h5"))):
            self.refused("", part, *arguments)

    def refused(self, name, part, *arguments):
        with self.subTest(part):
            end = call("convert", *arguments)
            self.assertEqual((end.returncode, len(end.stderr.splitlines()), end.stdout), (2, 1, ""), end.stderr)
            for one in (name, *([part] if isinstance(part, str) else part)):
                self.assertIn(one, end.stderr)
            self.assertEqual([one for one in os.listdir(self.folder) if one.startswith("new.h5")], [])


if __name__ == "__main__":
    unittest.main()
