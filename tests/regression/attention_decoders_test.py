#!/usr/bin/env python3
"""`attention` of decoders and of encoders with windows: what heads do by themselves, and their scores, are those of PyTorch's attention over
the keys that each query sees; with texts of different lengths, on any number of ranks."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from comparison import CompareTest  # noqa: E402
from program import SEVERAL_RANKS, ProgramTest, together  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import call  # noqa: E402

from fluxformer.tokens import write_token_file  # noqa: E402

# Windows in every layer, in some, in none, and of two sides.
CASES = (("mistral", "MistralForCausalLM"), ("qwen2", "Qwen2ForCausalLM"), ("gpt_neox", "GPTNeoXModel"), ("qwen3", "Qwen3ForSequenceClassification"),
         ("modernbert", "ModernBertForMaskedLM"))
# The weights agree to some units of 1e-16 of the largest one (published_runs_test.py); here are means of up to some hundred of them.
CLOSE = {"rtol": 1e-12, "atol": 1e-14}
WORDS = ("--data.set=topics", "--data.vocabulary=500", "--data.length=20")
NEXT_WORDS = (*WORDS, "--train.objective=causal", "--attention.causal=true", "--mesh.layers=2", "--model.width=8", "--model.ffn=8",
              "--attention.heads=2", "--train.samples=64", "--train.test_samples=10", "--train.epochs=1", "--train.batch=16", "--run.seed=1")


def rows_of(k, length):
    """(query, its weights of the keys that it sees, their numbers) of the real queries of a head."""
    for x in range(length):
        seen = np.flatnonzero(k[x] > 0)  # the soft-max of PyTorch is 0 exactly where a key is hidden
        yield x, k[x, seen], seen


def own_measures(attention, lengths):
    """What the heads of `attention` [layer, sample, head, query, key] do by themselves, by name."""
    layers, _, heads, tokens, _ = attention.shape
    entropy, weight, far = np.zeros((layers, heads)), np.zeros((layers, heads, tokens)), np.zeros((layers, heads))
    uniform, pairs, flat = np.zeros((layers, tokens)), np.zeros((layers, tokens)), np.zeros(layers)
    for layer in range(layers):
        for head in range(heads):
            by_sample = []
            for sample, length in enumerate(lengths):
                entropies = []
                for x, p, seen in rows_of(attention[layer, sample, head], length):
                    np.add.at(weight[layer, head], abs(x - seen), p)
                    far[layer, head] += (abs(x - seen) * p).sum()
                    if head == 0:
                        np.add.at(uniform[layer], abs(x - seen), 1 / len(seen))
                        np.add.at(pairs[layer], abs(x - seen), 1)
                        flat[layer] += abs(x - seen).mean()
                    if len(seen) > 1:
                        entropies.append(-(p * np.log(p)).sum() / np.log(len(seen)))
                if entropies:
                    by_sample.append(np.mean(entropies))
            entropy[layer, head] = np.mean(by_sample)
    there = np.where(pairs > 0, pairs, np.nan)
    return {"entropy": entropy, "weight_by_distance": weight / there[:, None], "weight_by_distance_uniform": uniform / there,
            "pairs_by_distance": pairs, "mean_distance": far / sum(lengths), "mean_distance_uniform": flat / sum(lengths)}


def scores_of_uniform(attention, lengths):
    """Cosine and KL of all rows with uniform ones: means over queries, then samples and heads, by layer."""
    found = {"cosine_uniform": [], "kl_uniform": []}
    for layer in attention:
        means = {name: [] for name in found}
        for sample, length in zip(layer, lengths):
            if length > 1:
                rows = [p for head in sample for _, p, _ in rows_of(head, length) if len(p) > 1]
                means["cosine_uniform"].append(np.mean([1 / np.sqrt(len(p) * (p * p).sum()) for p in rows]))
                means["kl_uniform"].append(np.mean([(p * np.log(p * len(p))).sum() for p in rows]))
        for name, of_samples in means.items():
            found[name].append(np.mean(of_samples))
    return found


class Published(ProgramTest):
    def imported(self, name, kind):
        """The keys of an imported model and of its texts."""
        case = Case(name)
        end = call("import", *save(self.folder, *case.published(kind)), "--output", self.path(f"{name}.h5"), "--overwrite")
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        texts = {"ids": case["ids"].astype(int), "lengths": case.lengths, "labels": [0, 1, 2]}
        write_token_file(self.path(f"{name}_texts.h5"), **texts, test=texts)
        return case, ("attention", "--quiet", f"--models.transformer={name}.h5", "--data.set=tokens", f"--data.file={name}_texts.h5",
                      "--samples.count=0", "--samples.batch=2")

    def measured(self, name, *arguments, ranks):
        output = f"{name}_{ranks}.h5"
        end = self.run_program(*arguments, f"--output.file={output}", ranks=ranks)
        self.assertEqual(end.code, 0, end)
        file = self.open(output)
        samples = file["sample"][...]
        groups = file["analysis/attention"]
        return samples, {f"{model}/{measure}": groups[model][measure][0] for model in groups for measure in groups[model]}

    def test_heads_do_what_pytorch_says(self):
        cases = {name: self.imported(name, kind) for name, kind in CASES}

        def compare(name, ranks):
            case, arguments = cases[name]
            samples, found = self.measured(name, *arguments, ranks=ranks)
            wanted = own_measures(case["attention"][:, samples], case.lengths[samples])
            for measure, values in wanted.items():
                with self.subTest(name, measure=measure, ranks=ranks):
                    np.testing.assert_allclose(found[f"transformer/{measure}"], values, **CLOSE)
            # Each row sums to 1: the weights of all pairs are as many as queries.
            total = np.nansum(found["transformer/weight_by_distance"] * found["transformer/pairs_by_distance"][:, None], axis=2)
            np.testing.assert_allclose(total, case.lengths[samples].sum(), rtol=1e-13)

        together([lambda name=name, ranks=ranks: compare(name, ranks) for name, _ in CASES for ranks in ((1, 3) if name == "mistral" else (2,))])

    def test_scores_are_over_the_keys_that_a_query_sees(self):
        for name, kind in (CASES[0], CASES[3]):
            case, arguments = self.imported(name, kind)
            samples, found = self.measured(name, *arguments, "--models.inherited=1", ranks=2)
            lengths = case.lengths[samples]
            self.assertIn(1, lengths)
            # The model itself, on one cell for each layer; a text of a single word is left out.
            np.testing.assert_array_equal(found["inherited/scored_samples"], 2)
            for score, value in (("cosine", 1), ("centred", 1), ("kl", 0), ("tv", 0), ("cosine_by_sample", np.where(lengths > 1, 1, np.nan))):
                np.testing.assert_allclose(found[f"inherited/{score}"], np.broadcast_to(value, found[f"inherited/{score}"].shape), atol=1e-12)
            own = own_measures(case["attention"][:, samples], lengths)
            for measure in own:
                np.testing.assert_allclose(found[f"inherited/{measure}"], own[measure], **CLOSE, err_msg=measure)
            np.testing.assert_allclose(found["inherited/entropy_transformer"], own["entropy"], **CLOSE)
            for measure, values in scores_of_uniform(case["attention"][:, samples], lengths).items():
                np.testing.assert_allclose(found[f"inherited/{measure}"], values, **CLOSE, err_msg=measure)
            np.testing.assert_array_equal(found["inherited/centred_uniform"], 0)


class Trained(CompareTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        maker = CompareTest()
        maker.folder = cls.shared
        pde = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=4", "--model.seed=11")
        for name, more in (("words", ()), ("narrow", ("--attention.window=4",)), ("words_pde", pde), ("narrow_pde", (*pde, "--attention.window=4")),
                           ("wide_pde", (*pde, "--attention.window=20"))):
            end = maker.run_program("train", "--quiet", *NEXT_WORDS, *more, f"--output.file={name}.h5")
            assert end.code == 0, end

    MODELS = (*WORDS, "--samples.count=30", "--samples.batch=4", "--attention.matching=9")

    def compare_words(self, transformer, pde, *arguments, **how):
        return self.compare("attention", *arguments, models=(*self.MODELS, f"--models.transformer=models/{transformer}.h5",
                                                             f"--models.independent=models/{pde}.h5", "--models.inherited=2"), **how)

    def test_pde_models_of_words_are_compared_on_any_number_of_ranks(self):
        for transformer in ("words", "narrow"):
            alone = self.compare_words(transformer, f"{transformer}_pde", output=f"{transformer}1.h5")
            for model in ("independent", "inherited"):
                for measure in ("cosine", "centred", "kl_permuted", "js_untrained", "entropy", "mean_distance"):
                    self.assertTrue(np.isfinite(alone[f"{model}/{measure}"]).all(), measure)
                self.assertFalse(np.allclose(alone[f"{model}/mean_distance"], alone["transformer/mean_distance"], rtol=1e-9))
                np.testing.assert_array_equal(alone[f"{model}/pairs_by_distance"], alone["transformer/pairs_by_distance"])
                np.testing.assert_allclose(alone[f"{model}/cosine_by_sample"].mean(axis=1), alone[f"{model}/cosine"].mean(axis=1), rtol=1e-12)
            # A window of W tokens ends W - 1 before the query.
            seen = alone["transformer/pairs_by_distance"][0] > 0
            self.assertEqual(seen.sum(axis=1).tolist(), [4, 4] if transformer == "narrow" else [seen.any(axis=0).sum()] * 2)
            for ranks in SEVERAL_RANKS:
                with self.subTest(transformer, ranks=ranks):
                    self.assert_same_numbers(alone, self.compare_words(transformer, f"{transformer}_pde", ranks=ranks, output=f"{transformer}{ranks}.h5"))

    def test_a_window_as_long_as_the_lines_is_none_and_another_is_refused(self):
        self.compare_words("words", "wide_pde")
        for transformer, pde in (("words", "narrow_pde"), ("narrow", "words_pde")):
            end = self.run_program("attention", "--quiet", *self.MODELS, f"--models.transformer=models/{transformer}.h5",
                                   f"--models.independent=models/{pde}.h5", "--output.file=no.h5", ranks=2)
            self.assert_refused(end, f"models.independent = models/{pde}.h5", "attention of layer 1", "a window of 4 token(s)", "no window",
                                f"models/{transformer}.h5")
            self.assertFalse(os.path.exists(self.path("no.h5")))

    def test_tokens_that_are_no_line_have_no_distances(self):
        end = self.run_program("train", "--quiet", "--mesh.layers=2", "--model.width=8", "--model.ffn=8", "--attention.heads=2", "--train.samples=32",
                               "--train.batch=16", "--train.epochs=1", "--train.test_samples=10", "--output.file=models/patches.h5")
        self.assertEqual(end.code, 0, end)
        run = ("attention", "--quiet", "--models.transformer=models/patches.h5", "--samples.count=4")
        end = self.run_program(*run, "--output.file=patches.h5")
        self.assertEqual(end.code, 0, end)
        found = self.numbers("patches.h5", "attention")
        self.assertIn("transformer/entropy", found)
        self.assertEqual([name for name in found if "distance" in name], [])
        self.assertNotIn("distance", self.open("patches.h5"))
        self.assertIn("attention by distance: left out; tokens are no line, but a lattice of 7 x 7", self.run_program(*run[:1], *run[2:], "--validate").out)


if __name__ == "__main__":
    unittest.main()
