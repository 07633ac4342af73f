#!/usr/bin/env python3
"""Clusters of trained models in the report: its claims hold where they are true and only there, from fewer than five seeds none is decided; the
differences of each layer by scipy; figures and tables. Uses synthetic files.

Status 77 as claim_sample.py says.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from claim_sample import ClaimTest  # noqa: E402 (its folder is put on the path first; it looks for what is needed)

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from clusters_models_sample import HEADS, MODELS, write_clusters_models  # noqa: E402
from python_package import ROOT, call  # noqa: E402

from fluxformer.clusters import clusters_models  # noqa: E402
from fluxformer.io import RunError  # noqa: E402
from fluxformer.judging import Verdict  # noqa: E402
from fluxformer.report import claims, reductions  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "clusters", "claims.toml")
OF_PDE = {"pde-clusters-more", "pde-clusters-more-at-the-end"}
SEEDS = (1, 2, 3, 4, 5, 6)


class ClustersReport(ClaimTest):
    def made(self, write, **how):
        """A synthetic file, new each time: the one before may still be open."""
        if os.path.exists(self.path("made_up.h5")):
            os.unlink(self.path("made_up.h5"))
        return super().made(write, **how)

    def judged(self, **how):
        """{claim: {model: verdict}} of the claims of the file."""
        study = self.study(self.made(write_clusters_models, **{"seeds": SEEDS, "spread": 1e-3, **how}))
        rule, every = claims.read_claims(CLAIMS)
        return {one.id: {finding.model: finding.verdict for finding in findings} for one, findings in weigh(every, study, rule)}

    def test_every_claim_holds_where_it_is_true(self):
        found = self.judged()
        self.assertEqual(set(found), {one.id for one in claims.read_claims(CLAIMS)[1]})
        for name, one in found.items():
            expected = dict.fromkeys(MODELS[1:] if name in OF_PDE else MODELS, Verdict.HOLDS)
            if name in OF_PDE:  # a thousandth is within delta
                expected["normed"] = Verdict.NO_DIFFERENCE
            self.assertEqual(one, expected, name)

    def test_no_claim_holds_where_it_is_false(self):
        found = self.judged(claimed=False)
        same = dict.fromkeys(MODELS, Verdict.NO_DIFFERENCE)
        self.assertEqual(found["clusters-within-samples"], same)
        self.assertEqual(found["clusters-stay"]["transformer"], Verdict.UNDECIDED)  # above 0, as in the untrained model
        self.assertEqual(found["energy-rises"], dict.fromkeys(MODELS, Verdict.OPPOSITE))
        for name, one in found.items():
            self.assertNotIn(Verdict.HOLDS, one.values(), name)

    def test_fewer_than_five_seeds_decide_nothing(self):
        for name, one in self.judged(seeds=(1, 2, 3, 4)).items():
            self.assertEqual(set(one.values()), {Verdict.UNDECIDED}, name)
        self.assertEqual(self.judged(seeds=(1, 2, 3, 4, 5))["clusters-form"]["transformer"], Verdict.HOLDS)

    def test_a_claim_asks_for_two_seeds_at_least(self):
        with open(CLAIMS, encoding="utf-8") as stream:
            text = stream.read()
        path = self.path("claims.toml")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text.replace("least_seeds = 5", "least_seeds = 1", 1))
        with self.assertRaisesRegex(RunError, "least_seeds"):
            claims.read_claims(path)
        one = claims.read_claims(CLAIMS)[1][0]
        self.assertIn("from fewer than 5 seeds undecided", one.asks())
        self.assertEqual((one.name_of("permuted"), one.name_of("normal")), ("permuted channels", "normal tokens"))

    def test_the_smallest_of_the_layers_that_there_are(self):
        self.assertEqual(reductions.reduce("smallest", [[3.0, -1.0, 2.0], [np.nan, 4.0, 5.0]]).tolist(), [-1.0, 4.0])
        self.assertTrue(np.isnan(reductions.reduce("smallest", [[np.nan, np.nan]])[0]))

    def test_layers_are_those_of_the_transformer_with_intervals_of_students_t(self):
        path = self.made(write_clusters_models, seeds=SEEDS, spread=0.01)
        study = self.study(path)
        found = clusters_models.by_layer(study.of("clusters_models"))
        self.assertEqual([(one.model, one.depth) for one in found], [(model, depth) for model in MODELS[1:] for depth in (0.0, 1.0, 2.0, 3.0)])
        with h5py.File(path) as file:
            numbers = {model: file[f"analysis/clusters_models/{model}/number_2"][:, :, 1, 1] for model in MODELS}
        for one in found:
            place = int(one.depth)
            difference = np.log(numbers[one.model][:, 2 * place]) - np.log(numbers["transformer"][:, place])
            test = stats.ttest_1samp(difference, 0)
            self.assertAlmostEqual(one.judged.p, test.pvalue, delta=1e-9)
            np.testing.assert_allclose(one.judged.interval, test.confidence_interval(1 - one.judged.alpha), rtol=1e-9)
            self.assertEqual(one.judged.verdict, Verdict.OPPOSITE if one.model == "independent" and place > 0 else Verdict.UNDECIDED)

    def test_layers_of_few_seeds_are_undecided_and_other_cells_are_left_out(self):
        path = self.made(write_clusters_models, seeds=(1, 2, 3), spread=1e-4)
        self.assertEqual({one.judged.verdict for one in clusters_models.by_layer(self.study(path).of("clusters_models"))}, {Verdict.UNDECIDED})
        path = self.made(write_clusters_models)
        with h5py.File(path, "r+") as file:
            file["normed_depth"][2] = 1.1
        self.assertEqual({one.model for one in clusters_models.by_layer(self.study(path).of("clusters_models"))}, {"independent"})

    def test_energies_of_heads_that_a_model_does_not_have_do_not_count(self):
        comparison = self.study(self.made(write_clusters_models, seeds=SEEDS, spread=0)).of("clusters_models")
        for model in MODELS:
            np.testing.assert_allclose(clusters_models._of_heads(comparison, model, "energy_change"), [[0.2, 0.3, 0.4]] * 6, rtol=1e-12)
        rows = clusters_models.table(comparison)
        energies = clusters_models.table_energies(comparison)
        self.assertEqual([(row[1], row[2]) for row in energies[1:4]], [("1", "0.2000 ± 0"), ("2", "0.3000 ± 0"), ("3", "0.4000 ± 0")])
        self.assertEqual(len(energies), 1 + 3 * len(MODELS))
        self.assertEqual([row[-1] for row in rows[1:]], [f"{3 * HEADS[model]} of {3 * HEADS[model]}" for model in MODELS])

    def test_the_page_has_figures_and_tables(self):
        path = self.made(write_clusters_models, seeds=SEEDS)
        with h5py.File(path, "r+") as file:  # as few samples for tokens of different ones
            file["analysis/clusters_models/normed/number_2_across"][...] = np.nan
        end = call("report", path, "--claims", CLAIMS, "--output", self.path("page"))
        self.assertEqual(end.returncode, 0, end.stderr)
        with open(self.path("page/report.html"), encoding="utf-8") as stream:
            page = stream.read()
        for text in ("clusters-models", "clusters-courses", "clusters-heads", "clusters-against", "null: one token of each sample", "permuted channels"):
            self.assertIn(text, page)
        self.assertNotIn("permuted keys", page)
        with open(self.path("page/tables.md"), encoding="utf-8") as stream:
            self.assertEqual(sum("| smaller |" in line for line in stream), 3)


if __name__ == "__main__":
    unittest.main()
