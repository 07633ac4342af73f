#!/usr/bin/env python3
"""Figures of clusters from made-up files: strips of frames, animations, and formation times over the number of tokens.

Status 77 as claim_sample.py says.
"""

import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import clusters_sample as sample  # noqa: E402 (its folder is put on the path first; it looks for what is needed)
from clusters_sample import ClaimTest, write_circle, write_sphere  # noqa: E402

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from scipy.integrate import quad  # noqa: E402

import hessian_sample  # noqa: E402
from python_package import assert_picture, call  # noqa: E402

from fluxformer.clusters import clusters_circle, clusters_sphere, formation, frames  # noqa: E402
from fluxformer.report.data import Comparison, open_run  # noqa: E402
from fluxformer.report.style import plt  # noqa: E402

RATE = 0.682678


class Clusters(ClaimTest):
    def tearDown(self):
        plt.close("all")

    def comparison(self, write, **how):
        path = self.path(f"made_up{len(os.listdir(self.folder))}.h5")
        write(path, **how)
        run = open_run(path)
        self.addCleanup(run.close)
        return Comparison([run])

    @staticmethod
    def captions(axes):
        return [text.get_text() for text in axes.texts]


class Frames(Clusters):
    def test_places_follow_the_stored_times_and_the_changes(self):
        constant = np.full(101, 3.0)
        self.assertEqual(frames.chosen(constant, 5), [0, 25, 50, 75, 100])
        step = np.where(np.arange(101) < 50, 8.0, 2.0)  # half of the way lies between 49 and 50
        self.assertEqual(frames.chosen(step, 5), [0, 49, 50, 100])
        for count in (2, 7, 80):
            for course in (constant, step, np.geomspace(8, 1, 101)):
                found = frames.chosen(course, count)
                self.assertEqual((found[0], found[-1], found), (0, 100, sorted(set(found))))
                self.assertLessEqual(len(found), count)
        ended = np.where(np.arange(101) < 60, 8.0 - np.arange(101) / 30, np.nan)  # a density that is unresolved
        self.assertEqual([frames.chosen(ended, 7)[place] for place in (0, -1)], [0, 59])
        self.assertEqual(frames.chosen(np.array([1.0, 2.0]), 7), [0, 1])
        self.assertEqual(frames.chosen(np.array([np.nan]), 7), [])

    def test_beads_have_the_areas_of_shares(self):
        comparison = self.comparison(write_circle, clusters=3, times=41, formed=12.0)
        scene = clusters_circle.scene(comparison)
        for at, count in ((0, sample.BINS), (10, sample.BINS), (40, 3)):
            axes = plt.figure().add_subplot()
            scene.paint(axes, at)
            beads = axes.collections[0]
            self.assertEqual(len(beads.get_offsets()), count)
            np.testing.assert_allclose(np.linalg.norm(beads.get_offsets(), axis=1), 1, rtol=1e-12)
            np.testing.assert_allclose(np.sum((2 * beads._widths) ** 2) / 4, frames.BEAD**2, rtol=1e-12)
        np.testing.assert_allclose(2 * beads._widths, 2 * frames.BEAD / np.sqrt(3), rtol=1e-12)
        np.testing.assert_allclose(np.degrees(np.arctan2(*beads.get_offsets().T[::-1])) % 360, [15, 135, 255], rtol=1e-12)

    def test_a_strip_says_when_and_how_many(self):
        comparison = self.comparison(write_circle, clusters=3)
        strip = frames.strip(clusters_circle.scene(comparison)).figure.axes
        self.assertEqual(len(strip), frames.SHOWN)
        self.assertEqual(self.captions(strip[0]), ["t = 0", "spread", "N₂ = 8.00"])
        self.assertEqual(self.captions(strip[-1]), ["t = 20", "3 clusters", "N₂ = 3.00"])
        few = frames.strip(clusters_circle.scene(self.comparison(write_circle, times=3, formed=0.7, clusters=1))).figure.axes
        self.assertEqual([self.captions(axes) for axes in few if axes.texts][-1], ["t = 1", "1 cluster", "N₂ = 1.00"])
        self.assertEqual(sum(bool(axes.texts) for axes in few), 3)
        density = frames.strip(clusters_circle.scene(self.comparison(write_circle, counted=False))).figure.axes
        self.assertEqual(self.captions(density[-1])[1], "")

    def test_the_sphere_is_seen_along_the_axes_of_the_end(self):
        random = np.random.default_rng(5)
        for dimension, count in ((2, 5), (3, 1), (3, 40), (7, 40), (7, 2)):
            end = random.standard_normal((count, dimension)) * np.arange(1, dimension + 1)
            end /= np.linalg.norm(end, axis=1, keepdims=True)
            view = clusters_sphere._axes_of(end)
            seen = end @ view
            if dimension >= 3:
                np.testing.assert_allclose(view.T @ view, np.eye(3), atol=1e-14)
            if dimension <= 3:  # nothing is lost
                np.testing.assert_allclose(np.linalg.norm(seen, axis=1), 1, rtol=1e-13)
            else:  # no other three directions hold more
                self.assertAlmostEqual((seen**2).sum(), np.sort(np.linalg.eigvalsh(end.T @ end))[-3:].sum(), delta=1e-12 * count)
        one = np.tile([[0.6, 0.0, -0.8]], (9, 1))  # is on the near side
        np.testing.assert_allclose((one @ clusters_sphere._axes_of(one))[:, 2], np.sin(clusters_sphere.TURN), rtol=1e-12)

    def test_groups_are_components_of_near_tokens_the_largest_first(self):
        angle = np.array([3.0, 0.0, 0.25, 0.5, 3.2, 2.0])  # 0 and 0.5 through 0.25
        self.assertEqual(clusters_sphere._groups_of(np.column_stack([np.cos(angle), np.sin(angle)]), 0.3).tolist(), [1, 0, 0, 0, 1, 2])

    def test_tokens_of_a_cluster_are_one_bead_in_its_colour(self):
        scene = clusters_sphere.scene(self.comparison(write_sphere, clusters=4, shown=60))
        axes = plt.figure().add_subplot()
        scene.paint(axes, 40)
        beads = axes.collections[0]
        places = np.round(np.column_stack([beads.get_offsets(), 2 * beads._widths]), 9)
        each, count = np.unique(places, axis=0, return_counts=True)
        self.assertEqual(len(each), 4)
        np.testing.assert_allclose(each[:, 2], 2 * frames.BEAD * np.sqrt(count / 60), rtol=1e-6)
        self.assertEqual(len(np.unique(beads.get_facecolors(), axis=0)), 4)
        cloud = clusters_sphere.scene(self.comparison(write_sphere, counted=False))
        cloud.paint(plt.figure().add_subplot(), 0)
        self.assertNotIn("Colours", cloud.sentence)

    def test_files_are_drawn_and_animated(self):
        cases = ((write_circle, {}, "clusters-circle", ["", "-frames"]), (write_circle, {"counted": False}, "clusters-circle", ["", "-frames"]),
                 (write_sphere, {"dimension": 2}, "clusters-sphere", ["", "-frames"]),
                 (write_sphere, {"dimension": 3}, "clusters-sphere", ["", "-frames", "-map"]),
                 (write_sphere, {"dimension": 5}, "clusters-sphere", ["", "-frames"]))
        for number, (write, how, name, parts) in enumerate(cases):
            folder = self.path(f"drawn{number}")
            with mock.patch.multiple(frames, ANIMATED=4, HELD=2):
                end = call("plot", self.made(write, **how), "--animation", "--output", folder)
            self.assertEqual(end.returncode, 0, end.stderr)
            drawn = [f"{name}{part}" for part in parts]
            self.assertEqual(sorted(os.listdir(folder)), sorted([f"{one}.{kind}" for one in drawn for kind in ("png", "pdf")] + [f"{name}-frames.gif"]))
            for one in drawn:
                assert_picture(self, os.path.join(folder, one))
            with open(os.path.join(folder, f"{name}-frames.gif"), "rb") as stream:
                content = stream.read()
            self.assertTrue(content.startswith(b"GIF89a"))
            self.assertIn(b"NETSCAPE2.0", content)  # begins again
            self.assertGreaterEqual(content.count(b"\x21\xf9\x04"), 4)  # one for each frame

    def test_what_has_no_frames_is_not_animated(self):
        hessian = self.path("hessian.h5")
        hessian_sample.write_blocks(hessian)
        self.assert_refused(call("plot", hessian, "--animation"), "--animation does not apply")


class Formation(Clusters):
    def written(self, *numbers, seeds=(1, 2, 3, 4), deviation=0.0, **how):
        """A file for each number of tokens, waves of n^-1/2 at t = 0 times e^(deviation x normal)."""
        paths = [self.path(f"formation_{tokens}.h5") for tokens in numbers]
        random = np.random.default_rng(1)
        for path, tokens in zip(paths, numbers):
            write_circle(path, tokens=tokens, seeds=seeds, wave=tokens**-0.5 * np.exp(deviation * random.standard_normal(len(seeds))), **how)
        return paths

    def found(self, *paths):
        runs = [open_run(path) for path in paths]
        for run in runs:
            self.addCleanup(run.close)
        return formation.read(formation.in_series(runs))

    def test_a_level_is_reached_between_stored_times(self):
        time = np.array([0.0, 1.0, 3.0, 4.0])
        self.assertAlmostEqual(formation.reached(time, 0.01 * np.exp(0.9 * time), 0.1), np.log(10) / 0.9, places=12)
        for size in ([0.2, 0.05, 0.4, 0.01], [0.01, 0.02, 0.03, 0.09]):  # begins above it; does not come so far
            self.assertTrue(np.isnan(formation.reached(time, np.array(size), 0.1)))
        self.assertEqual(formation.reached(time, np.array([0.01, 0.02, 0.1, 0.09]), 0.1), 3)

    def test_waves_that_grow_exactly_give_the_slope_of_theory(self):
        found = self.found(*self.written(1000, 10**6, 10**4))
        self.assertEqual([one.tokens for one in found.starts], [1000, 10**4, 10**6])
        for one in found.starts:
            np.testing.assert_allclose(one.times, np.log(0.1 * np.sqrt(one.tokens)) / RATE, rtol=1e-12)
            np.testing.assert_allclose(one.times, one.linear, rtol=1e-12)
        line = formation.fitted(found.starts)
        np.testing.assert_allclose([line.slope, *line.interval], 1 / (2 * RATE), rtol=1e-10)
        self.assertAlmostEqual(line.at(10**5), np.log(0.1 * np.sqrt(1e5)) / RATE, places=10)

    def test_the_mean_of_theory_is_that_of_exponential_squares(self):
        found = self.found(*self.written(1000, 10**4))
        # n |M|^2 has the density e^-x.
        mean, _ = quad(lambda x: np.exp(-x) * np.log(0.1 / np.sqrt(x / 5000)) / RATE, 0, np.inf)
        self.assertAlmostEqual(found.mean_theory(5000), mean, places=8)

    def test_the_line_is_that_of_least_squares_and_its_interval_that_of_its_error(self):
        numbers = (1000, 10**4, 10**5, 10**6)
        paths = [path for k, n in enumerate(numbers) for path in self.written(n, seeds=tuple(range(1, 40 - 5 * k)), deviation=0.5)]
        found = self.found(*paths)
        line = formation.fitted(found.starts)
        logs, times = (np.concatenate(part) for part in zip(*((np.full(len(one.times), np.log(one.tokens)), one.times) for one in found.starts)))
        slope, shift = np.polyfit(logs, times, 1)
        self.assertAlmostEqual(line.slope, slope, places=10)
        self.assertAlmostEqual(line.at(5000), shift + slope * np.log(5000), places=9)
        # The slope is linear in the times: its error in closed form; 10 000 draws know theirs to 1 %, quantiles of few starts to some more.
        factors = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
        error = np.sqrt(sum((factors[logs == one] ** 2).sum() * times[logs == one].var() for one in np.unique(logs)))
        np.testing.assert_allclose(np.subtract(line.interval, line.slope) / error, [-1.96, 1.96], rtol=0.1)

    def test_it_is_drawn_with_a_table(self):
        paths = self.written(1000, 10**4, 10**6, deviation=0.5)
        other = self.path("sphere.h5")
        write_sphere(other)
        end = call("plot", *paths, other, "--output", self.path("drawn"))
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertEqual({name.rsplit(".", 1)[0] for name in os.listdir(self.path("drawn"))},
                         {"clusters-formation", "clusters-sphere", "clusters-sphere-frames", "clusters-sphere-map"})
        assert_picture(self, self.path("drawn/clusters-formation"))
        self.assertRegex(end.stdout, r"1000000 +4 of 4 +")
        self.assertIn(f"theory 1/(2 rate) = {1 / (2 * RATE):.6f}", end.stdout)

    def test_a_wave_that_did_not_grow_is_counted_apart(self):
        paths = self.written(1000, 10**6)
        with h5py.File(paths[1], "r+") as file:
            file["analysis/clusters/softmax/moment"][2] = 1e-4
        starts = self.found(*paths).starts
        self.assertEqual([int(np.isfinite(one.times).sum()) for one in starts], [4, 3])
        self.assertAlmostEqual(formation.fitted(starts).slope, 1 / (2 * RATE), places=10)
        self.assertRegex(call("plot", *paths, "--output", self.path("drawn")).stdout, "3 of 4")

    def test_more_seeds_of_the_same_tokens_are_added(self):
        few = self.written(1000, 10**4)
        os.rename(few[1], self.path("first.h5"))
        more = self.written(10**4, seeds=(5, 6))
        starts = self.found(few[0], self.path("first.h5"), *more).starts
        self.assertEqual([one.seeds for one in starts], [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6]])

    def test_what_is_no_study_of_tokens_is_refused(self):
        good = self.written(1000, 10**4)
        cases = (({"tokens": 500}, "500 tokens"), ({"tokens": 2000, "beta": 9.0}, "clusters.beta"),
                 ({"tokens": 2000, "more": "tolerance = 1e-3\n"}, "clusters.tolerance"),
                 ({"tokens": 1000}, "1000 tokens with seed 1"), ({"counted": False}, "clusters.start"))
        for how, words in cases:
            write_circle(self.path("other.h5"), **how)
            self.assert_refused(call("plot", *good, self.path("other.h5"), "--output", self.path("drawn")), words)
        self.assert_refused(call("plot", *self.written(1000, 10**4, seeds=(1,)), "--output", self.path("drawn")), "two starts")
        self.assert_refused(call("plot", *self.written(1000, 10**4), "--animation", "--output", self.path("drawn")), "--animation")


if __name__ == "__main__":
    unittest.main()
