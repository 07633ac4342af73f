"""Gauges: what may be done to the weights of a layer without changing the model.

A member of each class is canonical: LayerNorms are folded into the maps behind them, parts that nothing reads are 0, and the two maps of each
head (queries and keys, values and outputs) are balanced, so that the sum of squares is the least. What is then left are rotations within heads,
permutations of heads and permutations of hidden units, which keep distances; `aligned` finds those that bring a layer closest to another.

A head is a pair of matrices [d_h, columns] of which only the product one^T other counts: queries and keys with their biases as last column,
outputs (transposed) and values. That all invertible maps within heads, and permutations of heads, are the gauges of attention: Complete
Characterization of Gauge Symmetries, NeurReps 2025; alignment by rotations: Zhang et al., arXiv 2502.00264.
"""

from __future__ import annotations

from fluxformer.convert.transformer import Layer, Structure

import numpy as np
from scipy.optimize import linear_sum_assignment

Pair = tuple[np.ndarray, np.ndarray]  # [head, d_h, column] each


def _heads(layer: Layer, structure: Structure) -> tuple[Pair, Pair]:
    """The pairs (queries, keys) and (values, outputs) of all heads."""
    heads = structure.heads

    def rows(letter: str) -> np.ndarray:
        return np.column_stack([layer[f"W_{letter}"], layer[f"b_{letter}"]]).reshape(heads, -1, structure.width + 1)

    return (rows("Q"), rows("K")), (rows("V"), layer["W_O"].T.reshape(heads, -1, structure.width))


def _with_heads(layer: Layer, first: Pair, second: Pair) -> Layer:
    """The layer with other heads, the inverse of `_heads`."""
    width = len(layer["W_Q"])
    found = dict(layer)
    for letter, part in zip("QKV", (*first, second[0])):
        flat = part.reshape(width, width + 1)
        found[f"W_{letter}"], found[f"b_{letter}"] = flat[:, :-1], flat[:, -1]
    found["W_O"] = second[1].reshape(width, width).T
    return found


def balanced(pair: Pair) -> Pair:
    """The pair with the same products one^T other of each head whose Gram matrices are equal (and diagonal): sum of squares 2 |one^T other|_nuclear,
    the least there is. By QR, so that no matrix of d x d is decomposed."""
    (left, one), (right, other) = (np.linalg.qr(part.swapaxes(1, 2)) for part in pair)
    u, sizes, v = np.linalg.svd(one @ other.swapaxes(1, 2))
    root = np.sqrt(sizes)[:, :, None]
    return root * (left @ u).swapaxes(1, 2), root * (v @ right.swapaxes(1, 2))


def canonical(layer: Layer, structure: Structure) -> Layer:
    """The canonical member: the same model (states of a pre-norm model up to a constant over channels, which nothing reads), whose sum of
    squares is the least but for the biases that others have taken over."""
    found = {name: array.copy() for name, array in layer.items()}
    if structure.folds:
        for norm, maps in structure.norms:
            gain, bias = found[norm + "gain"], found[norm + "bias"]
            for name in maps:
                weight = found[name.format("W")]
                found[name.format("b")] = found[name.format("b")] + weight @ bias
                # A normalised state has the mean 0 over channels: what is the same in all columns reads nothing.
                found[name.format("W")] = weight * gain - (weight @ gain / len(gain))[:, None]
            found[norm + "gain"], found[norm + "bias"] = np.ones_like(gain), np.zeros_like(bias)
    if structure.any_key_bias:
        found["b_K"] = np.zeros_like(found["b_K"])
    if structure.rows_sum_to_1:
        found["b_O"] = found["b_O"] + found["W_O"] @ found["b_V"]
        found["b_V"] = np.zeros_like(found["b_V"])
    if structure.blind_to_means:
        for name in ("W_O", "b_O", *(f"{half}{kind}_2" for half in structure.halves for kind in "Wb")):
            found[name] = found[name] - found[name].mean(axis=0)
    if structure.activation == "relu":  # relu(c z) = c relu(z) for c > 0
        for half in structure.halves:
            ins, outs = _units(found, half, structure)
            sizes = [np.sqrt((part**2).sum(axis=1)) for part in (ins, outs)]
            scale = np.sqrt(np.divide(sizes[1], sizes[0], out=np.ones_like(sizes[0]), where=(sizes[0] > 0) & (sizes[1] > 0)))
            found = _with_units(found, half, scale[:, None] * ins, outs / scale[:, None])
    first, second = _heads(found, structure)
    # Under the kernel l2 only rotations of queries and keys leave their distances as they are.
    return _with_heads(found, balanced(first) if structure.kernel == "dot" else first, balanced(second))


def _units(layer: Layer, half: str, structure: Structure) -> Pair:
    """What hidden units read (with their bias) and write: [unit, d + 1] and [unit, d]."""
    return np.column_stack([layer[f"{half}W_1"], layer[f"{half}b_1"]]), layer[f"{half}W_2"].T


def _with_units(layer: Layer, half: str, ins: np.ndarray, outs: np.ndarray) -> Layer:
    """The layer with other hidden units, the inverse of `_units`."""
    return {**layer, f"{half}W_1": ins[:, :-1], f"{half}b_1": ins[:, -1], f"{half}W_2": outs.T}


def aligned(layer: Layer, target: Layer, structure: Structure, rotate: bool) -> Layer:
    """The layer, changed by permutations of heads and of hidden units, as close to `target` as these allow; the model stays as it is.

    Parameters
    ----------
    rotate : bool
        True: rotations within heads, too, queries with keys and values with outputs (orthogonal Procrustes for each pair of heads); the
        heads are then assigned by the Hungarian method, as are the units. Both are exact, so that no member of these is closer.
    """
    heads = structure.heads
    parts = [np.concatenate(pair, axis=2) for pair in _heads(layer, structure)]
    products, gain = [], np.zeros((heads, heads))
    for part, wanted in zip(parts, _heads(target, structure)):
        size = part.shape[1]
        flat = np.concatenate(wanted, axis=2).reshape(heads * size, -1) @ part.reshape(heads * size, -1).T
        products.append(flat.reshape(heads, size, heads, size).swapaxes(1, 2))  # [head of target, head, d_h, d_h]
        # |R part - wanted|^2 = |part|^2 + |wanted|^2 - 2 tr(R^T product), at its least for R = U V^T of the product's singular vectors.
        gain += (np.linalg.svd(products[-1], compute_uv=False).sum(-1) if rotate else np.trace(products[-1], axis1=2, axis2=3))
    place, head = linear_sum_assignment(gain, maximize=True)
    for number, product in enumerate(products):
        part = parts[number][head]
        if rotate:
            u, _, v = np.linalg.svd(product[place, head])
            part = u @ v @ part
        parts[number] = part
    cut = structure.width + 1
    found = _with_heads(layer, (parts[0][:, :, :cut], parts[0][:, :, cut:]), (parts[1][:, :, :cut], parts[1][:, :, cut:]))
    for half in structure.halves:
        ins, outs = _units(layer, half, structure)
        wanted_ins, wanted_outs = _units(target, half, structure)
        _, unit = linear_sum_assignment(wanted_ins @ ins.T + wanted_outs @ outs.T, maximize=True)
        found = _with_units(found, half, ins[unit], outs[unit])
    return found


def distance(one: Layer, other: Layer) -> float:
    """The sum of squares of the differences of all weights."""
    return float(sum(((array - other[name])**2).sum() for name, array in one.items()))


def size(layer: Layer) -> float:
    """The sum of squares of all weights; gains of LayerNorms count by their difference from 1."""
    return float(sum(((array - 1 if name.endswith("gain") else array)**2).sum() for name, array in layer.items()))
