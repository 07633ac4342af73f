#!/usr/bin/python3
"""Clusters among the tokens of trained models: soft numbers of the states that `evolve` stores by numpy, of imported models those of PyTorch's
hidden states; heads by numpy; the same on any number of ranks."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import numpy as np  # noqa: E402 (the folder is put on the path first)

from comparison import CompareTest  # noqa: E402
from program import SEVERAL_RANKS, ProgramTest, together  # noqa: E402
from published_case import Case, save  # noqa: E402
from published_models_test import TOLERANCE  # noqa: E402
from python_package import call  # noqa: E402

from fluxformer.tokens import patches, write_token_file  # noqa: E402

BETAS = (1.0, 8.0)
FEW = ("--clusters.betas=1,8", "--clusters.deltas=0.3,1")
RADIUS = 1.0  # of leaders: the middle delta, of two the second


def effective_rank(x):
    """The effective rank of a matrix [token, channel], by its singular values."""
    p = np.linalg.svd(x, compute_uv=False)
    p = p[p > 0] / p.sum()
    return np.exp(-(p * np.log(p)).sum())


def leader_angle(x):
    """(leaders, mean angle to the nearest) of unit vectors [token, channel], each compared with each."""
    angle = lambda a, b: 2 * np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b))  # noqa: E731
    leaders = []
    for one in x:
        if all(angle(one, leader) > RADIUS for leader in leaders):
            leaders.append(one)
    return len(leaders), np.mean([min(angle(one, leader) for leader in leaders) for one in x])


def log_energies(model, layer, u):
    """log E [head] of the states u [token, channel] in the kernels of a layer's heads, from the arrays of the file."""
    arrays, heads = model[f"layers/{layer}"], int(model.attrs["heads"])
    centred = u - u.mean(axis=1, keepdims=True)
    x = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * arrays["norm1_gain"][...]
    query, key = ((x @ arrays[f"W_{name}"][...].T).reshape(len(x), heads, -1) for name in "QK")
    return np.log(np.exp(np.einsum("ihc,jhc->hij", query, key) / np.sqrt(query.shape[2])).mean(axis=(1, 2)))


class ClustersOfModels(CompareTest):
    def setUp(self):
        super().setUp()
        self.write("evolve.ini", "")

    def states(self, model, sample):
        """[layer, token, channel] of a test sample behind each layer."""
        self.evolve(f"--model.file={model}", "--data.tokens=rows", "--mesh.cells=2", f"--inflow.first={sample}", "--evolve.method=euler", "--evolve.cfl=1",
                    "--run.precision=double", "--output.overwrite=true", "--output.file=states.h5", deck="evolve.ini")
        return self.open("states.h5")["field/u"][-1, :, :, 0]

    def test_numbers_are_those_of_the_states_that_evolve_stores(self):
        few = ("--run.precision=double", "--samples.count=3")
        found = self.compare("clusters_models", *few, *FEW)
        self.compare("information_flow", *few, "--flow.examples=3", output="flow.h5")
        samples = self.open("flow.h5")["example"][...].astype(int)
        tokens = np.stack([self.states("models/transformer_1.h5", sample) for sample in samples], axis=1)  # [layer, sample, token, channel]
        for centring in (0, 1):
            moved = tokens - tokens.mean(axis=(1, 2), keepdims=True) * centring
            x = moved / np.linalg.norm(moved, axis=-1, keepdims=True)
            products = x @ x.swapaxes(2, 3)
            n = x.shape[2]
            for k, beta in enumerate(BETAS):
                number = np.exp(np.log(n**2 / np.exp(beta * (products - 1)).sum(axis=(2, 3))).mean(axis=1))
                # Both marches are one Euler step per cell: their states differ by round-off.
                np.testing.assert_allclose(found["transformer/number_2"][0, 1:, centring, k], number, rtol=1e-10)
            within = (products.sum(axis=(2, 3)) - n).sum(axis=1) / (3 * n * (n - 1))
            np.testing.assert_allclose(found["transformer/cosine_within"][0, 1:, centring], within, atol=1e-12)
            for depth, states in enumerate(x, 1):
                np.testing.assert_allclose(found["transformer/effective_rank"][0, depth, centring], np.mean([effective_rank(one) for one in states]), rtol=1e-9)
                leaders, angle = np.mean([leader_angle(one) for one in states], axis=0)
                self.assertAlmostEqual(found["transformer/leaders"][0, depth, centring], leaders, delta=1e-12)
                self.assertAlmostEqual(found["transformer/leader_angle"][0, depth, centring], angle, delta=1e-7)  # by products, there
        self.energies_are_those_of_the_file(found, tokens)
        self.assertTrue(np.isnan(found["transformer/number_2_across"]).all())  # of three samples, which have more tokens
        self.assertGreater(abs(found["transformer/effective_rank_untrained"][0] - found["transformer/effective_rank"][0]).max(), 1e-3)
        self.assertGreater(abs(found["transformer/energy_change_untrained"][0] - found["transformer/energy_change"][0]).max(), 1e-6)
        self.assertGreater(abs(found["transformer/number_2_untrained"][0] - found["transformer/number_2"][0]).max(), 1e-3)
        self.assertGreater(abs(found["transformer/escape_untrained"] - found["transformer/escape"]).max(), 1e-6)
        for name in ("number_2", "number_2_normal", "number_2_permuted", "number_2_untrained", "components"):
            values = found[f"transformer/{name}"]
            self.assertTrue(((values >= 1 - 1e-12) & (values <= n)).all(), name)

    def energies_are_those_of_the_file(self, found, tokens):
        """tokens: [layer, sample, token, channel] behind each of two layers."""
        model = self.open("models/transformer_1.h5")["model"]
        energy = {(layer, at): np.array([log_energies(model, layer, u) for u in tokens[at - 1]]) for layer, at in ((1, 1), (2, 1), (2, 2))}  # [sample, head]
        first, change, falls = (found[f"transformer/{name}"][0] for name in ("log_energy", "energy_change", "energy_falls"))
        same = dict(rtol=1e-9, atol=1e-9)  # logarithms of order one
        np.testing.assert_allclose(first[0] + change[0], energy[1, 1].mean(axis=0), **same)
        np.testing.assert_allclose(first[1], energy[2, 1].mean(axis=0), **same)
        np.testing.assert_allclose(change[1], (energy[2, 2] - energy[2, 1]).mean(axis=0), **same)
        np.testing.assert_allclose(falls[1], (energy[2, 2] < energy[2, 1]).mean(axis=0), atol=1e-12)

    def test_heads_are_those_of_the_file(self):
        found = self.compare("clusters_models", *FEW, "--samples.count=4")
        model = self.open("models/transformer_1.h5")["model"]
        heads = int(model.attrs["heads"])
        for layer in (1, 2):
            arrays = model[f"layers/{layer}"]
            gain = arrays["norm1_gain"][...]
            query, key, value = ((arrays[f"W_{name}"][...] * gain).reshape(heads, -1, len(gain)) for name in "QKV")
            output = arrays["W_O"][...].reshape(len(gain), heads, -1).swapaxes(0, 1)
            m, v = query.swapaxes(1, 2) @ key, output @ value
            scale = (m * v).sum(axis=(1, 2)) / (m**2).sum(axis=(1, 2))
            norm = np.linalg.norm
            np.testing.assert_allclose(found["transformer/value_scale"][0, layer - 1], scale, rtol=1e-10)
            np.testing.assert_allclose(found["transformer/value_mismatch"][0, layer - 1],
                                       norm(v - scale[:, None, None] * m, axis=(1, 2)) / norm(v, axis=(1, 2)), rtol=1e-10)
            np.testing.assert_allclose(found["transformer/antisymmetry"][0, layer - 1],
                                       norm(m - m.swapaxes(1, 2), axis=(1, 2)) / (2 * norm(m, axis=(1, 2))), rtol=1e-10)
            np.testing.assert_allclose(found["transformer/value_radius"][0, layer - 1], abs(np.linalg.eigvals(v)).max(axis=1), rtol=1e-8)
            eigenvalues = np.linalg.eigvalsh((m + m.swapaxes(1, 2)) / 2)
            np.testing.assert_allclose(found["transformer/least_eigenvalue"][0, layer - 1], eigenvalues[:, 0] / abs(eigenvalues).max(axis=1), rtol=1e-8)

    def test_says_the_same_on_any_number_of_ranks_with_figures_and_page(self):
        alone = self.compare("clusters_models", *FEW)
        for ranks in SEVERAL_RANKS:
            self.assert_same_numbers(alone, self.compare("clusters_models", *FEW, ranks=ranks, output=f"on{ranks}.h5"))
        for model in ("transformer", "independent"):
            across = alone[f"{model}/number_2_across"]  # 40 samples of 28 tokens
            self.assertTrue(((across >= 1 - 1e-12) & (across <= 28)).all())
            self.assertGreater(abs(across - alone[f"{model}/number_2"]).max(), 1e-3)
        end = call("report", self.path("on3.h5"), "--output", self.path("report"))
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertEqual(call("view", self.path("on3.h5"), "--output", self.path("page.html")).returncode, 0)

    def test_padding_does_not_count(self):
        text = self.train_text()
        alone = self.compare("clusters_models", *FEW, *text, models=())
        self.assert_same_numbers(alone, self.compare("clusters_models", *FEW, *text, models=(), ranks=3, output="three.h5"))

    def test_what_cannot_be_is_refused(self):
        for key, value in (("clusters.betas", "-1"), ("clusters.deltas", "3.2")):
            self.assert_refused(self.run_program("clusters_models", f"--{key}={value}", "--output.file=no.h5"), key)


class ClustersOfImportedModels(ProgramTest):
    """A published encoder, a causal decoder and a model of images, with PyTorch's hidden states."""

    def imported(self, name, kind):
        """The case, and the keys of the model and its samples."""
        case = Case(name)
        end = call("import", *save(self.folder, *case.published(kind)), "--output", self.path(f"{name}.h5"), "--overwrite")
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        if "ids" in case:
            samples = {"ids": case["ids"].astype(int), "lengths": case.lengths}
            samples |= {"segments": case["segments"]} if "segments" in case else {}
        else:
            samples = {"features": patches(case["images"], tuple(case.config["patch_size"]), case.front)}
        samples["labels"] = list(range(len(case.lengths)))
        write_token_file(self.path(f"{name}_tokens.h5"), **samples, test=samples)
        return case, (f"--models.transformer={name}.h5", "--data.set=tokens", f"--data.file={name}_tokens.h5", "--samples.count=0", "--samples.batch=2")

    def test_numbers_are_those_of_pytorchs_hidden_states(self):
        cases = {name: self.imported(name, kind) for name, kind in (("bert", "BertForSequenceClassification"), ("gpt2", "GPT2LMHeadModel"),
                                                                    ("vit", "ViTForImageClassification"))}

        def measure(name, ranks):
            case, keys = cases[name]  # all samples
            end = self.run_program("clusters_models", "--quiet", *keys, *FEW, f"--output.file={name}_{ranks}.h5", ranks=ranks)
            self.assertEqual(end.code, 0, end)
            found = self.open(f"{name}_{ranks}.h5")["analysis/clusters_models/transformer/number_2"][0]
            self.assertEqual(len(found), len(case["hidden"]))
            for depth, states in enumerate(case["hidden"]):  # the embedded tokens and those behind each layer, padding included
                tokens = [u[:length] for u, length in zip(states, case.lengths)]
                for centring in (0, 1):
                    moved = [u - np.concatenate(tokens).mean(axis=0) * centring for u in tokens]
                    lengths = [np.linalg.norm(u, axis=1, keepdims=True) for u in moved]
                    # The states are PyTorch's up to TOLERANCE of the largest number, in each channel and in the mean; a product of two directions
                    # moves by twice what a direction does, and log N_2 by at most beta times that.
                    direction = 2 * np.sqrt(states.shape[-1]) * TOLERANCE * abs(states).max() / np.concatenate(lengths).min()
                    for k, beta in enumerate(BETAS):
                        products = [(u / length) @ (u / length).T for u, length in zip(moved, lengths)]
                        wanted = np.mean([np.log(p.size / np.exp(beta * (p - 1)).sum()) for p in products])
                        with self.subTest(name, depth=depth, centring=centring, beta=beta):
                            self.assertAlmostEqual(np.log(found[depth, centring, k]), wanted, delta=2 * beta * direction)

        together([lambda name=name, ranks=ranks: measure(name, ranks) for name, ranks in (("bert", 1), ("gpt2", 2), ("vit", 1))])


if __name__ == "__main__":
    unittest.main()
