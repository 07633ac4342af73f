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

    def test_without_bytes_there_are_no_bits_per_byte(self):
        _, rows = self.report(self.write("t.h5", 6))
        self.assertEqual({row[4] for row in rows}, {"–"})

    def test_a_sentence_says_what_a_model_adds_to_counting(self):
        above = self.write("early.h5", 1)
        self.assertGreater(math.exp(self.last(above)[0]), 4)
        page, _ = self.report(above)
        self.assertIn("not below the Kneser-Ney bigram (4): it has learnt nothing that counting does not give", page)
        self.assertIn("above the best that counting gives (2.500, Kneser-Ney 3-gram)", page)
        below = self.write("late.h5", 12, more=PDE)
        self.assertLess(math.exp(self.last(below)[0]), 2.5)
        page, rows = self.report(above, below)
        self.assertRegex(page, r"PDE, independent: perplexity [0-9.]+, below the Kneser-Ney bigram \(4\), below the best that counting gives")
        self.assertEqual([row[0] for row in rows][:2], ["Transformer", "PDE, independent"])

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


if __name__ == "__main__":
    unittest.main()
