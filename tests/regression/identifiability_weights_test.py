#!/usr/bin/env python3
"""`identifiability`, weights: every number of a head is numpy's, by the definitions of docs/model.md, section 10, from a model file
and its samples; also under a causal mask, with projections that have no full rank, and however long the line of tokens is.
"""

import math
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from identifiability_models import (CELLS, HEADS, LAYERS, LONGER, TOKENS, WORDS, Marched, WrittenModels, texts, write_model)  # noqa: E402

EPSILONS = (1e-2, 1e-3, 1e-6)
# A singular value is a zero below this share of the largest. Those of the samples and weights here are above 1e-8 or below 1e-13.
ZERO = 1e-10
PUNCTUATION = {WORDS.index(word) for word in (".", ",", "--")}
WEIGHTS = ("--identifiability.measures=weights", f"--identifiability.rows={TOKENS}")
# Projections lose the condition of the values, up to 1e4, and shares of entries are sums of up to 81 of them.
TOLERANCE = 1e-11


def dependent(arrays):
    """Layer 1: two rows of the projection of head 0 are equal, which then has rank 3. Layer 2: both heads have the same projection, and
    values of which one is constant, which makes the freedom of both together differ between linear and simplex."""
    arrays["layers/1/W_O"][:, 3] = arrays["layers/1/W_O"][:, 2]
    arrays["layers/2/W_O"][:, 4:] = arrays["layers/2/W_O"][:, :4]
    arrays["layers/2/W_V"][[0, 4]] = 0


def faint(arrays):
    """A singular value of head 0 of layer 1 is some 1e-14 of the largest, ten or so times the threshold of the rank."""
    arrays["layers/1/W_V"][3] *= 1e-13
    arrays["layers/1/b_V"][3] *= 1e-13


def singular(matrix):
    return np.linalg.svd(matrix, compute_uv=False)


def count(values, threshold):
    return int((values > threshold).sum())


def rank(matrix):
    values = singular(matrix)
    return count(values, ZERO * values[0])


def with_ones(t):
    return np.hstack([t / np.linalg.norm(t), np.full((len(t), 1), 1 / math.sqrt(len(t)))])


def seen(n, causal):
    """Of each row the number of tokens that it may look at."""
    return [i + 1 if causal else n for i in range(n)]


def projected(a, matrix, causal):
    """Each row of a on the column space of the rows that it sees."""
    found = np.zeros_like(a)
    largest = singular(matrix)[0]
    for i, tokens in enumerate(seen(len(a), causal)):
        u, s, _ = np.linalg.svd(matrix[:tokens], full_matrices=False)
        u = u[:, s > ZERO * largest]
        found[i, :tokens] = a[i, :tokens] if u.shape[1] == tokens else a[i, :tokens] @ u @ u.T
    return found


def nullity(matrix, causal, share=ZERO):
    """Mean over rows; singular values up to `share` of the largest of the whole matrix are zeros."""
    threshold = share * singular(matrix)[0]
    return np.mean([tokens - count(singular(matrix[:tokens]), threshold) for tokens in seen(len(matrix), causal)])


def entropy(rows):
    rows = np.abs(rows) / np.abs(rows).sum(1, keepdims=True)
    return -np.where(rows > 0, rows * np.log(np.where(rows > 0, rows, 1)), 0).sum(1).mean()


def share_on(weights, words, chosen):
    on = np.abs(weights).sum(0)
    return on[[word in chosen for word in words]].sum() / on.sum()


def tangent(a, x):
    """How softmax(scores) moves with scores x q, for each direction of q. Of x less its mean, little would be left beside a weight near 1."""
    return a[:, None] * np.einsum("k,jkc->jc", a, x[:, None] - x[None])


def reachable(a, keys, matrix, causal):
    """[exact, epsilons]: mean over rows of the directions of the query that move the weights but not the output."""
    found = np.zeros(1 + len(EPSILONS))
    for i, tokens in enumerate(seen(len(a), causal)):
        moves, values = tangent(a[i, :tokens], keys[:tokens]), matrix[:tokens]
        size = np.linalg.norm(moves)
        free, change = count(singular(moves), ZERO * size), singular((values - values[0]).T @ moves)
        kept = count(change, ZERO * size * np.linalg.norm(values))
        found += np.array([free - kept, *(free - min(kept, count(change, share * change[0])) for share in EPSILONS)]) / len(a)
    return found


def joint(a, queries, keys, t):
    """Directions of all queries and keys together that move the weights but not the output."""
    n, width = queries.shape
    change = np.zeros((2, n, width, n, n))  # of [query, key] weights with each number of the queries and of the keys
    for i in range(n):
        change[0, i, :, i] = tangent(a[i], keys).T
        softmax = np.diag(a[i]) - np.outer(a[i], a[i])
        for k in range(n):
            change[1, k, :, i] = np.outer(queries[i], softmax[k])
    return rank(change.reshape(2 * n * width, -1)) - rank((change @ t).reshape(2 * n * width, -1))


def excess(outputs, causal):
    """(linear, simplex): freedom of the heads together beyond their sum, mean over rows."""
    n, found = len(outputs[0]), np.zeros(2)
    rows = range(1, n + 1) if causal else [n]
    for tokens in rows:
        alone, together = [with_ones(t[:tokens]) for t in outputs], []
        for head, block in enumerate(alone):
            together.append(np.zeros((tokens, block.shape[1] - 1 + len(outputs))))
            together[-1][:, :block.shape[1] - 1], together[-1][:, block.shape[1] - 1 + head] = block[:, :-1], block[:, -1]
        lost = np.array([sum(map(rank, (block[:, :-1] for block in alone))), sum(map(rank, alone))])
        found += (lost - [rank(np.vstack(together)[:, :-len(outputs)]), rank(np.vstack(together))]) / len(rows)
    return found


def numbers_of_head(a, keys, t, words, frequent, causal):
    n = len(a)
    entries = np.array([np.arange(n) < tokens for tokens in seen(n, causal)])
    effective, simplex = projected(a, t, causal), projected(a, with_ones(t), causal)
    found = {"nullity_linear": nullity(t, causal), "nullity_simplex": nullity(with_ones(t), causal), "uncertain": 0, "uncertain_reachable": 0,
             "nullity_linear_epsilon": [nullity(t, causal, share) for share in EPSILONS],
             "nullity_simplex_epsilon": [nullity(with_ones(t), causal, share) for share in EPSILONS],
             "row_sum": effective.sum(1).mean(), "entropy": entropy(a), "effective_entropy": entropy(effective)}
    found["nullity_reachable"], *found["nullity_reachable_epsilon"] = reachable(a, keys, t, causal)
    for name, other in (("", effective), ("_simplex", simplex)):
        # The first of those that are equal, as those of equal tokens are up to round-off.
        shown = [np.where(entries, weights, -np.inf) for weights in (a, other)]
        largest = [(weights >= weights.max(1, keepdims=True) - 1e-10).argmax(1) for weights in shown]
        found |= {f"correlation{name}": np.corrcoef(a[entries], other[entries])[0, 1], f"kept_norm{name}": np.linalg.norm(other) / np.linalg.norm(a),
                  # Round-off of a projection is no negative weight.
                  f"negative_share{name}": (other[entries] < -1e-13).mean(), f"moved_share{name}": (largest[0] != largest[1]).mean()}
    if not causal:
        share, square = rank(t) / n, (a**2).sum() - 1  # c^2: the variance of entries over their squared mean
        found |= {"correlation_null": math.sqrt(share / (1 + (1 - share) / square)), "row_sum_null": share,
                  "correlation_simplex_null": min(1, math.sqrt(rank(t) / (n - 1)))}
    for name, weights in (("raw", a), ("effective", effective)):
        found |= {f"frequent_{name}": share_on(weights, words, frequent), f"punctuation_{name}": share_on(weights, words, PUNCTUATION)}
    return found


class WeightsTest(WrittenModels):
    @classmethod
    def make(cls, maker):
        super().make(maker)
        write_model(maker.path("dependent.h5"), 1, change=dependent)
        write_model(maker.path("faint.h5"), 1, change=faint)
        write_model(maker.path("pde.h5"), 2, kind="pde", cells=CELLS, kappa=0.05)
        write_model(maker.path("causal.h5"), 3, norm="post", causal="on", change=dependent)

    def samples(self):
        return self.drawn_of(texts())

    def heads(self, model, words):
        """(layer, head, attention, queries, keys, T) of a sample."""
        rows, attention, _ = model.run(model.embed(words[None])[0])
        for layer in range(LAYERS):
            u, cell = rows[model.entry(layer)], model.entry(layer)
            q, k = (model.parts(u, letter, layer + 1) for letter in "QK")
            for head, (v, h) in enumerate(model.values(u, layer + 1)):
                yield layer, head, attention[cell, head], q[head], k[head], v @ h

    def assert_heads_are_numpys(self, found, name, model, lengths):
        counts = np.bincount(np.concatenate(self.samples()), minlength=len(WORDS))
        counts[WORDS.index("<unk>")] = -1  # stands for no word in particular
        frequent = set(np.argsort(-counts, kind="stable")[:20])
        self.assertGreater((counts > 0).sum(), 20)
        for at, length in enumerate(lengths):
            sums, excesses = {}, np.zeros((LAYERS, 2))
            samples = [words[:length] for words in self.samples() if len(words) >= length or length == TOKENS]
            for words in samples:
                outputs = [[], []]
                for layer, head, a, _, k, t in self.heads(model, words):
                    outputs[layer].append(t)
                    for number, value in numbers_of_head(a, k, t, words, frequent, model.causal).items():
                        place = sums.setdefault(number, np.zeros((LAYERS, HEADS, *np.shape(value))))
                        place[layer, head] += np.array(value) / len(samples)
                excesses += np.array([excess(layer, model.causal) for layer in outputs]) / len(samples)
            sums |= {"excess_linear": excesses[:, 0], "excess_simplex": excesses[:, 1]}
            for number, expected in sums.items():
                np.testing.assert_allclose(found[f"{name}/{number}"][0, at], expected, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"{number}, {length}")

    def first_sample(self, model):
        """words, and [layer][head] of (attention, queries, keys, T)."""
        words = self.samples()[0]
        heads = [[], []]
        for layer, _, *rest in self.heads(model, words):
            heads[layer].append(rest)
        return words, heads


class Heads(WeightsTest):
    def test_all_their_numbers_are_numpys_whole_and_cut(self):
        found = self.identifiability(*WEIGHTS, "--identifiability.lengths=3,6", transformer="dependent.h5", independent="pde.h5")
        for name, path in (("transformer", "dependent.h5"), ("independent", "pde.h5")):
            self.assert_heads_are_numpys(found, name, Marched(self.path("models/" + path)), (3, 6, TOKENS))
        # What only happens where projections lack rank did.
        self.assertTrue((found["transformer/excess_linear"][0, :, 1] > found["transformer/excess_simplex"][0, :, 1]).all())
        self.assertTrue((found["transformer/excess_simplex"][0, :, 1] > 0).all())
        self.assertTrue((found["transformer/nullity_reachable"][0, 1:, 0, 0] > 0).all())

    def test_all_their_numbers_are_numpys_under_a_causal_mask(self):
        found = self.identifiability(*WEIGHTS, transformer="causal.h5")
        self.assert_heads_are_numpys(found, "transformer", Marched(self.path("models/causal.h5")), (TOKENS,))

    def test_rows_are_not_counted_where_none_are_asked_for(self):
        found = self.identifiability(WEIGHTS[0], "--identifiability.rows=0", transformer="dependent.h5")
        self.assertTrue(np.isnan(found["transformer/nullity_reachable"]).all())
        self.assertTrue(np.isnan(found["transformer/nullity_joint"]).all())


    def test_a_rank_near_its_threshold_is_told_to_be_uncertain(self):
        found = self.identifiability(*WEIGHTS, transformer="faint.h5")
        np.testing.assert_array_equal(found["transformer/uncertain"][0, 0], [[1, 0], [0, 0]])
        np.testing.assert_array_equal(found["transformer/nullity_linear_epsilon"][0, 0, 0, 0, 2] - found["transformer/nullity_linear"][0, 0, 0, 0], 1)


class FirstSample(WeightsTest):
    def test_its_maps_are_those_of_the_head_that_is_asked_for(self):
        for path in ("dependent.h5", "causal.h5"):
            found = self.identifiability(*WEIGHTS, "--identifiability.head=1", transformer=path, output=f"of_{path}")
            model = Marched(self.path("models/" + path))
            words, heads = self.first_sample(model)
            n = len(words)
            for layer in range(LAYERS):
                a, _, _, t = heads[layer][1]
                expected = np.zeros((2, TOKENS, TOKENS))
                expected[:, :n, :n] = a, projected(a, t, model.causal)
                self.assertGreater(abs(a - a.T).max(), 0.1)
                for name, one in zip(("raw", "effective"), expected):
                    np.testing.assert_allclose(found[f"transformer/map_{name}"][0, layer], one, atol=TOLERANCE, err_msg=name)
                other = found["transformer/map_alternative"][0, layer, :n, :n]
                self.assertTrue((other >= 0).all())
                # Sums and products of up to nine numbers of order one.
                np.testing.assert_allclose(other.sum(1), 1, atol=1e-13)
                np.testing.assert_allclose(other @ t, a @ t, atol=1e-12)
                distance = abs(other - a).sum(1).mean() / 2
                self.assertGreater(distance, 1e-3)
                self.assertAlmostEqual(found["transformer/alternative_distance"][0, layer, 1], distance, places=12)

    def test_its_joint_freedom_is_that_of_queries_and_keys_together(self):
        for path in ("dependent.h5", "causal.h5"):
            found = self.identifiability(*WEIGHTS, f"--identifiability.joint_tokens={TOKENS}", transformer=path, output=f"of_{path}")
            _, heads = self.first_sample(Marched(self.path("models/" + path)))
            expected = [[joint(*head) for head in layer] for layer in heads]
            np.testing.assert_array_equal(found["transformer/nullity_joint"][0], expected)
            np.testing.assert_array_equal(found["transformer/uncertain_joint"][0], 0)
            self.assertGreater(np.max(expected), 1)  # more than a row has with its query alone

    def test_its_words_are_told(self):
        self.identifiability(*WEIGHTS, transformer="dependent.h5")
        with h5py.File(self.path("out.h5"), "r") as file:
            words = file["analysis/identifiability"].attrs["sample_words"].split("\n")
        self.assertEqual(words, [*(WORDS[word] for word in self.samples()[0]), ""])


class Padding(WeightsTest):
    def test_adding_more_of_it_changes_nothing(self):
        for path in ("dependent.h5", "causal.h5"):
            arguments = (*WEIGHTS, "--identifiability.lengths=6", f"--identifiability.joint_tokens={TOKENS}")
            short = self.identifiability(*arguments, transformer=path, output=f"short_{path}")
            found = self.identifiability(*arguments, transformer=path, file="longer_text.h5", output=f"long_{path}")
            self.assertEqual(sorted(found), sorted(short))
            for name, values in found.items():
                if name.startswith("transformer/map"):
                    self.assertEqual(values.shape[-2:], (LONGER, LONGER))
                    self.assertFalse(values[..., TOKENS:, :].any() or values[..., TOKENS:].any())
                    values = values[..., :TOKENS, :TOKENS]
                if not name.endswith("seconds"):
                    # Sums of a longer line may be in another order. The search for other weights follows directions of which
                    # only 1e-10 is left after a projection: of each of its 4 steps 2e-16 / 1e-10 is round-off.
                    tolerance = 4 * 2.2e-16 / 1e-10 if "alternative" in name else TOLERANCE
                    np.testing.assert_allclose(values, short[name], rtol=tolerance, atol=tolerance, err_msg=name)


if __name__ == "__main__":
    unittest.main()
