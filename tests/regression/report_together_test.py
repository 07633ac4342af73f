#!/usr/bin/env python3
"""Everything at once in the report: differences and correlations are those of scipy and numpy, whatever models, experiments, seeds and data
sets there are. Uses synthetic files; correlations themselves are tested in python_correlation_test.py, traits in report_traits_test.py.

Status 77 as claim_sample.py says.
"""

import html
import os
import re
import sys
import unittest
from itertools import combinations

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import traits_sample as sample  # noqa: E402 (its folder is put on the path first; it looks for what is needed)
from traits_sample import MNIST, MODELS, NAMES, TRAITS, TraitsTest, numbers  # noqa: E402

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from page_reader import PageReader, without_figures  # noqa: E402
from python_package import call  # noqa: E402

from fluxformer.report import together_figure, together_text  # noqa: E402
from fluxformer.statistics import shared_variance  # noqa: E402

LOGARITHMS = ("gradient disparity", "largest eigenvalue")


def as_compared(name, values):
    return np.log(values) if name in LOGARITHMS else np.asarray(values)


class Traits(TraitsTest):
    def different(self, seeds=10):
        """The independent model differs in all traits but one, the normed one in none; on digits."""
        traits = numbers(seeds)
        for name in NAMES[:-1]:
            traits[name]["independent"] = traits[name]["independent"] + (0.2 if name != "gradient disparity" else -0.2)
        return traits


class Numbers(Traits):
    def test_differences_are_those_of_the_paired_t_test_judged_together(self):
        traits = self.different()
        found, = self.together(*self.write("a", traits)).sets
        expected = {}
        for name in NAMES:
            for pair in combinations(MODELS, 2):
                expected[name, pair] = stats.ttest_rel(*(as_compared(name, traits[name][model]) for model in pair[::-1]))
        self.assertEqual([(one.column.trait.name, (one.first, one.second)) for one in found.differences], list(expected))
        order = sorted(found.differences, key=lambda one: one.judged.p)
        going, level = True, 0.05 / 21
        for rank, one in enumerate(order):
            test = expected[one.column.trait.name, (one.first, one.second)]
            if going:
                level = 0.05 / (21 - rank)
                going = test.pvalue <= level
            self.assertEqual(one.found, going)
            self.assertAlmostEqual(one.judged.p, test.pvalue, 9)
            np.testing.assert_allclose(one.judged.interval, test.confidence_interval(1 - level), rtol=1e-6, atol=1e-12)
        self.assertEqual(sum(one.found for one in order), 12)  # the independent model in six traits, from both others

    def test_deviations_are_those_over_seeds_pooled_over_models(self):
        traits = self.different()
        found, = self.together(*self.write("a", traits)).sets
        for one in found.differences:
            name = one.column.trait.name
            values = [as_compared(name, traits[name][model]) for model in MODELS]
            deviation = np.sqrt(np.mean([np.var(each, ddof=1) for each in values]))
            mean = np.mean(values[MODELS.index(one.second)] - values[MODELS.index(one.first)])
            np.testing.assert_allclose(one.in_deviations[0], mean / deviation, rtol=1e-6)
            np.testing.assert_allclose(np.array(one.in_deviations[1:]) * deviation, one.judged.interval, rtol=1e-6)

    def test_test_samples_that_all_seeds_share_count(self):
        paths = self.write("a", self.different())
        random = np.random.default_rng(3)
        outcomes = {model: random.random((10, 40)) < share for model, share in zip(MODELS, (0.5, 0.9, 0.5))}
        with h5py.File(next(path for path in paths if "perturbation" in path), "r+") as file:
            file["sample"] = np.arange(40)
            for model, right in outcomes.items():
                file[f"analysis/perturbation/{model}/accuracy_by_sample"] = right.astype(float)
                file[f"analysis/perturbation/{model}/accuracy"][...] = right.mean(axis=1)
        found, = self.together(*paths).sets
        one = next(one for one in found.differences if (one.column.trait.name, one.second) == ("test accuracy", "independent"))
        shared = shared_variance(outcomes["independent"].astype(float) - outcomes["transformer"])
        self.assertGreater(shared, 0)
        self.assertAlmostEqual(one.judged.effect.shared, shared, 10)

    def test_correlations_are_those_of_numpy_on_what_is_left(self):
        """Two data sets of other scales; within models, and with the differences between them."""
        data = [self.different(6), numbers(8, seed=5)]
        together = self.together(*self.write("a", data[0]), *self.write("b", data[1], settings=MNIST))
        left = {}
        for within in (True, False):
            for name in NAMES:
                parts = []
                for traits in data:
                    values = np.array([as_compared(name, traits[name][model]) for model in MODELS])
                    values -= values.mean(axis=1, keepdims=True) if within else values.mean()
                    parts.append((values / values.std()).ravel())
                left[within, name] = np.concatenate(parts)
        for within, pairs in ((True, together.within), (False, together.between)):
            self.assertEqual([(one.first, one.second) for one in pairs], list(combinations(NAMES, 2)))
            for one in pairs:
                expected = np.corrcoef(left[within, one.first], left[within, one.second])[0, 1]
                self.assertAlmostEqual(one.correlation.r, expected, 8)
                self.assertEqual(one.correlation.clusters, 14)

    def test_correlations_that_are_there_are_found_and_judged_together(self):
        traits = numbers(12, seed=1)
        common = np.random.default_rng(4).standard_normal(12)
        for model in MODELS:
            traits["attention entropy"][model] = 2 + 0.1 * common + 0.02 * np.random.default_rng(7).standard_normal(12)
            traits["largest eigenvalue"][model] = np.exp(3 - 0.5 * common)
        together = self.together(*self.write("a", traits))
        self.assertEqual([(one.first, one.second) for one in together.within if one.found], [("attention entropy", "largest eigenvalue")])
        levels = sorted(one.alpha for one in together.within)
        np.testing.assert_allclose(levels, [0.05 / 21, *[0.05 / 20] * 20])  # Holm stops at the second
        found = next(one for one in together.within if one.found).correlation
        ends = " [" + ", ".join(f"−{-end:.2f}" for end in found.interval(0.05 / 21)) + "]"
        self.assertEqual(together_text.paragraph(together)[4], "Over seeds, within models and data sets, 1 of 21 pairs of traits go together: attention "
                                                               f"entropy and largest eigenvalue, r = −{-found.r:.2f}{ends}.")


class Subsets(Traits):
    def test_models_that_are_not_there_are_left_out(self):
        for models in (("transformer", "independent"), ("independent", "normed"), ("normed",)):
            together = self.together(*self.write("-".join(models), numbers(5, models)))
            data, = together.sets
            self.assertEqual(data.models, list(models))
            self.assertEqual(len(data.differences), 7 * (len(models) - 1))
            self.assertEqual(len(together.within), 21)
            self.assertTrue(together_text.paragraph(together))
            together_figure.draw(together)
        self.assertIn("No data set has two of the models", together_text.paragraph(together)[0])

    def test_experiments_that_are_missing_are_named(self):
        traits = numbers(5)
        together = self.together(*self.write("a", traits), *self.write("b", traits, settings=MNIST, without=("hessian", "bottleneck")))
        self.assertEqual([data.missing for data in together.sets], [[], ["information lost", "largest eigenvalue"]])
        self.assertEqual(together_text.paragraph(together)[-1], "Left out, since it was not measured: information lost, largest eigenvalue on MNIST, 4 × 4 patches.")
        clusters = {(one.first, one.second): one.correlation.clusters for one in together.within}
        self.assertEqual((clusters[NAMES[0], NAMES[2]], clusters[NAMES[0], NAMES[1]]), (10, 5))
        alone = self.together(*self.write("c", traits, without=("hessian", "bottleneck", "perturbation", "identifiability")))
        self.assertEqual((alone.names, alone.within), (["gradient disparity"], []))
        self.assertTrue(together_text.paragraph(alone))
        together_figure.draw(alone)

    def test_only_the_seeds_that_both_traits_have_count(self):
        """Of 8 seeds the Hessian has only 2, 4, 5, 7 and another, in another order; a model diverged from one of them."""
        traits, kept = numbers(8), [7, 2, 5, 4]
        paths = self.write("a", traits, without=("hessian",))
        some = {name: {model: values[np.array(kept) - 1] for model, values in by_model.items()} for name, by_model in traits.items()}
        more = {name: {model: np.append(values, 77.0) for model, values in by_model.items()} for name, by_model in some.items()}
        paths += self.write("b", more, seeds=[*kept, 99], without=("identifiability", "bottleneck", "gradient_flow", "perturbation"))
        together = self.together(*paths)
        pair = next(one for one in together.within if (one.first, one.second) == ("attention entropy", "largest eigenvalue"))
        left = [np.array([as_compared(name, some[name][model]) for model in MODELS]) for name in (pair.first, pair.second)]
        left = [(values - values.mean(axis=1, keepdims=True)).ravel() for values in left]
        self.assertAlmostEqual(pair.correlation.r, np.corrcoef(*left)[0, 1], 8)
        self.assertEqual(pair.correlation.clusters, 4)
        for values in traits["attention entropy"].values():
            values[4] = np.nan  # seed 5
        paths = [*self.write("c", traits, without=("hessian",)), paths[-1]]
        pair = next(one for one in self.together(*paths).within if (one.first, one.second) == ("attention entropy", "largest eigenvalue"))
        self.assertEqual((pair.correlation.clusters, np.isnan(pair.correlation.p_value())), (3, True))

    def test_seeds_of_two_files_are_taken_together(self):
        traits = numbers(7)
        halves = [{name: {model: values[part] for model, values in by_model.items()} for name, by_model in traits.items()}
                  for part in (slice(4), slice(4, None))]
        whole = self.together(*self.write("whole", traits))
        parts = self.together(*self.write("b", halves[1], seeds=[5, 6, 7]), *self.write("a", halves[0]))
        self.assertEqual(len(parts.sets), 1)
        for one, other in zip(whole.within, parts.within):
            self.assertAlmostEqual(one.correlation.p_value(), other.correlation.p_value(), 8)

    def test_few_seeds_have_no_correlations_and_crash_nothing(self):
        for seeds in (1, 2, 3):
            together = self.together(*self.write(f"{seeds}", numbers(seeds)))
            self.assertTrue(np.isnan([one.correlation.p_value() for one in together.within]).all())
            self.assertIn("fewer than four seeds", together_text.paragraph(together)[4])
            together_figure.draw(together)
            for rows in (together_text.difference_rows(together, together.sets[0]), together_text.correlation_rows(together)):
                self.assertNotIn("nan", str(rows))


class Words(Traits):
    def test_it_says_who_differs_in_how_many(self):
        traits = self.different()
        lines = together_text.paragraph(self.together(*self.write("a", traits)))
        self.assertEqual(lines[0], "The independent PDE model differs from the Transformer in 6 of 7 traits on built-in digits, 4 × 4 patches (10 seeds): attention "
                                   "entropy larger, information lost larger, gradient disparity smaller, accuracy under noise larger, largest "
                                   "eigenvalue larger, token identity larger.")
        self.assertEqual(lines[1], "The PDE model with LayerNorm differs from the Transformer in none of 7 traits on built-in digits, 4 × 4 patches (10 seeds).")
        self.assertEqual(lines[3], "No two models differ in everything at once.")
        traits["test accuracy"]["independent"] += 0.3
        lines = together_text.paragraph(self.together(*self.write("b", traits), *self.write("c", self.different(), settings=MNIST)))
        self.assertIn("in 7 of 7 traits on built-in digits, 4 × 4 patches (10 seeds); in 6 of 7 traits on MNIST, 4 × 4 patches (10 seeds); on all of them: attention", lines[0])
        self.assertNotIn("test accuracy", lines[0])
        self.assertEqual(lines[3], "In everything at once differ the independent PDE model and the Transformer on built-in digits, 4 × 4 patches; "
                                   "the PDE model with LayerNorm and the independent PDE model on built-in digits, 4 × 4 patches.")


class Figure(Traits):
    def setUp(self):
        super().setUp()
        self.both = self.together(*self.write("a", self.different()), *self.write("b", numbers(5, MODELS[:2]), settings=MNIST, without=("hessian",)))
        self.figure = together_figure.draw(self.both).figure

    def test_markers_stand_where_the_differences_are_and_are_filled_where_they_are_found(self):
        for axes, data, models in zip(self.figure.axes, self.both.sets, (MODELS, MODELS[:2])):
            drawn = [line for line in axes.lines if line.get_marker() in ("s", "X") and len(line.get_xdata()) == 1]
            expected = [one for one in data.differences if one.first == "transformer"]
            self.assertEqual(len(drawn), len(expected))
            edge = axes.get_xlim()[1]
            for line, one in zip(drawn, expected):
                self.assertAlmostEqual(line.get_xdata()[0], np.clip(one.in_deviations[0], -edge, edge), 10)
                self.assertEqual(round(line.get_ydata()[0]), NAMES.index(one.column.trait.name))
                self.assertEqual(line.get_markerfacecolor() != "white", one.found)
            self.assertEqual({"not measured"} & {text.get_text() for text in axes.texts}, {"not measured"} if data.missing else set())
        self.assertTrue(any(one.found for one in self.both.sets[0].differences))

    def test_the_matrix_has_the_correlations_and_frames_those_that_are_found(self):
        matrix = self.figure.axes[2]
        shown = {tuple(map(round, text.get_position()[::-1])): text for text in matrix.texts}
        frames = {tuple(round(edge + 0.45) for edge in patch.get_xy()[::-1]) for patch in matrix.patches if not patch.get_fill()}
        for pairs, lower in ((self.both.within, True), (self.both.between, False)):
            for one in pairs:
                places = sorted((NAMES.index(one.first), NAMES.index(one.second)), reverse=lower)
                self.assertEqual(shown[tuple(places)].get_text(), f"{one.correlation.r:.2f}".replace("-", "−"))
                self.assertEqual(tuple(places) in frames, one.found)
        self.assertTrue(frames)

    def test_every_axis_with_numbers_has_a_label(self):
        for axes in self.figure.axes[:2]:
            self.assertEqual(axes.get_xlabel(), "minus Transformer\n[deviations]")
        self.assertEqual([text.get_text() for text in self.figure.axes[0].get_yticklabels()], [f"{name}  {k}" for k, name in enumerate(NAMES, 1)])


class Pages(Traits):
    def report(self, *arguments):
        with without_figures():
            return call("report", *arguments, "--output", self.folder)

    def test_the_page_has_paragraph_figure_and_tables(self):
        paths = [*self.write("a", self.different()), *self.write("b", numbers(5), settings=MNIST)]
        done = self.report(*paths, "--traits", TRAITS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(self.path("report.html"), encoding="utf-8") as stream:
            page = stream.read()
        together = self.together(*paths)
        for line in together_text.paragraph(together):
            self.assertTrue(line in html.unescape(page), line)
        self.assertEqual(page.count("<svg"), 1)
        ids = re.findall(r'\bid="([^"]*)"', page)
        self.assertEqual(len(ids), len(set(ids)))
        tables = {table.data: table.rows for table in PageReader(page).tables if table.section == together_text.HEADING}
        self.assertEqual(list(tables), ["", "Differences on built-in digits, 4 × 4 patches", "Differences on MNIST, 4 × 4 patches", "What goes together"])
        self.assertEqual([len(rows) for rows in tables.values()], [8, 22, 22, 22])
        for data, rows in zip(together.sets, list(tables.values())[1:3]):
            self.assertEqual([tuple(cell.text for cell in row) for row in rows], together_text.difference_rows(together, data))
        row = [cell.text for cell in tables["What goes together"][1]]
        low, high = (f"{end:.2f}".replace("-", "−") for end in together.within[0].correlation.interval(together.within[0].alpha))
        self.assertEqual(row[:2], ["attention entropy | information lost", f"{together.within[0].correlation.r:.2f} [{low}, {high}]".replace("-", "−")])
        self.assertEqual((row[3], row[6]), ("15", "15"))
        with open(self.path("report.pdf"), "rb") as stream:
            pages = int(re.search(rb"/Count (\d+)", stream.read())[1])
        self.assertGreater(pages, 4)  # words, figure, numbers, models or runs
        with open(self.path("together.png"), "rb") as stream:
            self.assertTrue(stream.read().startswith(b"\x89PNG"))

    def test_without_traits_there_is_no_such_section(self):
        self.assertEqual(self.report(*self.write("a", numbers(4))).returncode, 0)
        with open(self.path("report.html"), encoding="utf-8") as stream:
            self.assertNotIn(together_text.HEADING, stream.read())

    def test_of_files_without_any_trait_the_rest_is_reported(self):
        path = self.path("ablation.h5")
        sample.sample.write_ablation(path)
        end = self.report(path, "--traits", TRAITS)
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertIn("none of its traits was measured", end.stderr)
        with open(self.path("report.html"), encoding="utf-8") as stream:
            self.assertNotIn(together_text.HEADING, stream.read())


if __name__ == "__main__":
    unittest.main()
