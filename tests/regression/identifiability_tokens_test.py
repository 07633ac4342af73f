#!/usr/bin/env python3
"""`identifiability`, tokens: the rates at which they are recognised are numpy's. Linear maps are fitted, chosen and judged on samples of
their own; other weights than the trained ones are those that the names say; longer lines of tokens change nothing.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from identifiability_models import CELLS, Marched, WrittenModels, texts, write_model  # noqa: E402

COMPARED, FIT = 30, 10  # few to fit: a map of too little lambda learns them by heart
LAMBDAS = (0, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1)
LINEAR = ("--identifiability.measures=identity", "--identifiability.maps=identity,linear", f"--identifiability.fit={FIT}")
EPOCHS = (0, 2)


def twins(arrays):
    """Pairs of neighbours have the same position: where they are the same word, too, they cannot be told apart."""
    arrays["embedding/position"][1::2] = arrays["embedding/position"][::2]


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def lengths_of(x):
    return np.linalg.norm(x, axis=1, keepdims=True)


def unchanged(x):
    return x


def hits(states, tokens, cosine):
    """Of one sample the tokens whose state is nearest to themselves; ties share the credit."""
    if cosine:
        states, tokens = unit(states), unit(tokens)
    distance = np.linalg.norm(states[:, None] - tokens[None], axis=2)
    nearest = distance <= distance.min(1, keepdims=True) * (1 + 1e-12)  # equal tokens are so up to round-off
    return (np.diag(nearest) / nearest.sum(1)).sum()


def rate(samples, g, cosine):
    return sum(hits(g(states), tokens, cosine) for states, tokens in samples) / sum(len(tokens) for _, tokens in samples)


def ridge(samples, share):
    """states -> tokens, by least squares with the penalty lambda = share * mean variance of a channel."""
    x, y = (np.vstack(parts) for parts in zip(*samples))
    mean_x, mean_y = x.mean(0), y.mean(0)
    covariance = (x - mean_x).T @ (x - mean_x) / len(x)
    penalty = share * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    slope = np.linalg.solve(covariance + penalty, (x - mean_x).T @ (y - mean_y) / len(x))
    return lambda states: (states - mean_x) @ slope + mean_y


def linear_rate(samples, compared, cosine=False, state=unchanged, token=unchanged):
    """`samples`: (states, tokens) of each of the compared samples, then of those to fit, then of those to choose."""
    chosen = compared + (len(samples) - compared) * 4 // 5
    test, training, validation = ([(state(x), token(y)) for x, y in samples[part]] for part in (
        slice(compared), slice(compared, chosen), slice(chosen, None)))
    maps = [ridge(training, share) for share in LAMBDAS]
    rates = [rate(validation, g, cosine) for g in maps]
    return rate(test, maps[int(np.argmax(rates))], cosine)


def rates_of(model, samples, compared=COMPARED):
    """name -> [row], for the embedded tokens of all samples: the compared ones, and those on which maps are fitted and chosen."""
    embedded = [model.embed(words[None])[0] for words in samples]
    states = [model.run(u)[0] for u in embedded]
    found = {name: [] for name in ("identity_cosine", "identity_l2", "linear_cosine", "linear_l2", "linear_angle", "linear_norm", "smallest")}
    for row in range(model.cells + 1):
        here = [(rows[row], u) for rows, u in zip(states, embedded)]
        test = here[:compared]
        smallest = []
        for x, _ in test:
            distance = np.linalg.norm(x[:, None] - x[None], axis=2)
            smallest.append(distance[~np.eye(len(x), dtype=bool)].min() / np.sqrt((x**2).sum(1).mean()))
        for name, value in (("identity_cosine", rate(test, unchanged, True)), ("identity_l2", rate(test, unchanged, False)),
                            ("linear_cosine", linear_rate(here, compared, True)), ("linear_l2", linear_rate(here, compared)),
                            ("linear_angle", linear_rate(here, compared, state=unit, token=unit)),
                            ("linear_norm", linear_rate(here, compared, state=lengths_of)),
                            ("smallest", min(smallest))):
            found[name].append(value)
    return {name: np.array(values) for name, values in found.items()}


class TokensTest(WrittenModels):
    @classmethod
    def make(cls, maker):
        super().make(maker)
        write_model(maker.path("transformer.h5"), 4, change=twins)
        write_model(maker.path("other.h5"), 5, change=twins)
        write_model(maker.path("unlike.h5"), 6)
        write_model(maker.path("pde.h5"), 7, kind="pde", cells=CELLS, kappa=0.05)
        for epoch in EPOCHS:
            write_model(maker.path(f"transformer.epoch{epoch}.h5"), 20 + epoch)
            write_model(maker.path(f"pde.epoch{epoch}.h5"), 30 + epoch, kind="pde", cells=CELLS, kappa=0.05)

    def setUp(self):
        """`samples`: the compared ones, and then those to fit."""
        super().setUp()
        self.identifiability("--identifiability.measures=weights", "--identifiability.rows=0", count=COMPARED + FIT, output="all.h5",
                             transformer="unlike.h5")
        self.samples = self.drawn_of(texts())

    def rates(self, *arguments, **models):
        return self.identifiability(*LINEAR, *arguments, count=COMPARED, **models)

    def model(self, name):
        return Marched(self.path(f"models/{name}.h5"))


class Rates(TokensTest):
    def test_are_those_of_maps_fitted_chosen_and_judged_on_samples_of_their_own(self):
        found = self.rates(transformer="transformer.h5", independent="pde.h5")
        tokens = sum(len(words) for words in self.samples[:COMPARED])
        for name, file in (("transformer", "transformer"), ("independent", "pde")):
            expected = rates_of(self.model(file), self.samples)
            np.testing.assert_allclose(found[f"{name}/smallest_distance"][0], expected.pop("smallest"), rtol=1e-11, atol=1e-15)
            # Whole numbers of tokens, divided.
            self.assert_numbers(found, {f"{name}/rate_{of}": values for of, values in expected.items()}, atol=1e-12)
            self.assert_numbers(found, {f"{name}/chance": COMPARED / tokens, f"{name}/sample_tokens": tokens / COMPARED}, rtol=1e-12)
            self.assertTrue(np.isnan(found[f"{name}/rate_mlp_l2"]).all())

    def test_of_tokens_that_cannot_be_told_apart_are_shared(self):
        found = self.rates(transformer="transformer.h5")
        alike = 0
        for words in self.samples[:COMPARED]:
            for token, word in enumerate(words):
                twin = token + 1 - 2 * (token % 2)
                alike += twin < len(words) and words[twin] == word
        share = alike / sum(len(words) for words in self.samples[:COMPARED])
        self.assertGreater(share, 0.02)
        self.assertAlmostEqual(found["transformer/identical"][0], share, places=12)
        for name in ("identity_l2", "identity_cosine", "linear_l2"):
            self.assertAlmostEqual(found[f"transformer/rate_{name}"][0, 0], 1 - share / 2, places=12)
        self.assertEqual(found["transformer/smallest_distance"][0, 0], 0)

    def test_of_tokens_in_random_order_are_those_of_chance(self):
        found = self.rates(transformer="unlike.h5")
        lengths = np.array([len(words) for words in self.samples[:COMPARED]])
        # At depth 0 every token is found where the order leaves it in its place: one of a sample in the mean, with variance one.
        at_start = found["transformer/rate_shuffled"][0, 0] * lengths.sum()
        self.assertLess(abs(at_start - COMPARED), 4 * np.sqrt(COMPARED))

    def test_after_an_epoch_are_those_of_its_copy(self):
        found = self.rates("--identifiability.epochs=0,2", transformer="transformer.h5", independent="pde.h5")
        for name, file in (("transformer", "transformer"), ("independent", "pde")):
            for at, epoch in enumerate(EPOCHS):
                expected = rates_of(self.model(f"{file}.epoch{epoch}"), self.samples)
                for of in ("identity_cosine", "identity_l2", "linear_cosine", "linear_l2"):
                    np.testing.assert_allclose(found[f"{name}/epoch_rate_{of}"][0, at], expected[of], atol=1e-12, err_msg=f"{name} {of}, {epoch}")

    def test_of_the_untrained_model_do_not_depend_on_what_was_trained(self):
        one, other = (self.rates(transformer=f"{name}.h5", output=f"of_{name}.h5") for name in ("transformer", "other"))
        for of in ("identity_cosine", "identity_l2", "linear_cosine", "linear_l2"):
            untrained = one[f"transformer/rate_{of}_untrained"]
            np.testing.assert_allclose(untrained, other[f"transformer/rate_{of}_untrained"], atol=1e-12)
            for trained in (one, other):
                self.assertTrue((untrained[0, 1:] != trained[f"transformer/rate_{of}"][0, 1:]).any())
        self.assertTrue((one["transformer/rate_identity_l2_untrained"][0, 1:] > 2 * one["transformer/chance"][0]).all())


class Padding(TokensTest):
    def test_adding_more_of_it_changes_nothing(self):
        arguments = (*LINEAR[:1], LINEAR[2], "--identifiability.hidden=4", "--identifiability.fit_epochs=2")
        models = {"transformer": "transformer.h5", "independent": "pde.h5"}
        short = self.identifiability(*arguments, count=COMPARED, **models)
        found = self.identifiability(*arguments, count=COMPARED, file="longer_text.h5", output="long.h5", **models)
        self.assertEqual(sorted(found), sorted(short))
        for name, values in found.items():
            if not name.endswith("seconds"):
                np.testing.assert_allclose(values, short[name], rtol=1e-11, atol=1e-12, err_msg=name)


if __name__ == "__main__":
    unittest.main()
