#!/usr/bin/env python3
"""Token files, tokens that another program has made: evolve, train and attention run on them, a file that does not hold samples is
refused by the name of what is wrong in it, and one of numpy by the command that converts it.
"""

import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import BINARY, SEVERAL_RANKS, ProgramTest, ranks_of_case, together, with_attributes, with_value  # noqa: E402

RANDOM = np.random.default_rng(5)
WORDS = ["the", "ő", "<unk>", "of", "flux"]
LENGTHS = np.array([4, 1, 6, 2, 5, 6, 3, 6, 1, 2, 6, 5], "u1")
LABELS = np.arange(12) % 3
# A sample has words of its class only, among others that tell nothing.
TEXT = {"ids": np.where(RANDOM.random((12, 6)) < 0.5, LABELS[:, None], 3 + RANDOM.integers(0, 2, (12, 6))).astype("i4"),
        "lengths": LENGTHS, "labels": LABELS, "words": np.array(WORDS)}
PATCHES = {"features": RANDOM.standard_normal((5, 7, 3)).astype("f4"), "labels": np.arange(5) % 2}
MODEL = ["--mesh.layers=2", "--model.width=8", "--model.ffn=8", "--attention.heads=2", "--quiet"]
EVOLVE = [*MODEL, "--evolve.method=euler", "--evolve.cfl=1", "--evolve.time=2", "--start.state=inflow", "--output.overwrite=true"]
TRAIN = [*MODEL, "--train.epochs=2", "--train.batch=4", "--train.rate=1e-2", "--output.overwrite=true"]


class TokenFiles(ProgramTest):
    def put(self, name, arrays, **how):
        """Writes a token file; returns the arguments that name it."""
        with h5py.File(self.path(name), "w") as file:
            for array, values in arrays.items():
                if np.asarray(values).dtype.kind == "U":
                    file.create_dataset(array, data=list(values), dtype=h5py.string_dtype())
                else:
                    file.create_dataset(array, data=values, **how)
        return self.of(name)

    @staticmethod
    def of(name):
        return ["--data.set=tokens", f"--data.file={name}"]

    def run_well(self, *arguments, ranks=1):
        end = self.run_program(*arguments, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return end

    def test_words_flow_in_as_rows_of_the_table_on_any_number_of_ranks(self):
        self.put("text.h5", TEXT)
        self.put("packed.h5", TEXT, compression=True)
        runs = [("text.h5", "text", 1), *(("text.h5", f"on{ranks}", ranks) for ranks in SEVERAL_RANKS), ("packed.h5", "packed", 1)]
        for file, name, ranks in runs:
            self.run_well("evolve", *self.of(file), *EVOLVE, "--inflow.samples=4", f"--output.file={name}_out.h5", ranks=ranks)
        one = self.open("text_out.h5")
        model = one["model/embedding"]
        states = model["words"][...][TEXT["ids"][:4]] + model["position"][...]
        # The inflow is a sum of two numbers; the start has it in every cell.
        np.testing.assert_array_equal(one["field/u"][0], np.broadcast_to(states.swapaxes(0, 1), one["field/u"][0].shape))
        self.assertEqual(model["words"].shape, (5, 8))
        np.testing.assert_array_equal(self.open("packed_out.h5")["model/embedding/words"][...], model["words"][...])
        for _, name, _ in runs:
            # Sums over tokens are added in the order of the ranks: a few roundings of numbers of size 1.
            np.testing.assert_allclose(self.open(f"{name}_out.h5")["field/u"][...], one["field/u"][...], rtol=0, atol=1e-12)
            told = self.open(f"{name}_out.h5")["sample_words"]
            self.assertEqual([axis[0].name for axis in told.dims], ["/sample", "/token"])
            self.assertEqual([[word.decode() for word in line] for line in told[...]],
                             [[WORDS[word] if token < length else "" for token, word in enumerate(line)] for line, length in zip(TEXT["ids"][:4], LENGTHS)])
            self.assertNotIn("sample_features", self.open(f"{name}_out.h5"))

    def test_what_stands_behind_the_last_real_token_has_no_effect(self):
        other = {**TEXT, "ids": TEXT["ids"].copy()}
        for sample, length in enumerate(LENGTHS):
            other["ids"][sample, length:] = 4 - other["ids"][sample, length:]
        real = np.arange(6)[:, None] < LENGTHS[None, :4]
        found = []
        for name, arrays in (("text", TEXT), ("other", other), ("whole", {key: values for key, values in TEXT.items() if key != "lengths"})):
            self.run_well("evolve", *self.put(f"{name}.h5", arrays), *EVOLVE, "--inflow.samples=4", f"--output.file={name}_out.h5")
            found.append(self.open(f"{name}_out.h5")["field/u"][-1][:, real])
        np.testing.assert_array_equal(found[0], found[1])
        self.assertGreater(np.abs(found[0] - found[2]).max(), 1e-3)  # without lengths all are real

    def test_features_flow_in_through_the_matrix(self):
        for kind in ("f4", "f8", ">f8", "f2"):
            arrays = {**PATCHES, "features": PATCHES["features"].astype(kind)}
            self.run_well("evolve", *self.put("patches.h5", arrays), *EVOLVE, "--inflow.samples=5")
            out = h5py.File(self.path("evolve.h5"), "r")
            model = out["model/embedding"]
            states = arrays["features"].astype("f8") @ model["W"][...].T + model["b"][...] + model["position"][...]
            # Sums of three products.
            np.testing.assert_allclose(out["field/u"][0][0], states.swapaxes(0, 1), rtol=0, atol=1e-14)
            np.testing.assert_array_equal(out["sample_features"][...], arrays["features"].astype("f8"))
            self.assertNotIn("sample_words", out)
            out.close()
        # Samples that follow each other have no picture that stays.
        self.run_well("evolve", *self.of("patches.h5"), *EVOLVE, "--inflow.samples=1", "--inflow.every=1", "--output.file=stream.h5")
        self.assertNotIn("sample_features", self.open("stream.h5"))

    def test_a_model_is_trained_on_one_file_and_used_on_others(self):
        split = {f"train/{name}": values for name, values in TEXT.items() if name != "words"}
        split |= {"test/ids": TEXT["ids"][:3] % 3, "test/labels": LABELS[:3], "words": TEXT["words"]}
        for ranks in (1, 3):
            self.run_well("train", *self.put("split.h5", split), *TRAIN, f"--output.file=model{ranks}.h5", ranks=ranks)
            model = self.open(f"model{ranks}.h5")
            self.assertEqual([word.decode() for word in model["model/embedding/vocabulary"][...]], WORDS)
            self.assertEqual(model["model/head/W"].shape, (3, 8))
        # Sums over samples are added in the order of the ranks, and Adam divides by roots of small squares.
        np.testing.assert_allclose(self.open("model3.h5")["model/head/W"][...], self.open("model1.h5")["model/head/W"][...], rtol=0, atol=1e-9)
        # Fewer tokens take the first positions; a file without words and labels has those of the model.
        short = self.put("short.h5", {"ids": TEXT["ids"][:, :4]})
        self.run_well("evolve", *short, "--model.file=model1.h5", "--inflow.samples=2", "--start.state=inflow", "--evolve.time=1",
                      "--quiet", "--output.file=short_out.h5", ranks=2)
        model = self.open("model1.h5")["model/embedding"]
        states = model["words"][...][TEXT["ids"][:2, :4]] + model["position"][:4]
        np.testing.assert_array_equal(self.open("short_out.h5")["field/u"][0][0], states.swapaxes(0, 1))
        compared = ["--models.transformer=model1.h5", "--samples.count=4", "--attention.matching=4", "--quiet",
                    "--output.overwrite=true"]
        for ranks in (1, 2):
            self.run_well("attention", *self.put("short.h5", {"ids": TEXT["ids"][:, :4], "labels": LABELS}), *compared, ranks=ranks)
            found = self.open("attention.h5")
            shown = TEXT["ids"][found["sample"][0], :4]  # that of the map
            self.assertEqual(found["analysis/attention"].attrs["sample_words"].split(), [WORDS[word] for word in shown])
            found.close()
            self.run_well("hessian_spectrum", *self.of("short.h5"), *compared[:2], *compared[3:], "--data.split=train", ranks=ranks)
        # A word may hold an end of line: the attribute has a line for each word all the same.
        self.run_well("train", *self.put("lines.h5", {**split, "words": np.array(["a", "\n", "<unk>", "c\nd", "e"])}), *TRAIN, "--output.file=lines_model.h5")
        self.run_well("attention", *self.of("lines.h5"), "--models.transformer=lines_model.h5", "--samples.count=3", "--attention.matching=0", "--quiet",
                      "--output.file=lines_out.h5")
        self.assertEqual(self.open("lines_out.h5")["analysis/attention"].attrs["sample_words"].count("\n"), 6)
        self.run_well("train", *short, *TRAIN[-4:], "--model.file=model1.h5", "--train.samples=8", "--output.file=again.h5")
        self.assertEqual(self.open("again.h5")["model/embedding/position"].shape, (6, 8))
        # More classes than the model has: a training makes a new head, comparisons refuse them.
        more = self.put("more.h5", {"ids": TEXT["ids"], "labels": LABELS + 1})
        end = self.run_program("train", *more, *TRAIN[-4:], "--model.file=model1.h5", "--train.samples=8", "--output.file=more_out.h5")
        self.assertEqual(end.code, 0, end)
        self.assertIn("new: head/W (4 x 8 instead of 3 x 8), head/b (4 instead of 3); left out: nothing", end.err)
        self.assertEqual(self.open("more_out.h5")["model/head/W"].shape, (4, 8))
        self.assert_refused(self.run_program("attention", *more, *compared, ranks=2), "classes other than those")
        for number, (arrays, part) in enumerate((({"ids": TEXT["ids"] + 1}, "ids holds 5"), ({"ids": np.zeros((2, 9), int)}, "data.length = 6"),
                                                 ({"ids": TEXT["ids"], "words": np.array(list("abcde"))}, "words are not those of the model"),
                                                 ({"ids": TEXT["ids"], "words": np.array(list("abcdef"))}, "has 6 words"),
                                                 (PATCHES, "data."))):
            with self.subTest(part):
                other, ranks = self.put("other.h5", arrays), ranks_of_case(number)[-1]
                self.assert_refused(self.run_program("evolve", *other, "--model.file=model1.h5", ranks=ranks), part)
                if "data." not in part:
                    self.assert_refused(self.run_program("attention", *other, *compared, ranks=ranks), part)

    def test_samples_are_cut_only_if_that_is_asked_for(self):
        long = self.put("long.h5", {"ids": np.arange(600).reshape(2, 300) % 7})
        self.run_well("evolve", *long, *EVOLVE, "--output.file=whole.h5")
        self.assertEqual(self.open("whole.h5")["field/u"].shape[2], 300)
        self.run_well("evolve", "whole.h5", "--output.file=again.h5", "--quiet")  # its settings do not hold a length
        self.assert_same_bits("whole.h5", "again.h5")
        self.run_well("evolve", *long, *EVOLVE, "--data.length=30", "--output.file=cut.h5")
        self.assertEqual(self.open("cut.h5")["field/u"].shape[2], 30)
        self.run_well("evolve", "cut.h5", "--output.file=cut_again.h5", "--quiet")
        self.assert_same_bits("cut.h5", "cut_again.h5")
        self.assert_refused(self.run_program("evolve", *long, *MODEL, "--data.length=301"), "data.length = 301", "300 tokens")

    def test_words_are_left_out_only_if_there_is_one_for_unknown_ones(self):
        self.put("text.h5", TEXT)
        self.put("ids.h5", {**TEXT, "words": np.array(["a", "b", "c", "d", "e"])})
        self.run_well("train", *self.of("text.h5"), *TRAIN, "--train.augment=0.3")
        self.run_well("train", *self.of("ids.h5"), *TRAIN, "--output.file=model.h5")
        for file in ("ids.h5", self.put("patches.h5", PATCHES)[1].partition("=")[2]):
            self.assert_refused(self.run_program("train", *self.of(file), *TRAIN, "--train.augment=0.3", ranks=2), "train.augment", file)
        dropped = ["perturbation", *self.of("ids.h5"), "--models.transformer=model.h5", "--samples.count=4", "--quiet"]
        self.run_well(*dropped)
        self.assert_refused(self.run_program(*dropped, "--perturbation.dropped=0.5"), "perturbation.dropped", "<unk>")

    def refuse(self, cases):
        """(what is wrong, name of the file, parts of the message)."""
        def run(claim, name, parts, ranks):
            with self.subTest(claim, ranks=ranks):
                end = self.run_program("evolve", *self.of(name), *MODEL, "--validate", ranks=ranks)
                self.assert_refused(end, "data.file", *parts)

        together([lambda c=case, r=ranks: run(*c, r) for number, case in enumerate(cases) for ranks in ranks_of_case(number)])

    def test_an_hdf5_file_that_is_none_of_tokens_is_refused(self):
        self.put("elsewhere.h5", {"x": TEXT["ids"]})
        virtual = h5py.VirtualLayout((12, 6), "i4")
        virtual[:] = h5py.VirtualSource("elsewhere.h5", "x", (12, 6))

        def sparse(file):
            del file["ids"]
            file.create_dataset("ids", (1 << 40, 1 << 20), "i4", chunks=(64, 64))

        def made_virtual(file):
            del file["ids"]
            file.create_virtual_dataset("ids", virtual)

        changes = [("an external link", with_value("ids", h5py.ExternalLink("elsewhere.h5", "/x")), "/ids is a link (external)"),
                   ("a soft link", with_value("ids", h5py.SoftLink("/lengths")), "/ids is a link (soft)"),
                   ("a virtual dataset", made_virtual, "/ids is a virtual dataset"), ("a petabyte", sparse, "/ids announces"),
                   ("a group", lambda file: [file.__delitem__("ids"), file.create_group("ids/x")], "/ids is not a dataset"),
                   ("flags", with_value("ids", TEXT["ids"] > 1), "/ids holds neither numbers nor texts"),
                   ("a fraction of words", with_attributes("ids", vocabulary=4), "")]
        cases = []
        for number, (claim, change, part) in enumerate(changes):
            name = f"spoilt{number}.h5"
            self.put(name, {key: values for key, values in TEXT.items() if key != "words"})
            with h5py.File(self.path(name), "r+") as file:
                change(file)
            cases.append((claim, name, [name, part or "/ids holds 4"]))
        self.write("text.h5", "no HDF5\n")
        np.savez(self.path("zip.npz"), **TEXT)
        os.rename(self.path("zip.npz"), self.path("zip.h5"))
        self.refuse([*cases, ("a text", "text.h5", ["HDF5 signature"]), ("a zip", "zip.h5", ["HDF5 signature"]),
                     ("nothing", "none.h5", ["no such file"]), ("no name", "", ["data.set = tokens needs data.file"])])

    def test_files_with_what_is_no_sample_are_refused(self):
        arrays = [("no ids", {"lengths": LENGTHS}, "neither /ids nor /features"), ("negative ids", {"ids": -TEXT["ids"] - 1}, "/ids holds -"),
                  ("a length of 7", {"ids": TEXT["ids"], "lengths": LENGTHS + 1}, "/lengths holds 7 (sample 2)"),
                  ("nan", {"features": PATCHES["features"] * np.float32("nan")}, "/features holds "),
                  ("a train split alone", {"train/ids": TEXT["ids"]}, "no /test")]
        for number, (_, content, _) in enumerate(arrays):
            self.put(f"wrong{number}.h5", content)
        self.refuse([(claim, f"wrong{number}.h5", [f"wrong{number}.h5", part]) for number, (claim, _, part) in enumerate(arrays)])

    def test_padding_that_nobody_speaks_of_is_refused(self):
        words = np.array(["[PAD]", "[UNK]", "the", "cat"])
        ids = np.array([[2, 3, 2, 3], [2, 3, 0, 0]])
        mask = (ids > 0).astype("i4")
        cases = [("padded on the right", {"ids": ids, "words": words}, "sample 1 of /ids ends with '[PAD]'"),
                 ("padded on the left", {"ids": ids[:, ::-1], "words": words, "lengths": [4, 4]}, "sample 1 of /ids begins with '[PAD]'"),
                 ("a mask", {"ids": ids, "words": words, "attention_mask": mask}, "/attention_mask, which is not read, and no /lengths"),
                 ("names of a tokeniser", {"input_ids": ids, "words": words}, "/input_ids, which is not read")]
        for number, (_, content, _) in enumerate(cases):
            self.put(f"padded{number}.h5", content)
        self.refuse([(claim, f"padded{number}.h5", [f"padded{number}.h5", part]) for number, (claim, _, part) in enumerate(cases)])
        self.run_well("evolve", *self.put("said.h5", {"ids": ids, "words": words, "lengths": [4, 2]}), *EVOLVE)

    def test_the_refusal_of_a_file_of_numpy_is_the_command_that_converts_it(self):
        np.savez(self.path("my text.npz"), **TEXT)
        self.put("text.h5", TEXT)
        for ranks in (1, 3):
            end = self.run_program("evolve", *self.of(self.path("my text.npz")), *MODEL, ranks=ranks)
            self.assert_refused(end, "data.file", "my text.npz")
        for name in ("shouted.NPZ", "mixed.Npz"):  # refused by their names: there need be no file
            capitals = self.run_program("evolve", *self.of(self.path(name)), *MODEL)
            self.assert_refused(capitals, "data.file", f"{name}' --output ")
        command = re.search(r"fluxformer tokens .* --output '.*?'", end.err).group()
        path = {"PATH": f"{os.path.dirname(BINARY)}:{os.environ['PATH']}", "FLUXFORMER_PYTHON": sys.executable}
        done = subprocess.run(command, shell=True, cwd=self.folder, env={**os.environ, **path}, check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, file in (("converted", self.path("my text.h5")), ("written", "text.h5")):
            self.run_well("evolve", *self.of(file), *EVOLVE, "--inflow.samples=4", f"--output.file={name}_out.h5")
        self.assert_same_bits("converted_out.h5", "written_out.h5")


if __name__ == "__main__":
    unittest.main()
