"""A Transformer in numpy, from nothing but a model file (docs/reference/output-format.md, /model): embedding, layers, heads.

published_models_test.py holds it to PyTorch. Tokens are ids [sample, token] with segments, or features [sample, token, number];
`lengths` says how many tokens of a sample are real (the others have meaningless states)."""

import math

import h5py
import numpy as np

erf = np.vectorize(math.erf)
ACTIVATIONS = {"none": lambda x: x, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0),
               "silu": lambda x: x / (1 + np.exp(-x)),
               "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
               "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))}


class Model:
    """A model file in memory: its attributes, and its arrays by their path below /model."""

    def __init__(self, path):
        self.arrays = {}
        with h5py.File(path, "r") as file:
            self.attributes = dict(file["model"].attrs)
            file["model"].visititems(lambda name, item: self.arrays.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None)

    def norm(self, x, place):
        if self.attributes.get("norm_map", "layer") == "layer":
            x = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((x**2).mean(-1, keepdims=True) + self.attributes.get("norm_eps", 1e-5))
        return x / scale * self.arrays[place + "gain"] + self.arrays.get(place + "bias", 0)

    def linear(self, x, place, letter):
        return x @ self.arrays[f"{place}W{letter}"].T + self.arrays.get(f"{place}b{letter}", 0)

    def head_norm(self, x, gain):
        """RMSNorm of queries or keys [..., channel of a head], if the layer has one."""
        return x if gain is None else x / np.sqrt((x**2).mean(-1, keepdims=True) + self.attributes["norm_eps"]) * gain

    def rotate(self, x, number):
        """Queries or keys [sample, head, token, channel] of layer `number`, turned by the angles of their tokens."""
        layout = self.attributes.get("rotary_layout", "none")
        if layout == "none":
            return x
        theta = self.arrays["rotary/theta"][self.arrays["rotary/table"][number - 1]]
        pairs, m = np.arange(len(theta)), self.attributes.get("rotary_scale", 1)
        first, second = (pairs, pairs + len(theta)) if layout == "half" else (2 * pairs, 2 * pairs + 1)
        angle = np.outer(np.arange(x.shape[2]), theta)
        a, b, turned = x[..., first], x[..., second], x.copy()
        turned[..., first] = m * (a * np.cos(angle) - b * np.sin(angle))
        turned[..., second] = m * (b * np.cos(angle) + a * np.sin(angle))
        return turned

    def hidden_keys(self, number, tokens, lengths):
        """[sample, 1, query, key]: True where layer `number` does not see a key."""
        token, causal = np.arange(tokens), self.attributes.get("causal", "off") == "on"
        behind = token[:, None] - token[None, :]
        hidden = (token >= np.asarray(lengths)[:, None])[:, None, None, :] | (causal & (behind < 0))
        window = self.arrays["window"][number - 1] if "window" in self.arrays else 0
        return hidden | ((behind >= window) if causal else (abs(behind) > window)) if window else hidden

    def embed(self, tokens, segments=None):
        if "embedding/words" in self.arrays:
            u = self.arrays["embedding/words"][tokens]
        else:
            u = self.linear(tokens, "embedding/", "")
        if "embedding/class_token" in self.arrays:
            front = np.atleast_2d(self.arrays["embedding/class_token"])
            u[:, :len(front)] = front
        if "embedding/segment" in self.arrays:
            u = u + self.arrays["embedding/segment"][np.zeros(tokens.shape, int) if segments is None else segments]
        if "embedding/position" in self.arrays:
            u = u + self.arrays["embedding/position"][:u.shape[1]]
        return self.norm(u, "embedding/norm_") if "embedding/norm_gain" in self.arrays else u

    def attention(self, x, place, lengths, number):
        """(output, attention [sample, head, query, key]) of the arrays in `place`, with the angles and the window of layer `number`."""
        samples, tokens, _ = x.shape
        heads = int(self.attributes["heads"])
        groups = int(self.attributes.get("groups", heads))
        q, k, v = (self.linear(x, place, "_" + name).reshape(samples, tokens, count, -1).swapaxes(1, 2)
                   for name, count in (("Q", heads), ("K", groups), ("V", groups)))
        q, k = (self.rotate(self.head_norm(one, self.arrays.get(f"{place}{name}_gain")), number) for one, name in ((q, "q"), (k, "k")))
        group = np.arange(heads) * groups // heads
        scores = q @ k[:, group].swapaxes(2, 3) / math.sqrt(q.shape[-1])
        scores = np.exp(np.where(self.hidden_keys(number, tokens, lengths), -np.inf, scores - scores.max(-1, keepdims=True)))
        total = scores.sum(-1, keepdims=True)
        shares = scores / np.where(total > 0, total, 1)  # a padding token may see nothing
        return self.linear((shares @ v[:, group]).swapaxes(1, 2).reshape(samples, tokens, -1), place, "_O"), shares

    def reaction(self, x, place):
        act = ACTIVATIONS[self.attributes["activation"]]
        if self.attributes.get("gated", "off") == "on":
            return self.linear(act(self.linear(x, place, "_G")) * self.linear(x, place, "_1"), place, "_2")
        return self.linear(act(self.linear(x, place, "_1")), place, "_2")

    def layer(self, number, u, lengths):
        """(the states behind layer `number` = 1, 2, ... with the states u in front of it, attention)"""
        place, pre = f"layers/{number}/", self.attributes["norm"] == "pre"
        first = pre and not (number == 1 and self.attributes.get("first_norm", "on") == "off")
        mixed, shares = self.attention(self.norm(u, place + "norm1_") if first else u, place, lengths, number)
        mixed = mixed + self.transport(u, place, lengths)
        if self.attributes["order"] == "parallel":
            return u + mixed + self.reaction(self.norm(u, place + "norm2_"), place), shares
        u = u + mixed if pre else self.norm(u + mixed, place + "norm1_")
        changed = self.reaction(self.norm(u, place + "norm2_") if pre else u, place)
        return (u + changed if pre else self.norm(u + changed, place + "norm2_")), shares

    def transport(self, u, place, lengths):
        """nu (u(x-1) - u(x)) into the real tokens behind the first, if the layer has it."""
        flow = np.zeros_like(u)
        if place + "nu" in self.arrays:
            flow[:, 1:] = self.arrays[place + "nu"] * (u[:, :-1] - u[:, 1:])
        return flow * (np.arange(u.shape[1]) < np.asarray(lengths)[:, None])[:, :, None]

    def states(self, tokens, lengths, segments=None):
        """(hidden [layer, sample, token, channel] from the embedded input on, attention [layer, sample, head, query, key])"""
        hidden, attention = [self.embed(tokens, segments)], []
        for number in range(1, int(self.attributes["layers"]) + 1):
            u, shares = self.layer(number, hidden[-1], lengths)
            hidden.append(u)
            attention.append(shares)
        return np.array(hidden), np.array(attention)

    def last(self, u):
        """What the heads see of the last state."""
        return self.norm(u, "final_norm/") if "final_norm/gain" in self.arrays else u

    def words(self, u):
        """Logits [sample, token, word] of the last state, or None."""
        if self.attributes.get("word_head") != "on" and not {"word_head/b", "word_head/W"} & set(self.arrays):
            return None
        x = self.last(u)
        if "word_head/transform_W" in self.arrays:
            x = ACTIVATIONS[self.attributes.get("word_head_activation", "none")](self.linear(x, "word_head/transform_", ""))
        if "word_head/norm_gain" in self.arrays:
            x = self.norm(x, "word_head/norm_")
        return x @ self.arrays.get("word_head/W", self.arrays["embedding/words"]).T + self.arrays.get("word_head/b", 0)

    def classes(self, u, lengths):
        """Logits [sample, class] of the last state, or None."""
        if "head/W" not in self.arrays:
            return None
        x, lengths = self.last(u), np.asarray(lengths)
        pooling = self.attributes.get("pooling", "mean")
        if pooling == "mean":
            real = (np.arange(x.shape[1]) < lengths[:, None])[:, :, None]
            x = (x * real).sum(1) / lengths[:, None]
        elif pooling == "front":
            x = x[:, :len(np.atleast_2d(self.arrays["embedding/class_token"]))].reshape(len(x), -1)
        else:
            x = x[np.arange(len(x)), 0 if pooling == "first" else lengths - 1]
        if "head/transform_W" in self.arrays:
            x = ACTIVATIONS[self.attributes.get("head_activation", "none")](self.linear(x, "head/transform_", ""))
        if "head/norm_gain" in self.arrays:
            x = self.norm(x, "head/norm_")
        return self.linear(x, "head/", "")
