#!/usr/bin/env python3
"""`paths_sample`: the exact posterior of the published draws; chains equal on any number of ranks and after interruptions; what is
stored of them against numpy, from nothing but the file; figures and claims; what it refuses.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import numpy as np  # noqa: E402 (the folders are put on the path first)

from program import FULL_TIER, ROOT, SEVERAL_RANKS, ProgramTest, ranks_of_case  # noqa: E402
from python_package import assert_picture, call  # noqa: E402

from fluxformer.paths import sampling  # noqa: E402
from fluxformer.report.claims import read_claims  # noqa: E402
from fluxformer.report.data import open_run, studies  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "paths", "claims.toml")
SAMPLE = "paths_sample"
# Two seeds, two temperatures, one of two widths, two samplers, three chains: 24 chains after 12 points of the theory.
SMALL = (SAMPLE, "--paths.examples=20", "--paths.test_examples=30", "--paths.seeds=1,2", "--paths.temperatures=0.01,0.1", "--paths.widths=6,50",
         "--paths.sampled_widths=6", "--paths.chains=3", "--paths.samples=10", "--paths.warm_up=5", "--paths.leapfrog=10", "--paths.walk=4")
SAMPLERS = ("wishart", "hmc")


class SamplingTest(ProgramTest):
    def sample(self, *arguments, ranks=1, name="out.h5"):
        end = self.run_program("--quiet", *arguments, f"--output.file={name}", "--output.overwrite=true", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        return self.measures(name)

    def small(self):
        """That of SMALL on one rank, in small.h5."""
        return self.measures(self.once("small.h5", lambda: self.sample(*SMALL, name="small.h5")))

    def measures(self, name):
        """The measures by group and name, but for wall times."""
        groups = self.open(name)["analysis/paths"]
        return {(group, key): groups[group][key][...] for group in groups for key in groups[group] if key != "seconds"}


class Posterior(SamplingTest):
    def test_is_that_of_long_chains_on_the_published_draws(self):
        found = self.sample(SAMPLE, "--paths.draws=27,59,147,247", "--paths.widths=10,100", "--paths.samples=400", "--paths.samplers=wishart",
                            "--paths.warm_up=200", ranks=2)
        at = {key: found["wishart", key][0, 0] for key in ("accuracy", "mean_difference", "limit_difference", "order_difference", "order_error",
                                                           "order_excess", "r_hat", "mean_correlation", "order", "readout")}
        # Long chains, 100k to 200k steps: accuracies 96.3 and 90.7, distances of the predictor 0.0126 and 0.0067, of U 0.099 and 0.012. Here
        # 1600 draws: the accuracy of 1000 examples moves by half a point.
        np.testing.assert_allclose(at["accuracy"][:2], [0.963, 0.907], atol=0.008)
        np.testing.assert_allclose(at["limit_difference"][:2], [0.420, 0.148], atol=0.01)
        self.assertTrue((at["mean_difference"][:2] < 0.03).all())
        self.assertTrue((at["mean_correlation"][:2] > 0.995).all())
        self.assertTrue((np.abs(at["order_difference"][:2] - [0.099, 0.012]) < 4 * at["order_error"][:2]).all(), at)
        self.assertTrue((at["order_excess"][:2] < 0).all())
        self.assertTrue((at["r_hat"][:2] < 1.1).all())
        u = at["order"][0, 0]
        np.testing.assert_allclose(u[[0, 0, 2], [0, 2, 2]], [14.78, -5.92, 7.20], rtol=4 * 0.013)  # half-chains of 100k steps differ by 1.3 %
        np.testing.assert_allclose(10 * (at["readout"][0] - 1), 11.84, atol=0.5)  # 11.75 to 11.93

    def test_draws_of_weights_agree_with_those_of_order_parameters(self):
        found = self.sample(SAMPLE, "--paths.draws=27,59,147,247", "--paths.variant=two_paths", "--paths.widths=10", "--paths.samples=150",
                            "--paths.warm_up=100", ranks=2)
        for sampler in SAMPLERS:
            self.assertLess(abs(found[sampler, "accuracy_gain"][0, 0, 0]), 0.02)
            self.assertLess(found[sampler, "mean_difference"][0, 0, 0], 0.03 + 4 * found[sampler, "mean_error"][0, 0, 0])
            self.assertLess(found[sampler, "order_excess"][0, 0, 0], 0)
            self.assertTrue((found[sampler, "r_hat"][0, 0, 0] < 1.1).all(), found[sampler, "r_hat"][0, 0])
        self.assertTrue((found["hmc", "acceptance"][0, 0, 0] > 0.6).all())
        self.assertTrue((found["hmc", "divergent"][0, 0, 0] < 15).all())


class Files(SamplingTest):
    def test_are_equal_on_any_number_of_ranks(self):
        one = self.small()
        for ranks in SEVERAL_RANKS:
            other = self.sample(*SMALL, ranks=ranks)
            self.assertEqual(set(one), set(other))
            for name, values in one.items():
                np.testing.assert_array_equal(values, other[name], err_msg=f"{name}, {ranks} ranks")

    def test_are_the_same_after_interruptions(self):
        # Half of the places and ranks outside the second tier.
        small, on_ranks = (SMALL, (4, 6, 3)) if FULL_TIER else ((*SMALL, "--paths.seeds=2"), (2, 3))
        whole = self.sample(*small, name="whole.h5")
        codes = []
        for ranks in on_ranks * 10:
            end = self.run_program("--quiet", *small, "--checkpoint.restart=auto", "--run.time_limit=1e-6", "--checkpoint.every=0",
                                   "--output.file=out.h5", ranks=ranks)
            codes.append(end.code)
            if end.code == 0:
                break
        self.assertEqual(codes, [4] * (len(codes) - 1) + [0])
        self.assertGreater(len(codes), 5)
        for name, values in self.measures("out.h5").items():
            np.testing.assert_array_equal(whole[name], values, err_msg=str(name))

    def test_a_chain_is_the_same_in_any_deck(self):
        many, one = self.small(), self.sample(*SMALL, "--paths.seeds=2", "--paths.temperatures=0.1", "--paths.chains=2", name="one.h5")
        for sampler in SAMPLERS:
            np.testing.assert_array_equal(many[sampler, "trace"][1, 1, 0, :2], one[sampler, "trace"][0, 0, 0])

    def test_hold_what_follows_from_the_draws(self):
        found = self.small()
        right = np.where(np.arange(30) < 15, 1, -1)  # the first half of the examples is of class +1
        for sampler in SAMPLERS:
            at = {key: found[sampler, key][:, :, 0] for _, key in found if (sampler, key) in found}  # [seed, temperature, ...] at N = 6
            for name, values in found.items():
                if name[0] == sampler:
                    self.assertTrue(np.isnan(values[:, :, 1:]).all(), name)  # not sampled
            trace = at["trace"]  # [seed, temperature, chain, quantity, draw]
            np.testing.assert_allclose(trace[..., 0, :].mean((-1, -2)), at["readout"], rtol=1e-12)
            u, theory = at["order"][:, :, 0], found["theory", "order"][:, :, 0, 0]
            np.testing.assert_allclose(trace[..., 1, :].mean((-1, -2)), np.trace(u, axis1=-2, axis2=-1), rtol=1e-12)
            distance = np.linalg.norm(u - theory, axis=(-1, -2)) / np.linalg.norm(u, axis=(-1, -2))
            np.testing.assert_allclose(at["order_difference"], distance, rtol=1e-12)
            np.testing.assert_allclose(at["order_excess"], distance - (4 / 12 + 4 * at["order_error"]), rtol=1e-9)
            mean, expected, limit = at["mean"], found["theory", "mean"][:, :, 0], found["theory", "mean"][:, :, -1]
            np.testing.assert_allclose(at["mean_difference"], np.abs(mean - expected).mean(-1), rtol=1e-12)
            np.testing.assert_allclose(at["limit_difference"], np.abs(mean - limit).mean(-1), rtol=1e-12)
            np.testing.assert_allclose(at["accuracy"], (mean * right > 0).mean(-1), rtol=1e-12)
            np.testing.assert_allclose(at["accuracy_gain"], at["accuracy"] - found["theory", "accuracy"][:, :, 0], atol=1e-15)
            for k in np.ndindex(2, 2):
                np.testing.assert_allclose(at["mean_correlation"][k], np.corrcoef(mean[k], expected[k])[0, 1], rtol=1e-12)
            halves = np.stack([trace[..., :5], trace[..., 5:]], axis=2).reshape(2, 2, 6, 5, 5)  # [.., half chain, quantity, draw]
            within = halves.var(-1, ddof=1).mean(2)
            between = halves.mean(-1).var(2, ddof=1)
            np.testing.assert_allclose(at["r_hat"], np.sqrt((0.8 * within + between) / within), rtol=1e-10)
            self.assertTrue((at["effective_draws"] > 0).all())
            self.assertEqual(np.isfinite(at["step_size"]).all(), sampler == "hmc")
            self.assertEqual(np.isfinite(at["block_virial"]).all(), sampler == "hmc")


class Figures(SamplingTest):
    def test_plot_report_and_claims(self):
        found = self.small()
        done = call("plot", self.path("small.h5"), "--output", self.path("drawn"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = [os.path.basename(one).removesuffix(".png") for one in done.stdout.split()]
        self.assertEqual(names, ["paths-agreement", "paths-sampled-order", "paths-chains"])
        for one in names:
            assert_picture(self, os.path.join(self.path("drawn"), one))
        done = call("report", self.path("small.h5"), "--claims", CLAIMS, "--output", self.path("page"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open_run(self.path("small.h5")) as run:
            study, = studies([run])
            rule, every = read_claims(CLAIMS)
            judged = {one.id: findings[0].outcomes[0].measured for one, findings in weigh(every, study, rule)}
            self.assertEqual(set(judged), {one.id for one in every if one.experiment == "paths_sample"})
            np.testing.assert_allclose(judged["paths-theory-is-sampled"], found["wishart", "order_excess"][..., 0].mean(1), rtol=1e-5)
            np.testing.assert_allclose(judged["paths-weights-are-sampled"], found["hmc", "order_excess"][..., 0].mean(1), rtol=1e-5)
            rows = sampling.table(study.of("paths_sample"))
            self.assertEqual([row[:2] for row in rows[1:]], [("draws of order parameters", "6"), ("draws of all weights", "6")])


class Refusals(SamplingTest):
    def test_what_cannot_be_sampled_is_refused_with_the_key(self):
        cases = (((SAMPLE, "--paths.widths=3,10"), ("width", "4")),
                 ((SAMPLE, "--paths.widths=10.5", "--paths.samplers=hmc"), ("whole numbers",)),
                 ((SAMPLE, "--paths.sampled_widths=11"), ("paths.sampled_widths", "paths.widths")),
                 ((SAMPLE, "--paths.samplers=nuts"), ("paths.samplers", "nuts")),
                 ((SAMPLE, "--paths.samplers="), ("paths.samplers", "empty")),
                 ((SAMPLE, "--paths.chains=0"), ("paths.chains",)),
                 ((SAMPLE, "--paths.samples=3"), ("paths.samples",)),
                 (("paths_theory", "--paths.chains=2"), ("paths.chains", "is a key of paths_sample, not of paths_theory")),
                 ((SAMPLE, "--paths.widths=1000000", "--paths.samplers=hmc"), ("paths.sampled_widths", "GB")))
        for number, (arguments, parts) in enumerate(cases):
            for ranks in ranks_of_case(number):
                end = self.run_program("--quiet", *arguments, ranks=ranks)
                self.assertEqual(end.code, 2, (arguments, end))
                self.assertFalse(os.path.exists(self.path("paths.h5")))
                for part in parts:
                    self.assertIn(part, end.err, arguments)


if __name__ == "__main__":
    unittest.main()
