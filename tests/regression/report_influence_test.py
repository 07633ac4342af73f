#!/usr/bin/env python3
"""Influence in the report: its claims hold where they are true and only there; figures and tables hold the numbers of the file, with and without
wrong labels, pictures and trainings again. Uses synthetic files.

Status 77 as claim_sample.py says.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from claim_sample import ClaimTest  # noqa: E402 (its folder is put on the path first; it looks for what is needed)

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib import pyplot  # noqa: E402

from influence_sample import CURVATURES, FOUND, MODELS, SLOPE, TRAIN, WRONG, score_of, write_influence  # noqa: E402
from python_package import ROOT  # noqa: E402

from fluxformer.interventions import influence  # noqa: E402
from fluxformer.judging import Verdict  # noqa: E402
from fluxformer.report import claims  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "interventions", "claims.toml")
OF_PDE, OF_RIGHT = {"pde-fits-fewer-wrong-labels", "pde-fits-fewer-right-labels"}, "pde-fits-fewer-right-labels"
LABELS, DAMPING, SUSPECTS, AGAIN = ["influence-labels"], ["influence-damping"], ["influence-suspects"], ["influence-retrained", "influence-curvatures"]


class InfluenceReport(ClaimTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(pyplot.close, "all")

    def made(self, write=write_influence, **how):
        """A synthetic file, new each time: the one before may still be open."""
        if os.path.exists(self.path("made_up.h5")):
            os.unlink(self.path("made_up.h5"))
        return super().made(write, **how)

    def judged(self, **how):
        """{claim: {model: verdict}} of the claims of the file about influence."""
        study = self.study(self.made(**{"seeds": (1, 2, 3, 4, 5, 6), "spread": 1e-3, **how}))
        rule, every = claims.read_claims(CLAIMS)
        return {one.id: {finding.model: finding.verdict for finding in findings}
                for one, findings in weigh([one for one in every if one.experiment == "influence"], study, rule)}

    def drawings(self, **how):
        study = self.study(self.made(**how))
        return {one.name: one for section in influence.SECTIONS for one in section.draw(study)}

    def comparison(self, **how):
        return self.study(self.made(**how)).of("influence")

    def test_every_claim_holds_where_it_is_true(self):
        found = self.judged()
        self.assertEqual(set(found), {one.id for one in claims.read_claims(CLAIMS)[1] if one.experiment == "influence"})
        for name, one in found.items():
            expected = Verdict.NO_DIFFERENCE if name == OF_RIGHT else Verdict.HOLDS
            self.assertEqual(one, dict.fromkeys(MODELS[1:] if name in OF_PDE else MODELS, expected), name)

    def test_no_claim_holds_where_it_is_false(self):
        for name, one in self.judged(claimed=False).items():
            self.assertNotIn(Verdict.HOLDS, one.values(), name)

    def test_fewer_than_six_seeds_decide_nothing(self):
        for name, one in self.judged(seeds=(1, 2, 3, 4, 5)).items():
            self.assertEqual(set(one.values()), {Verdict.UNDECIDED}, name)

    def test_figures_are_those_of_what_was_measured(self):
        self.assertEqual([*self.drawings()], LABELS + DAMPING + SUSPECTS + AGAIN)
        self.assertEqual([*self.drawings(wrong=False)], DAMPING + SUSPECTS + AGAIN)
        self.assertEqual([*self.drawings(retrained=False, seeds=(1,))], LABELS + DAMPING + SUSPECTS)

    def test_precision_follows_the_ranking(self):
        for found in (0, 5, 8):
            score, wrong = score_of(found), (np.arange(TRAIN) < WRONG).astype(float)
            course = influence._precision(score, wrong)
            self.assertAlmostEqual(course[WRONG - 1], found / WRONG)
            self.assertAlmostEqual(course[-1], WRONG / TRAIN)  # all samples: the share of wrong labels

    def test_suspects_are_those_of_the_first_damping(self):
        comparison = self.comparison()
        np.testing.assert_array_equal(influence._suspects(comparison, "transformer"), np.argsort(-score_of(FOUND["self_influence"]), kind="stable"))

    def test_first_order_lies_below_the_line_and_newton_on_it(self):
        figure = self.drawings()["influence-retrained"].figure
        for axes, slope in zip(figure.axes, (SLOPE, 0.95)):
            (line, dots), = (axes.lines,)
            np.testing.assert_array_equal(line.get_xdata(), line.get_ydata())
            np.testing.assert_allclose(dots.get_ydata(), slope * dots.get_xdata(), rtol=1e-12)

    def test_suspects_are_pictures_where_the_file_holds_them(self):
        figure = self.drawings(features=True, models=("transformer",))["influence-suspects"].figure
        pictures = [axes.images[0].get_array() for axes in figure.axes if axes.images]
        self.assertEqual([picture.shape for picture in pictures], [(6, 6)] * 4)
        np.testing.assert_array_equal(pictures[0][:2, :4], [[0, 1, 4, 5], [2, 3, 6, 7]])  # two patches side by side
        self.assertEqual([axes.get_title() for axes in figure.axes], ["0 for 1", "1 for 2", "2 for 3", "3 for 4"])

    def test_suspects_are_bars_where_it_does_not(self):
        figure = self.drawings()["influence-suspects"].figure
        heights = [bar.get_height() for bar in figure.axes[0].patches]
        self.assertEqual(heights, sorted(heights, reverse=True))

    def test_tables_hold_the_numbers_of_the_file(self):
        comparison = self.comparison(spread=0)
        rows = influence.table(comparison)
        self.assertEqual([len(row) for row in rows], [len(rows[0])] * (1 + len(MODELS)))
        self.assertEqual(rows[1][:9], ("Transformer", "10 ± 0", "0.9500 ± 0", "0.9900 ± 0", "0.8000 ± 0", "0.5000 ± 0", "0.6000 ± 0", "0.2000 ± 0",
                                       "0.7000 ± 0"))
        again = influence.table_retrained(comparison)
        self.assertEqual(len(again), 1 + len(MODELS) * (2 + len(CURVATURES)))
        suspects = influence.table_suspects(comparison)
        self.assertEqual(suspects[1][:5], ("Transformer", "1", "0", "0 for 1", "yes"))

    def test_a_file_without_scores_has_nothing_to_show(self):
        path = self.made()
        with h5py.File(path, "r+") as file:
            for model in MODELS:
                for name in [*file[f"analysis/influence/{model}"]]:
                    del file[f"analysis/influence/{model}/{name}"]
                file[f"analysis/influence/{model}/test_loss"] = np.ones((3, 5))  # [seed, test_sample]
        study = self.study(path)
        self.assertEqual([section.draw(study) for section in influence.SECTIONS], [[], [], []])
        self.assertEqual([len(section.table(study.of("influence"))) for section in influence.SECTIONS], [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
