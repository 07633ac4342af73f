"""Every model of docs/model.md on a line of tokens, in numpy from the arrays of a model file alone: all norms, orders, kernels, activations, weights
constant or linear in depth, any cells. convert_runs_test.py holds it to the program."""

import math

import h5py
import numpy as np

from numpy_model import ACTIVATIONS


def convergence(value, order):
    """Section 12 of docs/model.md for values [..., cells] on doubled depth cells: the observed order (NaN: none), if it is that of the method within
    1/4, the limit (the last value where it is not), the largest change seen from the first value, and that with what may still come."""
    steps = np.diff(value)[..., -2:]
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = np.log2(steps[..., 0] / steps[..., 1])
        asymptotic = np.abs(observed - order) <= 0.25
        rest = np.where(asymptotic, 0, np.where(observed > 0, np.minimum(10, 1 / (2**observed - 1)), 10) * np.abs(steps[..., 1]))
    limit = value[..., -1] + np.where(asymptotic, steps[..., 1] / (2**order - 1), 0)
    seen = np.abs(np.concatenate([value, limit[..., None]], axis=-1) - value[..., :1]).max(axis=-1)
    return observed, asymptotic, limit, seen, seen + rest


class Equation:
    """A model in memory: its attributes, and its arrays by their path below /model. Features are [sample, token, number]."""

    def __init__(self, attributes, arrays):
        self.attributes, self.arrays = dict(attributes), dict(arrays)

    @classmethod
    def read(cls, path):
        arrays = {}
        with h5py.File(path, "r") as file:
            file["model"].visititems(lambda name, item: arrays.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None)
            return cls(file["model"].attrs, arrays)

    def write(self, path):
        with h5py.File(path, "w") as file:
            file.attrs.update({"schema_version": 1, "experiment": "import_weights"})
            file.create_group("model").attrs.update(self.attributes)
            for name, array in self.arrays.items():
                file[f"model/{name}"] = array
        return path

    def said(self, name, usual):
        return self.attributes.get(name, usual)

    @property
    def layers(self):
        """The weights of every layer, or knot: a list of dictionaries."""
        return [{name.split("/")[2]: array for name, array in self.arrays.items() if name.startswith(f"layers/{number}/")}
                for number in range(1, int(self.said("knots", self.attributes["layers"])) + 1)]

    def with_layers(self, layers, **attributes):
        """The model with other weights of its layers."""
        arrays = {name: array for name, array in self.arrays.items() if not name.startswith("layers/")}
        arrays |= {f"layers/{number}/{name}": array for number, layer in enumerate(layers, start=1) for name, array in layer.items()}
        return Equation({**self.attributes, "knots": len(layers), **attributes}, arrays)

    def weights(self, depth):
        """Section 1 of docs/model.md: those at the entry of a cell, at this depth."""
        count, layers = int(self.attributes["layers"]), self.layers
        if self.said("weights", "constant") == "constant":
            return layers[int(depth)]
        last = len(layers) - 1
        place = min(depth * last / max(count - 1, 1), last)
        lower = min(int(place), max(last - 1, 0))
        upper, share = min(lower + 1, last), place - lower
        return {name: (1 - share) * array + share * layers[upper][name] for name, array in layers[lower].items()}

    def norm(self, x, gain, bias):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + self.said("norm_eps", 1e-5)) * gain + bias

    def attention(self, w, x):
        samples, tokens, width = x.shape
        heads = int(self.attributes["heads"])
        q, k, v = ((x @ w["W_" + name].T + w["b_" + name]).reshape(samples, tokens, heads, -1).swapaxes(1, 2) for name in "QKV")
        logits = q @ k.swapaxes(2, 3) / math.sqrt(width / heads)
        if self.said("kernel", "dot") == "l2":
            logits = -((q[:, :, :, None] - k[:, :, None])**2).sum(-1) / 2
        rule, shares = self.said("normalisation", "softmax"), logits
        if rule != "linear":
            shares = np.exp(logits - logits.max(-1, keepdims=True))
            for step in range(int(self.said("iterations", 1)) if rule == "sinkhorn" else 1):
                shares = shares / shares.sum(-1 if step % 2 == 0 else -2, keepdims=True)
        return (shares @ v).swapaxes(1, 2).reshape(x.shape) @ w["W_O"].T + w["b_O"]

    def reaction(self, w, x, half):
        return ACTIVATIONS[self.attributes["activation"]](x @ w[half + "W_1"].T + w[half + "b_1"]) @ w[half + "W_2"].T + w[half + "b_2"]

    def layer(self, w, u, step):
        """Section 2 of docs/model.md, with a residual connection."""
        norm, order = self.said("norm", "pre"), self.said("order", "sequential")
        alpha, rho = (float(self.arrays.get(f"equation/{name}", [1.0])[0]) for name in ("alpha", "rho"))

        def seen(x, which):
            return self.norm(x, w[which + "gain"], w[which + "bias"]) if norm == "pre" else x

        def after(x, which):
            if norm == "post":
                return self.norm(x, w[which + "gain"], w[which + "bias"])
            return x / np.sqrt((x**2).sum(-1, keepdims=True)) if norm == "sphere" else x

        def mixing(x):
            wide = np.concatenate([x[:, :1], x, x[:, -1:]], axis=1)
            return w["kappa"] * (wide[:, 2:] - 2 * x + wide[:, :-2]) + alpha * self.attention(w, seen(x, "norm1_"))

        def change(x, half=""):
            return rho * self.reaction(w, seen(x, half + "norm_" if half else "norm2_"), half)

        def moved(x, flow, step):
            return x + step * flow(x + step / 2 * flow(x) if self.said("subflow", "euler") == "midpoint" else x)

        if order == "parallel":
            return after(moved(u, lambda x: mixing(x) + change(x), step), "norm1_")
        if order == "macaron":
            half = "half_" if "half_W_1" in w else ""
            u = after(moved(u, lambda x: change(x, half), step / 2), half + "norm_" if half else "norm2_")
        u = after(moved(u, mixing, step), "norm1_")
        return after(moved(u, change, step / 2 if order == "macaron" else step), "norm2_")

    def field(self, depth, u):
        """F_s(u), section 3 of docs/model.md: what all terms add together, per layer; without a norm behind them."""
        at_once = Equation({**self.attributes, "order": "parallel", "subflow": "euler"}, self.arrays)
        return at_once.layer(self.weights(depth), u, 1) - u

    def runge_kutta(self, start, u, step):
        """A step of the classical method of order 4 through a cell that starts at this depth."""
        first = self.field(start, u)
        second = self.field(start + step / 2, u + step / 2 * first)
        third = self.field(start + step / 2, u + step / 2 * second)
        return u + step / 6 * (first + 2 * second + 2 * third + self.field(start + step, u + step * third))

    def embedded(self, features):
        """The first state."""
        return features @ self.arrays["embedding/W"].T + self.arrays["embedding/b"] + self.arrays.get("embedding/position", 0)

    def march(self, features, cells=None, step=None):
        """The states [cell, sample, token, channel], the embedded input first; on so many equal cells, or between these edges; by layer maps, or
        by these steps."""
        count = int(self.attributes["layers"])
        edges = np.arange((cells or count) + 1) * count / (cells or count) if cells is None or np.ndim(cells) == 0 else cells
        states = [self.embedded(features)]
        for start, end in zip(edges[:-1], edges[1:]):
            states.append(step(start, states[-1], end - start) if step else self.layer(self.weights(start), states[-1], end - start))
        return np.array(states)

    def logits(self, features, cells=None, step=None):
        """[sample, class], of the mean over tokens."""
        return self.read_out(self.march(features, cells, step)[-1])

    def read_out(self, u):
        """The logits of a last state."""
        if self.said("norm", "pre") == "pre":
            u = self.norm(u, self.arrays["final_norm/gain"], self.arrays["final_norm/bias"])
        return u.mean(axis=1) @ self.arrays["head/W"].T + self.arrays["head/b"]


def made_up(random, layers=4, width=12, heads=3, ffn=10, inputs=5, classes=4, kappas=1, halves=False, alpha=0.9, **attributes):
    """A Transformer of random weights with every bias and gain, none of which is special, and numbers such that no soft-max is sharp."""
    def normal(*shape):
        return random.normal(size=shape) / math.sqrt(shape[-1])

    def norm(name):
        return {name + "gain": 1 + 0.3 * random.normal(size=width), name + "bias": 0.2 * random.normal(size=width)}

    def reaction(half):
        return {half + "W_1": normal(ffn, width), half + "b_1": 0.3 * random.normal(size=ffn), half + "W_2": normal(width, ffn),
                half + "b_2": 0.3 * random.normal(size=width), **norm(half + "norm_" if half else "norm2_")}

    def layer():
        found = {"W_" + letter: normal(width, width) for letter in "QKVO"} | {"b_" + letter: 0.3 * random.normal(size=width) for letter in "QKVO"}
        return {**found, **norm("norm1_"), **reaction(""), **(reaction("half_") if halves else {}), "kappa": 0.2 * random.random(kappas)}

    arrays = {"embedding/W": normal(width, inputs), "embedding/b": normal(width), "head/W": normal(classes, width), "head/b": normal(classes),
              "equation/alpha": np.array([alpha]), "equation/rho": np.array([1.1])}
    if attributes.get("norm", "pre") == "pre":
        arrays |= {"final_norm/gain": 1 + 0.3 * random.normal(size=width), "final_norm/bias": 0.2 * random.normal(size=width)}
    said = {"kind": "transformer", "weights": "constant", "layers": layers, "width": width, "heads": heads, "ffn": ffn, "norm": "pre",
            "activation": "gelu_erf", **attributes}
    return Equation(said, arrays).with_layers([layer() for _ in range(layers)])
