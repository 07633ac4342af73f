#!/usr/bin/env python3
"""`identifiability`, attribution: contributions, the accounts beside them and their agreement with blanked tokens are numpy's, whatever
tokens the classifier reads, whatever tokens are, wherever they lie, and however many depth cells a layer has.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402 (the folder is put on the path first)
from scipy import stats  # noqa: E402

from identifiability_models import CELLS, LAYERS, SAMPLES, TOKENS, Marched, WrittenModels, features, spearman, texts, write_model  # noqa: E402
from made_up_images import idx, rows_of_test_images, write_mnist  # noqa: E402
from program import SEVERAL_RANKS  # noqa: E402

IMAGES = 20
LAST_OF_GROUP = np.array([0, 1, 2, 3, 5, 10])  # distances 0, 1, 2, 3, 4-5, 6-10, 11 and more
ACCOUNTS = ("raw", "effective", "norm_based", "rollout", "flow", "contributions")
ATTRIBUTION = ("--identifiability.measures=attribution",)
MNIST = ("--data.set=mnist", "--data.directory=models/data", "--data.tokens=patches")
# Sums and quotients of some hundred numbers of order one; derivatives without differences.
TOLERANCE = 1e-11


def patches(images):
    """[image, patch, pixel] from [image, row, column]."""
    return images.reshape(len(images), 7, 4, 7, 4).swapaxes(2, 3).reshape(len(images), 49, 16)


def largest_flow(matrices, source, sink):
    """From token `source` above the last matrix to token `sink` below the first; by augmenting paths, a shortest one at a time."""
    n = len(matrices[0])
    room = np.zeros((n * (len(matrices) + 1),) * 2)
    for level, capacity in enumerate(matrices):
        room[(level + 1) * n:(level + 2) * n, level * n:(level + 1) * n] = capacity
    flow, begin = 0.0, n * len(matrices) + source
    while True:
        before, waiting = {begin: None}, [begin]
        for node in waiting:
            for other in np.nonzero(room[node] > 1e-15)[0]:
                if other not in before:
                    before[other] = node
                    waiting.append(other)
        if sink not in before:
            return flow
        path = [sink]
        while path[-1] != begin:
            path.append(before[path[-1]])
        down, up = path[1:], path[:-1]
        amount = room[down, up].min()
        room[down, up] -= amount
        room[up, down] += amount
        flow += amount


def on_column_space(weights, values):
    u, s, _ = np.linalg.svd(values, full_matrices=False)
    u = u[:, s > 1e-10 * s[0]]
    return weights if u.shape[1] == len(u) else weights @ u @ u.T


def effective(weights, values, causal):
    if not causal:
        return on_column_space(weights, values)
    rows = [on_column_space(weights[i:i + 1, :i + 1], values[:i + 1]) for i in range(len(weights))]
    return np.array([np.pad(row[0], (0, len(weights) - row.size)) for row in rows])


class Sample:
    """What numpy makes of one sample: the accounts of its tokens and what happens when they are blanked."""

    def __init__(self, model, tokens, blank, plan):
        self.model, self.tokens, self.blank = model, tokens, blank
        self.embedded = self.embed(tokens)
        self.n = len(self.embedded)
        self.rows, self.attention, self.logits = model.run(self.embedded)
        blocks = model.blocks(self.embedded)
        norms = np.linalg.norm(blocks, 2, axis=(3, 4)) if plan["spectral"] else np.sqrt((blocks**2).sum((3, 4)))
        self.c = norms / norms.sum(1, keepdims=True)  # [row, input token, hidden token]
        self.outputs = {"first": [0], "last": [self.n - 1]}.get(plan["pooling"], list(range(self.n)))
        # Blanking tells nothing of a token that is none of the sample's.
        self.kept = list(range(plan["class_token"], self.n))
        self.blank_out()
        self.accounts = [self.accounts_of(layer, plan["flow_tokens"]) for layer in range(model.layers)]

    def embed(self, tokens):
        return self.model.embed(tokens[None])[0]

    def blank_out(self):
        """change, drop and how far the token moves, by token."""
        self.effects = {"": np.full(self.n, np.nan), "_drop": np.full(self.n, np.nan)}
        self.moved = np.zeros(self.n)
        for i in self.kept:
            others = np.delete(np.arange(self.n), i)
            if self.blank is None:
                u, after = np.delete(self.embedded, i, 0), np.arange(self.n - 1)
                self.moved[i] = np.linalg.norm(self.embedded[i])
            else:
                tokens, after = self.tokens.copy(), others
                tokens[i] = self.blank
                u = self.embed(tokens)
                # Before positions are added, so that equal tokens move equally.
                self.moved[i] = np.linalg.norm(self.model.arrays["embedding/W"] @ (self.tokens[i] - self.blank))
            rows, _, logits = self.model.run(u)
            if logits is None:
                self.effects[""][i] = np.linalg.norm(rows[-1][after] - self.rows[-1][others])
            else:
                self.effects[""][i] = np.linalg.norm(logits - self.logits)
                self.effects["_drop"][i] = (self.logits - logits)[self.logits.argmax()]

    def accounts_of(self, layer, flow_tokens):
        """name -> scores of the input tokens, at the end of a layer or within it."""
        model, first, end = self.model, self.model.entry(layer), self.model.entry(layer + 1)
        heads = [(a, v @ h) for a, (v, h) in zip(self.attention[first], model.values(self.rows[first], layer + 1))]
        through = [(np.eye(self.n) + model.step * a.mean(0)) / (1 + model.step) for a in self.attention[:end]]
        rolled = np.eye(self.n)
        for matrix in through:
            rolled = matrix @ rolled
        found = {"raw": self.attention[first].mean(0), "effective": np.mean([abs(effective(a, t, model.causal)) for a, t in heads], 0),
                 "norm_based": np.linalg.norm(sum(a[:, :, None] * t for a, t in heads), axis=2), "rollout": rolled,
                 "contributions": self.c[end].T}
        scores = {name: matrix[self.outputs].mean(0) for name, matrix in found.items()}
        count = min(flow_tokens, len(self.outputs))
        flows = [[largest_flow(through, self.outputs[k * len(self.outputs) // count], i) for i in range(self.n)] for k in range(count)]
        return scores | {"flow": np.mean([np.array(flow) / sum(flow) for flow in flows], 0)}

    def agreement(self, effect, name, layer, moved):
        scores = (self.accounts[layer][name] * (self.moved if moved else 1))[self.kept]
        return spearman(scores, self.effects[effect][self.kept])


def agreements(samples):
    """Means of the rank correlations over the samples."""
    found = {}
    for effect in ("", "_drop"):
        if np.isnan(samples[0].effects[effect][-1]):
            continue
        found[f"agreement_moved{effect}"] = np.mean([spearman(one.moved[one.kept], one.effects[effect][one.kept]) for one in samples])
        for name in ACCOUNTS:
            for moved in (False, True):
                found[f"agreement_{name}{effect}{'_times_moved' * moved}"] = [
                    np.nanmean([one.agreement(effect, name, layer, moved) for one in samples]) for layer in range(len(samples[0].accounts))]
    return found


def contributions(samples, columns, leading):
    """What is told of c by row, for tokens on a lattice of so many columns (0: a line), behind `leading` ones that have no place."""
    found = {}
    for row in range(len(samples[0].c)):
        own, largest, half, sums, pairs, placed = [], [], [], np.zeros(7), np.zeros(7), 0
        for one in samples:
            c = one.c[row]
            own.extend(np.diag(c))
            largest.extend(np.diag(c) == c.max(0))
            y, x = np.divmod(np.arange(one.n - leading), columns or one.n)
            distance = abs(y[:, None] - y) + abs(x[:, None] - x)
            inside = c[leading:, leading:]
            placed += len(inside)
            group = np.searchsorted(LAST_OF_GROUP, distance)
            np.add.at(sums, group, inside)
            np.add.at(pairs, group, 1)
            for column, far in zip(inside.T, distance):
                half.append(next(r for r in range(99) if column[far <= r].sum() >= (0.5 - 1e-12) * column.sum()))
        with np.errstate(invalid="ignore"):
            told = {"own_share": np.mean(own), "own_share_lower": np.quantile(own, 0.25), "own_share_median": np.median(own),
                    "own_share_upper": np.quantile(own, 0.75), "own_largest": np.mean(largest), "half_distance": np.mean(half),
                    "contribution_by_distance": sums / placed, "contribution_by_pair": sums / pairs}
        for name, value in told.items():
            found.setdefault(name, []).append(value)
    return found


class AttributionTest(WrittenModels):
    @classmethod
    def make(cls, maker):
        super().make(maker)
        write_mnist(maker.path("data"), training=10, test=IMAGES)
        write_model(maker.path("transformer.h5"), 8)
        write_model(maker.path("pde.h5"), 9, kind="pde", cells=CELLS, kappa=0.05)
        write_model(maker.path("last.h5"), 10, norm="post", causal="on", pooling="last")
        write_model(maker.path("states.h5"), 11, classes=0)
        write_model(maker.path("class_token.h5"), 12, inputs=features()["features"].shape[2], class_token=True, pooling="first")
        write_model(maker.path("images.h5"), 13, inputs=16, tokens=49, classes=10, kappa=0.05)

    def words(self):
        return self.drawn_of(texts())

    def assert_numpys(self, found, name, file, tokens, *, blank=None, columns=0, **plan):
        """All numbers of a run, for the tokens of the attributed samples."""
        plan = {"flow_tokens": 2, "pooling": "mean", "class_token": 0, "spectral": False, **plan}
        model = Marched(self.path("models/" + file), columns=columns)
        samples = [Sample(model, one, blank, plan) for one in tokens]
        expected = agreements(samples) | contributions(samples, columns, plan["class_token"])
        self.assert_numbers(found, {f"{name}/{of}": values for of, values in expected.items()}, atol=TOLERANCE)
        n = samples[0].n
        self.assert_numbers({"map": found[f"{name}/contribution_map"][:, :, :n, :n], "change": found[f"{name}/blanked_change"][:, :n]},
                            {"map": samples[0].c, "change": samples[0].effects[""]}, atol=TOLERANCE)
        self.assertFalse(found[f"{name}/contribution_map"][0, :, n:].any() or found[f"{name}/contribution_map"][0, ..., n:].any())
        self.assertTrue(np.isnan(found[f"{name}/blanked_change"][0, n:]).all())
        return samples

    def attribution(self, *arguments, attributed=SAMPLES, flow_tokens=2, **more):
        return self.identifiability(*ATTRIBUTION, f"--identifiability.attributed={attributed}", f"--identifiability.flow_tokens={flow_tokens}",
                                    *arguments, **more)


class Accounts(AttributionTest):
    def test_of_a_transformer_are_numpys(self):
        found = self.attribution(transformer="transformer.h5")
        self.assert_numpys(found, "transformer", "transformer.h5", self.words())

    def test_of_a_pde_model_go_through_each_depth_cell(self):
        found = self.attribution(independent="pde.h5", attributed=4)
        self.assert_numpys(found, "independent", "pde.h5", self.words()[:4])

    def test_of_a_causal_model_are_read_at_its_last_token(self):
        found = self.attribution(transformer="last.h5")
        samples = self.assert_numpys(found, "transformer", "last.h5", self.words(), pooling="last")
        for row in range(LAYERS + 1):
            np.testing.assert_array_equal(np.tril(found["transformer/contribution_map"][0, row, :samples[0].n, :samples[0].n], -1), 0)

    def test_of_states_without_classes_are_held_against_the_other_states(self):
        found = self.attribution(transformer="states.h5")
        self.assert_numpys(found, "transformer", "states.h5", self.words())
        self.assertTrue(np.isnan(found["transformer/agreement_raw_drop"]).all())

    def test_with_a_class_token_are_read_there_and_blanked_by_the_mean_of_all_real_tokens(self):
        found = self.attribution(transformer="class_token.h5", file="features.h5", attributed=4)
        tokens = self.drawn_of(features(), "features")
        blank = np.vstack([one[1:] for one in tokens]).mean(0)  # of all compared samples, of which some are attributed
        samples = self.assert_numpys(found, "transformer", "class_token.h5", tokens[:4], blank=blank, pooling="first", class_token=1)
        self.assertTrue(np.isnan(samples[0].effects[""][0]))

    def test_of_images_lie_on_the_lattice_of_patches(self):
        found = self.attribution(transformer="images.h5", file=MNIST, attributed=2, flow_tokens=1)
        images = patches(rows_of_test_images(self.path("models/data")))[self.drawn]
        self.assert_numpys(found, "transformer", "images.h5", images[:2], blank=images.mean((0, 1)), columns=7, flow_tokens=1)
        self.assertTrue((found["transformer/contribution_by_distance"][0, 1:] > 0).all())

    def test_by_spectral_norms_are_numpys(self):
        found = self.attribution("--identifiability.norm=spectral", transformer="transformer.h5")
        self.assert_numpys(found, "transformer", "transformer.h5", self.words(), spectral=True)


class EqualPatches(AttributionTest):
    """Images of a bright bar on black: most patches are equal, as those of handwritten digits."""

    @classmethod
    def make(cls, maker):
        super().make(maker)
        random = np.random.default_rng(4)
        images = np.zeros((IMAGES, 28, 28), np.uint8)
        # A bar of 3 columns across 8 rows: it touches 2 or 4 of the patches of every three rows of patches.
        for image, column in zip(images, random.integers(4, 20, IMAGES)):
            image[8:16, column:column + 3] = random.integers(100, 256, (8, 3))
        images[3] = 0  # no patch differs from another one: how far they move tells nothing
        for split in ("train", "t10k"):
            for kind, numbers in (("images-idx3", images), ("labels-idx1", (np.arange(IMAGES) % 10).astype(np.uint8))):
                with open(maker.path(f"data/{split}-{kind}-ubyte"), "wb") as stream:
                    stream.write(idx(numbers.tobytes(), *numbers.shape))
        # Tokens without a place: equal patches have equal scores and effects, too.
        write_model(maker.path("placeless.h5"), 13, inputs=16, tokens=49, classes=10, change=lambda arrays: arrays["embedding/position"].fill(0))

    def effects_of(self, model, image, blank):
        """The change of the logits by blanked patch."""
        def logits(tokens):
            return model.run(model.embed(tokens[None])[0])[2]
        whole, found = logits(image), []
        for patch in range(len(image)):
            changed = image.copy()
            changed[patch] = blank
            found.append(np.linalg.norm(logits(changed) - whole))
        return np.array(found)

    def expected(self, name, equal_effects):
        """The mean correlation by scipy, with ties that are exact: equal patches have one distance, and if asked for one effect."""
        model = Marched(self.path("models/" + name), columns=7)
        images = patches(rows_of_test_images(self.path("models/data")))[self.drawn]
        blank, found = images.mean((0, 1)), []
        for image in images:
            kinds, of_kind = np.unique(image, axis=0, return_inverse=True)
            of_kind = of_kind.ravel()
            if len(kinds) == 1:
                continue
            moved = np.linalg.norm((kinds - blank) @ model.arrays["embedding/W"].T, axis=1)[of_kind]
            effects = self.effects_of(model, image, blank)
            if equal_effects:
                effects = np.array([effects[of_kind == kind].mean() for kind in range(len(kinds))])[of_kind]
            found.append(stats.spearmanr(moved, effects)[0])
        return np.mean(found)

    def test_have_the_ranks_of_exact_ties_on_any_number_of_ranks(self):
        for name in ("images.h5", "placeless.h5"):
            one = self.attribution(transformer=name, file=MNIST, attributed=SAMPLES, flow_tokens=0, output=f"1_{name}")
            np.testing.assert_allclose(one["transformer/agreement_moved"][0], self.expected(name, name == "placeless.h5"), rtol=1e-10, err_msg=name)
            for ranks in SEVERAL_RANKS:
                self.assert_same_numbers(one, self.attribution(transformer=name, file=MNIST, attributed=SAMPLES, flow_tokens=0, ranks=ranks,
                                                               output=f"{ranks}_{name}"))


class Ranks(AttributionTest):
    def test_of_any_number_give_the_same_numbers(self):
        runs = [((), {"transformer": "class_token.h5", "file": "features.h5"}),
                (("--identifiability.probes=64",), {"transformer": "transformer.h5"})]
        for place, (arguments, models) in enumerate(runs):
            one = self.attribution(*arguments, output=f"one{place}.h5", **models)
            for ranks in SEVERAL_RANKS:
                self.assert_same_numbers(one, self.attribution(*arguments, ranks=ranks, output=f"{ranks}of{place}.h5", **models))
        # A square is a mean of 64 squares, whose deviation is at most sqrt 2 of it: the largest errors are some sqrt(2/64).
        self.assertTrue(0.05 < one["transformer/contribution_error"][0] < 0.4)


class RandomDirections(AttributionTest):
    def test_are_at_least_64_or_none(self):
        for probes in (1, 63):
            end = self.run_program("identifiability", "--quiet", *ATTRIBUTION, "--models.transformer=models/transformer.h5", "--data.set=tokens",
                                   "--data.file=models/text.h5", f"--samples.count={SAMPLES}", f"--identifiability.attributed={SAMPLES}",
                                   f"--identifiability.probes={probes}")
            self.assert_refused(end, f"identifiability.probes = {probes}")


class Padding(AttributionTest):
    def test_adding_more_of_it_changes_nothing(self):
        for place, (file, models) in enumerate((("text.h5", {"transformer": "transformer.h5", "independent": "pde.h5"}),
                                                ("text.h5", {"transformer": "last.h5"}), ("features.h5", {"transformer": "class_token.h5"}))):
            short = self.attribution(output=f"short{place}.h5", file=file, **models)
            found = self.attribution(output=f"long{place}.h5", file=f"longer_{file}", **models)
            self.assertEqual(sorted(found), sorted(short))
            for name, values in found.items():
                if name.endswith("contribution_map"):
                    self.assertFalse(values[..., TOKENS:, :].any() or values[..., TOKENS:].any())
                    values = values[..., :TOKENS, :TOKENS]
                if name.endswith("blanked_change"):
                    self.assertTrue(np.isnan(values[..., TOKENS:]).all())
                    values = values[..., :TOKENS]
                if not name.endswith("seconds"):
                    # Sums of a longer line may be in another order.
                    np.testing.assert_allclose(values, short[name], rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


if __name__ == "__main__":
    unittest.main()
