#!/usr/bin/env python3
"""Every verdict and every interval that the report page shows, computed a second time: from small files of all families, for all files of
claims together, by code of its own (second_numbers.py, second_verdicts.py) that shares nothing with the report but the files.

Covered is every claim of input/paper/*/claims.toml, hence every kind of test, reduction, control and level that they use; a test below says
which these are. Not covered: flips of sign and the effect that 80 % power would have seen (python_statistics_test.py), and the figures.

Status 77 as claim_sample.py says.
"""

import html
import json
import os
import re
import sys
import tempfile
import tomllib
import unittest
from collections import namedtuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import comparison_sample as compared  # noqa: E402 (its folder is put on the path first)
import claim_sample  # noqa: E402, F401 (looks for what is needed)

import h5py  # noqa: E402
import numpy as np  # noqa: E402

import hessian_sample as hessian  # noqa: E402
import paths_sample as paths  # noqa: E402
import second_numbers  # noqa: E402
from clusters_models_sample import write_clusters_models  # noqa: E402
from identifiability_sample import WORDS, write_identifiability  # noqa: E402
from page_reader import PageReader, without_figures  # noqa: E402
from python_package import ROOT, call  # noqa: E402
from second_verdicts import Judge, deterministic  # noqa: E402
from second_verdicts import finite as second_finite  # noqa: E402

FILES = [os.path.join(ROOT, "input", "paper", family, "claims.toml") for family in
         ("clusters", "compare", "depth", "hessian", "identifiability", "paths")]
NAMES = {("digits", "patches"): "built-in digits, 4 × 4 patches", ("topics", ""): "built-in topics", ("addition", ""): "addition of numbers",
         ("markov", "four_paths"): "hidden Markov chains, four paths", ("one_shot", "digits"): "one-shot images, digits"}
LABELS = {"Transformer": "transformer", "PDE, independent": "independent", "PDE with LayerNorm": "normed", "PDE, distilled": "distilled",
          "PDE, converged in depth": "converged", "PDE, inherited": "inherited", "PDE model": "pde", "soft-max": "softmax", "soft-max, pre-norm": "softmax_pre_norm",
          "soft-max, post-norm": "softmax_post_norm", "linear attention": "linear", "MLP": "mlp", "linear network": "linear_mlp",
          "theory of attention paths": "theory", "trained network of paths": "network", "draws of order parameters": "wishart",
          "draws of all weights": "hmc"}
VERDICTS = {"holds", "opposite", "missed", "no relevant difference", "undecided", "estimators disagree", "not measured"}
SEEDS = (1, 2, 3, 4, 5, 6)

Shown = namedtuple("Shown", "quantity verdict effects levels")  # texts of effects; (level, text, verdict) of levels


def scatter(path, seed, strength=(0.001, 0.02, 0.3)):
    """Another deviation over seeds for each measure, so that some claims are decided and others are not."""
    random = np.random.default_rng(seed)
    with h5py.File(path, "r+") as file:
        for model in next(iter(file["analysis"].values())).values():
            for name in model:
                factor = np.exp(random.choice(strength) * random.standard_normal(len(file["seed"])))
                model[name][...] = model[name][...] * factor.reshape(-1, *[1] * (model[name].ndim - 1))


def bend(path):
    """Curves of information that are not straight, one estimator that rises with depth and one that was not measured."""
    random = np.random.default_rng(0)
    with h5py.File(path, "r+") as file:
        for model in file["analysis/bottleneck"].values():
            for name in [name for name in model if name.startswith("input_")]:
                depth = np.linspace(0, 1, model[name].shape[1])
                model[name][...] -= (0.5 + 0.3 * random.standard_normal((len(file["seed"]), 1))) * depth * (1 - depth)
        rising = file["analysis/bottleneck/independent/input_gaussian"]
        rising[...] = rising[...][:, ::-1]
        del file["analysis/bottleneck/normed/input_ksg"]


def write_all(folder):
    """Files of all families, on five data sets; six seeds, of attention in two files, a seed that diverged."""
    path = lambda name: os.path.join(folder, name + ".h5")  # noqa: E731
    made = []

    def add(write, name, seed, *arguments, **how):
        write(path(name), *arguments, **{"seeds": SEEDS, "spread": 0.01, **how})
        scatter(path(name), seed)
        made.append(path(name))

    compared_models = ("independent", "normed", "distilled", "inherited")
    add(compared.write_attention, "attention", 1, seeds=(1, 2, 3, 4), models=compared_models, score=0.987, null=0.97)
    add(compared.write_attention, "more_attention", 2, seeds=(5, 6), models=compared_models, score=0.987, null=0.97)
    with h5py.File(path("more_attention"), "r+") as file:
        for name in [name for name in file["analysis/attention/transformer"] if "ceiling" in name]:
            del file["analysis/attention/transformer/" + name]
    add(compared.write_bottleneck, "bottleneck", 3, {"transformer": 1.0, "independent": 2.0, "normed": 0.97, "distilled": -1.0})
    bend(path("bottleneck"))
    add(compared.write_gradient_flow, "gradient_flow", 4)
    with h5py.File(path("gradient_flow"), "r+") as file:
        for values in file["analysis/gradient_flow/independent"].values():
            values[2] = np.nan
    add(compared.write_perturbation, "perturbation", 5)
    add(compared.write_ablation, "ablation", 6)
    add(compared.write_refinement, "refinement", 18, {"transformer": 2.5, "independent": 1.5, "normed": 0.1, "converged": 0.02, "inherited": 2.0})
    add(compared.write_perturbation, "topics_perturbation", 7, settings="[data]\nset = topics\n")
    with h5py.File(path("topics_perturbation"), "r+") as file:  # in the louder noise all models guess
        file["analysis/perturbation"].attrs["samples"] = 200
        for model in compared.MODELS:
            file[f"analysis/perturbation/{model}/noise_accuracy"][:, 1] = 0.1
    for name, seed in (("spectrum", 8), ("blocks", 9), ("scaling", 10)):
        add(hessian.WRITERS[name], name, seed)
    add(write_identifiability, "identifiability", 11)
    add(write_identifiability, "topics_identifiability", 12, claimed=False, words=WORDS)
    add(write_clusters_models, "clusters", 19)
    add(write_clusters_models, "topics_clusters", 20, claimed=False, settings="[data]\nset = topics\n")
    with h5py.File(path("topics_clusters"), "r+") as file:  # fewer seeds than its claims need
        for name in file["analysis/clusters_models/normed"]:
            file[f"analysis/clusters_models/normed/{name}"][4:] = np.nan
    add(paths.write_theory, "theory", 13)
    add(paths.write_theory, "one_shot", 14, "one_shot")
    add(paths.write_sample, "sample", 15)
    add(paths.write_prune, "prune", 16)
    add(paths.write_pruning, "pruning", 17)
    return made


def claims():
    """The tables of all files of claims."""
    found = []
    for path in FILES:
        with open(path, "rb") as stream:
            found += tomllib.load(stream)["claim"]
    return found


def needed(data):
    """The number of seeds from which verdicts on a data set are final: the largest that a file of claims asks for."""
    seeds = []
    for path in FILES:
        with open(path, "rb") as stream:
            seeds.append(tomllib.load(stream)["rule"]["seeds"])
    return max(one.get(data, 0) for one in seeds) or max(max(one.values()) for one in seeds)


def without_mark(text):
    """"✓ holds, as fitted" is the verdict holds."""
    return re.sub(r", as (fitted|constructed)$", "", re.sub(r"^[✓✗≈?≠] ", "", text))


def numbers_of(text):
    """The numbers of "+0.42 [0.21, 0.63]" or "× 94 [11, 792]", and the largest distance that rounding explains."""
    found = []
    for one in re.finditer(r"[+−]?(?:∞|\d+(?:\.(\d+))?(?:e([+-]?\d+))?)", text):
        value, decimals, exponent = float(one[0].replace("−", "-").replace("∞", "inf")), len(one[1] or ""), one[2]
        # A number with an exponent was rounded to two digits before.
        found.append((value, 0.05 * 10.0 ** int(exponent) if exponent else 0.5 * 10.0 ** -decimals))
    return found


def shown_numbers(table, known):
    """{(claim, model): [Shown]} of the table of all numbers on a data set; `known`: the claims."""
    found, claim, model = {}, None, None
    for row in (tuple(cell.text for cell in row) for row in table.rows[1:]):
        if len(row) == 1:
            claim = next(one["id"] for one in known if row[0].startswith(one["sentence"] + " "))
            continue
        label, quantity, _, against, effect, _, _, said = row
        if label:
            model = LABELS[label]
            found.setdefault((claim, model), []).append(Shown(quantity.replace(" ", "_"), without_mark(said), [effect], []))
        elif against and not against.startswith("beside it"):
            found[claim, model][-1].effects.append(effect)
        elif quantity:
            level = 0.0 if quantity == "clean" else float(quantity.removeprefix("at "))
            found[claim, model][-1].levels.append((level, effect, without_mark(said)))
    return found


class Recomputed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        files = write_all(folder.name)
        with without_figures():
            done = call("report", *files, *(word for path in FILES for word in ("--claims", path)), "--output", folder.name)
        assert done.returncode == 0, done.stderr
        with open(os.path.join(folder.name, "report.html"), encoding="utf-8") as stream:
            cls.html = stream.read()
        cls.page = PageReader(cls.html)
        with open(os.path.join(folder.name, "findings.json"), encoding="utf-8") as stream:
            cls.stored = json.load(stream)
        by_experiment = {}
        for path in files:
            with h5py.File(path) as file:
                by_experiment.setdefault(second_numbers.data_set(file), {}).setdefault(second_numbers.experiment(file), []).append(path)
        cls.claims = claims()
        cls.again = {}
        for data, experiments in by_experiment.items():
            opened = {name: second_numbers.Experiment(some) for name, some in experiments.items()}
            cls.again[data] = {(one.claim["id"], one.model): one for one in Judge(cls.claims, opened, 0.05).findings()}
            for one in opened.values():
                for file in one.files:
                    file.close()

    def table(self, kind, data):
        """The table of a data set on the page."""
        return next(one for one in self.page.tables if one.kind == kind and one.data == NAMES[data])

    def assert_shown(self, text, values, claim, where):
        """A mean with its interval (of a ratio as a factor), as far as its digits go."""
        values = [one for one in values if not np.isnan(one)]
        if claim.get("ratio"):
            values = np.exp(-np.array(values) if claim["test"] == "smaller" else values)
            values = [*values[:1], *sorted(values[1:])]
        numbers = numbers_of(text)
        if len(numbers) == 1 and len(values) == 3 and values[2] - values[1] <= 1e-9 * abs(values[0]):  # no spread, no interval
            values = values[:1]
        self.assertEqual(len(numbers), len(values), (where, text, values))
        for (number, rounding), value in zip(numbers, values):
            self.assertLessEqual(abs(number - value), 1.001 * rounding + 1e-9 * abs(value) if np.isfinite(number) else np.inf, (where, text, values))

    def assert_told(self, text, finding, where):
        """The effect with its interval below a verdict is one of those that the claim has, of the estimator that is named."""
        if finding.verdict == "estimators disagree":
            return
        if finding.claim["test"] == "happens":
            self.assertRegex(text, r"^\d of 6; pre \d of 6$", where)
            return
        quantity, told = text.split(": ") if ": " in text else (finding.claim["quantity"][0], text)
        which = finding.claim["quantity"].index(quantity.replace(" ", "_"))
        failures = []
        for effect, interval in zip(finding.effects[which], finding.intervals[which]):
            try:
                self.assert_shown(told, [np.nanmean(effect.values) if np.isfinite(effect.values).any() else np.nan, *interval], finding.claim, where)
                return
            except AssertionError as failure:
                failures.append(str(failure))
        self.fail("\n".join(failures))

    def test_every_verdict_at_the_top_of_the_page_is_the_same(self):
        for data, again in self.again.items():
            table = self.table("claims", data)
            models = [LABELS[cell.text] for cell in table.rows[0][1:]]
            shown = {}
            for row in table.rows[1:]:
                claim = next(one["id"] for one in self.claims if row[0].text.split("\n")[0] == one["sentence"])
                for model, cell in zip(models, row[1:]):
                    if cell.text:
                        verdict, *told = cell.text.split("\n")
                        if without_mark(verdict) not in VERDICTS:  # on a page of few seeds only what is decided has one
                            verdict, told = "undecided", [verdict, *told]
                        shown[claim, model] = without_mark(verdict)
                        self.assert_told(told[0], again.get((claim, model)) or again[claim, "pde"], (data, claim, model))
            # The PDE model of an ablation stands with those that are trained on the labels alone.
            self.assertEqual(shown, {(claim, "independent" if model == "pde" else model): one.verdict for (claim, model), one in again.items()}, data)

    def test_every_number_of_the_page_is_the_same(self):
        intervals = 0
        for data, again in self.again.items():
            shown = shown_numbers(self.table("full", data), self.claims)
            self.assertEqual(set(shown), set(again), data)
            for key, outcomes in shown.items():
                one = again[key]
                self.assertEqual([outcome.quantity for outcome in outcomes], one.claim["quantity"], key)
                self.assertEqual([outcome.verdict for outcome in outcomes], one.verdicts, key)
                for outcome, effects, ends in zip(outcomes, one.effects, one.intervals):
                    self.assertEqual(len(outcome.effects), len(effects), key)
                    for text, effect, interval in zip(outcome.effects, effects, ends):
                        mean = np.nanmean(effect.values) if np.isfinite(effect.values).any() else np.nan
                        self.assert_shown(text, [mean, *interval], one.claim, (data, *key, outcome.quantity))
                        intervals += np.isfinite(interval[0])
        self.assertGreater(intervals, 200)

    def test_every_number_of_the_file_of_findings_is_the_same(self):
        self.assertEqual(set(self.stored["claims"]), {one["id"] for one in self.claims})
        for one in self.claims:
            for key, value in self.stored["claims"][one["id"]].items():
                self.assertEqual(value, one.get(key, value), (one["id"], key))
        self.assertEqual(self.stored["alpha"], 0.05)
        effects = 0
        for data, study in self.studies():
            again = self.again[data]
            found = {(one["claim"], one["model"]): one for one in study["findings"]}
            self.assertEqual({key: without_mark(one["verdict"]) for key, one in found.items()}, {key: one.verdict for key, one in again.items()})
            for key, one in found.items():
                finding = again[key]
                seeds = [len(second_finite(effect)) for effects_of in finding.effects for effect in effects_of]
                self.assertEqual(one["seeds"][1], len(SEEDS), key)
                if finding.claim["test"] != "happens" and seeds:
                    self.assertEqual(one["seeds"][0], min(seeds), key)
                self.assertEqual(one["preliminary"], one["seeds"][0] < needed(data[0]), key)
                if finding.claim["test"] == "happens" or finding.verdict in ("not measured", "estimators disagree"):
                    self.assertEqual((one["effect"], one["interval"]), (None, [None, None]), key)
                    continue
                self.assertTrue(any(self.is_effect(one, effect, ends, finding.claim) for effect, ends in zip(
                    *(each[finding.claim["quantity"].index(one["quantity"])] for each in (finding.effects, finding.intervals)))), (key, one))
                told = numbers_of(one["shown"][0].split(": ")[-1])
                if one["effect"] is not None and np.isfinite(told[0][0]):
                    self.assertLessEqual(abs(told[0][0] - one["effect"]), 1.001 * told[0][1] + 1e-5 * abs(one["effect"]), key)
                    effects += 1
        self.assertGreater(effects, 100)

    def is_effect(self, one, effect, ends, claim):
        """True if effect and interval of the file are these; an effect without spread has no interval there."""
        values = np.array([np.nanmean(effect.values) if np.isfinite(effect.values).any() else np.nan, *ends])
        if claim.get("ratio"):
            values = np.exp(-values if claim["test"] == "smaller" else values)
            values[1:] = np.sort(values[1:])
        if deterministic(effect):
            values[1:] = np.nan
        stored = np.array([one["effect"], *one["interval"]], dtype=float)  # null is NaN
        values[~np.isfinite(values)] = np.nan  # as an overflowing ratio is null
        return np.allclose(stored, values, rtol=1e-5, atol=1e-9, equal_nan=True)

    def studies(self):
        """(data set, study) of the file of findings."""
        by_name = {name: data for data, name in NAMES.items()}
        return [(by_name[study["data"]], study) for study in self.stored["studies"]]

    def test_the_first_screen_says_what_was_found_of_each_claim(self):
        groups = {"The runs agree": {"holds"}, "The runs say otherwise": {"opposite", "missed"}, "There is no difference that matters": {"no relevant difference"}}
        screen = self.html[self.html.index('<section id="answers">'): self.html.index('<section id="claims">')]
        labels = {name: label for label, name in LABELS.items()}
        lines = 0
        for data, again in self.again.items():
            part = html.unescape(re.search(rf"<h3>{re.escape(NAMES[data])}</h3>(.*?)(?=<h3>|\Z)", screen, re.DOTALL)[1])
            findings = {key: one for key, one in again.items() if key[1] not in ("distilled", "inherited")}
            shown = {}
            for words, body in re.findall(r"<h4>(.*?)</h4>\s*<ul>(.*?)</ul>", part, re.DOTALL):
                for line in re.findall(r"<li>(.*?)</li>", body, re.DOTALL):
                    sentence, *models = re.split(r"<br><small>(?:<span[^>]*></span>)?", line)
                    for one in models:
                        model, effect = one.removesuffix("</small>").strip().split(": ", 1)
                        shown[sentence, model] = (words, effect)
            expected = {(one.claim["sentence"], labels[key[1]]): (words, one) for key, one in findings.items() for words, verdicts in groups.items()
                        if one.verdict in verdicts}
            self.assertEqual({key: words for key, (words, _) in shown.items()}, {key: words for key, (words, _) in expected.items()}, data)
            for key, (_, effect) in shown.items():
                self.assert_told(effect.partition(" (")[0] if expected[key][1].claim["test"] != "happens" else effect, expected[key][1], key)
                lines += 1
            undecided = sum(one.verdict in ("undecided", "estimators disagree") for one in findings.values())
            missing = sum(one.verdict == "not measured" for one in findings.values())
            self.assertEqual((f"Not decided by these runs: {undecided} of {len(findings)} finding" in part, f"Not measured: {missing}." in part),
                             (undecided > 0, missing > 0), data)
        self.assertGreater(lines, 50)

    def test_every_level_of_the_page_is_the_same(self):
        levels = 0
        for data, again in self.again.items():
            for key, outcomes in shown_numbers(self.table("full", data), self.claims).items():
                for outcome, expected in zip(outcomes, again[key].levels):
                    self.assertEqual([(level, said) for level, _, said in outcome.levels], [(level, said) for level, _, said, _ in expected], key)
                    for (level, text, _), (_, effect, _, interval) in zip(outcome.levels, expected):
                        self.assert_shown(text, [effect.values.mean(), *interval], again[key].claim, (data, *key, level))
                        levels += 1
        self.assertGreater(levels, 20)

    def test_every_claim_was_measured_and_every_verdict_given(self):
        """Else the tests above would say nothing about them."""
        every = [one for again in self.again.values() for one in again.values()]
        self.assertEqual({one.claim["id"] for one in every if one.verdict != "not measured"}, {one["id"] for one in self.claims})
        self.assertEqual({one.verdict for one in every}, VERDICTS)
        # Four seeds of one model, where its claims ask for five.
        few = [one for (_, model), one in self.again["topics", ""].items() if model == "normed" and one.claim.get("least_seeds")]
        self.assertEqual({one.verdict for one in few}, {"undecided"})
        self.assertTrue(any(low > 0 or high < 0 for one in few for low, high in one.intervals[0]))
        # Controls on both sides, each told from 0, and an estimator that has no numbers beside others that are undecided.
        mixed = self.again["digits", "patches"]["information-falls", "distilled"]
        self.assertEqual(mixed.verdict, "undecided")
        self.assertTrue(any(low > 0 for low, _ in mixed.intervals[0]) and any(high < 0 for _, high in mixed.intervals[0]))
        self.assertIn("not measured", self.again["digits", "patches"]["pde-compresses-harder", "normed"].verdicts)

    def test_these_kinds_of_claims_are_among_them(self):
        found = {key: {one.get(key) for one in self.claims if not isinstance(one.get(key), (list, dict))} - {None}
                 for key in ("test", "reduce", "samples", "ratio", "both", "levels", "start", "along", "at")}
        self.assertEqual(found["test"], {"value", "larger", "smaller", "happens"})
        self.assertEqual(found["reduce"], set(second_numbers.REDUCE) - {"mean"})  # which is what is left out
        self.assertEqual((found["samples"], found["ratio"], found["both"], found["start"]), ({"mean", "rms"}, {True}, {True}, {"accuracy"}))
        self.assertEqual(found["levels"], {"noise_level", "feature_noise_level", "sigma", "distance_group"})
        self.assertLessEqual({"each", "none", "transformer", "softmax", "theory", "network", "wishart", "hmc"}, found["at"])
        self.assertEqual(found["along"], {"layer", "length", "width"})
        self.assertTrue(any(one.get("where") for one in self.claims) and any(one.get("window") for one in self.claims))
        self.assertEqual(max(len(one["quantity"]) for one in self.claims), 4)

    def test_the_made_up_files_of_paths_have_the_names_of_the_program(self):
        with open(os.path.join(ROOT, "docs", "reference", "output-format.md"), encoding="utf-8") as stream:
            text = stream.read()
        for write in (paths.write_theory, paths.write_sample, paths.write_prune, paths.write_pruning):
            with tempfile.TemporaryDirectory() as folder:
                write(path := os.path.join(folder, "a.h5"))
                with h5py.File(path) as file:
                    (name, group), = file["analysis"].items()
                    for measure in next(iter(group.values())):
                        self.assertRegex(text, rf"/analysis/{name}/<model>/{measure}`")


if __name__ == "__main__":
    unittest.main()
