#!/usr/bin/env python3
"""tables.md of the report holds the numbers of the files: each is computed here again, from the HDF5 files, with SciPy's intervals.

Makes its own small files, so no run is needed. Status 77 if matplotlib, h5py or SciPy is not installed.
"""

import os
import re
import sys
import tempfile
import unittest

try:
    import h5py
    import matplotlib  # noqa: F401 (what the report needs)
    import numpy as np
    from scipy import stats
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import comparison_sample as sample  # noqa: E402 (its folder is put on the path first)
from page_reader import without_rendering  # noqa: E402
from python_package import ROOT, FolderTest, call  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "compare", "claims.toml")
LABELS = {"Transformer": "transformer", "PDE, independent": "independent", "PDE, distilled": "distilled", "PDE, inherited": "inherited"}
DATA = "built-in digits, 4 × 4 patches"


def numbers(text):
    """All in a cell. A cell rounds to as many digits as it shows."""
    return [float(one.replace("−", "-")) for one in re.findall(r"[−+-]?\d+\.?\d*(?:e[−-]?\d+)?", text)]


class Tables(FolderTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.made_in, files = folder.name, []
        for name, write in sample.WRITERS.items():
            files.append(os.path.join(folder.name, name + ".h5"))
            write(files[-1], spread=0.05)
        files.append(os.path.join(folder.name, "other.h5"))
        sample.write_perturbation(files[-1], settings=sample.ROOT["settings"].replace("digits", "mnist"))
        with without_rendering():
            end = call("report", *files, "--claims", CLAIMS, "--output", folder.name)
        assert end.returncode == 0, end.stderr
        assert os.path.join(folder.name, "tables.md") in end.stdout.splitlines(), end.stdout
        with open(os.path.join(folder.name, "tables.md"), encoding="utf-8") as stream:
            parts = stream.read().split("\n## ")[1:]
        cls.tables = {part.split("\n")[0]: [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in part.split("\n")
                                            if line.startswith("|") and not line.startswith("| ---")] for part in parts}
        with open(os.path.join(folder.name, "report.html"), encoding="utf-8") as stream:
            cls.page = stream.read()

    def measured(self, experiment, model, name):
        with h5py.File(os.path.join(self.made_in, experiment + ".h5")) as file:
            return file[f"analysis/{experiment}/{model}/{name}"][:]

    def row(self, heading, *names):
        """The cells, by column, of the first data set's row that begins with these names."""
        head, *rows = self.tables[heading]
        row, = [one for one in rows if one[: 1 + len(names)] == [DATA, *names]]
        return dict(zip(head, row, strict=True))

    def assert_shows(self, cell, *values):
        """Shown numbers are those computed, to half a unit of the last digit shown."""
        shown = re.findall(r"[−+-]?\d+\.?\d*(?:e[−-]?\d+)?", cell)
        self.assertEqual(len(shown), len(values), cell)
        for text, value in zip(shown, values):
            decimals = len(text.partition("e")[0].partition(".")[2])
            self.assertLessEqual(abs(numbers(text)[0] - value), 0.5000001 * 10.0 ** -decimals, f"{cell}: {value}")

    def assert_mean(self, cell, values):
        self.assert_shows(cell, values.mean(), values.std(ddof=1))

    def test_attention(self):
        for label, model in list(LABELS.items())[1:]:
            row = self.row("Attention", label)
            for column, name in (("cosine", "cosine"), ("KL divergence  [nat]", "kl"), ("centred cosine", "centred")):
                self.assert_mean(row[column], self.measured("attention", model, name).mean(axis=1))
        self.assert_mean(self.row("Attention", "ceiling: two Transformers")["cosine"],
                         self.measured("attention", "transformer", "cosine_ceiling").mean(axis=1))
        for label, model, name in (("Transformer", "transformer", "mean_distance"), ("PDE, distilled", "distilled", "mean_distance"),
                                   ("null: uniform rows", "independent", "mean_distance_uniform")):
            values = self.measured("attention", model, name)
            self.assert_mean(self.row("Attention", label)["mean distance  [token]"], values.mean(axis=tuple(range(1, values.ndim))))
        for label, null in (("null: uniform rows", "uniform"), ("null: keys permuted", "permuted"), ("null: untrained PDE model", "untrained")):
            self.assert_mean(self.row("Attention", label)["KL divergence  [nat]"], self.measured("attention", "independent", f"kl_{null}").mean(axis=1))

    def test_information(self):
        values = self.measured("bottleneck", "independent", "label_ksg")
        cell = self.row("Information bottleneck", "I(T; Y)  [nat]", "nearest neighbours (KSG)")["PDE, independent"]
        self.assert_shows(cell, values[:, 0].mean(), values[:, -1].mean(), values[:, -1].std(ddof=1))

    def test_gradients_and_states(self):
        for label, model in LABELS.items():
            row = self.row("Gradient flow", label)
            self.assert_mean(row["largest / smallest ‖∂loss/∂u‖"], self.measured("gradient_flow", model, "disparity"))
            self.assert_mean(row["‖∂loss/∂u(0)‖"], self.measured("gradient_flow", model, "gradient_norm")[:, 0])
            self.assert_mean(row["Lyapunov exponent, largest"], self.measured("gradient_flow", model, "lyapunov")[:, 0])
            norm = self.measured("information_flow", model, "norm")
            row = self.row("Information flow", label)
            self.assert_shows(row["‖u‖ (rms), first depth → last"], norm[:, 0].mean(), norm[:, -1].mean(), norm[:, -1].std(ddof=1))
            if model != "transformer":  # states of PDE models stand at twice as many depths
                alike = np.stack([self.measured("information_flow", model, "cka")[:, k, 2 * k] for k in range(sample.LAYERS + 1)]).mean(axis=0)
                self.assert_mean(row["CKA with the Transformer, mean over equal depths"], alike)

    def test_robustness_with_the_difference_in_points(self):
        row = self.row("Perturbations", "Sign steps (PGD)", "0.1")
        of = {model: 100 * self.measured("perturbation", model, "pgd_accuracy")[:, 1] for model in LABELS.values()}
        for label, model in LABELS.items():
            self.assert_mean(row[label], of[model])
        difference = of["independent"] - of["transformer"]
        interval = stats.ttest_1samp(difference, 0).confidence_interval(0.95)
        self.assert_shows(row["PDE, independent − Transformer"], difference.mean(), interval.low, interval.high)

    def test_data_sets_stand_below_each_other(self):
        self.assertEqual([row[0] for row in self.tables["Perturbations"][1:]], [DATA] * 17 + ["MNIST, 4 × 4 patches"] * 17)
        self.assertEqual(self.tables["arXiv 2408.09523"][0], ["claim", DATA, "MNIST, 4 × 4 patches"])

    def test_claims_have_the_verdicts_of_the_page(self):
        cells = [cell for name, rows in self.tables.items() if "2408.09523" in name for row in rows[1:] for cell in row[1:]]
        shown = [verdict for cell in cells for verdict in re.findall(r"\*\*(.*?)\*\*", cell)]
        claims = self.page[: self.page.index("How verdicts are given")]
        shown = [verdict for verdict in shown if verdict != "undecided"]  # of few seeds, which the page says once
        self.assertEqual(sorted(shown), sorted(re.findall(r'<span class="verdict [^>]*>(?:[^\w<]+ )?([^<]*)</span>', claims)))

    def test_every_table_is_on_the_page(self):
        page = re.sub("<[^>]*>", "|", self.page)
        for heading in ("Attention", "Information bottleneck", "Gradient flow", "Information flow", "Perturbations", "Ablation"):
            for row in self.tables[heading]:
                self.assertIn("||".join(row[1:]), page)


if __name__ == "__main__":
    unittest.main()
