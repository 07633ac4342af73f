"""A Transformer by the book in numpy, from the arrays of a model file: no masks, exact GELU. import_weights_test.py holds it to
PyTorch's hidden states."""

import math

import numpy as np


def erf(x):
    """To first order in the imaginary part, for derivatives by complex steps."""
    real = np.vectorize(math.erf)(x.real)
    return real + 2j / math.sqrt(math.pi) * np.exp(-x.real**2) * x.imag if np.iscomplexobj(x) else real


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + bias


def weights(model, number):
    """name -> array of layer `number`, counted from 1."""
    return {name: item[...] for name, item in model[f"layers/{number}"].items()}


def layer(w, u, heads, norm, step=1.0):
    """The states u [sample, token, channel] behind a layer, or a part `step` of one, of weights w."""
    samples, tokens, width = u.shape

    def attention(x):
        q, k, v = ((x @ w["W_" + name].T + w["b_" + name]).reshape(samples, tokens, heads, -1).swapaxes(1, 2) for name in "QKV")
        scores = np.exp(q @ k.swapaxes(2, 3) / math.sqrt(width / heads))
        mixed = scores / scores.sum(-1, keepdims=True) @ v
        return mixed.swapaxes(1, 2).reshape(u.shape) @ w["W_O"].T + w["b_O"]

    def reaction(x):
        z = x @ w["W_1"].T + w["b_1"]
        return 0.5 * z * (1 + erf(z / math.sqrt(2))) @ w["W_2"].T + w["b_2"]

    for term, which in ((attention, "norm1"), (reaction, "norm2")):
        gain, bias = w[which + "_gain"], w[which + "_bias"]
        u = u + step * term(layer_norm(u, gain, bias)) if norm == "pre" else layer_norm(u + step * term(u), gain, bias)
    return u


def embedded(model, features):
    """The states [sample, token, channel] at depth 0."""
    return features @ model["embedding/W"][...].T + model["embedding/b"][...] + model["embedding/position"][...]


def states(model, features):
    """The states of a pre-norm Transformer at depth 0 and behind each of its layers."""
    all_of_them = [embedded(model, features)]
    for number in range(1, int(model.attrs["layers"]) + 1):
        all_of_them.append(layer(weights(model, number), all_of_them[-1], int(model.attrs["heads"]), "pre"))
    return all_of_them


def pooled(model, u):
    """What the classifier sees: the mean over the tokens of the normalised last state."""
    return layer_norm(u, model["final_norm/gain"][...], model["final_norm/bias"][...]).mean(axis=1)


def logits_of(model, u):
    """[sample, class] from the last state of a pre-norm model."""
    return pooled(model, u) @ model["head/W"][...].T + model["head/b"][...]


def cross_entropy(model, u, labels):
    """(loss, its derivative by the logits) of each sample, from the last state of a pre-norm model."""
    logits = logits_of(model, u)
    logits -= logits.max(axis=1, keepdims=True)
    share = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    wanted = np.eye(logits.shape[1])[labels]
    return -np.log((share * wanted).sum(axis=1)), share - wanted


class NumpyModel:
    """Loss and gradients of a trained Transformer, or of the PDE that inherits its weights with `cells` per layer: its states from
    numpy_transformer.py, their gradients by central differences, none of it from the program."""

    def __init__(self, model, rows, labels, cells=1):
        self.model, self.labels, self.cells = model, labels, cells
        self.layers, self.heads = int(model.attrs["layers"]), int(model.attrs["heads"])
        self.states = [embedded(model, rows)]
        for cell in range(cells * self.layers):
            self.states.append(self.behind(cell, self.states[-1]))

    def behind(self, cell, u):
        """The state behind a cell. Weights are linear in depth between the layers, and constant beyond the last."""
        place, last = cell / self.cells, self.layers - 1
        left, share = int(place), place - int(place)
        one, other = weights(self.model, left + 1), weights(self.model, min(left + 1, last) + 1)
        mixed = {name: (1 - share) * one[name] + share * other[name] for name in one}
        return layer(mixed, u, self.heads, "pre", 1 / self.cells)

    def loss(self, sample, row, u):
        """The losses of one sample with each of the states u [number, token, channel] in place of that in `row`."""
        for cell in range(row, self.cells * self.layers):
            u = self.behind(cell, u)
        return cross_entropy(self.model, u, np.full(len(u), self.labels[sample]))[0]

    def gradient_norms(self, step=1e-5):
        """The norm of each sample's gradient, [sample, row]."""
        _, tokens, width = self.states[0].shape
        moves = step * np.eye(tokens * width).reshape(-1, tokens, width)  # of one number after the other
        squares = [[np.sum(((self.loss(b, row, u[b] + moves) - self.loss(b, row, u[b] - moves)) / (2 * step))**2)
                    for b in range(len(self.labels))] for row, u in enumerate(self.states)]
        return np.sqrt(squares).T

    def loss_and_head_gradient(self):
        """Mean loss, and the norm of its gradient by weights and biases of the classifier."""
        loss, by_logits = cross_entropy(self.model, self.states[-1], self.labels)
        matrix = by_logits.T @ pooled(self.model, self.states[-1]) / len(loss)
        return loss.mean(), np.sqrt(np.sum(matrix**2) + np.sum(by_logits.mean(axis=0)**2))
