#!/usr/bin/env python3
"""`paths_theory`: the theory on the published draws, equal on any number of ranks; its identities against numpy, from nothing but the file; sweeps
that are stopped and continued; figures and report; what it refuses.
"""

import glob
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folders are put on the path first)
import numpy as np  # noqa: E402

from program import ROOT, SEVERAL_RANKS, ProgramTest, ranks_of_case  # noqa: E402
from python_package import assert_picture, call  # noqa: E402

from matplotlib import pyplot  # noqa: E402

from fluxformer.paths import paths  # noqa: E402
from fluxformer.report.claims import read_claims  # noqa: E402
from fluxformer.report.data import open_run, studies  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "paths", "claims.toml")
PUBLISHED = ("--paths.draws=27,59,147,247",)
SMALL = ("--paths.examples=20", "--paths.test_examples=30")
# Three seeds, two temperatures, two finite widths and the infinite one: 18 points.
SWEEP = (*SMALL, "--paths.seeds=1,2,3", "--paths.temperatures=0.01,0.1", "--paths.widths=10,100")
GO_ON = "--checkpoint.restart=auto"


class PathsTest(ProgramTest):
    def paths(self, *arguments, ranks=1, name="out.h5", experiment="paths_theory"):
        end = self.run_program(experiment, "--quiet", *arguments, f"--output.file={name}", "--output.overwrite=true", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return self.measures(name)

    def measures(self, name):
        """The measures of the theory, but for wall times."""
        group = self.open(name)["analysis/paths/theory"]
        return {key: group[key][...] for key in group if key != "seconds"}

    def sweep(self):
        """That of SWEEP on one rank, in sweep.h5."""
        return self.measures(self.once("sweep.h5", lambda: self.paths(*SWEEP, name="sweep.h5")))

    def refused(self, *arguments, ranks=1, experiment="paths_theory"):
        end = self.run_program(experiment, "--quiet", *arguments, ranks=ranks)
        self.assertEqual(end.code, 2, end)
        self.assertFalse(os.path.exists(self.path("paths.h5")))
        return end.err


class Theory(PathsTest):
    def test_has_the_accuracies_of_the_published_draws(self):
        four = self.paths(*PUBLISHED, "--paths.widths=10,100,1000")
        np.testing.assert_allclose(100 * four["accuracy"][0, 0], [96.4, 91.1, 83.4, 82.6], atol=0.051)  # printed with one decimal
        np.testing.assert_allclose(100 * four["part_accuracy"][0, 0], [94.0, 95.5], atol=0.051)
        two = self.paths(*PUBLISHED, "--paths.variant=two_paths", "--paths.widths=10,100,1000")
        np.testing.assert_allclose(100 * two["accuracy"][0, 0], [95.7, 92.5, 85.7, 84.3], atol=0.051)

    def test_is_equal_on_any_number_of_ranks(self):
        one = self.sweep()
        for ranks in SEVERAL_RANKS:
            other = self.paths(*SWEEP, ranks=ranks)
            for name, values in one.items():
                np.testing.assert_array_equal(values, other[name], err_msg=f"{name}, {ranks} ranks")

    def test_its_numbers_follow_from_its_order_parameters(self):
        found = self.sweep()
        u = found["order"][:, :, :-1, 0]  # [seed, temperature, width, path, other]
        np.testing.assert_array_equal(u, np.swapaxes(u, -1, -2))
        self.assertTrue((np.linalg.eigvalsh(u) > 0).all())
        np.testing.assert_array_equal(found["order"][:, :, -1, 0], np.broadcast_to(np.eye(4), (3, 2, 4, 4)))
        # u_a from U_2, in closed form for equal widths and H_2 = 2: b = 1, g = tr U_2
        trace = np.trace(found["order"][:, :, :-1, 1, :2, :2], axis1=-2, axis2=-1)
        np.testing.assert_allclose(found["readout"][:, :, :-1], (np.sqrt(1 + 4 * trace) - 1) / 2, rtol=1e-12)
        self.assertTrue(np.isnan(found["order"][..., 1, 2:, :]).all())
        # At the minimum all of these are equal; what is left is the gradient's round-off, times widths up to 100.
        virial = found["virial"][:, :, :-1]
        np.testing.assert_allclose(virial, np.broadcast_to(virial[..., :1], virial.shape), atol=1e-9)
        scores = np.abs(u)
        through = [[0, 1], [2, 3], [0, 2], [1, 3]]  # paths of the heads 1.1, 1.2, 2.1, 2.2
        score = np.stack([scores[..., p, :].sum((-1, -2)) + scores[..., p].sum((-1, -2)) - scores[..., p, :][..., p].sum((-1, -2))
                          for p in through], axis=-1)
        np.testing.assert_allclose(found["head_score"][:, :, :-1].reshape(*score.shape), score / score.max(-1, keepdims=True), rtol=1e-12)
        np.testing.assert_allclose(found["good_denoising"][:, :, :-1], u[..., 0, 2] / np.sqrt(u[..., 0, 0] * u[..., 2, 2]), rtol=1e-12)
        np.testing.assert_allclose((found["overlap"] ** 2).sum(-1), 1, rtol=1e-12)  # all 20 components
        right = (found["mean"] > 0) == (np.arange(30) < 15)  # the first half of the examples is of class +1
        np.testing.assert_allclose(found["accuracy"], right.mean(-1), rtol=1e-12)

    def test_the_surrogate_finds_its_two_made_heads(self):
        found = self.paths("--paths.task=surrogate", "--paths.heads=2", "--paths.examples=100", "--paths.test_examples=200",
                           "--paths.widths=10", "--paths.temperatures=0.1")
        scores = found["head_score"][0, 0, 0]
        self.assertTrue((scores[:, 0] > scores[:, 1]).all())
        self.assertTrue(np.isnan(found["good_denoising"]).all())  # there is no such path
        self.assertGreater(found["accuracy"][0, 0, 0], found["accuracy"][0, 0, 1])


class Sweeps(PathsTest):
    def test_a_sweep_that_is_stopped_goes_on_where_it_was(self):
        whole = self.sweep()
        codes = []
        for ranks in (1, 2, 3) * 10:
            end = self.run_program("paths_theory", "--quiet", *SWEEP, GO_ON, "--run.time_limit=1e-6", "--checkpoint.every=0",
                                   "--output.file=out.h5", ranks=ranks)
            codes.append(end.code)
            if end.code == 0:
                break
            self.assertIn("of 18 points", end.out + end.err)
        self.assertEqual(codes, [4] * (len(codes) - 1) + [0])
        self.assertGreater(len(codes), 6)
        parts = self.measures("out.h5")
        for name, values in whole.items():
            np.testing.assert_array_equal(values, parts[name], err_msg=name)

    def test_what_was_finished_is_kept_when_a_point_fails(self):
        # The kernel of one path of 26 dimensions is singular for 40 examples, which only the temperature mends.
        end = self.run_program("paths_theory", "--quiet", "--paths.task=surrogate", "--paths.heads=1", "--paths.examples=40", "--paths.test_examples=30",
                               "--paths.widths=10", "--paths.temperatures=0.1,1e-300", "--output.file=out.h5")
        self.assertEqual(end.code, 3, end)
        self.assertFalse(os.path.exists(self.path("out.h5")))
        with h5py.File(self.path("out.checkpoint.h5")) as file:
            self.assertEqual(file["state"].attrs["points"], 2)  # N = 10 and the Gaussian process at the first temperature

    def test_a_checkpoint_of_other_settings_is_refused(self):
        end = self.run_program("paths_theory", "--quiet", *SWEEP, "--run.time_limit=1e-6", "--output.file=out.h5")
        self.assertEqual(end.code, 4, end)
        other = self.run_program("paths_theory", "--quiet", *SWEEP, "--paths.noise=2", GO_ON, "--output.file=out.h5")
        self.assert_refused(other, "paths.noise")


class SharedPoints(PathsTest):
    # Iterations end where round-off does; overlaps with components of the smallest eigenvalues, and their order, are round-off, too.
    OWN = ("iterations", "gradient", "overlap")

    def assert_shared(self, one, *arguments, ranks, together):
        other = self.paths(*arguments, f"--paths.ranks_point={together}", ranks=ranks)
        self.assertEqual(one.keys(), other.keys())
        for name in one.keys() - set(self.OWN):
            # Newton steps leave U at the round-off of the gradient, times the condition of the Hessian.
            np.testing.assert_allclose(other[name], one[name], rtol=1e-9, atol=1e-10, err_msg=f"{name}, {together} of {ranks} ranks")
        np.testing.assert_allclose(other["overlap"][..., :4], one["overlap"][..., :4], atol=1e-7)
        np.testing.assert_array_less(other["gradient"][:, :, :-1], 1e-6)

    def test_have_the_numbers_of_one_rank(self):
        points = (*SMALL, "--paths.seeds=1,2", "--paths.widths=10,100")
        one = self.paths(*points)
        for ranks, together in ((4, 2), (3, 3)):
            self.assert_shared(one, *points, ranks=ranks, together=together)

    def test_of_other_tasks_have_them_too(self):
        surrogate = ("--paths.task=surrogate", "--paths.heads=2", "--paths.examples=70", "--paths.test_examples=30", "--paths.widths=20",
                     "--paths.temperatures=0.1")
        self.assert_shared(self.paths(*surrogate), *surrogate, ranks=2, together=2)
        drawings = ("--paths.task=one_shot", "--paths.images=digits", "--paths.foreign=digits", "--paths.heads=2", "--paths.key=4",
                    "--paths.examples=21", "--paths.test_examples=10", "--paths.widths=20", "--paths.temperatures=0.1")
        self.assert_shared(self.paths(*drawings), *drawings, ranks=2, together=2)

    def test_go_on_where_they_were_on_other_ranks(self):
        points = (*SMALL, "--paths.widths=10,30,100")
        one = self.paths(*points)
        stopped = self.run_program("paths_theory", "--quiet", *points, "--paths.ranks_point=2", "--run.time_limit=1e-6", "--output.file=out.h5",
                                   "--output.overwrite=true", ranks=2)
        self.assertEqual(stopped.code, 4, stopped)
        self.assert_shared(one, *points, GO_ON, ranks=4, together=4)

    def test_fail_together(self):
        # As in Sweeps: singular, which no temperature mends.
        end = self.run_program("paths_theory", "--quiet", "--paths.task=surrogate", "--paths.heads=1", "--paths.examples=40", "--paths.test_examples=30",
                               "--paths.widths=10", "--paths.temperatures=0.1,1e-300", "--paths.ranks_point=2", "--output.file=out.h5", ranks=4)
        self.assertEqual(end.code, 3, end)
        self.assertIn("not positive definite", end.err)

    def test_are_refused_where_they_cannot_be(self):
        for ranks, together in ((1, 2), (3, 2), (4, 3)):
            message = self.refused(*SMALL, f"--paths.ranks_point={together}", ranks=ranks)
            self.assertIn(f"paths.ranks_point = {together}: must divide the number of ranks, {ranks}", message)
        self.assertIn("paths.ranks_point", self.refused("--paths.ranks_point=0"))
        for experiment in ("paths_sample", "paths_prune", "paths_train"):
            message = self.refused("--paths.ranks_point=2", ranks=2, experiment=experiment)
            self.assertIn(f"paths.ranks_point = 2 (command line): is a key of paths_theory, not of {experiment}", message)


class Figures(PathsTest):
    def test_plot_and_report(self):
        self.sweep()
        folder = self.path("drawn")
        done = call("plot", self.path("sweep.h5"), "--output", folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = [os.path.basename(one).removesuffix(".png") for one in done.stdout.split()]
        self.assertEqual(names, [f"paths-{one}" for one in ("accuracy", "order", "components", "heads")])
        for one in names:
            assert_picture(self, os.path.join(folder, one))
        done = call("report", self.path("sweep.h5"), "--claims", CLAIMS, "--output", self.path("page"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.path("page"), "report.html"), encoding="utf-8") as page:
            text = page.read()
        for part in ("Attention paths", "hidden Markov chains, four paths", "finite width the network is more accurate", "Gaussian process of good"):
            self.assertIn(part, text)


    def test_the_accuracies_are_those_of_the_file(self):
        self.sweep()
        with open_run(self.path("sweep.h5")) as run:
            study, = studies([run])
            drawings = {one.name: one.figure for one in paths.draw(study)}
            self.addCleanup(pyplot.close, "all")
            accuracy = 100 * run.analysis("paths/theory", "accuracy")  # [seed, temperature, width]
            for k, axes in enumerate(drawings["paths-accuracy"].axes):
                lines = {line.get_label(): line for line in axes.lines}
                np.testing.assert_allclose(lines["theory at width N"].get_ydata(), accuracy[:, k, :2].mean(0))
                np.testing.assert_array_equal(lines["theory at width N"].get_xdata(), [10, 100])
                np.testing.assert_allclose(lines["Gaussian process (infinite width)"].get_ydata()[0], accuracy[:, k, 2].mean())
            first = drawings["paths-order"].axes[0].images[0].get_array()
            mean = run.analysis("paths/theory", "order")[:, 0, 0, 0].mean(0)
            np.testing.assert_allclose(first, mean / np.abs(mean).max())
            comparison = study.of("paths_theory")
            self.assertEqual(paths.table(comparison)[0], ("T", "N = 10", "N = 100", "Gaussian process", "Gaussian process of good",
                                                          "Gaussian process of good and denoising"))

    def test_claims_are_judged(self):
        self.sweep()
        with open_run(self.path("sweep.h5")) as run:
            study, = studies([run])
            rule, every = read_claims(CLAIMS)
            found = {one.id: findings[0].outcomes[0].measured for one, findings in weigh(every, study, rule)}
            accuracy, u = run.analysis("paths/theory", "accuracy"), run.analysis("paths/theory", "order")[:, :, 0, 0]
            np.testing.assert_allclose(found["paths-finite-width-is-better"], (accuracy[..., 0] - accuracy[..., -1]).mean(-1))
            self.assertEqual(set(found), {one.id for one in every if one.experiment == "paths_theory"})
            weight = u[..., 0, 0] / np.trace(u, axis1=-2, axis2=-1) * 4 - 1
            np.testing.assert_allclose(found["paths-task-is-boosted"], weight.mean(-1))


class Decks(PathsTest):
    def test_run_small(self):
        for folder in ("paths", "paper/paths"):
            for deck in sorted(glob.glob(os.path.join(ROOT, "input", folder, "*.ini"))):
                if os.path.basename(deck).startswith(("one_shot", "prun")):  # paths_networks_test.py
                    continue
                sample = os.path.basename(deck) == "sample.ini"
                shorter = ("--paths.sampled_widths=10", "--paths.samples=10", "--paths.warm_up=5") if sample else ()
                found = self.paths(deck, *SMALL, *shorter, "--paths.seeds=1", "--paths.widths=10", ranks=2,
                                   experiment="paths_sample" if sample else "paths_theory")
                self.assertEqual(found["mean"].shape, (1, 1, 2, 30))


class Refusals(PathsTest):
    def test_what_cannot_be_is_refused_with_the_key(self):
        cases = ((("--paths.temperatures=0",), ("paths.temperatures", "'0'")),
                 (("--paths.temperatures=-1",), ("paths.temperatures", "'-1'")),
                 (("--paths.temperatures=",), ("paths.temperatures", "empty")),
                 (("--paths.widths=10,-3",), ("paths.widths", "'-3'")),
                 (("--paths.widths=10,10",), ("paths.widths", "duplicates")),
                 (("--paths.widths=ten",), ("paths.widths", "'ten'")),
                 (("--paths.draws=27,59",), ("paths.draws", "four seeds")),
                 ((*PUBLISHED, "--paths.seeds=1,2"), ("paths.draws", "paths.seeds")),
                 (("--paths.draws=1,2,3,99999999999",), ("paths.draws", "2147483647")),
                 (("--paths.noise=loud",), ("paths.noise", "loud")),
                 (("--paths.noise=1,2",), ("paths.noise", "one number")),
                 (("--paths.examples=21",), ("even",)),
                 (("--paths.task=surrogate", *PUBLISHED), ("paths.draws", "paths.task")),
                 (("--paths.task=markov", "--paths.heads=3"), ("paths.heads", "paths.task")),
                 (("--paths.task=chess",), ("paths.task", "surrogate")))
        for number, (arguments, parts) in enumerate(cases):
            for ranks in ranks_of_case(number):
                message = self.refused(*arguments, ranks=ranks)
                for part in parts:
                    self.assertIn(part, message, arguments)

    def test_kernels_beyond_the_memory_are_refused_with_an_estimate(self):
        self.assertIn("kernels of 1024 paths", self.refused("--paths.task=surrogate", "--paths.heads=32", "--paths.examples=200000"))


if __name__ == "__main__":
    unittest.main()
