#!/usr/bin/python3
"""interventions: effects of replaced states as those of PyTorch, run again and to first and second order; the same on any number of ranks."""

import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402
import torch  # noqa: E402

from made_up_images import write_mnist  # noqa: E402
from program import TRAIN_DECK, ProgramTest  # noqa: E402

DATA = ("--data.set=mnist", "--data.directory=data", "--data.tokens=rows")
PDE = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=4", "--equation.kappa=0.05", "--depth.norm=none")
MODELS = (*DATA, "--models.transformer=transformer.h5", "--models.independent=pde.h5", "--samples.count=60")
QUICK = ("--interventions.pairs=2", "--interventions.doses=")
SITES = ("face", "attention", "ffn", "head", "query", "key", "value")


def rows_of_test_images(folder):
    """[image, row, pixel] as the program reads them."""
    with open(os.path.join(folder, "t10k-images-idx3-ubyte"), "rb") as stream:
        pixels = np.frombuffer(stream.read()[16:], np.uint8).reshape(-1, 28, 28)
    return (pixels / 255 - 0.1307) / 0.3081  # mean and deviation of MNIST's pixels


class Network:
    """The Transformer of a file in PyTorch; `change(site, depth, state)` sees every state [token, part, channel] and may replace it."""

    def __init__(self, path):
        with h5py.File(path, "r") as file:
            self.layers, self.heads = int(file["model"].attrs["layers"]), int(file["model"].attrs["heads"])
            self.v = {}
            file["model"].visititems(lambda name, item: self.v.update({name: torch.as_tensor(np.asarray(item[...], dtype=float))})
                                     if isinstance(item, h5py.Dataset) and item.dtype.kind == "f" else None)

    def norm(self, u, place):
        return torch.nn.functional.layer_norm(u, (u.shape[-1],), self.v[place + "gain"], self.v[place + "bias"], 1e-5)

    def logits(self, x, change):
        v = self.v
        u = torch.as_tensor(x) @ v["embedding/W"].T + v["embedding/b"] + v["embedding/position"]
        tokens, width = u.shape
        for cell in range(self.layers):
            place = f"layers/{cell + 1}/"
            u = change("face", cell, u[:, None])[:, 0]
            y = self.norm(u, place + "norm1_")
            q, k, w = (change(site, cell, (y @ v[f"{place}W_{letter}"].T + v[f"{place}b_{letter}"]).reshape(tokens, self.heads, -1))
                       for site, letter in (("query", "Q"), ("key", "K"), ("value", "V")))
            shares = torch.softmax(torch.einsum("xhc,yhc->hxy", q, k) / (width / self.heads) ** 0.5, dim=-1)
            o = change("head", cell, torch.einsum("hxy,yhc->xhc", shares, w))
            u = u + change("attention", cell, (o.reshape(tokens, width) @ v[place + "W_O"].T + v[place + "b_O"])[:, None])[:, 0]
            y = torch.nn.functional.gelu(self.norm(u, place + "norm2_") @ v[place + "W_1"].T + v[place + "b_1"])
            u = u + change("ffn", cell, (y @ v[place + "W_2"].T + v[place + "b_2"])[:, None])[:, 0]
        u = change("face", self.layers, u[:, None])[:, 0]
        return self.norm(u, "final_norm/").mean(dim=0) @ v["head/W"].T + v["head/b"]


class Patched:
    """A pair of samples in PyTorch, with J = z_a - z_b."""

    def __init__(self, network, clean, donor, a, b):
        self.network, self.x, self.a, self.b = network, {"clean": clean, "donor": donor}, a, b
        self.states, self.slopes, self.value = {}, {}, {}
        for which, x in self.x.items():
            states = {}

            def keep(site, depth, state, states=states):
                state = state.clone().requires_grad_() if not state.requires_grad else state
                state.retain_grad()
                states[site, depth] = state
                return state

            goal = self.goal(network.logits(x, keep))
            goal.backward()
            self.value[which] = goal.item()
            self.states[which] = {place: state.detach() for place, state in states.items()}
            self.slopes[which] = {place: state.grad for place, state in states.items()}

    def goal(self, z):
        return z[self.a] - z[self.b]

    def exact(self, which, site, depth, part, token):
        """The effect of a state of the other sample in the run of this one."""
        other = self.states["donor" if which == "clean" else "clean"]

        def change(at, cell, state):
            if (at, cell) == (site, depth):
                state = state.clone()
                state[token, part] = other[site, depth][token, part]
            return state

        with torch.no_grad():
            return self.goal(self.network.logits(self.x[which], change)).item() - self.value[which]

    def first(self, site, depth):
        """[part, token]"""
        change = self.states["donor"][site, depth] - self.states["clean"][site, depth]
        return (self.slopes["clean"][site, depth] * change).sum(dim=-1).T.numpy()


class InterventionsTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        maker = ProgramTest()
        maker.folder = cls.shared = tempfile.mkdtemp(prefix="fluxformer-")
        write_mnist(maker.path("data"), training=160, test=100)
        maker.write("train.ini", TRAIN_DECK)
        for name, more in (("transformer", ()), ("pde", PDE)):
            end = maker.run_program("train", "train.ini", "--quiet", *DATA, *more, "--train.epochs=8", f"--model.seed={len(name)}",
                                    f"--output.file={name}.h5")
            maker.assertEqual(end.code, 0, end)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, ignore_errors=True)

    def setUp(self):
        super().setUp()
        shutil.copytree(self.shared, self.folder, dirs_exist_ok=True)

    def measure(self, *arguments, ranks=1, output="out.h5", models=MODELS):
        """A run that must succeed; returns its arrays by name, /analysis/interventions."""
        end = self.run_program("interventions", "--quiet", *models, f"--output.file={output}", *arguments, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        found = {}
        with h5py.File(self.path(output)) as file:
            file["analysis/interventions"].visititems(lambda name, item: found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None)
        return found

    def test_effects_are_those_of_pytorch(self):
        found = {name: numbers[0] for name, numbers in self.measure(*QUICK, "--interventions.accounts=exact,reverse,second").items()}
        images = rows_of_test_images(self.path("data"))
        clean, donor, a, b = (int(found[f"transformer/pair_{what}"][0]) for what in ("clean", "donor", "a", "b"))
        pair = Patched(Network(self.path("transformer.h5")), images[clean], images[donor], a, b)
        np.testing.assert_allclose(found["transformer/value_clean"][0], pair.value["clean"], rtol=1e-12)
        np.testing.assert_allclose(found["transformer/value_donor"][0], pair.value["donor"], rtol=1e-12)
        for site in SITES:
            exact, first, reverse = (found[f"transformer/{site}_{account}"][0] for account in ("exact", "first", "reverse"))
            single = exact.ndim == 2
            for depth in range(exact.shape[0]):
                expected = pair.first(site, depth)
                np.testing.assert_allclose(first[depth], expected[0] if single else expected, rtol=1e-9, atol=1e-12, err_msg=site)
                for part, token in ((0, 0), (0 if single else 1, 13), (0, 27)):
                    at = (depth, token) if single else (depth, part, token)
                    # Differences of J, which is of order 1.
                    self.assertAlmostEqual(exact[at], pair.exact("clean", site, depth, part, token), delta=1e-12, msg=f"{site} {at}")
                    self.assertAlmostEqual(reverse[at], -pair.exact("donor", site, depth, part, token), delta=1e-12, msg=f"{site} {at}")

    def test_last_face_of_a_model_without_norm_is_linear(self):
        found = self.measure(*QUICK, "--interventions.sites=face", "--interventions.accounts=exact,second,integrated")
        last = {account: found[f"independent/face_{account}"][0, :, -1] for account in ("exact", "first", "second", "integrated")}
        for account in ("first", "second", "integrated"):
            np.testing.assert_allclose(last[account], last["exact"], rtol=1e-9, atol=1e-12, err_msg=account)
        # Integrated effects of every face add up to the effect of the whole face.
        self.assertLess(np.max(found["transformer/integrated_gap"]), 1e-7)
        self.assertGreaterEqual(np.min(found["transformer/integrated_nodes"]), 15)

    def test_numbers_do_not_mind_ranks(self):
        accounts = "--interventions.accounts=exact,softmax,second,reverse,integrated,pairs,zeroing"
        arguments = ("--interventions.pairs=2", accounts, "--interventions.steered=3", "--interventions.fit=20")
        one = self.measure(*arguments)
        for ranks in (2, 3):
            other = self.measure(*arguments, ranks=ranks, output=f"{ranks}.h5")
            self.assertEqual(set(one), set(other))
            for name in one:
                if name.endswith("/seconds"):
                    continue
                # J is of order 10; sums and the quadrature are the same up to round-off.
                np.testing.assert_allclose(other[name], one[name], rtol=1e-9, atol=1e-11, err_msg=f"{name} on {ranks} ranks")

    def test_steering_begins_with_the_slope_at_dose_0(self):
        found = self.measure("--interventions.pairs=1", "--interventions.sites=face", "--interventions.accounts=exact", "--interventions.steered=3",
                             "--interventions.fit=30", "--interventions.doses=-1e-4,0,1e-4,1")
        for name in ("transformer", "independent"):
            goal, slope = found[f"{name}/steering_goal"][0], found[f"{name}/steering_slope"][0]
            # A central difference: an error of order 1e-8, and round-off of 1e-15 / 1e-4.
            self.assertAlmostEqual((goal[2] - goal[0]) / 2e-4 / slope, 1, delta=1e-5)
            self.assertGreater(goal[3], goal[1])

    def test_means_and_zeros_are_put(self):
        for put in ("mean", "zero"):
            found = self.measure(*QUICK, "--interventions.sites=face,head", "--interventions.accounts=exact", f"--interventions.put={put}", output=f"{put}.h5")
            self.assertGreater(np.nanmax(np.abs(found["transformer/head_exact"])), 1e-6)

    def test_few_places_are_those_of_the_largest_effects(self):
        found = self.measure(*QUICK, "--interventions.sites=head", "--interventions.accounts=exact", "--interventions.verify=0.1")
        exact, first = (found[f"transformer/head_{account}"][0, 0].ravel() for account in ("exact", "first"))
        there = ~np.isnan(exact)
        self.assertEqual(there.sum(), -(-exact.size // 10))
        self.assertGreaterEqual(np.abs(first[there]).min(), np.abs(first[~there]).max())

    def test_wrong_keys_are_refused_by_name(self):
        for arguments, named in ((("--interventions.sites=faces",), "interventions.sites"), (("--interventions.pairs=5000",), "interventions.pairs"),
                                 (("--interventions.indices=1,2,3",), "interventions.indices"), (("--interventions.indices=1,100000",), "interventions.indices"),
                                 (("--interventions.face=9",), "interventions.face"), (("--interventions.steered=61", "--interventions.fit=20", "--interventions.doses=1"), "interventions.steered"),
                                 (("--interventions.accounts=reverse",), "interventions.accounts"), (("--run.precision=single",), "run.precision"),
                                 (("--interventions.put=mean", "--interventions.accounts=exact,reverse"), "interventions.accounts")):
            end = self.run_program("interventions", "--quiet", *MODELS, "--interventions.doses=", "--output.file=bad.h5", *arguments)
            self.assertEqual(end.code, 2, end)
            self.assertIn(named, end.err)
            self.assertFalse(os.path.exists(self.path("bad.h5")))


if __name__ == "__main__":
    unittest.main()
