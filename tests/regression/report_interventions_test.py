#!/usr/bin/env python3
"""Interventions in the report: claims hold where they are true and only there; figures and tables hold the numbers of the file, of images and of
texts, with and without models that were run again. Uses synthetic files.

Status 77 as claim_sample.py says.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from claim_sample import ClaimTest  # noqa: E402 (its folder is put on the path first; it looks for what is needed)

import numpy as np  # noqa: E402
from matplotlib import pyplot  # noqa: E402
from matplotlib.collections import QuadMesh  # noqa: E402
from matplotlib.colors import to_rgba  # noqa: E402

from interventions_sample import (ACCOUNTS, CELLS, DOSES, GAIN, HEADS, LENGTH, MODELS, OFFSET, PAIRS, SITES, TOKENS, effect_of,  # noqa: E402
                                  features_of, spearman, write_interventions)
from python_package import ROOT  # noqa: E402

from fluxformer.interventions import interventions  # noqa: E402
from fluxformer.judging import Verdict  # noqa: E402
from fluxformer.report import claims  # noqa: E402
from fluxformer.report.style import as_svg  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402
from fluxformer.style import ACCENT  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "interventions", "claims.toml")
OF_PDE = {"accounts-of-pde-models-are-better", "faces-of-pde-models-are-better"}
AGREEMENT, PLACES, STEERING = ["interventions-accounts", "interventions-first-order"], ["interventions-map", "interventions-heads"], ["interventions-steering"]


def meshes(axes):
    """The numbers of the map in a panel, row by row; empty where there is none."""
    return [mesh.get_array().ravel() for mesh in axes.collections if isinstance(mesh, QuadMesh)]


class InterventionsReport(ClaimTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(pyplot.close, "all")

    def made(self, write=write_interventions, **how):
        """A synthetic file, new each time: the one before may still be open."""
        if os.path.exists(self.path("made_up.h5")):
            os.unlink(self.path("made_up.h5"))
        return super().made(write, **how)

    def judged(self, **how):
        """{claim: {model: verdict}} of the claims of the file about interventions."""
        study = self.study(self.made(**{"seeds": (1, 2, 3, 4), "spread": 1e-3, **how}))
        rule, every = claims.read_claims(CLAIMS)
        return {one.id: {finding.model: finding.verdict for finding in findings}
                for one, findings in weigh([one for one in every if one.experiment == "interventions"], study, rule)}

    def drawings(self, **how):
        study = self.study(self.made(**how))
        return {one.name: one for section in interventions.SECTIONS for one in section.draw(study)}

    def comparison(self, **how):
        return self.study(self.made(**how)).of("interventions")

    def maps(self, name, **how):
        """The panels with a map of a figure, and their maps."""
        return [(axes, *found) for axes in self.drawings(**how)[name].figure.axes if (found := meshes(axes)) and axes.get_title(loc="left")]

    def test_every_claim_holds_where_it_is_true(self):
        found = self.judged()
        self.assertEqual(set(found), {one.id for one in claims.read_claims(CLAIMS)[1] if one.experiment == "interventions"})
        for name, one in found.items():
            self.assertEqual(one, dict.fromkeys(MODELS[1:] if name in OF_PDE else MODELS, Verdict.HOLDS), name)

    def test_no_claim_holds_where_it_is_false(self):
        for name, one in self.judged(claimed=False).items():
            self.assertNotIn(Verdict.HOLDS, one.values(), name)

    def test_fewer_than_three_seeds_decide_nothing(self):
        for name, one in self.judged(seeds=(1, 2)).items():
            self.assertEqual(set(one.values()), {Verdict.UNDECIDED}, name)

    def test_figures_are_those_of_what_was_measured(self):
        self.assertEqual([*self.drawings()], AGREEMENT + PLACES + STEERING)
        self.assertEqual([*self.drawings(words=True, steering=False, seeds=(1,))], AGREEMENT + PLACES)
        self.assertEqual([*self.drawings(exact=False)], STEERING)
        self.assertEqual([*self.drawings(sites=("face",))], AGREEMENT + PLACES[:1] + STEERING)

    def test_every_figure_can_be_put_into_a_page(self):
        for words in (False, True):
            for one in self.drawings(words=words).values():
                self.assertIn("<svg", as_svg(one))

    def test_bars_are_the_numbers_of_the_file(self):
        figure = self.drawings(spread=0)["interventions-accounts"].figure
        self.assertEqual(len(figure.axes), len(MODELS))
        for axes, model in zip(figure.axes, MODELS):
            expected = [value for account in interventions.BARS for site in SITES if np.isfinite(value := spearman(model, site, account))]
            np.testing.assert_allclose([bar.get_height() for bar in axes.patches], expected, rtol=1e-12)
            self.assertEqual([label.get_text() for label in axes.get_xticklabels()], [interventions.SITES[site] for site in SITES])

    def test_the_better_account_is_that_of_the_site(self):
        axes = self.drawings()["interventions-accounts"].figure.axes[0]
        labels = [bars.get_label() for bars in axes.containers if len(getattr(bars, "patches", ())) == 1]
        named = {name: style.label for name, style in interventions.ACCOUNTS.items()}
        self.assertEqual(labels.count(named["softmax"]), 2)  # queries and keys
        self.assertEqual(labels.count(named["second"]), 1)   # faces
        for name in ("first", "null", "size", "reverse"):
            self.assertEqual(labels.count(named[name]), len(SITES))

    def test_dots_are_the_effects_and_doubtful_ones_are_red(self):
        figure = self.drawings(seeds=(1,))["interventions-first-order"].figure
        faces, heads = figure.axes[:2]  # of the first model
        line, trusted, doubtful = faces.lines
        np.testing.assert_array_equal(line.get_xdata(), line.get_ydata())
        for dots, large in ((trusted, False), (doubtful, True)):
            true = effect_of(MODELS[0], "face").ravel()
            true = true[(np.abs(true) > 1) == large]
            np.testing.assert_array_equal(np.sort(dots.get_xdata()), np.sort(true))
            np.testing.assert_allclose(dots.get_ydata(), 0.5 * dots.get_xdata(), rtol=1e-12)
            self.assertEqual(to_rgba(dots.get_color()) == to_rgba(ACCENT), large)
        self.assertEqual([len(line.get_xdata()) for line in heads.lines], [2, effect_of(MODELS[0], "head").size])  # none of them in red

    def test_maps_are_the_effects_of_the_first_pair(self):
        for words, length in ((False, TOKENS), (True, LENGTH)):
            found = [one for _, one in self.maps("interventions-map", words=words)]
            self.assertEqual(len(found), 2 * len(MODELS))
            for k, model in enumerate(MODELS):
                true = effect_of(model, "face", length)[0][:, :length].ravel()
                np.testing.assert_array_equal(found[2 * k], true)
                np.testing.assert_array_equal(found[2 * k + 1], 0.5 * true)

    def test_clean_and_donor_are_pictures(self):
        figure = self.drawings(models=MODELS[:1])["interventions-map"].figure
        pictures = [axes for axes in figure.axes if axes.images]
        self.assertEqual([axes.get_title() for axes in pictures], ["clean: 2", "donor: 3"])
        clean, donor = (axes.images[0].get_array() for axes in pictures)
        self.assertEqual((clean.shape, donor.shape), ((6, 6), (6, 6)))
        np.testing.assert_array_equal(clean[:2, :4], [[0, 1, 4, 5], [2, 3, 6, 7]])  # two patches side by side
        np.testing.assert_array_equal(donor - clean, np.full((6, 6), 1000))
        self.assertEqual(len([axes for axes in self.drawings(features=False)["interventions-map"].figure.axes if axes.images]), 0)

    def test_words_are_shown(self):
        panels = self.maps("interventions-map", words=True)
        for axes, _ in panels:
            self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["the", "cat ← dog", "sat", "on", "a", "mat ← hat", "the"])

    def test_numbers_without_words_are_none(self):
        comparison = self.comparison(words=True)
        self.assertEqual(interventions._words(comparison, features_of(True)[0], LENGTH)[:2], ["the", "cat"])
        for wrong in (-1.0, 99.0, 0.5, np.nan):
            self.assertEqual(interventions._words(comparison, np.full((TOKENS, 1), wrong), LENGTH), [])
        self.assertEqual(interventions._words(self.comparison(), features_of(False)[0], TOKENS), [])

    def test_heads_are_summed_over_tokens(self):
        found = [one for _, one in self.maps("interventions-heads")]
        for k, model in enumerate(MODELS):
            true = effect_of(model, "head").sum(axis=-1).mean(axis=0)
            self.assertEqual(true.shape, (CELLS[model], HEADS))
            np.testing.assert_allclose(found[2 * k], true.ravel(), rtol=1e-12)
            np.testing.assert_allclose(found[2 * k + 1], 0.5 * true.ravel(), rtol=1e-12)

    def test_steering_begins_with_its_slope(self):
        left, right = self.drawings(spread=0, models=MODELS[:1])["interventions-steering"].figure.axes
        response, control, tangent, zero = left.lines
        np.testing.assert_array_equal(response.get_xdata(), DOSES)
        np.testing.assert_allclose(response.get_ydata(), OFFSET + GAIN * np.tanh(DOSES), rtol=1e-12)
        np.testing.assert_allclose(control.get_ydata(), OFFSET)
        np.testing.assert_allclose(tangent.get_ydata(), OFFSET + GAIN * tangent.get_xdata(), rtol=1e-12)
        np.testing.assert_allclose(right.lines[0].get_ydata(), np.clip(0.5 * np.array(DOSES), 0, 0.9))
        self.assertEqual(zero.get_xdata(), [0, 0])

    def test_tables_hold_the_numbers_of_the_file(self):
        comparison = self.comparison(spread=0)
        rows = interventions.table(comparison)
        self.assertEqual({len(row) for row in rows}, {len(rows[0])})
        for model, label in zip(MODELS, ("Transformer", "PDE, independent")):
            for site in SITES:
                of_site = [row for row in rows if row[:2] == (label, interventions.SITES[site])]
                self.assertEqual(len(of_site), sum(np.isfinite(spearman(model, site, account)) for account in ACCOUNTS), site)
        self.assertEqual(rows[1], ("Transformer", "residual stream", "first order", "0.4000 ± 0", "0.3600 ± 0", "0.6000 ± 0", "0.3200 ± 0"))
        pairs = interventions.table_places(comparison)
        self.assertEqual([len(row) for row in pairs], [len(pairs[0])] * (1 + len(MODELS) * PAIRS))
        self.assertEqual(pairs[2], ("Transformer", "2", "11", "21", "3 ← 5", "9", "3", "−2.500", "–"))
        steered = interventions.table_steering(comparison)
        self.assertEqual([len(row) for row in steered], [len(steered[0])] * (1 + len(MODELS) * len(DOSES)))
        self.assertEqual(steered[2], ("Transformer", "0", "−2 ± 0", "−2 ± 0", "0 ± 0", "0.01000 ± 0", "3 ± 0"))

    def test_answers_of_a_text_are_words(self):
        pairs = interventions.table_places(self.comparison(words=True))
        self.assertEqual([row[4] for row in pairs[1:3]], ["cat ← dog", "dog ← on"])

    def test_a_file_without_runs_has_nothing_to_show(self):
        study = self.study(self.made(exact=False, steering=False))
        self.assertEqual([section.draw(study) for section in interventions.SECTIONS], [[], [], []])
        self.assertEqual([len(section.table(study.of("interventions"))) for section in interventions.SECTIONS], [1, 1 + len(MODELS) * PAIRS, 1])


if __name__ == "__main__":
    unittest.main()
