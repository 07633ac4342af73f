#!/usr/bin/python3
"""influence: scores of training samples as those of dense matrices in PyTorch and of fits in numpy, planted wrong labels, the same on any number of ranks."""

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
from program import SEVERAL_RANKS, TRAIN_DECK, ProgramTest, ranks_of_case, together  # noqa: E402

DATA = ("--data.set=mnist", "--data.directory=data", "--data.tokens=rows")
TRAINING = (*DATA, "--train.samples=60", "--train.validation=0", "--train.epochs=4", "--data.wrong_labels=0.2", "--output.snapshots=1")
PDE = ("--model.kind=pde", "--model.knots=2", "--mesh.cells=4", "--equation.kappa=0.05")
TRAIN, TESTS, CLASSES = 24, 5, 10
TRANSFORMER = (*DATA, "--models.transformer=transformer.h5", f"--samples.count={TESTS}", f"--influence.samples={TRAIN}")
BOTH = (*TRANSFORMER, "--models.independent=pde.h5")
RIDGE = 1e-2
HEAD = (f"--influence.ridge={RIDGE}", "--influence.retrain=10", "--influence.removed=3,8", "--influence.kept=5,40")
GRAM, KRYLOV = "--influence.solver=gram", "--influence.solver=krylov"


def images(folder, split):
    """[image, row, pixel] as the program reads them."""
    with open(os.path.join(folder, f"{split}-images-idx3-ubyte"), "rb") as stream:
        pixels = np.frombuffer(stream.read()[16:], np.uint8).reshape(-1, 28, 28)
    return (pixels / 255 - 0.1307) / 0.3081  # mean and deviation of MNIST's pixels


class Network:
    """The Transformer of a file in PyTorch, with all trained arrays as variables."""

    def __init__(self, path):
        with h5py.File(path, "r") as file:
            model = file["model"]
            self.layers, self.heads = int(model.attrs["layers"]), int(model.attrs["heads"])
            arrays = {}
            model.visititems(lambda name, item: arrays.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None)
        trained = [name for name in arrays if name.startswith(("embedding/", "layers/", "final_norm/", "head/")) and not name.endswith("kappa")]
        self.variables = {name: torch.tensor(arrays[name], dtype=torch.float64, requires_grad=True) for name in trained}

    def names(self, kinds=None):
        """The names of all variables, or of the blocks of some kinds."""
        if kinds is None:
            return list(self.variables)
        return [name for name in self.variables if name.split("/")[-1] in kinds or ("head" in kinds and name.startswith("head/"))]

    def features(self, x):
        """[sample, channel]: what the last map reads."""
        v = self.variables
        u = torch.as_tensor(x) @ v["embedding/W"].T + v["embedding/b"] + v["embedding/position"]
        samples, tokens, width = u.shape

        def norm(u, place):
            return torch.nn.functional.layer_norm(u, (width,), v[place + "gain"], v[place + "bias"], 1e-5)

        for number in range(1, self.layers + 1):
            place = f"layers/{number}/"
            y = norm(u, place + "norm1_")
            q, k, w = ((y @ v[f"{place}W_{letter}"].T + v[f"{place}b_{letter}"]).reshape(samples, tokens, self.heads, -1).transpose(1, 2)
                       for letter in "QKV")
            shares = torch.softmax(q @ k.transpose(2, 3) / (width / self.heads) ** 0.5, dim=-1)
            u = u + (shares @ w).transpose(1, 2).reshape(u.shape) @ v[place + "W_O"].T + v[place + "b_O"]
            y = torch.nn.functional.gelu(norm(u, place + "norm2_") @ v[place + "W_1"].T + v[place + "b_1"])
            u = u + y @ v[place + "W_2"].T + v[place + "b_2"]
        return norm(u, "final_norm/").mean(dim=1)

    def logits(self, x):
        return self.features(x) @ self.variables["head/W"].T + self.variables["head/b"]

    def losses(self, x, labels):
        return torch.nn.functional.cross_entropy(self.logits(x), torch.as_tensor(labels), reduction="none")

    def rows(self, numbers, names):
        """The gradient of each of the numbers as a row."""
        leaves = [self.variables[name] for name in names]
        return np.array([torch.cat([part.ravel() for part in torch.autograd.grad(number, leaves, retain_graph=True)]).numpy() for number in numbers])

    def gauss_newton(self, x, names):
        """1/N sum_i J_i^T (diag p - p p^T) J_i."""
        total = 0
        for sample in x:
            z = self.logits(sample[None])[0]
            p = torch.softmax(z, dim=0).detach().numpy()
            jacobian = self.rows(z, names)
            total = total + jacobian.T @ (np.diag(p) - np.outer(p, p)) @ jacobian / len(x)
        return total

    def hessian(self, x, labels, names):
        leaves = [self.variables[name] for name in names]
        first = torch.cat([part.ravel() for part in torch.autograd.grad(self.losses(x, labels).mean(), leaves, create_graph=True)])
        return self.rows(first, names)


class Head:
    """Softmax regression with a ridge in numpy: 1/N sum_i share_i l_i + ridge/2 |W|^2, with the bias as the last feature."""

    def __init__(self, features, labels):
        self.x, self.y = self.with_ones(features), labels
        self.count, self.one = len(labels), np.ones(len(labels))

    @staticmethod
    def with_ones(features):
        return np.concatenate([features, np.ones((len(features), 1))], axis=1)

    @staticmethod
    def losses(w, x, y):
        z = x @ w.T
        top = z.max(axis=1, keepdims=True)
        return np.log(np.exp(z - top).sum(axis=1)) + top[:, 0] - z[np.arange(len(y)), y]

    @staticmethod
    def probabilities(w, x):
        z = x @ w.T
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def gradients(self, w, x, y):
        """[sample, variable]"""
        return np.einsum("ic,if->icf", self.probabilities(w, x) - np.eye(CLASSES)[y], x).reshape(len(y), -1)

    def hessian(self, w, shares, ridge=RIDGE):
        p = self.probabilities(w, self.x)
        curved = np.einsum("ia,ab->iab", p, np.eye(CLASSES)) - np.einsum("ia,ib->iab", p, p)
        size = CLASSES * self.x.shape[1]
        return np.einsum("i,iab,if,ig->afbg", shares, curved, self.x, self.x).reshape(size, size) / self.count + ridge * np.eye(size)

    def fit(self, shares):
        """Newton's method with halved steps."""
        def objective(w):
            return shares @ self.losses(w, self.x, self.y) / self.count + RIDGE / 2 * (w**2).sum()

        w = np.zeros((CLASSES, self.x.shape[1]))
        for _ in range(60):
            gradient = shares @ self.gradients(w, self.x, self.y) / self.count + RIDGE * w.ravel()
            if np.linalg.norm(gradient) < 1e-14:
                break
            step = np.linalg.solve(self.hessian(w, shares), gradient).reshape(w.shape)
            length = 1.0
            while length > 1e-3 and objective(w - length * step) > objective(w) + 1e-14:
                length /= 2
            w = w - length * step
        return w


def rank_correlation(x, y):
    """Spearman's, of numbers without ties."""
    x, y = np.ravel(x), np.ravel(y)
    return np.corrcoef(np.argsort(np.argsort(x)), np.argsort(np.argsort(y)))[0, 1]


def precision(score, wrong):
    """Of scores without ties."""
    count = int(wrong.sum())
    return wrong[np.argsort(-score)[:count]].mean()


class InfluenceTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        maker = ProgramTest()
        maker.folder = cls.shared = tempfile.mkdtemp(prefix="fluxformer-")
        write_mnist(maker.path("data"), training=100, test=40)
        maker.write("train.ini", TRAIN_DECK)
        for name, more in (("transformer", ()), ("pde", PDE)):
            end = maker.run_program("train", "train.ini", "--quiet", *TRAINING, *more, f"--model.seed={len(name)}", f"--output.file={name}.h5")
            maker.assertEqual(end.code, 0, end)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, ignore_errors=True)

    def setUp(self):
        super().setUp()
        shutil.copytree(self.shared, self.folder, dirs_exist_ok=True)

    def measure(self, *arguments, ranks=1, output="out.h5", models=TRANSFORMER):
        """A run that must succeed; returns its arrays by name, /analysis/influence."""
        end = self.run_program("influence", "--quiet", *models, f"--output.file={output}", *arguments, ranks=ranks)
        self.assertEqual(end.code, 0, end)
        found = {}
        self.open(output)["analysis/influence"].visititems(lambda name, item: found.update({name: item[...]}) if hasattr(item, "shape") else None)
        return found

    def of_transformer(self, *arguments, **more):
        """Its arrays of the only seed."""
        found = self.measure(*arguments, **more)
        return {name.removeprefix("transformer/"): values[0] for name, values in found.items() if name.startswith("transformer/")}

    def samples(self, found, output="out.h5"):
        """Images and labels of the training samples, and of the test samples."""
        train = images(self.path("data"), "train")[found["train_index"].astype(int)]
        members = self.open(output)["test_sample"][...].astype(int)
        return train, found["label"].astype(int), images(self.path("data"), "t10k")[members], members % 10


# Round-off of sums of some thousand numbers.
SAME = {"rtol": 1e-9, "atol": 1e-11}


class WholeModels(InfluenceTest):
    def scores_of_dense_matrices(self, found, curvature, gradients, dampings):
        """-g_t (C + d)^-1 g_i, [damping, test, train], and of the training samples with themselves."""
        train, test = gradients
        values, vectors = np.linalg.eigh(curvature)
        self.assertAlmostEqual(found["largest_eigenvalue"] / values[-1], 1, 5)  # as the eigenvalue solver's tolerance
        train, test = train @ vectors, test @ vectors
        pairs, own = [], []
        for relative in dampings:
            scaled = train / (values + relative * found["largest_eigenvalue"])
            pairs.append(-test @ scaled.T)
            own.append((train * scaled).sum(axis=1))
        return np.array(pairs), np.array(own)

    def test_gram_is_the_dense_inverse_of_pytorch(self):
        dampings = (0.1, 0.01, 1e-4)
        found = self.of_transformer(GRAM, ranks=2)
        x, labels, x_test, labels_test = self.samples(found)
        network = Network(self.path("transformer.h5"))
        names = network.names()
        losses, losses_test = network.losses(x, labels), network.losses(x_test, labels_test)
        g, g_test = network.rows(losses, names), network.rows(losses_test, names)
        np.testing.assert_allclose(found["loss"], losses.detach(), **SAME)
        np.testing.assert_allclose(found["test_loss"], losses_test.detach(), **SAME)
        np.testing.assert_array_equal(found["test_label"], labels_test)
        np.testing.assert_allclose(found["gradient_norm"], np.linalg.norm(g, axis=1), **SAME)
        np.testing.assert_array_equal(found["correct"], network.logits(x).argmax(dim=1).numpy() == labels)
        np.testing.assert_allclose(found["objective_gradient_norm"], np.linalg.norm(g.mean(axis=0)), **SAME)
        curvature = network.gauss_newton(x, names)
        pairs, own = self.scores_of_dense_matrices(found, curvature, (g, g_test), dampings)
        for k, relative in enumerate(dampings):
            # Round-off times the condition number, 1/d.
            same = {"rtol": 0, "atol": 1e-13 / relative * abs(pairs[k]).max()}
            np.testing.assert_allclose(found["influence"][k], pairs[k], err_msg=str(relative), **same)
            np.testing.assert_allclose(found["mean_influence"][k], pairs[k].mean(axis=0), **same)
            np.testing.assert_allclose(found["self_influence"][k], own[k], rtol=0, atol=1e-13 / relative * own[k].max())
            d = relative * found["largest_eigenvalue"]
            for row, cheap in enumerate((-g_test @ g.T / d, -(g_test / (np.diag(curvature) + d)) @ g.T)):
                np.testing.assert_allclose(found["damped_relative_error"][k, row], np.linalg.norm(cheap - pairs[k]) / np.linalg.norm(pairs[k]), rtol=1e-7)
                self.assertAlmostEqual(found["damped_spearman"][k, row], rank_correlation(cheap, pairs[k]), 10)
        self.assertEqual(self.open("out.h5")["analysis/influence"].attrs["curvature_names"].split(), ["identity", "diagonal"])

    def test_conjugate_gradients_are_gram(self):
        dampings, tolerance = (0.1, 0.01), 1e-10
        keys = ("--influence.damping=0.1,0.01",)
        gram = self.of_transformer(GRAM, *keys)
        found = self.of_transformer(KRYLOV, *keys, f"--influence.tolerance={tolerance}", ranks=2, output="krylov.h5")
        self.assertLessEqual(found["residual"].max(), tolerance)
        self.assertGreater(found["products"].min(), 2)
        self.assertNotIn("self_influence", found)
        x, labels, x_test, labels_test = self.samples(gram)
        network = Network(self.path("transformer.h5"))
        sizes = [np.linalg.norm(network.rows(network.losses(*both), network.names()), axis=1) for both in ((x_test, labels_test), (x, labels))]
        for k, relative in enumerate(dampings):
            # |x - x*| <= residual |g_t| / d; and the unit of d, an eigenvalue, differs.
            d = relative * found["largest_eigenvalue"]
            bound = (tolerance + abs(gram["largest_eigenvalue"] / found["largest_eigenvalue"] - 1) + 1e-12) * np.outer(*sizes) / d
            self.assertTrue((abs(found["influence"][k] - gram["influence"][k]) <= bound).all(), relative)
        self.assertAlmostEqual(gram["largest_eigenvalue"] / found["largest_eigenvalue"], 1, 6)
        for name in ("loss", "gradient_norm", "correct", "test_loss", "objective_gradient_norm", "label", "wrong", "train_index"):
            np.testing.assert_allclose(found[name], gram[name], err_msg=name, **SAME)

    def test_minres_is_the_dense_inverse_of_the_hessian_of_some_blocks(self):
        relative, tolerance = 0.5, 1e-10
        found = self.of_transformer(KRYLOV, "--influence.curvature=hessian", f"--influence.damping={relative}", "--influence.parameters=head,W_2",
                                    f"--influence.tolerance={tolerance}")
        x, labels, x_test, labels_test = self.samples(found)
        network = Network(self.path("transformer.h5"))
        names = network.names(("head", "W_2"))
        gradients = network.rows(network.losses(x, labels), names), network.rows(network.losses(x_test, labels_test), names)
        curvature = network.hessian(x, labels, names)
        pairs, _ = self.scores_of_dense_matrices(found, curvature, gradients, (relative,))
        values = np.linalg.eigvalsh(curvature)
        self.assertAlmostEqual(found["smallest_eigenvalue"] / values[0], 1, 5)
        inverse = 1 / abs(values + relative * found["largest_eigenvalue"]).min()
        sizes = [np.linalg.norm(one, axis=1) for one in gradients[::-1]]
        bound = (tolerance * inverse + 1e-11) * np.outer(*sizes)
        self.assertTrue((abs(found["influence"][0] - pairs[0]) <= bound).all(), abs(found["influence"][0] - pairs[0]).max())
        self.assertTrue(0 <= found["negative_share"] <= 1)


class LastMap(InfluenceTest):
    def test_all_is_that_of_fits_in_numpy(self):
        found = self.of_transformer(*HEAD, ranks=2)
        x, labels, x_test, labels_test = self.samples(found)
        network = Network(self.path("transformer.h5"))
        with torch.no_grad():
            features, features_test = network.features(x).numpy(), network.features(x_test).numpy()
        head, tests = Head(features, labels), (Head.with_ones(features_test), labels_test)
        w = head.fit(head.one)
        # Fits end with a gradient of 1e-13, so weights are known to 1e-13 / ridge, and their inverse Hessians to that over the ridge.
        g, g_test = head.gradients(w, head.x, labels), head.gradients(w, *tests)
        hessian = head.hessian(w, head.one)
        solved = np.linalg.solve(hessian, g.T)
        pairs = -g_test @ solved
        same = {"rtol": 0, "atol": 1e-8 * abs(pairs).max()}
        np.testing.assert_allclose(found["influence"][0], pairs, **same)
        np.testing.assert_allclose(found["mean_influence"][0], pairs.mean(axis=0), **same)
        np.testing.assert_allclose(found["self_influence"][0], (g.T * solved).sum(axis=0), rtol=1e-8)
        np.testing.assert_allclose(found["loss"], head.losses(w, head.x, labels), rtol=1e-9)
        np.testing.assert_allclose(found["test_loss"], head.losses(w, *tests), rtol=1e-9)
        np.testing.assert_allclose(found["gradient_norm"], np.linalg.norm(g, axis=1), rtol=1e-9)
        np.testing.assert_array_equal(found["correct"], (head.x @ w.T).argmax(axis=1) == labels)
        self.assertLess(found["objective_gradient_norm"], 1e-12)
        self.against_training_again(found, head, w, tests, pairs)
        self.curvatures(found, head, w, tests, pairs)

    def against_training_again(self, found, head, w, tests, pairs):
        before = head.losses(w, *tests)
        true, newton = [], []
        for sample in range(TRAIN):
            shares = head.one.copy()
            shares[sample] = 0
            if sample < 10:
                true.append(head.losses(head.fit(shares), *tests) - before)
            step = np.linalg.solve(head.hessian(w, shares), head.gradients(w, head.x, head.y)[sample]) / TRAIN
            newton.append(head.losses(w + step.reshape(w.shape), *tests) - before)
        true, newton, first = np.array(true).T, np.array(newton).T, -pairs[:, :10] / TRAIN
        np.testing.assert_allclose(found["retrained"], true, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found["change_newton"], newton[:, :10], rtol=0, atol=1e-9)
        np.testing.assert_allclose(found["change_without"], newton, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found["change_first"], first, rtol=0, atol=1e-8 * abs(first).max())
        for name, account in (("first", first), ("newton", newton[:, :10])):
            self.assertAlmostEqual(found[f"{name}_spearman"], rank_correlation(account, true), 9)
            self.assertAlmostEqual(found[f"{name}_pearson"], np.corrcoef(account.ravel(), true.ravel())[0, 1], 7)
            self.assertAlmostEqual(found[f"{name}_relative_error"], np.linalg.norm(account - true) / np.linalg.norm(true), 6)
            largest = [set(np.argsort(-abs(one.ravel()))[:10]) for one in (account, true)]
            self.assertAlmostEqual(found[f"{name}_top_share"], len(set.intersection(*largest)) / 10, 12)

    def curvatures(self, found, head, w, tests, pairs):
        g, g_test = head.gradients(w, head.x, head.y), head.gradients(w, *tests)
        hessian, p, width = head.hessian(w, head.one), head.probabilities(w, head.x), head.x.shape[1]
        values, vectors = np.linalg.eigh(hessian)
        blocks = hessian * np.kron(np.eye(CLASSES), np.ones((width, width)))
        a, u = np.linalg.eigh(head.x.T @ head.x / TRAIN)
        b, q = np.linalg.eigh(np.diag(p.mean(axis=0)) - p.T @ p / TRAIN)
        basis = np.kron(q, u)
        inverses = {"exact": np.linalg.inv(hessian), "identity": np.eye(len(hessian)), "diagonal": np.diag(1 / np.diag(hessian)),
                    "classes": np.linalg.inv(blocks),
                    **{f"truncated_{kept}": (vectors[:, -kept:] / values[-kept:]) @ vectors[:, -kept:].T for kept in (5, 40)},
                    "kfac": (basis / (np.kron(b, a) + RIDGE)) @ basis.T}
        names = self.open("out.h5")["analysis/influence"].attrs["curvature_names"].split()
        self.assertEqual(names, [*inverses, "ekfac"])
        for row, (name, inverse) in enumerate(inverses.items()):
            cheap = -g_test @ inverse @ g.T
            self.assertAlmostEqual(found["curvature_relative_error"][row], np.linalg.norm(cheap - pairs) / np.linalg.norm(pairs), 6, name)
            self.assertAlmostEqual(found["curvature_spearman"][row], rank_correlation(-cheap[:, :10], found["retrained"]), 6, name)
        # The best diagonal in the basis of kfac; eigenvectors of equal eigenvalues are anybody's choice.
        self.assertGreater(found["curvature_relative_error"][-1], 0)

    def test_where_the_ridge_is_all_curvature_accounts_of_sets_are_right_and_newton_to_another_order(self):
        found = self.of_transformer(*HEAD, "--influence.ridge=1e3", ranks=2)
        # First order leaves in the curvature of what is left out, k |x|^2 / (2 N ridge) = 8 * 10 / (2 * 24 * 1000) at most, and the step's square in the
        # loss, of the same order. Newton errs by the third derivative along a step of k |g| / (N ridge), over the ridge once more.
        self.assertLess(found["set_first_relative_error"].max(), 1e-2)
        self.assertLess(found["set_newton_relative_error"].max(), 1e-5)
        self.assertLess(found["newton_relative_error"], 1e-2 * found["first_relative_error"])
        self.assertTrue((found["set_newton_relative_error"] > 0).all())

    def test_change_without_is_that_of_the_account_asked_for(self):
        found = self.of_transformer(*HEAD, "--influence.removal=first")
        np.testing.assert_allclose(found["change_without"], -found["influence"][0] / TRAIN, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(found["change_first"], found["change_without"][:, :10], rtol=1e-9, atol=1e-13)
        self.assertEqual(self.open("out.h5")["analysis/influence"].attrs["removal"], "first")


class WrongLabels(InfluenceTest):
    def test_scores_are_judged_by_the_labels_that_the_training_planted(self):
        for solver, name in ((GRAM, "gram"), ("--influence.solver=head", "head")):
            keys = (*HEAD, "--influence.samples=60") if name == "head" else ("--influence.samples=60", "--influence.damping=0.1,1e-3",
                                                                              "--influence.epochs=1,4")
            found = self.of_transformer(solver, *keys, output=f"{name}.h5")
            label, right, wrong = found["label"], found["right_label"], found["wrong"]
            self.assertEqual(sorted(found["train_index"].astype(int)), sorted(set(found["train_index"].astype(int))))
            np.testing.assert_array_equal(right, found["train_index"] % 10)  # of write_mnist
            np.testing.assert_array_equal(wrong, label != right)
            self.assertEqual(found["planted"], wrong.sum())
            # Binomial: 60 samples with a share of 0.2, 4 standard deviations.
            self.assertTrue(0 < wrong.sum() <= 24, wrong.sum())
            self.assertAlmostEqual(found["random_precision"], wrong.mean(), 12)
            scores = (found["self_influence"][0], found["loss"], found["gradient_norm"], found["mean_influence"][0])
            np.testing.assert_allclose(found["precision"], [precision(score, wrong) for score in scores], rtol=1e-12)
            for own in ("self_influence", "mean_influence"):
                np.testing.assert_allclose(found[f"{own}_precision"], [precision(score, wrong) for score in found[own]], rtol=1e-12)
            self.assertAlmostEqual(found["fitted_wrong"], found["correct"][wrong == 1].mean(), 12)
            self.assertAlmostEqual(found["fitted_right"], found["correct"][wrong == 0].mean(), 12)
            self.suspects_are_shown(found)
        gram = self.of_transformer(GRAM, "--influence.samples=60", "--influence.damping=0.1", "--influence.epochs=1,4", output="again.h5")
        # The weights after the last epoch are those of the model.
        self.assertEqual(gram["epoch_loss_precision"][1], gram["precision"][1])

    def suspects_are_shown(self, found):
        score, places = found["self_influence"][0], found["suspect_sample"].astype(int)
        np.testing.assert_array_equal(places, np.argsort(-score)[:12])
        np.testing.assert_allclose(found["suspect_features"], images(self.path("data"), "train")[found["train_index"].astype(int)[places]], atol=1e-12)

    def test_labels_that_the_deck_gives_count_instead_of_those_of_the_training(self):
        found = self.of_transformer(*HEAD, "--data.wrong_labels=0")
        np.testing.assert_array_equal(found["label"], found["right_label"])
        self.assertEqual(found["planted"], 0)
        self.assertNotIn("precision", found)


class Runs(InfluenceTest):
    def test_says_the_same_on_any_number_of_ranks(self):
        for name, keys in (("head", HEAD), ("gram", (GRAM, "--influence.damping=0.1,0.01")), ("krylov", (KRYLOV, "--influence.damping=0.1"))):
            alone = self.measure(*keys, models=BOTH, output=f"{name}.h5")
            for ranks in SEVERAL_RANKS:
                found = self.measure(*keys, models=BOTH, ranks=ranks, output=f"{name}_on{ranks}.h5")
                self.assertEqual(sorted(found), sorted(alone))
                for measure in alone:
                    # Solves stop after another number of products where round-off differs; each is right to 1e-10 |g|^2 / d.
                    if not measure.endswith(("seconds", "products", "residual")):
                        np.testing.assert_allclose(found[measure], alone[measure], rtol=1e-6, atol=1e-8, err_msg=f"{name} {measure}")

    def test_refuses_what_makes_no_sense(self):
        cases = [(["--influence.solver=lissa"], ["influence.solver", "krylov"]),
                 (["--influence.ridge=0"], ["influence.ridge"]),
                 (["--influence.damping=0.3"], ["influence.damping", "needs influence.solver"]),
                 ([GRAM, "--influence.damping=0"], ["influence.damping"]),
                 ([GRAM, "--influence.curvature=hessian"], ["influence.curvature", "needs influence.solver = krylov"]),
                 ([GRAM, "--influence.ridge=0.1"], ["influence.ridge", "needs influence.solver = head"]),
                 ([GRAM, "--influence.parameters=neuron"], ["influence.parameters", "W_1"]),
                 ([GRAM, "--influence.parameters=all,head"], ["influence.parameters", "all stands alone"]),
                 ([KRYLOV, "--influence.parameters=W_G"], ["influence.parameters", "W_G"]),
                 ([KRYLOV, "--influence.tolerance=1"], ["influence.tolerance"]),
                 (["--influence.samples=61"], ["influence.samples = 61", "models.transformer", "was trained on 60"]),
                 (["--influence.samples=1"], ["influence.samples"]),
                 ([f"--influence.removed={TRAIN}"], ["influence.removed", "influence.samples"]),
                 ([GRAM, "--influence.epochs=9"], ["epoch9"]),
                 (["--run.precision=single"], ["run.precision", "double"])]
        for keys, _ in cases:  # the default removes up to 100 samples
            if not any("removed" in key or key == GRAM or key == KRYLOV for key in keys):
                keys.append("--influence.removed=3")
        run = ("influence", "--quiet", *TRANSFORMER, "--output.file=no.h5")
        together([lambda c=case, r=ranks: self.assert_refused(self.run_program(*run, *c[0], ranks=r), *c[1])
                  for number, case in enumerate(cases) for ranks in ranks_of_case(number)[-1:]])

    def test_says_beforehand_what_it_will_do(self):
        end = self.run_program("influence", *TRANSFORMER, GRAM, "--influence.parameters=head", "--validate")
        self.assertEqual(end.code, 0, end)
        self.assertIn(f"{TRAIN} training samples", end.out + end.err)
        self.assertIn(f"{CLASSES * (8 + 1)} variables", end.out + end.err)


if __name__ == "__main__":
    unittest.main()
