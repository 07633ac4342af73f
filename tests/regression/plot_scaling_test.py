#!/usr/bin/env python3
"""`fluxformer plot` groups runs into the right studies, and its numbers match those worked out by hand.

Uses real runs of `fluxformer scaling` (program.py), and synthetic files for exact numbers. Needs what postprocess/ needs;
status 77 if
matplotlib or h5py is not installed.
"""

import contextlib
import csv
import os
import sys
import types
import unittest
from unittest import mock

try:
    import h5py
    import matplotlib  # noqa: F401 (what the figures need)
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from described import description  # noqa: E402 (its folder is put on the path first)
from program import ROOT, SCALING_DECK, ProgramTest, together  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import assert_picture, call  # noqa: E402
from scaling_sample import write_scaling  # noqa: E402

from fluxformer.io import Run  # noqa: E402
from fluxformer.scaling import plot as plot_scaling  # noqa: E402
from fluxformer.scaling.data import Measured, studies  # noqa: E402
from fluxformer.scaling.plot import shares  # noqa: E402


class ScalingTest(ProgramTest):
    def sample(self, name, *arguments, **changes):
        write_scaling(self.path(name), *arguments, **changes)

    def measured(self, *names):
        return [self._measured(name) for name in names]

    def _measured(self, name):
        with Run(self.path(name)) as run:
            return Measured(run)

    def plot(self, *arguments, draw=False):
        """Calls the script without starting a new Python each time, and without figures (a second each) unless they matter."""
        with contextlib.nullcontext() if draw else mock.patch.object(plot_scaling, "figure"):
            result = call("plot", *arguments)
        return types.SimpleNamespace(failure=result.stderr if result.returncode else "", out=result.stdout, err=result.stderr)

    def rows(self, name, folder="figures"):
        with open(self.path(os.path.join(folder, name)), newline="", encoding="utf-8") as stream:
            return list(csv.DictReader(stream))

    def column(self, rows, name):
        return [float(row[name]) for row in rows]

    def assert_numbers(self, found, expected):
        for one, other in zip(found, expected, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-12 * abs(other))  # a few roundings of doubles

    def assert_drawn(self, *names, folder="figures"):
        """Exactly these files, each as .csv, .png and .pdf, with no empty pictures."""
        there = sorted(os.listdir(self.path(folder)))
        self.assertEqual(there, sorted(n + kind for n in names for kind in (".csv", "_scaling.png", "_scaling.pdf")))
        for name in names:
            assert_picture(self, self.path(f"{folder}/{name}_scaling"))


class RealRuns(ScalingTest):
    def test_strong_and_weak_on_1_2_and_3_ranks(self):
        self.write("tiny.ini", SCALING_DECK)

        def scale(mode, ranks, machine):
            end = self.run_program("scaling", "tiny.ini", "--quiet", f"--scaling.mode={mode}", f"--scaling.machine={machine}",
                                   f"--output.file={mode}{ranks}.h5", ranks=ranks)
            self.assertEqual(end.code, 0, end)

        together([lambda m=m, n=n: scale(m, n, "true" if (m, n) == ("weak", 1) else "false")
                  for m, n in (("strong", 1), ("strong", 2), ("strong", 3), ("weak", 1), ("weak", 3))])
        result = call("plot", self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_drawn("tiny_strong", "tiny_weak")
        for mode, counts in (("strong", [1, 2, 3]), ("weak", [1, 3])):
            rows = self.rows(f"tiny_{mode}.csv")
            self.assertEqual(self.column(rows, "ranks"), counts)
            for row, ranks in zip(rows, counts):
                group = self.open(f"{mode}{ranks}.h5")["scaling"]
                self.assertEqual(float(row["step_median_s"]), sorted(group["step_seconds"])[1])
                self.assertEqual(row["share_of_product_peak_percent"] != "", (mode, ranks) == ("weak", 1))
                # Euler: one message to the next rank in each step, of a slab of 6 tokens x 2 samples x 8 channels.
                self.assertGreaterEqual(float(row["messages_per_step"]), ranks - 1)
                self.assertGreaterEqual(float(row["sent_per_step_byte"]), (ranks - 1) * 6 * 2 * 8 * 8)
            work = self.column(rows, "work_per_rank_gflop")
            self.assert_numbers(work, [work[0] / (n if mode == "strong" else 1) for n in counts])
        self.assertIn("6 layers per rank", result.stdout)


class Numbers(ScalingTest):
    def test_strong_speed_up_and_efficiency_are_against_the_fewest_ranks(self):
        self.sample("a.h5", 2, [7.0, 8.0, 9.0])  # out of order, and not starting at one rank
        self.sample("b.h5", 8, [2.0, 2.5, 4.0])
        self.sample("c.h5", 4, [1.0, 2.0, 4.0], {"compute": 0.8})
        self.assertEqual(self.plot(self.folder).failure, "")
        rows = self.rows("evolve_strong.csv")
        for name, expected in {"ranks": [2, 4, 8], "step_median_s": [8, 2, 2.5], "step_least_s": [7, 1, 2],
                               "step_greatest_s": [9, 4, 4],
                               "speed_up": [1, 4, 3.2], "speed_up_least": [8 / 9, 2, 2], "speed_up_greatest": [8 / 7, 8, 4],
                               "efficiency": [1, 2, 0.8], "efficiency_least": [8 / 9, 1, 0.5],
                               "efficiency_greatest": [8 / 7, 4, 1],
                               # 4 Gflop a step; the peak of the sample is 80 Gflop/s
                               "rate_per_rank_gflop_per_s": [0.25, 0.5, 0.2],
                               "share_of_product_peak_percent": [100 * rate / 80 for rate in (0.25, 0.5, 0.2)],
                               "memory_of_largest_rank_byte": [1.5e8] * 3, "checkpoint_megabyte_per_s": [250] * 3}.items():
            self.assert_numbers(self.column(rows, name), expected)

    def test_the_phase_besides_compute_that_takes_most(self):
        self.sample("a.h5", 1, [1.0])
        self.sample("b.h5", 3, [0.4, 0.5, 0.5], {"compute": 0.5, "ghosts": 0.125, "reduction": 0.25},
                    traffic={"ghosts": (2, 1000), "reduction": (3, 24)})
        result = self.plot(self.folder)
        self.assertIn("evolve over depth: 2.00 times as fast on 3 ranks", result.out)
        one, three = self.rows("evolve_strong.csv")
        self.assertEqual((one["costs_most"], three["costs_most"]), ("", "reduction"))
        self.assert_numbers([float(three[name]) for name in ("compute_percent", "ghosts_percent", "ring_percent", "reduction_percent",
                                                             "messages_per_step", "sent_per_step_byte")], [50, 12.5, 0, 25, 5, 1024])
        self.assertRegex(result.out, r"\n +3 +1 +500 +400\.\.500 +2\.00 +0\.67 .* reduction 25\.0 % +5 +1\.02 kB +150 MB +250\n")

    def test_bars_are_a_whole_step(self):
        self.sample("a.h5", 1, [2.0], {"compute": 0.5, "ghosts": 0.25})
        self.sample("b.h5", 2, [2.0], {"compute": 1.5, "ghosts": 0.5})  # medians over ranks may add up to more than a step
        one, two = (shares(point) for point in studies(self.measured("a.h5", "b.h5"))[0].points)
        self.assertEqual([one[name] for name in ("compute", "ghosts", "ring", "reduction", "ranks differ")], [0.5, 0.25, 0, 0, 0.25])
        self.assertEqual([two[name] for name in ("compute", "ghosts", "ring", "reduction", "ranks differ")], [0.75, 0.25, 0, 0, 0])

    def test_weak_time_against_time_and_the_problem_is_that_of_a_rank(self):
        for ranks, step in ((1, [1.0, 2.0, 3.0]), (4, [2.5])):
            self.sample(f"{ranks}.h5", ranks, step,
                        facts={"mode": "weak", "layers": 12 * ranks, "cells": 24 * ranks, "flops": 4e9 * ranks})
        self.sample("other.h5", 2, [1.0], facts={"mode": "weak", "layers": 12, "cells": 24})  # less on each rank
        result = self.plot(self.folder)
        self.assertIn("4 times the problem on 4 ranks takes 1.25 times as long (within the spread)", result.out)
        self.assertNotIn("The work of a rank is not the same", result.out)
        self.assertEqual(sorted(os.listdir(self.path("figures"))), ["evolve_weak_layers-12.csv", "evolve_weak_layers-6.csv"])
        rows = self.rows("evolve_weak_layers-12.csv")
        for name, expected in {"efficiency": [1, 0.8], "efficiency_least": [2 / 3, 0.8], "efficiency_greatest": [2, 0.8],
                               "speed_up": [1, 3.2], "work_per_rank_gflop": [4, 4]}.items():
            self.assert_numbers(self.column(rows, name), expected)

    def test_weak_says_when_the_work_of_a_rank_grows(self):
        for ranks in (1, 2):  # attention: twice the keys for each query
            self.sample(f"{ranks}.h5", ranks, [1.0 * ranks],
                        facts={"mode": "weak", "over": "tokens", "tokens": 49 * ranks, "flops": 4e9 * ranks**2})
        self.assertIn("The work of a rank is not the same: 4.00 Gflop per step on 1 rank, 8.00 on 2", self.plot(self.folder).out)

    def test_repetitions_of_files_of_as_many_ranks_are_taken_together(self):
        self.sample("a.h5", 1, [1.0, 2.0], peak=40e9)
        self.sample("b.h5", 1, [4.0, 5.0, 6.0], peak=60e9, settings={"scaling.repetitions": 3, "scaling.steps": 9})
        result = self.plot(self.folder)
        row, = self.rows("evolve_strong.csv")
        self.assertEqual((row["files"], row["repetitions"], row["step_median_s"]), ("a.h5 b.h5", "5", "4.0"))
        self.assert_numbers([float(row["share_of_product_peak_percent"])], [2.0])  # 1 Gflop/s of the median of 40 and 60
        self.assertIn("the 5 repetitions of a.h5, b.h5 taken together", result.out)

    def test_without_machine_and_size_of_the_checkpoint_there_is_a_dash(self):
        self.sample("a.h5", 1, [1.0], machine=False)
        with h5py.File(self.path("a.h5"), "r+") as file:
            file["scaling/output"].attrs["bytes"] = 0.0
        result = self.plot(self.path("a.h5"), "--output", self.path("new"))
        self.assertEqual(result.failure, "")
        self.assertRegex(result.out, r"\n +1 +1 .* 4\.00 +- .* -\n")
        row, = self.rows("evolve_strong.csv", "new")
        self.assertEqual((row["share_of_product_peak_percent"], row["checkpoint_megabyte_per_s"]), ("", ""))


class Grouping(ScalingTest):
    def test_other_problems_are_other_studies(self):
        self.sample("a.h5", 1, [1.0])
        self.sample("b.h5", 2, [1.0], settings={"mesh.ranks_depth": 2, "output.overwrite": "true", "scaling.steps": 2,
                                                "run.time_limit": 60})
        self.assertEqual(len(studies(self.measured("a.h5", "b.h5"))), 1)
        facts = ({"width": 32}, {"ffn": 1}, {"heads": 2}, {"layers": 6}, {"cells": 24}, {"tokens": 50}, {"samples": 9},
                 {"precision": "single"}, {"over": "tokens"}, {"workload": "train"}, {"mode": "weak"}, {"study": "other"})
        others = [{"facts": one} for one in facts] + [{"settings": {"evolve.method": "ssp"}}]
        for k, changes in enumerate(others):
            self.sample(f"other{k}.h5", 2, [1.0], **changes)
            found = studies(self.measured("a.h5", f"other{k}.h5"))
            self.assertEqual(len(found), 2, changes)
            self.assertEqual(len({study.title for study in found}), 2, changes)
        found = studies(self.measured("a.h5", "b.h5", *(f"other{k}.h5" for k in range(len(others)))))
        self.assertEqual(len(found), 1 + len(others))
        self.assertEqual(len({study.title for study in found}), 1 + len(others))

    def test_one_study_may_differ_in_what_changes_no_step(self):
        """Every key of the program: its role decides, but for the folder that takes part in a step."""
        scaling = next(one for one in description()["experiments"] if one["name"] == "scaling")
        found = {"one": set(), "two": set()}
        for key in scaling["keys"]:
            for name, value in (("a.h5", "1"), ("b.h5", "2")):
                self.sample(name, 1, [1.0], settings={key["name"]: value})
            count = len(studies(self.measured("a.h5", "b.h5")))
            found["one" if count == 1 else "two"].add(key["name"])
        free = {key["name"] for key in scaling["keys"] if key["role"] in ("output", "free", "permission")}
        self.assertEqual(found["one"], free - {"adjoint.folder"})
        self.assertLessEqual({"mesh.ranks_token", "scaling.steps", "data.directory", "output.file"}, found["one"])
        self.assertLessEqual({"adjoint.folder", "mesh.layers", "data.set", "run.seed"}, found["two"])

    def test_a_title_says_what_differs(self):
        self.sample("a.h5", 1, [1.0])
        self.sample("b.h5", 1, [1.0], facts={"precision": "single"})
        self.assertEqual([study.title for study in studies(self.measured("a.h5", "b.h5"))],
                         ["evolve_strong_precision-double", "evolve_strong_precision-single"])

    def test_files_that_do_not_compare_are_refused(self):
        self.sample("a.h5", 4, [1.0])
        for name, changes, words in (
                ("layout.h5", {"facts": {"ranks_depth": 2, "ranks_token": 2}}, ("different ways", "ranks_token 2")),
                ("nodes.h5", {"facts": {"nodes": 2}}, ("different ways", "nodes 2")),
                ("revision.h5", {"git_revision": "fedcba"}, ("different git_revision", "fedcba", "--mixed")),
                ("blas.h5", {"blas": "BLIS"}, ("different blas", "BLIS", "--mixed"))):
            self.sample(name, 4, [1.0], **changes)
            result = self.plot(self.path("a.h5"), self.path(name))
            self.assertEqual(result.out, "")
            for word in (*words, "a.h5", name):
                self.assertIn(word, result.failure)
        self.assertEqual(self.plot("--mixed", self.path("a.h5"), self.path("blas.h5")).failure, "")
        self.assertIn("different ways", self.plot("--mixed", self.path("a.h5"), self.path("layout.h5")).failure)

    def test_what_is_no_finished_scaling_is_skipped_and_named(self):
        self.sample("a.h5", 1, [1.0])
        self.sample("0train.h5", 2, [1.0], experiment="train")
        self.sample("failed.h5", 2, [1.0], status="failed")
        self.sample("killed.h5.part", 2, [1.0])
        with h5py.File(self.path("foreign.h5"), "w"):
            pass
        self.write("text.h5", "no HDF5")
        result = self.plot(self.folder, self.path("a.h5"))  # the same file twice is one file
        self.assertEqual(result.failure, "")
        said = result.err.splitlines()
        self.assertEqual(len(said), 5, said)
        for name, word in (("0train.h5", "experiment train"), ("failed.h5", "did not end normally"),
                           ("killed.h5.part", "not finished"), ("foreign.h5", "not one of Fluxformer"),
                           ("text.h5", "not a readable HDF5 file")):
            lines = [line for line in said if line.startswith("skipped: ") and name in line and word in line]
            self.assertEqual(len(lines), 1, name)
        row, = self.rows("evolve_strong.csv")
        self.assertEqual((row["ranks"], row["repetitions"], row["files"]), ("1", "1", "a.h5"))

    def test_nothing_to_draw_is_an_error(self):
        empty = self.path("empty")
        os.mkdir(empty)
        self.assertIn(empty + ": no output in this folder", self.plot(empty).failure)
        self.sample("empty/train.h5", 2, [1.0], experiment="train")
        self.assertIn(empty + ": no output in this folder", self.plot(empty).failure)
        self.assertIn("no such file", self.plot(self.path("missing.h5")).failure)
        self.assertFalse(os.path.exists(self.path("figures")))


class Figure(ScalingTest):
    def test_axes_show_all_that_was_measured_and_the_ideal(self):
        """Includes superlinear speed-ups, slow-downs, and repetitions far from the median."""
        for ranks, step in ((3, [0.5, 1.0, 8.0]), (6, [0.2, 0.25, 0.3]), (12, [1.9, 2.0, 2.1])):
            self.sample(f"{ranks}.h5", ranks, step, {"compute": 0.75, "ghosts": 0.2})
        with mock.patch("fluxformer.scaling.plot.save") as save:
            plot_scaling.figure(studies(self.measured("3.h5", "6.h5", "12.h5"))[0], self.folder)
        speed_up, efficiency, phases = save.call_args.args[0].axes
        low, high = speed_up.get_ylim()
        self.assertTrue(low < 1 / 8 and high > 5)  # T(3)/8 s and T(3)/0.2 s
        self.assertEqual(efficiency.get_ylim()[0], 0)
        self.assertGreater(efficiency.get_ylim()[1], 2.5)  # 1 / 0.2 / 2
        self.assertEqual((speed_up.get_xscale(), speed_up.get_yscale()), ("log", "log"))
        rising, level = (next(line for line in axes.lines if line.get_label() == "ideal") for axes in (speed_up, efficiency))
        self.assert_numbers(3 * rising.get_ydata(), rising.get_xdata())
        self.assertEqual(list(level.get_ydata()), [1, 1])
        bars = [patch.get_height() for patch in phases.patches]
        self.assertAlmostEqual(sum(bars), 300, delta=1e-9)
        self.assertGreater(phases.get_ylim()[1], 100)
        texts = [text.get_text() for text in phases.texts]
        for time in ("1,000 ms", "250 ms", "2,000 ms", "75 %"):
            self.assertIn(time, texts)

    def test_many_rank_counts_and_one(self):
        for k in range(12):
            self.sample(f"{k}.h5", 2**k, [0.8**k], facts={"nodes": max(1, 2**k // 64)})
        self.sample("one.h5", 3, [1.0], facts={"study": "one", "mode": "weak", "layers": 36, "cells": 36})
        result = self.plot(self.folder, draw=True)
        self.assertEqual((result.failure, result.err), ("", ""))
        self.assertIn("one over depth: 1,000 ms per step on 3 ranks", result.out)
        self.assert_drawn("evolve_strong", "one_weak")


if __name__ == "__main__":
    unittest.main()
