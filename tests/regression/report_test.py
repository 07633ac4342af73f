#!/usr/bin/env python3
"""report.py draws all available experiments on a self-contained page, and refuses foreign files.

Makes its own small files, so no run is needed. Status 77 if matplotlib or h5py is not installed.
"""

import os
import re
import sys
import tempfile
import unittest
from html import unescape
from unittest import mock

try:
    import h5py
    import matplotlib  # noqa: F401 (what the report needs)
    import numpy as np
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import comparison_sample as sample  # noqa: E402 (its folder is put on the path first)
from python_package import ROOT, FolderTest, call, start  # noqa: E402
from training_sample import write_training  # noqa: E402

from fluxformer.report import claims  # noqa: E402
from fluxformer.report import page as report_page  # noqa: E402
from fluxformer.report.wording import rule_in_words  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "compare", "claims.toml")

SETTINGS = sample.ROOT["settings"]


class ReportTest(FolderTest):
    def report(self, *arguments):
        return call("report", *arguments)


class Page(ReportTest):
    @classmethod
    def setUpClass(cls):
        """One report with everything, for all tests below; the figures are inspected while it is made."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.files, cls.made_in = [], folder.name
        for name, write in (*sample.WRITERS.items(), ("evolve", sample.write_evolve)):
            cls.files.append(os.path.join(folder.name, name + ".h5"))
            write(cls.files[-1])
        for seed in (1, 2):
            for kind, more in (("transformer", ""), ("pde", "[model]\nkind = pde\n[depth]\nnorm = none\n")):
                cls.files.append(os.path.join(folder.name, f"{kind}_{seed}.h5"))
                write_training(cls.files[-1], epochs=2, seed=seed, settings=SETTINGS + more)
        cls.figures = {}

        def look(drawing):
            cls.figures[drawing.name] = drawing
            return as_svg(drawing)

        as_svg = report_page.as_svg
        with mock.patch.object(report_page, "as_svg", look):
            end = call("report", *cls.files, "--claims", CLAIMS, "--output", folder.name)
        assert end.returncode == 0, end.stderr
        with open(os.path.join(folder.name, "report.html"), encoding="utf-8") as stream:
            cls.page = stream.read()
        cls.text = unescape(cls.page)
        with open(os.path.join(folder.name, "report.pdf"), "rb") as stream:
            cls.paper = stream.read()

    def test_every_experiment_is_drawn(self):
        for part in ("training", "evolve", "flow", "attention", "information", "gradients", "perturbation", "ablation"):
            self.assertTrue([name for name in self.figures if name.startswith("data0-" + part)], part)
        self.assertEqual(self.page.count("<svg"), len(self.figures))
        pages = int(re.search(rb"/Count (\d+)", self.paper)[1])
        self.assertGreater(pages, len(self.figures))  # and claims, numbers, runs

    def test_every_axis_with_numbers_has_a_label(self):
        for name, drawing in self.figures.items():
            for axes in drawing.figure.axes:
                for axis in (axes.xaxis, axes.yaxis):
                    numbers = [text for text in axis.get_ticklabels() if text.get_visible() and text.get_text()]
                    if axes.get_visible() and numbers:
                        self.assertTrue(axis.get_label_text(), f"{name}: {axes.get_title()} {axis.axis_name}")

    def test_it_needs_nothing_from_outside(self):
        for forbidden in ("http:", "https:", "<script", "<link", "src=", "@import", "//www"):
            self.assertNotIn(forbidden, self.page)
        for target in re.findall(r'(?:href="|url\(["\']?)([^")\']*)', self.page):
            self.assertTrue(target.startswith(("#", "data:image/")), target[:80])

    def test_ids_are_unique_and_references_are_met(self):
        ids = re.findall(r'\bid="([^"]*)"', self.page)
        self.assertEqual(len(ids), len(set(ids)))
        self.assertLessEqual(set(re.findall(r'(?:href="|url\()#([^")]*)', self.page)), set(ids))

    def test_figures_lead_back_to_their_runs(self):
        for figure in re.findall(r"<figcaption>(.*?)</figcaption>", self.page):
            for part in (".h5", "revision 0123456789", "seed", "deck"):
                self.assertIn(part, figure)

    def test_it_says_what_was_claimed_and_what_each_verdict_means(self):
        rule, all_claims = claims.read_claims(CLAIMS)
        for one in all_claims:
            self.assertTrue(one.sentence in self.text, one.sentence)
        numbers, verdicts = rule_in_words(rule)
        for meaning in (*numbers, *(meaning for _, meaning in verdicts)):
            self.assertTrue(meaning in self.text, meaning)
        said = re.search(r"Of 15 findings about PDE models trained on the labels alone: .*?\.", self.page)
        self.assertIsNotNone(said)
        # Undecided: cosine (spread of its size), divergence (0 of 3 runs), both robustness claims (few test samples, V is most of the variance).
        self.assertEqual(said[0], "Of 15 findings about PDE models trained on the labels alone: holds 8, opposite 0, undecided 4, missed 1, "
                                  "no relevant difference 2.")
        self.assertEqual(self.page.count("Preliminary: 3 seeds, where verdicts need 10."), 1)  # and no cell says so again
        self.assertEqual((self.page.count(" preliminary\">"), self.page.count("weak\">? undecided")), (0, 1))  # of the legend

    def test_the_claims_are_one_picture(self):
        self.assertTrue(os.path.isfile(os.path.join(self.made_in, "claims.png")))

    def test_the_spectrum_shows_rank_by_depth_and_the_last_singular_values(self):
        rank, values = self.figures["data0-spectrum-depth"].figure.axes[:2]
        shown = {line.get_label(): line.get_ydata() for line in (*rank.lines, *values.lines) if line.get_label()[0] != "_"}
        # The made-up files scatter by 1 %: three seeds, five deviations of their mean.
        near = {"rtol": 5 * 0.01 / 3 ** 0.5}
        np.testing.assert_allclose(rank.lines[0].get_ydata(), [3, 2.5, 2, 1.5], **near)
        np.testing.assert_allclose(shown["embedded input"], 0.5 ** np.arange(9), **near)
        np.testing.assert_allclose(values.lines[1].get_ydata(), 0.5 ** np.arange(9), **near)

    def test_attention_by_distance_is_that_of_the_file_as_far_as_its_window_goes(self):
        panels = self.figures["data0-attention-distances"].figure.axes
        self.assertEqual(len(panels), len(sample.MODELS) * sample.LAYERS)
        with h5py.File(os.path.join(self.made_in, "attention.h5")) as file:
            for row, model in enumerate(sample.MODELS):
                group = file[f"analysis/attention/{model}"]
                for layer, axes in enumerate(panels[row * sample.LAYERS:(row + 1) * sample.LAYERS]):
                    *heads, mean, uniform = axes.lines
                    self.assertEqual(len(heads), sample.HEADS)
                    seen = sample.TOKENS if layer + 1 < sample.LAYERS else sample.TOKENS // 3
                    weights = group["weight_by_distance"][:, layer, :, :seen].mean(axis=0)
                    for line, values in ((heads[1], weights[1]), (mean, weights.mean(axis=0)),
                                         (uniform, group["weight_by_distance_uniform"][:, layer, :seen].mean(axis=0))):
                        np.testing.assert_allclose(line.get_xydata(), np.column_stack([np.arange(seen), values]), rtol=1e-12)
                    self.assertEqual(uniform.get_linestyle(), "--")

    def test_what_it_cost_is_said(self):
        self.assertIn("wall time [s] 2.0 · of it for all seeds [s] Transformer 6.0; PDE, independent 6.0; PDE, distilled 6.0", self.page)

    def test_trained_numbers_are_told_from_those_of_the_file(self):
        for model, trained in (("Transformer", "123 456"), ("PDE, independent", "123 456"), ("PDE, inherited", "–")):
            cells = re.search(rf"<tr><td>{model}</td>(.*?)</tr>", self.page)[1]
            self.assertEqual(re.findall('<td class="number">(.*?)</td>', cells)[:2], ["123 462", trained], model)

    def test_markers_say_their_number(self):
        self.assertGreater(self.page.count("<title>PDE, independent: 0.99"), 2)


class Files(ReportTest):
    def test_one_experiment_is_enough_and_two_data_sets_are_kept_apart(self):
        for name in ("a.h5", "b.h5"):
            sample.write_ablation(self.path(name), settings=SETTINGS.replace("digits", "mnist" if name == "b.h5" else "digits"))
        done = start("report", self.path("a.h5"), self.path("b.h5"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split(), [self.path("report.html"), self.path("report.pdf"), self.path("tables.md")])
        with open(self.path("report.html"), encoding="utf-8") as stream:
            page = stream.read()
        for heading in ("<h2>built-in digits, 4 × 4 patches</h2>", "<h2>MNIST, 4 × 4 patches</h2>"):
            self.assertIn(heading, page)
        self.assertNotIn("Information flow", page)
        self.assertNotIn("What was asked, what was found", page)

    def test_what_is_not_a_finished_run_of_ours_is_refused_by_name(self):
        good = self.path("good.h5")
        sample.write_ablation(good)
        with open(self.path("text.h5"), "w", encoding="utf-8") as stream:
            stream.write("not HDF5")
        with h5py.File(self.path("foreign.h5"), "w") as file:
            file["data"] = [1]
        sample.write_ablation(self.path("stopped.h5"), status="interrupted", message="time")
        sample.write_ablation(self.path("newer.h5"), schema_version=99)
        with sample.ComparisonFile(self.path("other.h5"), "weather"):
            pass
        sample.write_ablation(self.path("twice.h5"))
        sample.write_ablation(self.path("otherwise.h5"), seeds=(4, 5), settings=SETTINGS + "[train]\nepochs = 9\n")
        with sample.ComparisonFile(self.path("empty.h5"), "attention"):
            pass
        cases = {"missing.h5": "no such file", "text.h5": "not a readable HDF5 file", "foreign.h5": "not one of Fluxformer",
                 "stopped.h5": "'interrupted': time", "newer.h5": "newer than this reader", "twice.h5": "the same experiment on the same data with the same seed",
                 "otherwise.h5": "its settings are not those of", "other.h5": "is a run of 'weather'", "empty.h5": "holds no measures of attention"}
        for name, message in cases.items():
            end = self.report(good, self.path(name))
            self.assert_refused(end, message, name)
        self.assertFalse(os.path.exists(self.path("report.html")))

    def test_claims_that_cannot_be_read_are_refused(self):
        good = self.path("good.h5")
        sample.write_ablation(good)
        rule = "[rule]\nalpha = 0.05\n[rule.seeds]\ndigits = 3\n"
        entry = 'id = "a"\nsentence = "b"\nsource = "c"\nexperiment = "attention"\nquantity = ["cosine"]\n'
        of_claim = lambda more, head=entry: rule + "[[claim]]\n" + head + more  # noqa: E731
        for text, message in ((of_claim('test = "larger"\n', entry.replace("attention", "atention")), "no experiment 'atention'"),
                              (of_claim('test = "larger"\nthan = ["ceilling"]\n'), "than = ceilling"),
                              (of_claim('test = "larger"\nthan = "ceiling"\n'), "than is a list"),
                              (of_claim('test = "value"\n'), "needs expected"),
                              (of_claim('test = "happens"\n'), "needs 'at'"),
                              (of_claim('test = "larger"\nlevels = "noise_level"\n'), "levels and start"),
                              (of_claim('test = "larger"\n') + "[[claim]]\n" + entry + 'test = "larger"\n', "called a"),
                              ("[[claim", "TOMLDecodeError"), ("", "rule"), (rule + "[[claim]]\n" + entry + 'test = "louder"\n', "test is one of"),
                              (rule + "[[claim]]\n" + entry + 'test = "larger"\nqantity = 1\n', "unknown keys qantity"),
                              (rule.replace("0.05", "5"), "alpha lies between"), (rule + "[[claim]]\n" + entry + 'test = "larger"\nthan = []\n',
                                                                                "at least one")):
            with open(self.path("claims.toml"), "w", encoding="utf-8") as stream:
                stream.write(text)
            end = self.report(good, "--claims", self.path("claims.toml"))
            self.assert_refused(end, message, "claims.toml")


class Names(ReportTest):
    def documented(self):
        with open(os.path.join(ROOT, "docs", "reference", "output-format.md"), encoding="utf-8") as stream:
            return set(re.findall(r"^\| `/analysis/([a-z_<>/]+)`", stream.read(), re.MULTILINE))

    def test_claims_ask_for_what_the_program_writes(self):
        names = self.documented()
        for one in claims.read_claims(CLAIMS)[1]:
            wanted = [*one.quantity, *filter(None, [one.start])]
            if one.samples:
                wanted += [f"{name}_by_sample" for name in wanted]
            for control in one.than if one.test not in ("value", "happens") and not one.at else ():
                if control == "untrained" and one.experiment != "attention":
                    wanted += [f"epoch_{quantity}" for quantity in one.quantity]
                elif control not in ("zero", "transformer"):
                    wanted += [f"{quantity}_{control}" + end for quantity in one.quantity for end in ("", "_by_sample")]
            for name in wanted:
                self.assertIn(f"{one.experiment}/<model>/{name}", names)

    def test_the_made_up_files_have_the_names_of_the_program(self):
        names = self.documented()
        for experiment, write in sample.WRITERS.items():
            write(self.path("a.h5"))
            with h5py.File(self.path("a.h5")) as file:
                for group in file["analysis/" + experiment].values():
                    for measure in group:
                        self.assertIn(f"{experiment}/<model>/{measure}", names)


if __name__ == "__main__":
    unittest.main()
