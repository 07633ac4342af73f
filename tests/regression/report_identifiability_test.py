#!/usr/bin/env python3
"""Identifiability in the report: its claims are judged for each model against its controls, the page has figures, tables and verdicts. Uses
synthetic files.

Status 77 as claim_sample.py says.
"""

import html
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from claim_sample import RULE, claim  # noqa: E402 (its folder is put on the path first; it looks for what is needed)

import h5py  # noqa: E402
import numpy as np  # noqa: E402

from identifiability_sample import CLAIMS, HEADS, NOTHING, WORDS, IdentifiabilityTest  # noqa: E402
from python_package import ROOT, call  # noqa: E402

from fluxformer.judging import Verdict  # noqa: E402
from fluxformer.report import claims, reductions  # noqa: E402
from fluxformer.report.data import RunError  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402

COMPARED = os.path.join(ROOT, "input", "paper", "compare", "claims.toml")
OF_TEXTS = "mass-on-frequent-words"
ONLY_PDE = {"pde-keeps-identity", "pde-states-keep-identity", "pde-mixes-less"}
RATE = {"experiment": "identifiability", "quantity": ["rate_linear_cosine"], "test": "larger"}


class Claims(IdentifiabilityTest):
    def judged(self, path):
        """{claim: {model: verdict}} of the claims of the file."""
        study, = self.opened(path)
        rule, every = claims.read_claims(CLAIMS)
        return {one.id: {finding.model: finding.verdict for finding in findings} for one, findings in weigh(every, study, rule)}

    def finding(self, path, **asked):
        """The findings of one claim, by model."""
        study, = self.opened(path)
        return {one.model: one for _, findings in weigh([claim(**asked)], study, RULE) for one in findings}

    def stored(self, path, model, name):
        with h5py.File(path) as file:
            return file[f"analysis/identifiability/{model}/{name}"][...]

    def test_every_claim_holds_where_it_is_true(self):
        found = self.judged(self.written(words=WORDS, spread=1e-3))
        self.assertEqual(set(found), {one.id for one in claims.read_claims(CLAIMS)[1]})
        for name, one in found.items():
            self.assertEqual(one, dict.fromkeys(["independent"] if name in ONLY_PDE else HEADS, Verdict.HOLDS), name)

    def test_no_claim_holds_where_it_is_false(self):
        found = self.judged(self.written(words=WORDS, spread=1e-3, claimed=False))
        for name, one in found.items():
            expected = {"weights-unique-to-queries": Verdict.MISSED, "weights-not-unique": Verdict.UNDECIDED,  # 0 in every seed
                        "largest-weight-moves": Verdict.NO_DIFFERENCE}.get(name, Verdict.OPPOSITE)
            self.assertEqual(set(one.values()), {expected}, name)

    def test_what_was_not_measured_is_said(self):
        found = self.judged(self.written(measures=("identity",), **NOTHING))
        for name, one in found.items():
            measured = name.startswith(("identity", "pde-keeps", "pde-states")) and name != "identity-mlp"
            self.assertEqual(Verdict.NO_DATA in one.values(), not measured, name)
        self.assertEqual(set(self.judged(self.written())[OF_TEXTS].values()), {Verdict.NO_DATA})  # an image has no words

    def test_a_model_alone_is_judged_against_its_own_controls(self):
        for model in HEADS:
            found = self.judged(self.written(f"{model}.h5", models=(model,), spread=1e-3))
            self.assertEqual({name: one for name, one in found.items() if name not in ONLY_PDE and name != OF_TEXTS},
                             {name: {model: Verdict.HOLDS} for name in found if name not in ONLY_PDE and name != OF_TEXTS})

    def test_another_measure_of_the_same_model_is_a_control(self):
        path = self.written(spread=0.1)
        found = self.finding(path, **RATE, reduce="last", at="each", than=["own:chance"])
        self.assertEqual(list(found), list(HEADS))
        for model, one in found.items():
            effect = self.stored(path, model, "rate_linear_cosine")[:, -1] - self.stored(path, model, "chance")
            np.testing.assert_allclose(one.judged.effect.values, effect, rtol=1e-9)
            self.assertEqual(one.outcomes[0].against[0].name, "chance")

    def test_a_model_is_held_against_its_untrained_twin_and_its_null(self):
        path = self.written(spread=0.1)
        one = self.finding(path, **RATE, at="transformer", reduce="last", than=["untrained"])["transformer"]
        mine, theirs = (self.stored(path, "transformer", f"rate_linear_cosine{name}")[:, -1] for name in ("", "_untrained"))
        np.testing.assert_allclose(one.judged.effect.values, mine - theirs, rtol=1e-9)
        found = self.finding(path, **{**RATE, "quantity": ["correlation"]}, at="each", along="length", reduce="last", than=["null"])
        for model, one in found.items():
            mine, theirs = (np.nanmean(self.stored(path, model, f"correlation{name}")[:, -1], axis=(1, 2)) for name in ("", "_null"))
            np.testing.assert_allclose(one.judged.effect.values, mine - theirs, rtol=1e-9)

    def test_the_axis_along_which_a_claim_speaks_is_reduced_and_heads_that_are_not_there_do_not_count(self):
        path = self.written(spread=0.1)
        for reduce, of in (("last", lambda values: values[:, -1]), ("fall", lambda values: values[:, 0] - values[:, -1])):
            found = self.finding(path, **{**RATE, "quantity": ["moved_share"]}, at="each", along="length", reduce=reduce, than=["zero"])
            for model, one in found.items():
                expected = np.nanmean(of(self.stored(path, model, "moved_share")), axis=(1, 2))
                np.testing.assert_allclose(one.judged.effect.values, expected, rtol=1e-9)
        found = self.finding(path, **{**RATE, "quantity": ["moved_share"]}, at="each", along="lenght", reduce="last", than=["zero"])
        self.assertEqual({one.verdict for one in found.values()}, {Verdict.NO_DATA})

    def test_pde_models_are_taken_at_layer_ends_and_no_other_axis_for_depth(self):
        """The PDE model has seven depths, as many as there are groups of distances; without a Transformer its whole depths count."""
        for models in (tuple(HEADS), ("independent",)):
            path = self.written(f"{len(models)}.h5", models=models, spread=0.1)
            rates = self.stored(path, "independent", "rate_linear_cosine")
            found = self.finding(path, **RATE, at="each", than=["zero"])["independent"]
            np.testing.assert_allclose(found.judged.effect.values, rates[:, ::2].mean(axis=1), rtol=1e-9)
            pairs = self.stored(path, "independent", "contribution_by_pair")
            found = self.finding(path, **{**RATE, "quantity": ["contribution_by_pair"]}, at="each", than=["zero"])["independent"]
            np.testing.assert_allclose(found.judged.effect.values, pairs.mean(axis=(1, 2)), rtol=1e-9)

    def test_a_fall_after_the_first_layer_leaves_depth_0_out(self):
        values = np.array([[1.0, 0.7, 0.6, 0.2], [1.0, 0.1, 0.5, 0.4]])
        np.testing.assert_allclose(reductions.reduce("later_fall", values), [0.5, -0.3])
        self.assertTrue(np.isnan(reductions.reduce("later_fall", values[:, :2])).all())

    def test_continuous_depth_is_compared_seed_by_seed(self):
        path = self.written(spread=0.1)
        one = self.finding(path, **RATE)["independent"]
        mine, theirs = (self.stored(path, model, "rate_linear_cosine") for model in ("independent", "transformer"))
        np.testing.assert_allclose(one.judged.effect.values, mine[:, ::2].mean(axis=1) - theirs.mean(axis=1), rtol=1e-9)


class ClaimFiles(IdentifiabilityTest):
    HEAD = ('[rule]\nalpha = 0.05\n[rule.seeds]\ndigits = 10\n[[claim]]\nid = "a"\nsentence = "b"\nsource = "c"\nexperiment = "identifiability"\n'
            'quantity = ["chance"]\ntest = "larger"\nat = "each"\n')

    def refused(self, message, text):
        path = self.path("claims.toml")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        with self.assertRaisesRegex(RunError, message):
            claims.read_claims(path)

    def test_each_model_has_its_own_controls_alone(self):
        self.refused("than = transformer: with 'at' each model", self.HEAD)
        self.refused("than = ceiling: with 'at' each model", self.HEAD + 'than = ["ceiling"]\n')
        self.refused("happens needs 'at'", self.HEAD.replace("larger", "happens") + 'than = ["zero"]\n')

    def test_few_seeds_are_preliminary(self):
        rule, _ = claims.read_claims(CLAIMS)
        self.assertGreater(min(rule.seeds.values()), 5)
        rule, every = claims.read_all([COMPARED, CLAIMS])  # one rule: they may be judged together
        self.assertEqual(rule.needed("digits"), 10)

    def test_it_says_what_is_asked(self):
        asked = {one.id: one.asks() for one in claims.read_claims(CLAIMS)[1]}
        equal = "; within ± 0.02 there is no relevant difference"
        self.assertEqual(asked["identity-linear"], f"larger than its chance and its rate shuffled (at the end){equal}")
        self.assertEqual(asked["effective-above-null"], f"larger than for random value space (at the end along length){equal}")


class Pages(IdentifiabilityTest):
    def report(self, path, *more):
        done = call("report", path, "--claims", CLAIMS, *more, "--output", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(self.path("report.html"), encoding="utf-8") as stream:
            return html.unescape(stream.read())

    def test_the_page_has_figures_tables_and_verdicts(self):
        page = self.report(self.written(words=WORDS), "--claims", COMPARED)
        for one in claims.read_claims(CLAIMS)[1]:
            self.assertIn(one.sentence, page)
        for heading in ("How many attention weights do as well", "Effective attention", "How long a token is recognised",
                        "Where hidden tokens come from"):
            self.assertRegex(page, rf"<h3 id=\"[a-z0-9-]*\">{heading}</h3>")
        self.assertEqual(page.count("<svg"), 13)  # one of them in short, too
        self.assertIn("<td>Transformer: Hidden Token Attribution</td>", page)
        self.assertIn("preliminary", page)

    def test_numbers_of_the_page_are_those_of_the_file(self):
        path = self.written(spread=0.0, measures=("weights", "identity"))
        page = self.report(path)
        self.assertEqual(page.count("<svg"), 9)
        value = float(self.stored_last(path))
        self.assertRegex(page, rf"<td>PDE, independent: linear map, angle</td>.*<td class=\"number\">{100 * value:g} ± 0</td>")
        self.assertTrue(re.search(r"<tr><td>Transformer, n = 9</td><td class=\"number\">5 ± 0</td><td class=\"number\">4 ± 0</td>", page))
        self.assertTrue(os.path.getsize(self.path("report.pdf")) > 10000)

    def stored_last(self, path):
        with h5py.File(path) as file:
            return file["analysis/identifiability/independent/rate_linear_cosine"][0, -1]


class Names(IdentifiabilityTest):
    def test_claims_ask_for_what_the_program_writes(self):
        """Names that it describes, as the header files spell them."""
        with open(os.path.join(ROOT, "docs", "reference", "output-format.md"), encoding="utf-8") as stream:
            documented = set(re.findall(r"^\| `/analysis/identifiability/<model>/([a-z_0-9]+)`", stream.read(), re.MULTILINE))
        for one in claims.read_claims(CLAIMS)[1]:
            asked = {*one.quantity, *(name.removeprefix("own:") for name in one.than if name.startswith("own:"))}
            self.assertLessEqual(asked, documented, one.id)

    def test_the_sample_has_the_names_that_the_program_writes(self):
        with open(os.path.join(ROOT, "docs", "reference", "output-format.md"), encoding="utf-8") as stream:
            text = stream.read()
        with h5py.File(self.written(words=WORDS)) as file:
            for name in file["analysis/identifiability/transformer"]:
                self.assertRegex(text, rf"/analysis/identifiability/<model>/{name}`", name)


if __name__ == "__main__":
    unittest.main()
