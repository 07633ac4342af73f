#!/usr/bin/env python3
"""Examples are tests, plots are tests: each built-in deck runs at a small size, and `fluxformer plot` draws its result without
a display.

Needs the program (FLUXFORMER_BINARY) and what postprocess/ needs; status 77 if matplotlib or h5py is not installed.
"""

import glob
import os
import subprocess
import sys
import unittest

try:
    import h5py
    import matplotlib  # noqa: F401 (what the figures need)
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from python_package import ROOT, FolderTest, assert_picture, call, start  # noqa: E402 (its folder is put on the path first)

BINARY = os.environ["FLUXFORMER_BINARY"]
# deck -> (what makes it small, what is drawn). Decks that need downloaded files are not built in.
SMALL = {
    "evolve": (["--inflow.samples=2", "--evolve.time=4"], ["front", "profiles", "token_maps"]),
    "diffusion": (["--evolve.time=1"], ["histories", "tokens"]),
    "particles": (["--evolve.time=0.5", "--evolve.tolerance=1e-6"], ["histories", "tokens"]),
}
NEEDS_FILES = {"mnist"}


class PlotEvolve(FolderTest):
    def solve(self, deck, *settings):
        path = os.path.join(self.folder, deck + ".h5")
        result = subprocess.run([BINARY, "evolve", os.path.join(ROOT, "input", "evolve", deck + ".ini"), "--output.file=" + path,
                                 "--quiet", *settings], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 0, result.stderr)
        return path

    def plot(self, *arguments, how=call):
        return how("plot", *arguments)

    def test_every_deck_is_known_here(self):
        decks = {os.path.basename(path)[:-4] for path in glob.glob(os.path.join(ROOT, "input", "evolve", "*.ini"))}
        self.assertEqual(decks, set(SMALL) | NEEDS_FILES)

    def test_each_deck_runs_and_is_drawn_as_png_and_pdf(self):
        for deck, (settings, names) in SMALL.items():
            with self.subTest(deck):
                figures = os.path.join(self.folder, deck)
                result = self.plot(self.solve(deck, *settings), "--output", figures)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(sorted(os.listdir(figures)), sorted(n + e for n in names for e in (".pdf", ".png")))
                for name in names:
                    assert_picture(self, os.path.join(figures, name))

    def test_a_run_of_chosen_depths_and_without_reference_is_drawn(self):
        path = self.solve("evolve", "--evolve.time=2", "--output.depth_stride=3", "--front.threshold=0")
        result = self.plot(path, how=start)  # as from a shell without a display
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(os.path.join(self.folder, "figures", "front.png"), result.stdout)

    def test_a_run_without_fields_is_drawn_without_maps(self):
        result = self.plot(self.solve("evolve", "--evolve.time=2", "--output.fields=none"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("token_maps", result.stdout)

    def test_what_cannot_be_drawn_is_refused_in_one_line(self):
        path = self.solve("particles", "--evolve.time=0.1")
        for arguments, word in (([path, "--sample", "5"], "samples 0 to 0"), ([path + "x"], "no such file")):
            self.assert_refused(self.plot(*arguments), word)
        with h5py.File(path, "r+") as file:
            file.attrs["status"] = "interrupted"
        self.assert_refused(self.plot(path), "did not end normally")
        self.assertEqual(self.plot(path, "--unfinished").returncode, 0)


if __name__ == "__main__":
    unittest.main()
