#!/usr/bin/env python3
"""Hessians in the report: figures and tables, the same curves as `plot` draws, files without the newer measures. Uses synthetic files.

Status 77 as claim_sample.py says.
"""

import html
import os
import re
import shutil
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import hessian_sample as sample  # noqa: E402 (its folder is put on the path first; it looks for what is needed)
from hessian_sample import WRITERS, HessianTest  # noqa: E402

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from python_package import ROOT, call  # noqa: E402

from fluxformer.hessian import figures, hessian, layers  # noqa: E402
from fluxformer.hessian.spectra import EXACT, Spectra  # noqa: E402
from fluxformer.report import claims  # noqa: E402
from fluxformer.report.style import plt  # noqa: E402
from fluxformer.report.summary import write_summary  # noqa: E402
from fluxformer.report.verdicts import weigh  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "hessian", "claims.toml")
OTHERS = os.path.join(ROOT, "input", "paper", "compare", "claims.toml")


class Pages(HessianTest):
    def drawings(self, *paths):
        found = {one.name: one for study in self.opened(*paths) for section in hessian.SECTIONS for one in section.draw(study)}
        for name, drawing in found.items():
            for axes in drawing.figure.axes:
                for axis in (axes.xaxis, axes.yaxis):
                    shown = [text for text in axis.get_ticklabels() if text.get_visible() and text.get_text()]
                    first = axis.axis_name == "x" or axes.get_subplotspec().is_first_col()
                    if axes.axison and shown and first and (axis.axis_name == "y" or axes.get_subplotspec().is_last_row()):
                        self.assertTrue(axis.get_label_text(), f"{name}: {axes.get_title()} {axis.axis_name}")
        return found

    def test_everything_that_was_measured_is_drawn(self):
        self.assertEqual(list(self.drawings(*self.written(*WRITERS))),
                         ["hessian-density", "hessian-heterogeneity", "hessian-blocks", "hessian-sharpness", "hessian-entries",
                          *(f"hessian-growth-{kind}" for kind in (*sample.EXPONENTS, "linear_mlp"))])

    def test_files_without_the_new_measures_have_the_other_figures(self):
        self.assertEqual(list(self.drawings(*self.written("spectrum", followed=False))), ["hessian-density", "hessian-heterogeneity"])
        path, = self.written("spectrum", followed=False)
        with mock.patch.object(figures, "save", lambda figure, *_: figure):
            data = Spectra(self.opened(path)[0].of("hessian_spectrum"))
            self.assertEqual((len(figures.course(data, "", "").axes), len(figures.blocks(data, "mlp", "", "").axes)), (2, 4))

    def test_sharpness_is_rate_times_eigenvalue_beside_the_threshold(self):
        path, = self.written("spectrum", spread=0.0)
        plain, preconditioned = self.drawings(path)["hessian-sharpness"].figure.axes
        np.testing.assert_allclose(plain.lines[0].get_ydata(), [0.02, 0.01, 0.004], rtol=1e-12)
        np.testing.assert_allclose(preconditioned.lines[0].get_ydata(), [10, 20, 20], rtol=1e-12)
        lines = {line.get_label(): line.get_ydata()[0] for line in preconditioned.lines}
        self.assertEqual(lines["unstable above 38"], sample.THRESHOLD)
        self.assertNotIn("unstable above 38", [line.get_label() for line in plain.lines])  # adam is not judged by the bare eigenvalue
        other = shutil.copy(path, self.path("sgd.h5"))
        with h5py.File(other, "r+") as file:
            for model in file["analysis/hessian"].values():
                del model["epoch_preconditioned_eigenvalue"]
                model.attrs["stability_threshold"] = 2.0 if model.name.endswith("mlp") else 3.8
        plain, = self.drawings(other)["hessian-sharpness"].figure.axes
        self.assertEqual(sorted(line.get_ydata()[0] for line in plain.lines if line.get_label().startswith("unstable")), [2, 3.8])

    def test_there_is_no_sharpness_where_the_rate_has_come_to_0(self):
        path, = self.written("spectrum", spread=0.0)
        with h5py.File(path, "r+") as file:
            file["analysis/hessian/transformer/epoch_learning_rate"][:, -1] = 0
        told = Spectra(self.opened(path)[0].of("hessian_spectrum")).sharpness("transformer", "largest_eigenvalue")
        self.assertEqual(np.isnan(told).tolist(), [[False, False, True]] * len(told))

    def test_plot_and_report_draw_with_the_same_code(self):
        models = {name: sample.HETEROGENEITY[name] for name in ("transformer", "mlp")}  # drawings of each model take a second or two
        path, = self.written("spectrum", heterogeneity=models)
        done = call("plot", path, "--output", self.path("drawn"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(name for name in os.listdir(self.path("drawn")) if name.endswith("png")),
                         sorted(f"spectrum_{name}.png" for name in ("spectrum", "course", *(f"{kind}_{model}" for kind in ("blocks", "distances")
                                                                                           for model in models))))
        with mock.patch.object(figures, "save", lambda figure, *_: figure):
            data = Spectra(self.opened(path)[0].of("hessian_spectrum"))
            course, theirs = figures.course(data, "", "").axes, self.drawings(path)["hessian-sharpness"].figure.axes
            self.assertEqual(len(course), 4)
            for mine, other in zip(course[2:], theirs):
                self.assertEqual(len(mine.lines), len(other.lines))
                for one, two in zip(mine.lines, other.lines):
                    np.testing.assert_array_equal(one.get_ydata(), two.get_ydata())
            ends = figures.blocks(data, "mlp", "", "").axes[3]
            np.testing.assert_allclose(ends.lines[1].get_xdata(), np.arange(1, 6), rtol=0.05)

    def test_plot_says_that_eigenvalues_alone_have_no_figure(self):
        path, = self.written("spectrum", followed=False)
        with h5py.File(path, "r+") as file:
            for model in file["analysis/hessian"].values():
                for name in list(model):
                    if name.endswith(("density_node", "exact_eigenvalue", "block_norm")) or name.startswith("epoch"):
                        del model[name]
        done = call("plot", path, "--output", self.path("drawn"))
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("eigenvalues alone", done.stderr)

    def test_dots_are_the_heterogeneity_of_the_seeds(self):
        path, = self.written("spectrum")
        panels = self.drawings(path)["hessian-heterogeneity"].figure.axes
        with h5py.File(path) as file:
            for axes, part in zip(panels, ("", "gauss_newton_", "gauss_newton_exact_"), strict=True):
                for line, model in zip(axes.lines[::2], sample.MODELS, strict=True):
                    np.testing.assert_array_equal(line.get_ydata(), file[f"analysis/hessian/{model}/{part}heterogeneity"])
        self.assertLess(panels[0].get_ylim()[0], 0)  # a dot at 0 is whole

    def test_heterogeneity_within_layers_leaves_embedding_head_and_blocks_of_0_out(self):
        path, = self.written("spectrum")
        distance, norm = np.zeros((5, 5)), np.diag([1.0, 2.0, 0.0, 3.0, 1.0])  # embedding, Q, K, V, head
        distance[0, :] = distance[:, 0] = distance[4, :] = distance[:, 4] = 9
        distance[1, 3] = distance[3, 1] = 0.25
        distance[1, 2] = distance[2, 3] = 7
        with h5py.File(path, "r+") as file:
            file["analysis/hessian/mlp/gauss_newton_exact_block_distance"][:] = distance
            file["analysis/hessian/mlp/gauss_newton_exact_block_norm"][:] = norm
        data = Spectra(self.opened(path)[0].of("hessian_spectrum"))
        np.testing.assert_array_equal(data.layer_heterogeneity("mlp", EXACT), 0.25)

    def test_the_exact_density_counts_every_eigenvalue_and_the_zeros_behind_them(self):
        path, = self.written("spectrum", spread=0.0)
        data = Spectra(self.opened(path)[0].of("hessian_spectrum"))
        nodes, shares = data.quadrature("mlp", EXACT)
        self.assertAlmostEqual(shares.sum(), 1, places=14)
        parameters = sample.sample.PARAMETERS
        np.testing.assert_allclose(shares[nodes == 8].sum(), 1 / parameters, rtol=1e-12)
        np.testing.assert_allclose(shares[nodes == 0].sum(), (parameters - 4) / parameters, rtol=1e-12)
        wide = np.linspace(-10, 20, 3001)  # every bell lies inside
        density = data.density("mlp", EXACT, wide, 1.0, 0.12)
        self.assertAlmostEqual((np.diff(wide) * (density[1:] + density[:-1]) / 2).sum(), 1, places=6)

    def test_points_that_overflow_and_parts_that_are_0_are_left_out(self):
        path, = self.written("scaling", spread=0.0)
        with h5py.File(path, "r+") as file:
            file["analysis/hessian/softmax/block_norm_by_sigma"][1, 0, :, -1] = np.inf
            file["analysis/hessian/softmax/functional_block_norm_by_sigma"][:, 0, 0] = 0
        whole, _, functional = self.drawings(path)["hessian-growth-softmax"].figure.axes
        self.assertEqual([len(line.get_xdata()) for line in whole.lines], [len(sample.SIGMAS) - 1] * 3)
        self.assertEqual(len(functional.lines), 2)

    def test_growth_of_nothing_but_overflow_is_told_from_0(self):
        path, = self.written("scaling", spread=0.0)
        with h5py.File(path, "r+") as file:
            file["analysis/hessian/softmax/block_norm_by_sigma"][...] = np.nan
            file["analysis/hessian/softmax/functional_block_norm_by_sigma"][...] = 0
        whole, _, functional = self.drawings(path)["hessian-growth-softmax"].figure.axes
        self.assertEqual([[text.get_text() for text in axes.texts] for axes in (whole, functional)], [["not finite"], ["0"]])

    def test_the_power_has_the_interval_of_the_mean_over_seeds(self):
        path, = self.written("scaling")
        random = np.random.default_rng(3).standard_normal(3)
        with h5py.File(path, "r+") as file:
            norm = file["analysis/hessian/softmax/block_norm_by_sigma"]
            norm[:, 0, 1, 1] = norm[:, 0, 1, 0] * 10 ** (5 + 0.1 * random)  # from 0.001 to 0.01
        query = self.drawings(path)["hessian-growth-softmax"].figure.axes[0].lines[1].get_label()
        half = stats.t.ppf(0.975, 2) * 0.1 * random.std(ddof=1) / 3 ** 0.5
        self.assertEqual(query, f"query Q, n = {5 + 0.1 * random.mean():.2f} ± {half:.2f}")

    def test_plot_names_the_part_of_each_column(self):
        path, = self.written("scaling")
        with mock.patch.object(layers, "save", lambda figure, *_: figure):
            axes = layers.growth(self.opened(path)[0].of("hessian_scaling"), "", "").axes
        self.assertEqual([one.get_title(loc="left") for one in axes[:4]], ["H", "Gauss-Newton part", "functional part", ""])

    def test_a_heat_map_is_drawn_where_it_was_stored(self):
        path, = self.written("blocks")
        with h5py.File(path, "r+") as file:
            for kind in file["analysis/hessian"].values():
                kind["heat_map"] = np.linspace(-6, 0, 25, dtype=np.float32).reshape(5, 5)
                kind.attrs.update(blocks="W_Q\nW_V", block_sizes="2\n3")
        done = call("plot", path, "--output", self.path("drawn"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([os.path.basename(name) for name in done.stdout.split()], ["blocks_entries.png", "blocks_heat_map.png"])

    def test_tables_have_means_and_deviations_over_seeds(self):
        found = self.opened(*self.written(*WRITERS, spread=0.0))
        rows = dict((name, cells) for name, *cells in hessian.table(found[0].of("hessian_spectrum")))
        self.assertEqual(rows["MLP: H"], ["8 ± 0", "−0.5000 ± 0", "20 ± 0", "0.9000 ± 0", "0.9000 ± 0"])
        self.assertEqual(rows["MLP: Gauss-Newton part"][1], "–")
        self.assertEqual(rows["MLP: Gauss-Newton, exact"], ["8 ± 0", "–", "13.50 ± 0", "0.1000 ± 0", "0.1000 ± 0"])
        self.assertEqual(hessian.entries_table(found[1].of("hessian_blocks"))[1][-1], "1.700 ± 0")
        rows = dict((name, cells) for name, *cells in hessian.growth_table(found[1].of("hessian_scaling")))
        self.assertEqual(rows["soft-max, layer 1: Gauss-Newton part"][1], f"{5 - np.log10(3):.3f} ± 0")  # from 0.001 to 0.01
        self.assertEqual(rows["linear network, layer 1: H"], ["W_1: 2 ± 0", "", ""])

    def test_the_page_has_figures_tables_and_verdicts_of_both_files_of_claims(self):
        done = call("report", *self.written(*WRITERS), "--claims", OTHERS, "--claims", CLAIMS, "--output", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("report.html"), encoding="utf-8") as stream:
            page = html.unescape(stream.read())
        for one in claims.read_claims(CLAIMS)[1]:
            self.assertIn(one.sentence, page)
        for heading in ("Hessian of the loss", "Hessian of one attention layer, entries", "Hessian of one attention layer, growth"):
            self.assertIn(heading, page)
        self.assertEqual(page.count("<svg"), 12)  # three of them in short, too
        self.assertIn("<td>PDE, distilled: H</td>", page)
        self.assertIn("<b>MLP</b>: a control", page)
        self.assertTrue(re.search(r"<tr><td>linear attention</td>", page))
        done = call("report", self.path("blocks.h5"), "--claims", CLAIMS)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("report.html"), encoding="utf-8") as stream:
            self.assertIn("Of 2 findings: holds", stream.read())

    def test_a_long_title_fits_into_the_picture_of_the_claims(self):
        path = self.path("scaling.h5")
        sample.write_scaling(path, {"softmax": 5.0})
        rule, every = claims.read_claims(CLAIMS)
        study, = self.opened(path)
        weighed = weigh(every, study, rule)
        for letters in (1, 60, 120):
            write_summary(self.path("claims.png"), "m" * letters, weighed)
            picture = plt.imread(self.path("claims.png"))[..., :3]
            self.assertTrue((picture[:, -5:] == 1).all(), f"{letters} letters, white to the right of them")


if __name__ == "__main__":
    unittest.main()
