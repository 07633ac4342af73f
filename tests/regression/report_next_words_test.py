#!/usr/bin/env python3
"""The report sets models of next words beside n-grams: every number of its table is that of the files, and its sentence says what the
models add to counting.

Makes its own small files, so no run is needed. Status 77 if matplotlib or h5py is not installed.
"""

import contextlib
import math
import os
import re
import sys
import unittest
from html import unescape

try:
    import h5py
    import matplotlib  # noqa: F401 (what the report needs)
    import numpy as np
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from page_reader import without_rendering  # noqa: E402 (its folder is put on the path first)
from python_package import FolderTest, call  # noqa: E402
from training_sample import write_training  # noqa: E402

KNESER_NEY, WITTEN_BELL, RIGHT = [9.0, 4.0, 2.5, 2.6, 2.7], [9.1, 4.5, 3.0, 3.4, 3.6], [0.1, 0.2, 0.3, 0.29, 0.28]
PDE = "[model]\nkind = pde\n[depth]\nnorm = none\n"
PDE_NORM = "[model]\nkind = pde\n[depth]\nnorm = pre\n"
MODERN = ("[depth]\nnorm_map = rms\n[attention]\nrotary = half\n[model]\nkind = transformer\ngated = true\nactivation = silu\nbiases = none\n"
          "positions = none\n")
SEEDS = (1, 2, 3)
HEADINGS = ["test words", "loss  [nat]", "guessed right  [%]", "perplexity", "bits per byte"]


class NextWords(FolderTest):
    def write(self, name, epochs, seed=1, more="", contexts="text", byte_count=np.nan, ngrams=(KNESER_NEY, WITTEN_BELL, RIGHT)):
        write_training(self.path(name), epochs=epochs, seed=seed, ngrams=ngrams, byte_count=byte_count,
                       settings=f"[data]\nset = 20news\nlength = 128\n[train]\nbatch = 32\nobjective = causal\ncontexts = {contexts}\n{more}")
        return self.path(name)

    def report(self, *files, rendered=False):
        with contextlib.nullcontext() if rendered else without_rendering():
            end = call("report", *files, "--output", self.folder)
        self.assertEqual(end.returncode, 0, end.stderr)
        with open(self.path("report.html"), encoding="utf-8") as stream:
            page = stream.read()
        tables = re.findall(r"<table>.*?</table>", page, flags=re.DOTALL)
        rows = [[[unescape(re.sub("<.*?>", "", cell)).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL)]
                 for row in re.findall(r"<tr.*?</tr>", table, flags=re.DOTALL)] for table in tables]
        return unescape(page), next((table[1:] for table in rows if table[0] == HEADINGS), [])

    def last(self, path):
        with h5py.File(path) as file:
            return file["training/test_loss"][-1], file["training/test_accuracy"][-1]

    def test_the_table_holds_models_and_all_ngrams(self):
        files = [self.write(f"t{seed}.h5", 6, seed, byte_count=4.0) for seed in (1, 2)]
        _, rows = self.report(*files, rendered=True)
        self.assertEqual([row[0] for row in rows], ["Transformer", *(f"{name} {n}-gram" for name in ("Kneser-Ney", "Witten-Bell") for n in range(1, 6))])
        loss, right = np.mean([self.last(path) for path in files], axis=0)
        perplexity = np.mean([math.exp(self.last(path)[0]) for path in files])
        found = [float(re.match(r"[0-9.]+", cell)[0]) for cell in rows[0][1:]]
        # Cells have two digits of the spread over seeds, or three or four.
        np.testing.assert_allclose(found, [loss, 100 * right, perplexity, loss / math.log(2) / 4], rtol=0.02)
        for row, value, share in zip(rows[1:], KNESER_NEY + WITTEN_BELL, RIGHT + RIGHT):
            found = [float(re.match(r"[0-9.]+", cell)[0]) for cell in row[1:]]
            np.testing.assert_allclose(found, [math.log(value), 100 * share, value, math.log2(value) / 4], rtol=1e-3, err_msg=row[0])

    def test_files_with_fewer_orders_stand_beside_others(self):
        longer = self.write("bytes.h5", 6, 2, ngrams=[values + [value] for values, value in zip((KNESER_NEY, WITTEN_BELL, RIGHT), (2.4, 2.9, 0.4))])
        every = [f"{name} {n}-gram" for name in ("Kneser-Ney", "Witten-Bell") for n in range(1, 7)]
        _, rows = self.report(longer)
        self.assertEqual([row[0] for row in rows[1:]], every)
        for files in ((longer, self.write("older.h5", 6)), (self.path("older.h5"), longer)):
            _, rows = self.report(*files)
            self.assertEqual([row[0] for row in rows[1:]], [name for name in every if not name.endswith("6-gram")])

    def test_without_bytes_there_are_no_bits_per_byte(self):
        _, rows = self.report(self.write("t.h5", 6))
        self.assertEqual({row[4] for row in rows}, {"–"})

    def test_a_sentence_says_what_a_model_adds_to_counting(self):
        above = [self.write(f"early{seed}.h5", 1, seed) for seed in SEEDS]
        page, _ = self.report(*above)
        self.assertIn("above the Kneser-Ney bigram (4): it has learnt nothing that counting does not give", page)
        self.assertIn("above the best that counting gives (2.500, Kneser-Ney 3-gram)", page)
        below = [self.write(f"late{seed}.h5", 12, seed, more=PDE) for seed in SEEDS]
        page, rows = self.report(*above, *below)
        self.assertRegex(page, r"PDE, independent: perplexity [0-9.]+, below the Kneser-Ney bigram \(4\), below the best that counting gives")
        self.assertEqual([row[0] for row in rows][:2], ["Transformer", "PDE, independent"])

    def test_above_and_below_need_an_interval(self):
        # Losses of three seeds beside that of the best n-gram, log 2.5: the t interval of their mean has the half width 4.303 s / sqrt(3),
        # with 4.303 the quantile 0.975 of Student's t with 2 degrees of freedom. For -0.1, -0.2, -0.3 that is 0.248 about -0.2, for
        # -0.1, -0.12, -0.14 it is 0.050 about -0.12.
        best = "the best that counting gives"
        for losses, said in (((-0.1, -0.2, -0.3), "cannot be distinguished from"), ((-0.1, -0.12, -0.14), "below"), ((0.1, 0.12, 0.14), "above"),
                             ((0.3, 0.2, 0.1), "cannot be distinguished from"), ((-0.12, -0.121), "cannot be distinguished from"),
                             ((-0.12,), "cannot be distinguished from")):
            files = []
            for seed, loss in enumerate(losses):
                files.append(self.write(f"t{seed}.h5", 6, seed))
                with h5py.File(files[-1], "r+") as file:
                    file["training/test_loss"][-1] = math.log(2.5) + loss
                    file["training/test_perplexity"][-1] = 2.5 * math.exp(loss)
            page, _ = self.report(*files)
            self.assertIn(f"{said} {best}", page)
            for other in {"cannot be distinguished from", "below", "above"} - {said}:
                self.assertNotIn(f"{other} {best}", page)
            self.assertEqual("fewer than 3 seeds" in page, len(losses) < 3)

    def test_seeds_are_paired_with_the_counts_of_their_own_words(self):
        # Perplexities differ by a factor of 4 between seeds, but each is 0.9 of its own n-grams'.
        files = []
        for seed, scale in enumerate((1.0, 2.0, 4.0)):
            files.append(self.write(f"t{seed}.h5", 6, seed, ngrams=([scale * value for value in KNESER_NEY], [scale * value for value in WITTEN_BELL], RIGHT)))
            with h5py.File(files[-1], "r+") as file:
                file["training/test_loss"][-1] = math.log(0.9 * 2.5 * scale)
        self.assertIn("below the best that counting gives", self.report(*files)[0])

    def test_architectures_of_one_kind_are_told_apart(self):
        for plain, other, names in (("", MODERN, ["Transformer", "Transformer with RMSNorm, rotary positions, gated networks, no biases"]),
                                    (PDE, PDE + "[equation]\nnu = 0.25\n", ["PDE, independent", "PDE, independent, transport over tokens"]),
                                    (PDE_NORM, PDE_NORM + "norm_map = rms\n", ["PDE with LayerNorm", "PDE with RMSNorm"]),
                                    ("[model]\nwidth = 64\n", "[model]\nwidth = 128\n",
                                     ["Transformer (model.width = 64)", "Transformer (model.width = 128)"])):
            early = [self.write(f"early{seed}.h5", 1, seed, more=plain) for seed in SEEDS]
            late = [self.write(f"late{seed}.h5", 12, seed, more=other) for seed in SEEDS]
            page, rows = self.report(*late, *early)
            self.assertEqual(sorted(row[0] for row in rows if "gram" not in row[0]), sorted(names))
            found = {row[0]: float(re.match(r"[0-9.]+", row[1])[0]) for row in rows}
            for files, name in ((early, names[0]), (late, names[1])):
                # Losses are printed with two digits of their spread, which is a tenth of them or less.
                self.assertAlmostEqual(found[name], np.mean([self.last(path)[0] for path in files]), delta=0.02)
                self.assertIn(f"{name}: perplexity", page)

    def test_seeds_and_files_without_newer_keys_are_one_architecture(self):
        settings = ("[model]\nseed = 1\n", "[model]\nseed = 2\ngated = false\nbiases = all\n[equation]\nnu = 0\n",
                    "[model]\nseed = 3\nlonger = 4\n[mesh]\nranks_depth = 2\n")
        _, rows = self.report(*(self.write(f"t{seed}.h5", 6, seed, more=more) for seed, more in enumerate(settings)))
        self.assertEqual([row[0] for row in rows if "gram" not in row[0]], ["Transformer"])

    def test_trainings_on_other_words_are_told_apart(self):
        others = [value / 2 for value in KNESER_NEY], [value / 2 for value in WITTEN_BELL], RIGHT
        page, rows = self.report(self.write("text.h5", 6), self.write("packed.h5", 6, contexts="packed", ngrams=others))
        self.assertEqual([row[0] for row in rows if "Transformer" in row[0]], ["contexts = text: Transformer", "contexts = packed: Transformer"])
        self.assertEqual(len(rows), 22)
        self.assertIn("(1.250, Kneser-Ney 3-gram)", page)

    def test_other_trainings_have_no_such_section(self):
        write_training(self.path("classes.h5"), settings="[data]\nset = 20news\n[train]\nbatch = 32\n")
        page, rows = self.report(self.path("classes.h5"))
        self.assertNotIn("Next words", page)
        self.assertEqual(rows, [])

    def test_models_from_files_stand_apart_by_their_own_attributes(self):
        files = [self.write(f"t{seed}.h5", 6, seed, more="[mesh]\ncells = 2\nedges = " + f"0,0.{seed},1\n") for seed in SEEDS]
        for name, width in (("a.h5", 64), ("b.h5", 64), ("c.h5", 128)):
            files.append(self.write(name, 6, more=f"[model]\nfile = {name}\n"))
            with h5py.File(files[-1], "r+") as file:
                file.require_group("model").attrs["width"] = width
        _, rows = self.report(*files)
        self.assertEqual(sorted(row[0] for row in rows if "gram" not in row[0]),
                         ["Transformer", "Transformer, from a model file (width = 128)", "Transformer, from a model file (width = 64)"])


if __name__ == "__main__":
    unittest.main()
