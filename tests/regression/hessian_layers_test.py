#!/usr/bin/python3
"""The studies of one attention layer through the program: the powers of theory, kinds of layers beside each other, numbers that overflow,
sweeps that are stopped or killed and go on, bad input, the figures.
"""

import glob
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from held_back import HeldBackTest  # noqa: E402
from program import ROOT, SEVERAL_RANKS, ranks_of_case  # noqa: E402
from python_package import call  # noqa: E402

GO_ON = "--checkpoint.restart=auto"
CHECKPOINT = "out.checkpoint.h5"
ALL = "--hessian.layers=softmax,linear,softmax_pre_norm,softmax_post_norm,linear_mlp"


class LayerTest(HeldBackTest):
    """Random weights, no files of models."""

    def study(self, deck, *arguments, ranks=1):
        """A run of a deck of input/hessian, which has the name of its study; the file."""
        end = self.run_program("hessian_" + deck.removesuffix(".ini"), os.path.join(ROOT, "input", "hessian", deck), "--quiet", "--output.file=out.h5",
                               "--output.overwrite=true", *arguments, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return self.open("out.h5")

    def assert_draws(self, *figures):
        done = call("plot", self.path("out.h5"), "--output", self.path("drawn"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.path("drawn"))), [f"out_{figure}.{kind}" for figure in figures for kind in ("pdf", "png")])

    def arrays(self, name):
        """All numbers of a file but wall times, by path."""
        found = {}
        self.open(name)["analysis/hessian"].visititems(
            lambda path, item: found.update({path: item[...]}) if isinstance(item, h5py.Dataset) and not path.endswith("seconds") else None)
        return found

    def assert_same_bits(self, first, second):
        one, other = self.arrays(first), self.arrays(second)
        self.assertEqual(sorted(one), sorted(other))
        for path in one:
            self.assertEqual(one[path].tobytes(), other[path].tobytes(), path)


class OneLayer(LayerTest):
    def test_query_entries_lie_far_below_those_of_value_with_softmax_and_not_with_linear_attention(self):
        group = self.study("blocks.ini", "--hessian.seeds=1,2,3", "--hessian.sequences=32", ranks=2)["analysis/hessian"]
        gap = {kind: (group[kind]["median_entry"][:, 0] - group[kind]["median_entry"][:, 1]).mean() for kind in group}
        # The source's numbers: 1.7 +- 0.4 decades and less than half a decade.
        self.assertLess(abs(gap["softmax"] - 1.7), 0.4)
        self.assertLess(abs(gap["linear"]), 0.5)
        np.testing.assert_allclose(group["softmax/entry_share"][...].sum(axis=-1), 1, atol=1e-12)
        # Soft-max: the functional part of V, V is 0 and no bin holds it.
        self.assertEqual(group["softmax/functional_entry_share"][:, 0].max(), 0)
        self.assert_draws("entries")

    def test_the_heat_map_holds_every_entry_of_the_hessian(self):
        size = ("--hessian.heat_map=true", "--hessian.seeds=3,1", "--hessian.width=4", "--hessian.sequences=8",
                "--hessian.layers=linear,softmax_post_norm")
        group = self.study("blocks.ini", *size, ranks=3)["analysis/hessian/linear"]
        names, sizes = group.attrs["blocks"].split("\n"), np.array(group.attrs["block_sizes"].split("\n"), dtype=int)
        self.assertEqual(" ".join(names), "W_E W_pos W_Q W_K W_V W_O W_in b_in W_out b_out W_U b_U")
        self.assertEqual(sizes.tolist(), [48, 72, 16, 16, 16, 16, 64, 16, 64, 4, 48, 12])
        entries = group["heat_map"][...].astype(float)
        self.assertEqual((entries.shape, group["heat_map"].dtype), ((392, 392), np.float32))
        # Products with unit vectors are symmetric to round-off, far below the 1e-6 that is added.
        np.testing.assert_allclose(entries, entries.T, atol=1e-5)
        # The diagonal blocks of the first seed have the quantiles of the closed form.
        for number, name in enumerate(("W_V", "W_Q", "W_K")):
            begin = sizes[:names.index(name)].sum()
            block = np.sort(entries[begin:begin + 16, begin:begin + 16].ravel())
            for share, measure in ((0.5, "median_entry"), (0.99, "percentile_99_entry")):
                self.assertAlmostEqual(block[int(share * 255)], np.log10(10 ** group[measure][0, number] + 1e-6), 5, name)
        self.assert_draws("entries", "heat_map")
        together = self.arrays("out.h5")
        # A stop in the heat map keeps the points.
        end = self.run_program("hessian_blocks", os.path.join(ROOT, "input", "hessian", "blocks.ini"), "--quiet", *size, "--hessian.seeds=3",
                               "--hessian.layers=linear", "--run.time_limit=1e-6", "--output.file=one.h5")
        self.assertEqual(end.code, 4, end)
        self.assertIn("after all points; continue with", end.err)
        self.study("blocks.ini", *size)
        for path, numbers in self.arrays("out.h5").items():
            self.assertEqual(numbers.tobytes(), together[path].tobytes(), path)

    def test_norms_grow_with_the_powers_of_theory(self):
        file = self.study("scaling.ini", "--hessian.seeds=1,2,3", "--hessian.layers=softmax", "--hessian.width=12",
                          "--hessian.sigmas=0.001,0.003,0.01", ranks=3)
        norm = {part: file[f"analysis/hessian/softmax/{part}block_norm_by_sigma"][...] for part in ("", "gauss_newton_", "functional_")}
        slopes = {part: np.log(values[..., 2] / values[..., 0]) / np.log(10) for part, values in norm.items() if part != "functional_"}
        # docs/model.md, section 9: value 2, query and key 5, in the Gauss-Newton part 6.
        np.testing.assert_allclose(slopes[""], np.broadcast_to([2, 5, 5], slopes[""].shape), atol=0.05)
        np.testing.assert_allclose(slopes["gauss_newton_"], np.broadcast_to([2, 6, 6], slopes[""].shape), atol=0.05)
        self.assertEqual(norm["functional_"][:, 0, 0].max(), 0)
        alone = self.study("scaling.ini", "--hessian.seeds=1,2,3", "--hessian.layers=softmax", "--hessian.width=12",
                          "--hessian.sigmas=0.001,0.003,0.01")
        for part, values in norm.items():  # points are computed by one rank each: the same bits
            np.testing.assert_array_equal(alone[f"analysis/hessian/softmax/{part}block_norm_by_sigma"][...], values)
        self.assert_draws("growth")

    def test_linear_attention_grows_with_the_sixth_power_and_three_times_as_fast_with_two_layers(self):
        linear = ("--hessian.layers=linear", "--hessian.mlp=false", "--hessian.residual=0", "--hessian.loss=squared_error",
                  "--hessian.seeds=1,2", "--hessian.width=6", "--hessian.sequences=4")
        # Norms of order 1e240, whose squares overflow.
        for depth, power, far in ((1, 6, "1e40"), (2, 18, "1e13")):
            file = self.study("scaling.ini", *linear, f"--hessian.depth={depth}", f"--hessian.sigmas=0.5,1,{far}")
            norm = file["analysis/hessian/linear/gauss_newton_block_norm_by_sigma"][...]
            np.testing.assert_allclose(np.log2(norm[..., 1] / norm[..., 0]), power, atol=1e-10)  # exact up to round-off
            np.testing.assert_allclose(norm[..., 2] / norm[..., 1], float(far) ** power, rtol=1e-9)

    def test_kinds_of_layers_stand_beside_each_other_in_one_file_and_each_grows_with_its_power(self):
        sizes = ("--hessian.seeds=1,2,3", "--hessian.width=12", "--hessian.sequences=8", "--hessian.sigmas=0.01,0.02")
        group = self.study("scaling.ini", ALL, *sizes, ranks=2)["analysis/hessian"]
        self.assertEqual(sorted(group), ["linear", "linear_mlp", "softmax", "softmax_post_norm", "softmax_pre_norm"])
        slopes = {kind: np.log2(group[kind]["block_norm_by_sigma"][..., 1] / group[kind]["block_norm_by_sigma"][..., 0])[:, 0]
                  for kind in group if kind != "linear_mlp"}  # [seed, weight]
        # LayerNorm behind the sums takes a power of sigma from every derivative: value 2 - 2; query, key: functional part 5 - 1.
        for kind, powers in (("softmax", [2, 5, 5]), ("softmax_post_norm", [0, 4, 4])):
            np.testing.assert_allclose(slopes[kind], np.broadcast_to(powers, slopes[kind].shape), atol=0.05, err_msg=kind)
        norm = group["linear_mlp/matrix_norm_by_sigma"][...]
        np.testing.assert_allclose(np.log2(norm[..., 1] / norm[..., 0]), 2, atol=1e-12)  # exact up to round-off
        self.assertEqual(group["linear_mlp/functional_matrix_norm_by_sigma"][...].max(), 0)
        self.assertEqual(norm.shape, (3, 1, 2))
        self.assert_draws("growth")
        together = self.arrays("out.h5")
        for kind in slopes:
            self.study("scaling.ini", f"--hessian.layers={kind}", *sizes)
            for path, numbers in self.arrays("out.h5").items():
                self.assertEqual(numbers.tobytes(), together[path].tobytes(), path)

    def test_a_linear_network_has_the_published_norms(self):
        for depth, published in ((1, 11.9), (2, 4.2), (3, 1.45)):
            group = self.study("scaling.ini", "--hessian.layers=linear_mlp", "--hessian.width=128", "--hessian.sequences=64",
                               "--hessian.sigmas=0.01", f"--hessian.depth={depth}", "--hessian.seeds=1,2,3,4,5")["analysis/hessian"]
            norm = group["linear_mlp/matrix_norm_by_sigma"][...]
            self.assertEqual(norm.shape, (5, depth, 1))
            # Published in arXiv 2410.10986 (docs/model.md, source T) for other random draws: within 30 %.
            self.assertLess(abs(norm[:, 0].mean() / published - 1), 0.3, depth)

    def test_overflow_is_recorded_as_a_point_that_is_not_finite(self):
        sizes = ("--hessian.seeds=1,2", "--hessian.width=4", "--hessian.sequences=2", "--hessian.loss=squared_error",
                 "--hessian.sigmas=1,1e80")
        for depth in (1, 2):
            for ranks in (1, *SEVERAL_RANKS):
                end = self.run_program("hessian_scaling", os.path.join(ROOT, "input", "hessian", "scaling.ini"), "--quiet", ALL, *sizes,
                                       f"--hessian.depth={depth}", f"--output.file=on{ranks}.h5", "--output.overwrite=true", ranks=ranks)
                self.assertEqual(end.code, 0, end)
                self.assertIn("numbers that are not finite in 2 of them, the first: linear, seed 1, sigma 1e+80", end.out)
                group = self.open(f"on{ranks}.h5")["analysis/hessian"]
                # The norms of linear attention would be of order 1e480. Those of a linear network, 1e160, are told although
                # their squares overflow.
                self.assertFalse(np.isfinite(group["linear/block_norm_by_sigma"][..., 1]).any())
                norm = group["linear_mlp/matrix_norm_by_sigma"][...]
                np.testing.assert_allclose(norm[..., 1] / norm[..., 0], 1e160, rtol=1e-12)
                for kind in group:
                    for name in group[kind]:
                        if name.endswith("by_sigma"):
                            self.assertTrue(np.isfinite(group[kind][name][..., 0]).all(), f"{kind}/{name}")
                self.assert_same_bits("on1.h5", f"on{ranks}.h5")

    def test_the_decks_of_full_size_are_valid(self):
        decks = sorted(glob.glob(os.path.join(ROOT, "input", "paper", "hessian", "*.ini")))
        self.assertEqual([os.path.basename(deck) for deck in decks],
                         ["blocks.ini", "growth_linear.ini", "growth_mlp.ini", "growth_pre_norm.ini", "growth_softmax.ini"])
        for deck in decks:
            experiment = "hessian_scaling" if "growth" in deck else "hessian_blocks"
            for more in ((), ("--hessian.depth=5", "--hessian.sigmas=0.01,10"))[:2 if "growth" in deck else 1]:
                end = self.run_program(experiment, deck, "--validate", "--output.file=out.h5", *more)
                self.assertEqual((end.code, end.err), (0, ""), end)
                # At a small size they run.
                end = self.run_program(experiment, deck, "--quiet", "--hessian.width=4", "--hessian.sequences=2", "--hessian.seeds=1",
                                       "--output.file=out.h5", "--output.overwrite=true", *more)
                self.assertEqual(end.code, 0, end)

    def test_keys_of_the_other_study_are_refused(self):
        of_scaling, of_spectrum = "is a key of hessian_scaling, not of hessian_blocks", "is a key of hessian_spectrum, not of "
        cases = (("blocks", "--hessian.sigmas=1", "hessian.sigmas = 1 (command line): " + of_scaling),
                 ("blocks", "--hessian.eigenvalues=3", "hessian.eigenvalues", of_spectrum + "hessian_blocks"),
                 ("scaling", "--models.transformer=x.h5", "models.transformer", of_spectrum + "hessian_scaling"),
                 ("scaling", "--hessian.sigmas=0", "hessian.sigmas"),
                 ("blocks", "--hessian.seeds=", "hessian.seeds"),
                 ("blocks", "--hessian.layers=linear_mlp", "hessian.layers", "'linear_mlp'"),
                 ("scaling", "--hessian.layers=mlp", "hessian.layers"),
                 ("scaling", "--hessian.heat_map=true", "hessian.heat_map", "is a key of hessian_blocks"),
                 ("blocks", "--hessian.width=2000", "hessian.width = 2000"))
        for number, (experiment, setting, *words) in enumerate(cases):
            self.assert_refused(self.run_program("hessian_" + experiment, setting, "--output.file=out.h5", ranks=ranks_of_case(number)[-1]), *words)
        end = self.run_program("hessian_blocks", "--hessian.heat_map=true", "--hessian.width=2000", "--output.file=out.h5", ranks=2)
        self.assert_refused(end, "hessian.heat_map")


class Restart(LayerTest):
    """A sweep of 3 kinds x 6 seeds x 6 sigmas, some milliseconds a point; a checkpoint after each round of points."""

    SWEEP = ("--hessian.layers=softmax,linear,linear_mlp", "--hessian.seeds=1,2,3,4,5,6", "--hessian.sigmas=0.01,0.1,1,10,100,1e80",
             "--hessian.width=24", "--hessian.sequences=8", "--hessian.loss=squared_error", "--checkpoint.every=1e-6", "--quiet", "--output.overwrite=true")
    POINTS = 108

    def sweep(self, *more, ranks=1):
        return self.run_program("hessian_scaling", os.path.join(ROOT, "input", "hessian", "scaling.ini"), *self.SWEEP, *more, ranks=ranks)

    def points(self):
        """Points in the newest complete checkpoint; 0 if there is none."""
        for name in (CHECKPOINT, "out.checkpoint.previous.h5"):
            if os.path.exists(self.path(name)):
                with h5py.File(self.path(name), "r") as file:
                    self.assertEqual(file["state"].attrs["complete"], 1)
                    return int(file["state"].attrs["points"])
        return 0

    def whole(self):
        self.once("whole.h5", self.undisturbed)

    def undisturbed(self):
        end = self.sweep("--output.file=whole.h5", "--checkpoint.every=0")
        self.assertEqual(end.code, 0, end)
        self.assertFalse(os.path.exists(self.path("whole.checkpoint.h5")))

    def test_a_sweep_that_is_killed_again_and_again_ends_with_the_bits_of_an_undisturbed_one(self):
        self.whole()
        done = 0
        for ranks, name in enumerate((CHECKPOINT, "out.checkpoint.previous.h5", CHECKPOINT), 1):
            ended = self.killed_at(("rename", name, 3), "hessian_scaling", os.path.join(ROOT, "input", "hessian", "scaling.ini"), *self.SWEEP, GO_ON,
                                   "--output.file=out.h5", ranks=ranks)
            self.assertNotEqual(ended.code, 0)
            self.assertFalse(os.path.exists(self.path("out.h5")))
            self.assertGreater(self.points(), done)
            done = self.points()
        self.assertLess(done, self.POINTS)
        end = self.sweep(GO_ON, "--output.file=out.h5", ranks=2)
        self.assertEqual(end.code, 0, end)
        self.assertRegex(end.err, f"continuing from out.checkpoint(.previous)?.h5 after {done} points")
        self.assert_same_bits("out.h5", "whole.h5")
        self.assertIn("numbers that are not finite in 6 of them, the first: linear, seed 1, sigma 1e+80", end.out)

    def test_the_time_limit_stops_between_points_and_loses_none(self):
        self.whole()
        for ranks, done in ((1, 1), (2, 3), (3, 6)):
            end = self.sweep(GO_ON, "--output.file=out.h5", "--run.time_limit=1e-6", "--checkpoint.every=0", ranks=ranks)
            self.assertEqual(end.code, 4, end)
            self.assertIn(f"stopped by run.time_limit after {done} of {self.POINTS} points; continue with {GO_ON}", end.err)
            self.assertEqual((self.points(), os.path.exists(self.path("out.h5"))), (done, False))
        # Without permission to continue, a new run does not throw the points away.
        self.assert_refused(self.sweep("--output.file=out.h5"), "checkpoint.restart", CHECKPOINT)
        end = self.sweep(GO_ON, "--output.file=out.h5")
        self.assertEqual(end.code, 0, end)
        self.assert_same_bits("out.h5", "whole.h5")

    def test_sizes_of_entries_go_on_too(self):
        entries = ("hessian_blocks", os.path.join(ROOT, "input", "hessian", "blocks.ini"), "--quiet", "--hessian.seeds=1,2", "--hessian.width=4",
                   "--hessian.sequences=4")
        self.assertEqual(self.run_program(*entries, "--output.file=whole.h5").code, 0)
        # Medians of a block that is zero are -inf, in the checkpoint as in the file.
        self.assertEqual(self.run_program(*entries, "--output.file=out.h5", "--run.time_limit=1e-6").code, 4)
        end = self.run_program(*entries, "--output.file=out.h5", GO_ON, ranks=2)
        self.assertEqual(end.code, 0, end)
        self.assertIn("continuing from out.checkpoint.h5 after 1 points", end.err)
        self.assertTrue(np.isneginf(self.arrays("out.h5")["softmax/functional_median_entry"][:, 0]).all())
        self.assert_same_bits("out.h5", "whole.h5")

    def test_a_checkpoint_of_other_settings_is_refused_with_the_key(self):
        self.assertEqual(self.sweep("--output.file=out.h5", "--run.time_limit=1e-6").code, 4)
        for number, (key, value) in enumerate((("hessian.width", 16), ("hessian.seeds", "1, 2"), ("hessian.sigmas", "0.01"), ("hessian.layers", "softmax"),
                                               ("hessian.depth", 2), ("hessian.loss", "cross_entropy"))):
            end = self.sweep(GO_ON, "--output.file=out.h5", f"--{key}={value}", ranks=ranks_of_case(number)[-1])
            self.assert_refused(end, key, CHECKPOINT)
        with h5py.File(self.path(CHECKPOINT), "r+") as file:
            file["state"].attrs["points"] = 1000
        self.assert_refused(self.sweep(GO_ON, "--output.file=out.h5", ranks=2), CHECKPOINT)


if __name__ == "__main__":
    unittest.main()
