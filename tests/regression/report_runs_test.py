#!/usr/bin/env python3
"""The report leads from each claim to the runs it rests on, with deck, wall time and command, and says what the trainings cost; null controls
and ceiling stand beside a value that a source gives. Uses synthetic files.

Status 77 as claim_sample.py says.
"""

import os
import re
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from claim_sample import ATTENTION, ClaimTest, claim  # noqa: E402 (its folder is put on the path first; it looks for what is needed)

import h5py  # noqa: E402
import numpy as np  # noqa: E402

import comparison_sample as sample  # noqa: E402
from page_reader import PageReader, without_figures  # noqa: E402
from python_package import ROOT, call  # noqa: E402
from training_sample import write_training  # noqa: E402

from fluxformer.report import paper  # noqa: E402
from fluxformer.report.data import mean_and_spread  # noqa: E402
from fluxformer.report.origins import duration  # noqa: E402
from fluxformer.report.runs import trainings_behind  # noqa: E402
from fluxformer.report.wording import detail_rows, in_short  # noqa: E402

CLAIMS = os.path.join(ROOT, "input", "paper", "compare", "claims.toml")
PDE = "[model]\nkind = pde\n[depth]\nnorm = none\n"


class RunsTest(ClaimTest):
    def files(self):
        """Attention from two files, perturbations from one, the trainings of two of their models."""
        paths = {name: self.path(name + ".h5") for name in ("attention", "more_attention", "perturbation", "t_1", "t_2", "p_1", "other")}
        sample.write_attention(paths["attention"], seeds=(1, 2), models=("independent",))
        sample.write_attention(paths["more_attention"], seeds=(3,), models=("independent",))
        sample.write_perturbation(paths["perturbation"])
        for name, facts in (("attention", (60.0, 2.5)), ("more_attention", (70.0, 1.5)), ("perturbation", (4.0, 0.25))):
            with h5py.File(paths[name], "r+") as file:
                del file["timing"]
                for phase, seconds in zip(("measure", "set_up"), facts):
                    file["timing/" + phase] = [0.5 * seconds, 0.7 * seconds, seconds]  # least, median, greatest over ranks
        for name in ("attention", "more_attention"):
            with h5py.File(paths[name], "r+") as file:
                file["analysis/attention/transformer"].attrs["files"] = "out/t_1.h5\nout/t_2.h5"
                file["analysis/attention/independent"].attrs["files"] = "out/p_1.h5"
        with h5py.File(paths["perturbation"], "r+") as file:
            file["analysis/perturbation/distilled"].attrs.update(trained="trained, seed 1; distilled from out/t_1.h5", files="out/d_1.h5")
            file["analysis/perturbation/inherited"].attrs.update(trained="not trained: inherited", files="out/t_1.h5")
        for name, more in (("t_1", ""), ("t_2", ""), ("p_1", PDE), ("other", "")):
            settings = sample.ROOT["settings"].replace("patches", "whole" if name == "t_2" else "patches")
            write_training(paths[name], epochs=1, settings=f"{settings}{more}[output]\nfile = out/{name}.h5\n")
            with h5py.File(paths[name], "r+") as file:
                file["timing/steps"] = [1.0, 2.0, {"t_1": 100.0, "t_2": 200.0, "p_1": 9000.0, "other": 1e6}[name]]
        return list(paths.values())

    def made_page(self):
        """Makes a report; returns the tables of the page, and the rows of text of the paper."""
        rows = []
        with without_figures(), mock.patch.object(paper.TextPages, "row", lambda _, cells: rows.append([text for _, _, text, _, _ in cells])):
            done = call("report", *self.files(), "--claims", CLAIMS, "--output", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(self.path("report.html"), encoding="utf-8") as stream:
            return PageReader(stream.read()), rows


class Claims(RunsTest):
    def test_each_claim_leads_to_its_runs_on_page_and_paper(self):
        page, paper_rows = self.made_page()
        overview, = (table for table in page.tables if table.kind == "claims")
        attention = "run 1, attention.h5, run 2, more_attention.h5 · deck input/compare/attention.ini · 134.0 s together"
        # 62.5 s + 71.5 s of the slowest ranks: more than two minutes are said in minutes.
        attention = attention.replace("134.0 s", "2 min")
        perturbation = "run 3, perturbation.h5 · deck input/compare/perturbation.ini · 4.2 s"
        told = [row[0] for row in overview.rows[1:]]
        self.assertEqual(len(told), 6)
        for cell in told:
            sentence, source, rests_on = cell.text.split("\n")
            of_attention = sentence.startswith("Attention")
            self.assertEqual(rests_on, attention if of_attention else perturbation)
            self.assertEqual(cell.links, ["#run-1", "#run-2"] if of_attention else ["#run-3"])
            on_paper = next(row for row in paper_rows if row[0].replace("\n", " ") == sentence)
            self.assertEqual(on_paper[1].strip("\n"), f"{source}\n{rests_on}")
        for place, name in ((1, "attention"), (3, "perturbation")):
            self.assertRegex(page.ids[f"run-{place}"], rf"^{place}\. .*{name}\.h5 .*bin/fluxformer {name} input/compare/{name}\.ini$")

    def test_the_paper_says_once_that_seeds_are_few(self):
        _, paper_rows = self.made_page()
        texts = [text for row in paper_rows for text in row]
        self.assertEqual([text for text in texts if text.startswith("Preliminary")], ["Preliminary: 3 seeds, where verdicts need 10. So few leave intervals wide."])
        self.assertFalse([text for text in texts if "(preliminary)" in text])

    def test_what_the_trainings_cost_is_one_line(self):
        _, paper_rows = self.made_page()
        with open(self.path("report.html"), encoding="utf-8") as stream:
            line, = re.findall("<small>(Training of these models.*?)</small>", stream.read())
        self.assertEqual(line, 'Training of these models, wall time of all seeds together: <a href="#run-4">Transformer 5 min (runs 4, 5)</a>; '
                               '<a href="#run-6">PDE, independent 2.5 h (run 6)</a>; PDE, distilled not among the files.')
        self.assertIn([re.sub("<.*?>", "", line)], paper_rows)

    def test_trainings_on_other_data_are_others(self):
        study = self.study(*self.files())
        self.assertEqual([one.places for one in trainings_behind(study, study.runs)][:2], [[4, 5], [6]])
        study.data = ("mnist", "patches")
        self.assertEqual([one.places for one in trainings_behind(study, study.runs)][:2], [[], []])

    def test_durations_have_units(self):
        self.assertEqual([duration(seconds) for seconds in (0.04, 119.9, 150, 7199, 9000)], ["0.0 s", "119.9 s", "2 min", "120 min", "2.5 h"])


class Controls(RunsTest):
    def test_null_controls_and_ceiling_stand_beside_a_value(self):
        path = self.made(sample.write_attention, score=0.7, null=0.6)
        numbers = {}
        for name, number in (("uniform", 0.5), ("permuted", 0.65), ("untrained", 0.3)):
            numbers[name] = number + np.array([0.01, -0.01, 0.0])[:, None] * np.ones(sample.LAYERS)
            self.change(path, **{f"analysis__attention__independent__cosine_{name}": numbers[name]})
        one = claim(**ATTENTION)
        finding = self.findings(one, path)["independent"]
        with h5py.File(path) as file:
            ceiling = mean_and_spread(file["analysis/attention/transformer/cosine_ceiling"][...].mean(axis=1))
        self.assertEqual(in_short(one, finding)[1], f"permuted keys 0.650 ± 0.010; two Transformers {ceiling}")  # the nearest to 0.987
        self.assertEqual([row.cells[3] for row in detail_rows(one, [finding])[1:]],
                         ["beside it: uniform rows 0.500 ± 0.010", "beside it: permuted keys 0.650 ± 0.010",
                          "beside it: untrained model 0.300 ± 0.010", f"beside it: two Transformers {ceiling}"])

    def test_what_a_claim_asks_for_is_not_told_twice(self):
        one = claim(experiment="attention", quantity=["cosine"], test="larger", than=["uniform", "permuted", "untrained"])
        finding = self.findings(one, self.made(sample.write_attention))["independent"]
        self.assertEqual([row.cells[3].split(" 0.")[0] for row in detail_rows(one, [finding])],
                         ["uniform rows", "permuted keys", "untrained model", "beside it: two Transformers"])


if __name__ == "__main__":
    unittest.main()
