#!/usr/bin/env python3
"""`fluxformer convert`: what may be done to the weights of a layer and what not, layers that are brought close to each other, and weights linear
between knots. Models are computed in numpy (numpy_equation.py), which convert_runs_test.py holds to the program."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from numpy_equation import Equation, made_up  # noqa: E402
from python_package import FolderTest, call  # noqa: E402

from fluxformer.convert.continuity import least_share, orders, roughness, share_as_smooth  # noqa: E402
from fluxformer.convert.gauges import aligned, balanced, canonical, distance, size  # noqa: E402
from fluxformer.convert.knots import WAYS, convert, fit, hats, pick  # noqa: E402
from fluxformer.convert.transformer import read_transformer  # noqa: E402

RANDOM = np.random.default_rng(45)
FEATURES = RANDOM.normal(size=(3, 7, 5))
# Numbers of order one; four layers of sums of at most 12 terms each. What is computed in another order differs by some hundred roundings of 1.1e-16.
SAME = 1e-12
LEGAL, ILLEGAL = 1e-11, 1e-6  # of the logits, by changes of order one: matrices whose condition is about 10
KINDS = [{"norm": norm, "activation": activation} for norm in ("pre", "post", "none") for activation in ("gelu_erf", "relu")]
# Linear attention is of third order in the state: without a norm it grows without bound unless it is weak.
KINDS += [{"norm": norm, "normalisation": "linear", "alpha": 0.9 if norm != "none" else 0.02} for norm in ("pre", "post", "none")]
KINDS += [{"normalisation": "sinkhorn", "iterations": 2}, {"normalisation": "sinkhorn", "iterations": 3, "norm": "none"}, {"kernel": "l2"},
          {"kernel": "l2", "norm": "post"}, {"kappas": 12}, {"order": "parallel"}, {"order": "macaron", "activation": "relu"},
          {"order": "macaron", "halves": True}, {"norm": "post", "order": "macaron", "halves": True}, {"subflow": "midpoint"}, {"norm": "post", "subflow": "midpoint"}]


def rotation(size):
    return np.linalg.qr(RANDOM.normal(size=(size, size)))[0]


def invertible(size):
    """A matrix of condition 3, neither symmetric nor a rotation."""
    return rotation(size) @ np.diag(np.linspace(0.6, 1.8, size)) @ rotation(size)


def of_heads(blocks):
    """The matrix with these blocks on its diagonal."""
    found = np.zeros((sum(map(len, blocks)),) * 2)
    start = 0
    for block in blocks:
        found[start:start + len(block), start:start + len(block)] = block
        start += len(block)
    return found


def mapped(layer, maps):
    """The layer with W, b replaced by A W, A b for each letter of `maps`, and W_O by W_O A for the letter O."""
    found = dict(layer)
    for letter, matrix in maps.items():
        if letter == "O":
            found["W_O"] = layer["W_O"] @ matrix
        else:
            found["W_" + letter], found["b_" + letter] = matrix @ layer["W_" + letter], matrix @ layer["b_" + letter]
    return found


def permuted_heads(layer, heads=3):
    blocks = np.arange(len(layer["W_Q"])).reshape(heads, -1)[np.roll(np.arange(heads), 1)].ravel()
    turn = np.eye(len(blocks))[blocks]
    return mapped(layer, {"Q": turn, "K": turn, "V": turn, "O": turn.T})


def permuted_units(layer, half=""):
    unit = np.roll(np.arange(len(layer["b_1"])), 3)
    return {**layer, half + "W_1": layer[half + "W_1"][unit], half + "b_1": layer[half + "b_1"][unit], half + "W_2": layer[half + "W_2"][:, unit]}


def scaled_units(layer, scale):
    return {**layer, "W_1": scale[:, None] * layer["W_1"], "b_1": scale * layer["b_1"], "W_2": layer["W_2"] / scale}


def folded(layer):
    """Gain and bias of both LayerNorms go into the maps that read them."""
    found = dict(layer)
    for norm, letters in (("norm1_", "QKV"), ("norm2_", "1")) + ((("half_norm_", "1"),) if "half_W_1" in layer else ()):
        half = "half_" if norm.startswith("half_") else ""
        for letter in letters:
            weight = layer[f"{half}W_{letter}"]
            found[f"{half}W_{letter}"], found[f"{half}b_{letter}"] = weight * layer[norm + "gain"], layer[f"{half}b_{letter}"] + weight @ layer[norm + "bias"]
        found[norm + "gain"], found[norm + "bias"] = np.ones(len(layer["b_O"])), np.zeros(len(layer["b_O"]))
    return found


def permuted_channels(layer):
    """All that a layer reads and writes in other channels: the same for a layer alone, not for one between others."""
    turn = np.eye(len(layer["b_O"]))[np.roll(np.arange(len(layer["b_O"])), 5)]
    found = {**layer, **{name: layer[name] @ turn.T for name in ("W_Q", "W_K", "W_V", "W_1")}, **{name: turn @ layer[name] for name in ("W_O", "b_O", "W_2", "b_2")}}
    return found | {name: turn @ layer[name] for name in layer if name.startswith("norm")}


def rows():
    """The table of docs/model.md, section 12: (what is done to a layer, whether the structure `of` of the model allows it)."""
    heads = [invertible(4) for _ in range(3)]
    any_map, its_inverse = of_heads(heads), of_heads([np.linalg.inv(one) for one in heads])
    turn = of_heads([rotation(4) for _ in range(3)])
    shift, ones = RANDOM.normal(size=12), np.ones(12)
    return {
        "heads permuted": (permuted_heads, lambda of: True),
        "q by A, k by A^-T": (lambda w: mapped(w, {"Q": any_map, "K": its_inverse.T}), lambda of: of.kernel == "dot"),
        "q and k rotated": (lambda w: mapped(w, {"Q": turn, "K": turn}), lambda of: True),
        "v by B, W_O by B^-1": (lambda w: mapped(w, {"V": any_map, "O": its_inverse}), lambda of: True),
        "units permuted": (permuted_units, lambda of: True),
        "b_K arbitrary": (lambda w: {**w, "b_K": w["b_K"] + shift}, lambda of: of.any_key_bias),
        "b_V into b_O": (lambda w: {**w, "b_V": w["b_V"] + shift, "b_O": w["b_O"] - w["W_O"] @ shift}, lambda of: of.rows_sum_to_1),
        "LayerNorm folded": (folded, lambda of: of.folds),
        "w 1^T on what reads a normalised state": (lambda w: {**folded(w), "W_Q": folded(w)["W_Q"] + np.outer(shift, ones), "W_1": folded(w)["W_1"] + 0.3},
                                                   lambda of: of.folds),
        "a constant over channels on what attention returns": (lambda w: {**w, "W_O": w["W_O"] + np.outer(ones, shift), "b_O": w["b_O"] + 0.4}, lambda of: of.blind_to_means),
        "a constant over channels on what the reaction returns": (lambda w: {**w, "W_2": w["W_2"] + np.outer(ones, shift[:10]), "b_2": w["b_2"] - 0.4},
                                                                  lambda of: of.blind_to_means),
        "units scaled": (lambda w: scaled_units(w, np.linspace(0.5, 2, 10)), lambda of: of.activation == "relu"),
        "signs of units": (lambda w: scaled_units(w, np.where(np.arange(10) % 3, 1.0, -1.0)), lambda of: False),
        "channels permuted": (permuted_channels, lambda of: False)}


class ConvertTest(FolderTest):
    def read(self, model):
        """The Transformer of a model in numpy, as the package reads it."""
        with h5py.File(model.write(self.path("read.h5")), "r") as file:
            return read_transformer("read.h5", file)

    def converted(self, model, knots, how):
        """The PDE model of the command."""
        end = call("convert", model.write(self.path("model.h5")), "--knots", knots, "--how", how, "--output", self.path("pde.h5"), "--overwrite")
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        return Equation.read(self.path("pde.h5"))

    def assert_close(self, got, wanted, most):
        """Relative to the largest number."""
        self.assertLess(np.abs(got - wanted).max(), most * np.abs(wanted).max())

    def assert_same_layers(self, got, wanted, most):
        self.assertEqual(len(got), len(wanted))
        for one, other in zip(got, wanted):
            self.assertEqual(sorted(one), sorted(other))
            for name in one:
                self.assertLess(np.abs(one[name] - other[name]).max(), most, name)


class Gauges(ConvertTest):
    def test_every_row_of_the_table_is_true_of_every_kind_of_model(self):
        for kind in KINDS:
            model = made_up(RANDOM, **kind)
            structure, wanted, seen = self.read(model).structure, model.logits(FEATURES), set()
            for name, (change, legal) in rows().items():
                with self.subTest(name, **kind):
                    # One layer: what all layers share could be free where one alone is not.
                    layers = [change(layer) if number == 1 else layer for number, layer in enumerate(model.layers)]
                    change_of_logits = np.abs(model.with_layers(layers).logits(FEATURES) - wanted).max()
                    seen.add(legal(structure))
                    if legal(structure):
                        self.assertLess(change_of_logits, LEGAL)
                    else:
                        self.assertGreater(change_of_logits, ILLEGAL)
            self.assertEqual(seen, {True, False})

    def test_the_canonical_member_is_the_same_model(self):
        for kind in KINDS:
            with self.subTest(**kind):
                model = made_up(RANDOM, **kind)
                structure = self.read(model).structure
                other = model.with_layers([canonical(layer, structure) for layer in model.layers])
                self.assert_close(other.logits(FEATURES), model.logits(FEATURES), SAME)
                got, wanted = other.march(FEATURES), model.march(FEATURES)
                if structure.norm == "pre" and structure.blind_to_means:  # what LayerNorm sees of them
                    got, wanted = got - got.mean(-1, keepdims=True), wanted - wanted.mean(-1, keepdims=True)
                self.assert_close(got, wanted, SAME)

    def test_without_a_final_layer_norm_the_last_state_stays_as_it_is(self):
        model = made_up(RANDOM)
        for name in ("final_norm/gain", "final_norm/bias"):
            del model.arrays[name]
        structure = self.read(model).structure
        other = model.with_layers([canonical(layer, structure) for layer in model.layers])
        self.assert_close(other.march(FEATURES), model.march(FEATURES), SAME)

    def test_balanced_heads_have_the_least_sum_of_squares_and_equal_gram_matrices(self):
        one, other = RANDOM.normal(size=(2, 3, 4, 13))
        left, right = balanced((one, other))
        for head in range(3):
            product = one[head].T @ other[head]
            np.testing.assert_allclose(left[head].T @ right[head], product, atol=1e-12)
            np.testing.assert_allclose(left[head] @ left[head].T, right[head] @ right[head].T, atol=1e-12)
            self.assertAlmostEqual((left[head]**2).sum() + (right[head]**2).sum(), 2 * np.linalg.norm(product, "nuc"), places=11)

    def test_all_that_is_legal_at_once_leads_to_one_canonical_member_but_for_rotations_and_permutations(self):
        for kind in KINDS:
            structure = self.read(made_up(RANDOM, **kind)).structure
            layer = made_up(RANDOM, **kind).layers[0]
            other = layer
            for _, (change, legal) in sorted(rows().items()):
                if legal(structure):
                    other = change(other)
            with self.subTest(**kind):
                one, other = canonical(layer, structure), canonical(other, structure)
                self.assertGreater(distance(one, other), 1)
                self.assertLess(distance(aligned(other, one, structure, rotate=True), one), 1e-20)  # 600 numbers, each to some 1e-14

    def test_a_layer_that_was_rotated_and_permuted_is_found_again(self):
        for kind in KINDS:
            structure = self.read(made_up(RANDOM, **kind)).structure
            layer = canonical(made_up(RANDOM, **kind).layers[0], structure)
            turns = {letter: of_heads([rotation(4) for _ in range(3)]) for letter in "QV"}
            other = permuted_units(permuted_heads(mapped(layer, {"Q": turns["Q"], "K": turns["Q"], "V": turns["V"], "O": turns["V"].T})))
            if "half_W_1" in layer:
                other = permuted_units(other, "half_")
            with self.subTest(**kind):
                self.assertGreater(distance(other, layer), 1)
                self.assertLess(distance(aligned(other, layer, structure, rotate=True), layer), 1e-20)
                self.assertGreater(distance(aligned(other, layer, structure, rotate=False), layer), 1)

    def test_an_aligned_layer_is_the_same_model_and_never_further_away(self):
        for kind in KINDS:
            model = made_up(RANDOM, **kind)
            structure, layers = self.read(model).structure, model.layers
            for rotate in (False, True):
                with self.subTest(rotate=rotate, **kind):
                    # Rotations of queries with keys, and of values with outputs, are legal before layers are canonical, too.
                    near = [layers[0], *(aligned(layer, layers[0], structure, rotate) for layer in layers[1:])]
                    self.assert_close(model.with_layers(near).logits(FEATURES), model.logits(FEATURES), SAME)
                    for before, after in zip(layers[1:], near[1:]):
                        self.assertLess(distance(after, layers[0]), distance(before, layers[0]))

    def test_the_aligned_distance_is_symmetric(self):
        model = made_up(RANDOM, layers=6)
        structure = self.read(model).structure
        layers = [canonical(layer, structure) for layer in model.layers]
        for rotate in (False, True):
            for one in layers:
                for other in layers:
                    there = distance(aligned(one, other, structure, rotate), other)
                    self.assertLess(abs(there - distance(aligned(other, one, structure, rotate), one)), 1e-10)

    def test_no_permutation_of_heads_and_units_is_closer(self):
        """All of them, of a layer with two heads and three units."""
        import itertools
        model = made_up(RANDOM, layers=2, width=4, heads=2, ffn=3)
        structure, (one, other) = self.read(model).structure, model.layers
        found, best = distance(aligned(one, other, structure, rotate=False), other), np.inf
        for unit in itertools.permutations(range(3)):
            moved = {**one, "W_1": one["W_1"][list(unit)], "b_1": one["b_1"][list(unit)], "W_2": one["W_2"][:, list(unit)]}
            best = min(best, distance(moved, other), distance(permuted_heads(moved, 2), other))
        self.assertAlmostEqual(found, best, places=12)


class Knots(ConvertTest):
    def test_as_many_knots_as_layers_are_the_transformer_whatever_the_way(self):
        for number, kind in enumerate(kind for kind in KINDS if kind.get("norm", "pre") != "post"):
            model = made_up(RANDOM, **kind)
            for how in WAYS if number < 2 else ("permutations", "full"):
                with self.subTest(how=how, **kind):
                    pde = self.converted(model, 4, how)
                    self.assertEqual((pde.attributes["kind"], pde.attributes["weights"], pde.attributes["knots"], pde.attributes["cells"]), ("pde", "linear", 4, 4))
                    self.assert_close(pde.logits(FEATURES), model.logits(FEATURES), SAME)
                    got, wanted = pde.march(FEATURES), model.march(FEATURES)
                    if how == "full" and pde.attributes["norm"] == "pre":
                        got, wanted = got - got.mean(-1, keepdims=True), wanted - wanted.mean(-1, keepdims=True)
                        if kind.get("kappas", 1) > 1:  # then means count, and are kept
                            got, wanted = pde.march(FEATURES), model.march(FEATURES)
                    self.assert_close(got, wanted, SAME)
                    if how in ("fit", "pick"):
                        self.assertEqual(sorted(pde.arrays), sorted(model.arrays))
                        for name, array in model.arrays.items():
                            self.assertEqual(pde.arrays[name].tobytes(), array.tobytes(), name)

    def sampled(self, knots, layers, **kind):
        """(a PDE model, the Transformer that it is on one cell per layer)"""
        model = made_up(RANDOM, layers=layers, **kind)
        pde = model.with_layers(model.layers[:knots], kind="pde", weights="linear")
        transformer = pde.with_layers([pde.weights(cell) for cell in range(layers)], kind="transformer", weights="constant")
        self.assert_close(transformer.logits(FEATURES), pde.logits(FEATURES), SAME)
        return pde, transformer

    def test_a_pde_model_that_was_sampled_at_the_layers_is_found_again(self):
        for knots, layers in ((1, 1), (1, 4), (2, 5), (3, 7), (4, 7), (5, 6), (6, 6)):
            # Knots that stand at layers are picked. Neighbours must be more alike than units are for permutations to leave them in their order.
            for how in ("fit", *(("pick",) if (layers - 1) % max(knots - 1, 1) == 0 else ()), *(("permutations",) if layers > 2 * knots else ())):
                with self.subTest(knots=knots, layers=layers, how=how):
                    pde, transformer = self.sampled(knots, layers)
                    found = self.converted(transformer, knots, how)
                    self.assert_same_layers(found.layers, pde.layers, SAME)
                    self.assert_close(found.logits(FEATURES, cells=3 * layers), pde.logits(FEATURES, cells=3 * layers), SAME)

    def test_so_it_is_by_alignment_and_only_then_if_every_other_layer_was_shuffled(self):
        pde, transformer = self.sampled(3, 7)
        shuffled = transformer.with_layers([permuted_units(permuted_heads(layer)) if number % 2 else layer for number, layer in enumerate(transformer.layers)])
        self.assert_close(shuffled.logits(FEATURES), transformer.logits(FEATURES), SAME)
        fine = {how: self.converted(shuffled, 3, how) for how in ("fit", "permutations")}
        self.assert_same_layers(fine["permutations"].layers, pde.layers, SAME)
        wanted = pde.logits(FEATURES, cells=21)
        self.assert_close(fine["permutations"].logits(FEATURES, cells=21), wanted, SAME)
        self.assertGreater(np.abs(fine["fit"].logits(FEATURES, cells=21) - wanted).max(), 1e-3)

    def test_layers_that_differ_by_legal_changes_alone_become_one_knot(self):
        """Every layer is the first one, changed in every legal way: in full alignment the mean is the layer, in none that does less."""
        for kind in [kind for kind in KINDS if kind.get("norm", "pre") != "post"]:
            model = made_up(RANDOM, **kind)
            structure, layers = self.read(model).structure, model.layers[:1]
            for _ in range(3):
                other = layers[0]
                for _, (change, legal) in sorted(rows().items()):
                    other = change(other) if legal(structure) else other
                layers.append(other)
            with self.subTest(**kind):
                model = model.with_layers(layers)
                # As in the canonical member of one layer: numbers to some 1e-14, of which the next layers make no more than 1e-11.
                self.assert_close(self.converted(model, 1, "full").logits(FEATURES), model.logits(FEATURES), 10 * SAME)
                self.assertLess(convert(layers, 1, "full", structure).missed, 1e-20)
                self.assertGreater(convert(layers, 1, "permutations", structure).missed, 1)

    def test_the_sum_of_squares_never_grows(self):
        for kind in KINDS[::4]:
            model = made_up(RANDOM, layers=5, **kind)
            structure, layers = self.read(model).structure, [{**layer, "kappa": np.full_like(layer["kappa"], 0.1)} for layer in model.layers]
            theta = np.array([np.concatenate([array.ravel() for array in layer.values()]) for layer in layers])
            for knots in range(1, 6):
                with self.subTest(knots=knots, **kind):
                    done = {how: convert(layers, knots, how, structure) for how in WAYS}
                    for one in done.values():
                        self.assertTrue(all(after <= before + 1e-13 * one.total for before, after in zip(one.sums, one.sums[1:])), one.sums)
                    for how in ("permutations", "full"):  # until it settles, or 20 times
                        one = done[how]
                        self.assertTrue(len(one.sums) == 21 or (1 < len(one.sums) < 21 and one.sums[-2] - one.sums[-1] < 1e-12 * one.total), one.sums)
                    self.assertAlmostEqual(done["fit"].missed, ((theta - hats(5, knots) @ fit(5, knots) @ theta)**2).sum(), places=9)
                    self.assertLessEqual(done["fit"].missed, done["pick"].missed + 1e-12)
                    self.assertEqual(len(done["fit"].sums), 1)
                    if 1 < knots < 5:
                        self.assertLess(done["full"].sums[-1], done["full"].sums[0])  # the chain alone is not the best

    def test_least_squares_is_that_of_its_definition(self):
        for layers, knots in ((4, 2), (5, 3), (7, 4), (9, 8), (24, 23)):
            theta, shares = RANDOM.normal(size=(layers, 6)), np.zeros((layers, knots))
            for knot in range(knots):  # the hat of a knot, by numpy
                shares[:, knot] = np.interp(np.arange(layers), np.linspace(0, layers - 1, knots), np.eye(knots)[knot])
            np.testing.assert_allclose(hats(layers, knots), shares, atol=1e-14)
            np.testing.assert_allclose(fit(layers, knots) @ theta, np.linalg.lstsq(shares, theta, rcond=None)[0], atol=1e-11)
            places = np.linspace(0, layers - 1, knots)
            np.testing.assert_allclose(pick(layers, knots) @ theta, np.array([np.interp(places, np.arange(layers), column) for column in theta.T]).T, atol=1e-13)
        np.testing.assert_allclose(fit(5, 1), np.full((1, 5), 0.2), rtol=1e-15)
        self.assertEqual(pick(5, 1).tolist(), [[0, 0, 1, 0, 0]])

    def test_kappa_stays_from_0_on_and_it_is_said(self):
        model = made_up(RANDOM)
        layers = model.layers
        for layer, kappa in zip(layers, (0.0, 0.0, 0.0, 1.0)):  # the line through these is below 0 at the first
            layer["kappa"] = np.array([kappa])
        end = call("convert", model.with_layers(layers).write(self.path("model.h5")), "--knots", 2, "--output", self.path("pde.h5"))
        self.assertIn("1 number of kappa came out below 0 and became 0", end.stdout)
        first, last = Equation.read(self.path("pde.h5")).layers
        self.assertEqual(first["kappa"].tolist(), [0])
        self.assertAlmostEqual(last["kappa"][0], 0.7, places=14)  # -0.2 + 0.3 s


class Merging(ConvertTest):
    def merged(self, model, place):
        """The Transformer of the command."""
        end = call("convert", model.write(self.path("model.h5")), "--merge", place, "--output", self.path("fewer.h5"), "--overwrite")
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        return Equation.read(self.path("fewer.h5"))

    def test_layers_that_differ_by_legal_changes_alone_become_one_step_of_twice_the_length(self):
        for kind in [kind for kind in KINDS if kind.get("norm", "pre") != "post" and kind.get("subflow") != "midpoint"]:
            model = made_up(RANDOM, **kind)
            structure, layers = self.read(model).structure, model.layers
            layers[2] = layers[1]
            for _, (change, legal) in sorted(rows().items()):
                layers[2] = change(layers[2]) if legal(structure) else layers[2]
            with self.subTest(**kind):
                found = self.merged(model.with_layers(layers), 2)
                self.assertEqual([found.attributes[name] for name in ("kind", "layers", "knots", "cells")], ["transformer", 3, 3, 3])
                # Weights constant in layers 2 and 3, read once for both: the cell from s = 1 to 3. Round-off as for one knot.
                self.assert_close(found.logits(FEATURES), model.with_layers(layers).logits(FEATURES, [0, 1, 3, 4]), 10 * SAME)

    def test_layers_that_differ_become_the_mean_of_the_first_and_of_the_second_aligned_to_it(self):
        model = made_up(RANDOM, norm="none")
        layers = [{name: array for name, array in layer.items()} for layer in model.layers]
        layers[3] = {name: array + 1e-3 * RANDOM.normal(size=array.shape) * (name != "kappa") for name, array in layers[2].items()}
        found = self.merged(model.with_layers([*layers[:3], permuted_units(permuted_heads(layers[3]))]), 3)
        mean = {name: (layers[2][name] + layers[3][name]) / 2 for name in layers[2]}
        wanted = model.with_layers([*layers[:2], mean, mean]).logits(FEATURES, [0, 1, 2, 4])
        # Rotations of 1e-3 between the two change the mean by their square.
        self.assert_close(found.logits(FEATURES), wanted, 1e-4)
        without = model.with_layers([*layers[:2], layers[2], layers[2]]).logits(FEATURES, [0, 1, 2, 4])
        self.assertGreater(np.abs(found.logits(FEATURES) - without).max(), 5e-4 * np.abs(wanted).max())


class Keeping(ConvertTest):
    def test_some_layers_are_the_transformer_without_the_others(self):
        for kind in KINDS:
            model = made_up(RANDOM, **kind)
            with self.subTest(**kind):
                end = call("convert", model.write(self.path("model.h5")), "--keep", "1,2,4", "--output", self.path("fewer.h5"), "--overwrite")
                self.assertEqual((end.returncode, end.stderr), (0, ""))
                found, layers = Equation.read(self.path("fewer.h5")), model.layers
                self.assertEqual([found.attributes[name] for name in ("kind", "layers", "knots", "cells")], ["transformer", 3, 3, 3])
                wanted = model.with_layers([layers[0], layers[1], layers[3]])
                np.testing.assert_array_equal(found.logits(FEATURES), wanted.logits(FEATURES, [0, 1, 2, 3]))


class Continuity(ConvertTest):
    def test_roughness_is_1_in_the_mean_over_all_orders(self):
        for layers in (2, 3, 5, 7):
            points = RANDOM.normal(size=(layers, 4))
            distances = ((points[:, None] - points[None])**2).sum(-1)
            every = roughness(distances, orders(layers))
            self.assertLess(abs(every.mean() - 1), 1e-14)
            self.assertEqual(len({tuple(one) for one in orders(layers)}), len(every))

    def test_weights_linear_in_depth_have_roughness_6_over_s_s_plus_1_and_the_least_p(self):
        for layers in (2, 3, 4, 7, 12):
            # Whole numbers, so that distances are exact.
            points = np.outer(np.arange(layers), [1, -2, 5]) + [7, 0, 1]
            distances = ((points[:, None] - points[None])**2).sum(-1).astype(float)
            self.assertLess(abs(roughness(distances, np.arange(layers)) - 6 / (layers * (layers + 1))), 1e-14)
            self.assertAlmostEqual(share_as_smooth(distances), least_share(layers), places=15)
        self.assertEqual([least_share(count) for count in (2, 3, 4)], [1, 1 / 3, 1 / 12])

    def test_p_of_many_layers_comes_from_random_orders_that_are_the_same_each_time(self):
        points = RANDOM.normal(size=(12, 5))
        distances = ((points[:, None] - points[None])**2).sum(-1)
        first = orders(12)
        self.assertEqual(first.shape, (10_000, 12))
        np.testing.assert_array_equal(np.sort(first, axis=1), np.tile(np.arange(12), (10_000, 1)))
        np.testing.assert_array_equal(first, orders(12))
        # Each of 12 layers stands in each of 12 places in 833 orders, +- 28.
        self.assertLess(np.abs(np.array([np.bincount(first[:, place], minlength=12) for place in range(12)]) - 10_000 / 12).max(), 6 * 28)
        self.assertEqual(share_as_smooth(distances), share_as_smooth(distances))
        self.assertEqual(share_as_smooth(np.ones((12, 12)) - np.eye(12)), 1)

    def test_the_report_says_it_of_a_model(self):
        knots = made_up(RANDOM, layers=4)
        pde = knots.with_layers(knots.layers[:2], kind="pde", weights="linear")
        model = pde.with_layers([pde.weights(cell) for cell in range(4)], kind="transformer", weights="constant")
        linear, rough = model.write(self.path("linear.h5")), made_up(RANDOM, layers=9, ffn=4, norm="post").write(self.path("rough.h5"))
        end = call("convert", "--report", linear, rough)
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        first, second = end.stdout.split("\n\n" + rough)
        self.assertIn("linear.h5: 4 layers, width 12, 3 heads, ffn 10, norm pre", first)
        self.assertRegex(first, r"roughness +0\.3000 +0\.\d{4}\n")
        self.assertRegex(first, r"p +0\.0833 +0\.\d{4}\n")
        self.assertIn("0.3 if weights are linear in depth", first)
        self.assertIn("all 24 orders", first)
        self.assertIn("the least p is 2/4! = 0.083, so that p can never be significant (below 0.05)", first)
        self.assertRegex(first, r"\n  K +pick +fit +permutations +full\n")
        self.assertRegex(first, r"\n  2 +0\.0000 +0\.0000 +0\.0000 +0\.\d{4}\n  3 ")
        self.assertIn("10000 random orders that are as smooth; with 9 layers the least p is 0.0001.", second)
        self.assertNotIn("significant", second)
        self.assertEqual(os.listdir(self.folder).count("linear.h5"), 1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["linear.h5", "rough.h5"])  # it writes nothing

    def test_relative_distances_are_those_of_their_definition(self):
        model = made_up(RANDOM, layers=2, norm="none")
        one, other = model.layers
        end = call("convert", "--report", model.write(self.path("model.h5")))
        squares = [sum((array**2).sum() for name, array in layer.items() if not name.endswith("gain"))
                   + sum(((array - 1)**2).sum() for name, array in layer.items() if name.endswith("gain")) for layer in (one, other)]
        self.assertAlmostEqual(size(one), squares[0], places=10)
        wanted = sum(((one[name] - other[name])**2).sum() for name in one) / sum(squares)
        self.assertRegex(end.stdout, rf"distance of neighbours +{wanted:.4f} ")

    def test_of_large_layers_only_neighbours_are_aligned_and_of_equal_or_single_ones_nothing_is_divided_by_0(self):
        end = call("convert", "--report", made_up(RANDOM, layers=3, width=4, heads=2, ffn=513).write(self.path("large.h5")))
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        self.assertIn("more than 512 channels or hidden units: only neighbours are aligned", end.stdout)
        self.assertRegex(end.stdout, r"roughness +\d\.\d{4} +-\n")
        self.assertRegex(end.stdout, r"\n  K +pick +fit\n")
        for how, said in (("full", True), ("fit", False)):
            end = call("convert", self.path("large.h5"), "--knots", 3, "--how", how, "--output", self.path("pde.h5"), "--overwrite")
            self.assertEqual("large layers are aligned for some seconds each" in end.stdout, said)
        model = made_up(RANDOM, layers=3)
        end = call("convert", "--report", model.with_layers([model.layers[0]] * 3).write(self.path("equal.h5")))
        self.assertRegex(end.stdout, r"roughness +- +-\n")
        self.assertRegex(end.stdout, r"distance of neighbours +0\.0000 +0\.0000\n")
        self.assertIn("a single layer has no neighbour", call("convert", "--report", made_up(RANDOM, layers=1).write(self.path("one.h5"))).stdout)


if __name__ == "__main__":
    unittest.main()
