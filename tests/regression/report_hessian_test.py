#!/usr/bin/env python3
"""Hessians in the report: studies with the same seeds do not clash, claims about Hessians are judged. Uses synthetic files.

Status 77 as claim_sample.py says.
"""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from claim_sample import claim  # noqa: E402 (its folder is put on the path first)

import h5py  # noqa: E402
import numpy as np  # noqa: E402

import hessian_sample as sample  # noqa: E402
from hessian_sample import WRITERS, HessianTest  # noqa: E402
from python_package import ROOT  # noqa: E402
from training_sample import write_training  # noqa: E402

from fluxformer.judging import Verdict  # noqa: E402
from fluxformer.report import claims, reductions  # noqa: E402
from fluxformer.report.data import COUPLINGS, RunError, open_run  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402
from fluxformer.train.kinds import kind_of  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "hessian", "claims.toml")
OTHERS = os.path.join(ROOT, "input", "paper", "compare", "claims.toml")


class Reductions(HessianTest):
    def test_gap_is_the_first_minus_the_second_and_first_the_first(self):
        values = np.array([[-4.0, -6.0, -9.0], [1.0, 3.0, 0.0]])
        np.testing.assert_array_equal(reductions.reduce("gap", values), [2, -2])
        np.testing.assert_array_equal(reductions.reduce("first", values), [-4, 1])

    def test_exponent_is_the_power_and_of_other_curves_the_slope_of_least_squares(self):
        places = np.array([0.01, 0.02, 0.05, 0.3])
        random = np.random.default_rng(1).random(4) + 0.5
        values = np.array([7 * places ** 5, 2 * places ** -0.5, random, places - 0.01])
        np.testing.assert_allclose(reductions.reduce("exponent", values, places),
                                   [5, -0.5, np.polyfit(np.log(places), np.log(random), 1)[0], np.nan], rtol=1e-12)

    def test_fewer_than_two_places_have_no_exponent(self):
        for count in (0, 1):
            self.assertTrue(np.isnan(reductions.reduce("exponent", np.ones((3, count)), np.ones(count))).all())
        self.assertTrue(np.isnan(reductions.reduce("first", np.ones((3, 0)))).all())  # nothing in the window

    def test_a_place_on_an_axis_is_found_by_its_coordinate(self):
        path, = self.written("scaling", spread=0.0)
        comparison = self.opened(path)[0].of("hessian_scaling")
        norm = comparison.measure("softmax", "block_norm_by_sigma")
        np.testing.assert_array_equal(comparison.at("softmax", "block_norm_by_sigma", {"weight": 2, "sigma": 0.02}), norm[:, :, 1, 2])
        for where in ({"weight": 4}, {"head": 1}):
            self.assertIsNone(comparison.at("softmax", "block_norm_by_sigma", where))

    def test_claims_take_the_block_and_the_window_that_they_name(self):
        power = {"experiment": "hessian_scaling", "quantity": ["block_norm_by_sigma"], "at": "softmax", "test": "value", "expected": 5, "tolerance": 1,
                 "reduce": "exponent", "levels": "sigma"}
        path, = self.written("scaling", spread=0.0)
        study, = self.opened(path)
        rule, _ = claims.read_claims(CLAIMS)
        means = {}
        for name, more in (("query", {"where": {"weight": 2}}), ("value", {"where": {"weight": 1}}), ("outside", {"where": {"weight": 2}, "window": []}),
                           ("none", {"window": [0.3, 0.4]}), ("missing", {"where": {"weight": 9}})):
            one = claim(**{**power, "window": [0.01, 0.1], **more})
            means[name] = weigh([one], study, rule)[0][1][0].outcomes[0].measured[0]
        self.assertAlmostEqual(means["query"], 5, 10)
        self.assertAlmostEqual(means["value"], 2, 10)
        self.assertLess(means["outside"], 4.5)
        self.assertTrue(np.isnan(means["none"]) and np.isnan(means["missing"]))


class Files(HessianTest):
    def test_studies_with_the_same_seeds_do_not_clash(self):
        found = self.opened(*self.written(*WRITERS))
        self.assertEqual([(study.name, list(study.comparisons)) for study in found],
                         [("built-in digits, 4 × 4 patches", ["hessian_spectrum"]), ("addition of numbers", ["hessian_blocks", "hessian_scaling"])])

    def test_the_same_study_with_the_same_seeds_does(self):
        for name in WRITERS:
            path, = self.written(name)
            again = self.path(f"{name}_again.h5")
            WRITERS[name](again)
            with self.assertRaisesRegex(RunError, "the same experiment on the same data with the same seed"):
                self.opened(path, again)

    def test_studies_in_folders_of_their_own_are_named_from_where_the_folders_part(self):
        paths = [self.path(os.path.join("out", folder, "result.h5")) for folder in ("one", os.path.join("deep", "two"))]
        for path in paths:
            os.makedirs(os.path.dirname(path))
            sample.write_scaling(path)
        self.assertEqual([study.name for study in self.opened(*paths)], ["addition of numbers (one)", f"addition of numbers ({os.path.join('deep', 'two')})"])

    def test_seeds_of_two_files_of_a_study_are_taken_together(self):
        more = self.path("more.h5")
        sample.write_blocks(more, more="seeds = 4, 5\n", seeds=(4, 5))
        path = self.path("blocks.h5")
        sample.write_blocks(path, more="seeds = 1, 2, 3\n")
        self.assertEqual(self.opened(more, path)[0].of("hessian_blocks").seeds, [1, 2, 3, 4, 5])

    def test_files_of_the_time_before_are_those_of_the_experiments_of_today(self):
        # A file of the experiment `hessian` holds the key of the study, and keys of the other studies.
        old, new = self.path("old.h5"), self.path("new.h5")
        sample.write_blocks(old, more="seeds = 1, 2, 3\n", former=True)
        sample.write_blocks(new, more="seeds = 4, 5\n", seeds=(4, 5))
        (study,) = self.opened(old)
        self.assertEqual((study.name, list(study.comparisons)), ("addition of numbers", ["hessian_blocks"]))
        self.assertEqual(self.opened(old, new)[0].of("hessian_blocks").seeds, [1, 2, 3, 4, 5])

    def test_trainings_are_told_apart(self):
        pde = "[model]\nkind = pde\n[depth]\nnorm = {}\n"
        for more, kind in (("", "transformer"), ("[attention]\nnormalisation = linear\n", "linear"), ("[equation]\nalpha = 0\n", "mlp"),
                           (pde.format("none"), "independent"), (pde.format("pre"), "normed"),
                           (pde.format("none") + "[distill]\nteacher = a.h5\n", "distilled"),
                           (pde.format("none") + "[train]\ncells = 8\n", "independent"), (pde.format("none") + "[train]\ncells = 4, 8\n", "converged"),
                           (pde.format("none") + "[train]\ngradient = adjoint\n[adjoint]\nmethod = 4\n", "converged")):
            write_training(self.path("a.h5"), epochs=1, seed=1, settings=sample.sample.ROOT["settings"] + more)
            with open_run(self.path("a.h5")) as run:
                self.assertEqual(kind_of(run), kind)


class Claims(HessianTest):
    def judged(self, *paths):
        """The verdicts on the claims of the file, {claim: {model: verdict}}."""
        rule, every = claims.read_claims(CLAIMS)
        return {one.id: {finding.model: finding.verdict for finding in findings}
                for study in self.opened(*paths) for one, findings in weigh(every, study, rule)}

    def test_every_claim_of_the_file_holds_where_it_is_true(self):
        found = self.judged(*self.written(*WRITERS, spread=1e-3, seeds=tuple(range(10))))
        self.assertEqual(set(found), {one.id for one in claims.read_claims(CLAIMS)[1]})
        self.assertEqual(found.pop("hessian-heterogeneity-pde"), {"independent": Verdict.OPPOSITE, "distilled": Verdict.NO_DIFFERENCE})
        # The functional part is as large as the rest: neither dominates.
        for name in ("query", "key"):
            self.assertEqual(found.pop(f"hessian-functional-{name}"), {"softmax": Verdict.NO_DIFFERENCE})
        self.assertEqual({name: list(one) for name, one in found.items()},
                         {"hessian-entries-softmax": ["softmax"], "hessian-entries-linear": ["linear"], "hessian-norm-flattens": ["softmax_pre_norm"],
                          "hessian-norm-flat": ["softmax_pre_norm"], "hessian-heterogeneity-mlp": ["transformer"],
                          "hessian-heterogeneity-linear": ["transformer"]})
        self.assertEqual({verdict for one in found.values() for verdict in one.values()}, {Verdict.HOLDS})

    def test_no_claim_of_the_file_holds_where_it_is_false(self):
        spectrum, blocks, scaling = (self.path(name + ".h5") for name in WRITERS)
        sample.write_spectrum(spectrum, {"transformer": 0.2, "linear": 0.3, "mlp": 0.3, "independent": 0.4}, spread=1e-3)
        sample.write_blocks(blocks, {"softmax": 0.0, "linear": 1.7}, spread=1e-3)
        sample.write_scaling(scaling, {"softmax": 3.0, "softmax_pre_norm": 5.0}, functional=0.1, spread=1e-3)
        found = self.judged(spectrum, blocks, scaling)
        self.assertEqual(found.pop("hessian-heterogeneity-pde"), {"independent": Verdict.HOLDS})
        expected = {name: Verdict.MISSED if name in ("hessian-entries-softmax", "hessian-entries-linear", "hessian-norm-flat") else Verdict.OPPOSITE
                    for name in found}
        self.assertEqual({name: verdict for name, one in found.items() for verdict in one.values()}, expected)
        self.assertEqual(len(found), 8)

    def test_the_functional_part_is_held_against_the_gauss_newton_part(self):
        path, = self.written("scaling", functional=50.0, spread=0.1)
        study, = self.opened(path)
        rule, every = claims.read_claims(CLAIMS)
        one, findings = next((one, findings) for one, findings in weigh(every, study, rule) if one.id == "hessian-functional-query")
        with h5py.File(path) as file:
            mine, theirs = (file[f"analysis/hessian/softmax/{part}_block_norm_by_sigma"][:, 0, 1, 0] for part in ("functional", "gauss_newton"))
        self.assertEqual((findings[0].verdict, findings[0].outcomes[0].against[0].name), (Verdict.HOLDS, "Gauss-Newton part"))
        np.testing.assert_allclose(findings[0].judged.effect.values, np.log(mine / theirs), rtol=1e-9)

    def test_controls_are_no_pde_models(self):
        path, = self.written("spectrum", spread=1e-3)
        self.assertEqual(list(self.judged(path)["hessian-heterogeneity-pde"]), ["independent", "distilled"])
        self.assertLessEqual({"independent", "distilled"}, set(COUPLINGS))

    def test_what_a_model_is_compared_with_and_the_file_lacks_was_not_measured(self):
        spectrum, scaling = self.path("spectrum.h5"), self.path("scaling.h5")
        sample.write_spectrum(spectrum, {"transformer": 0.4, "independent": 0.2}, followed=False)
        sample.write_scaling(scaling, {"softmax_pre_norm": 0.0})
        found = self.judged(spectrum, scaling)
        for name in ("hessian-heterogeneity-mlp", "hessian-heterogeneity-linear", "hessian-norm-flattens"):
            self.assertEqual(set(found[name].values()), {Verdict.NO_DATA}, name)

    def test_a_study_without_the_layer_of_a_claim_says_nothing_of_it(self):
        path = self.path("scaling.h5")
        sample.write_scaling(path, {"softmax": 5.0})
        self.assertEqual(set(self.judged(path)), {"hessian-functional-query", "hessian-functional-key"})

    def test_needs_ten_seeds_on_built_in_data(self):
        rule, _ = claims.read_claims(CLAIMS)
        self.assertEqual([rule.needed(name) for name in ("addition", "digits", "mnist")], [10, 10, 6])


class ClaimFiles(HessianTest):
    RULE = "[rule]\nalpha = 0.05\n[rule.seeds]\ndigits = 10\n"
    ENTRY = ('[[claim]]\nid = "a"\nsentence = "b"\nsource = "c"\nexperiment = "hessian_blocks"\nquantity = ["median_entry"]\n')

    def files(self, *texts):
        paths = [self.path(f"claims{k}.toml") for k in range(len(texts))]
        for path, text in zip(paths, texts):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
        return paths

    def refused(self, message, *texts):
        with self.assertRaisesRegex(RunError, message):
            claims.read_all(self.files(*texts))

    def test_several_files_are_judged_together(self):
        rule, every = claims.read_all([OTHERS, CLAIMS])
        self.assertEqual(len(every), sum(len(claims.read_claims(path)[1]) for path in (OTHERS, CLAIMS)))
        self.assertEqual((rule.seeds["addition"], rule.seeds["20news"]), (10, 6))

    def test_of_several_files_the_strictest_says_how_many_seeds_are_needed(self):
        one = self.RULE + self.ENTRY + 'test = "larger"\nat = "softmax"\n'
        other = one.replace("digits = 10", "digits = 3\nmnist = 5").replace('"a"', '"d"')
        for texts in ((one, other), (other, one)):
            self.assertEqual(claims.read_all(self.files(*texts))[0].seeds, {"digits": 10, "mnist": 5})

    def test_files_that_contradict_each_other_are_refused(self):
        good = self.RULE + self.ENTRY + 'test = "larger"\nat = "softmax"\n'
        self.refused("its alpha is another", good, good.replace("0.05", "0.01").replace('"a"', '"d"'))
        self.refused("a claim called a in another file", good, good)

    def test_claims_that_cannot_be_judged_are_refused(self):
        head = self.RULE + self.ENTRY
        self.refused("needs 'at'", head + 'test = "larger"\n')
        self.refused("than = sofmax", head + 'test = "larger"\nat = "softmax"\nthan = ["sofmax"]\n')
        self.refused("no experiment 'hessian_block'", head.replace("hessian_blocks", "hessian_block") + 'test = "larger"\nat = "softmax"\n')
        self.refused("need levels", head + 'test = "larger"\nreduce = "exponent"\nat = "softmax"\n')
        self.refused("need levels", head + 'test = "larger"\nwindow = [1, 2]\nat = "softmax"\n')
        self.refused("levels and start", head + 'test = "larger"\nlevels = "sigma"\nat = "softmax"\n')
        self.refused("two levels", head + 'test = "larger"\nlevels = "sigma"\nwindow = [1]\nat = "softmax"\n')
        study, = self.opened(*self.written("blocks"))
        with self.assertRaisesRegex(RunError, "at = sofmax is no model"):
            weigh([claim(experiment="hessian_blocks", quantity=["median_entry"], test="larger", at="sofmax")], study, claims.read_claims(CLAIMS)[0])


class Names(HessianTest):
    def test_claims_ask_for_what_the_program_writes(self):
        with open(os.path.join(ROOT, "docs", "reference", "output-format.md"), encoding="utf-8") as stream:
            documented = set(re.findall(r"^\| `/analysis/hessian/<model>/([a-z_]+)`", stream.read(), re.MULTILINE))
        for one in claims.read_claims(CLAIMS)[1]:
            self.assertLessEqual(set(one.quantity), documented, one.id)


if __name__ == "__main__":
    unittest.main()
