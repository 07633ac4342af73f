"""A Transformer of S layers becomes a PDE model with K knots, weights linear in between.

    fluxformer convert MODEL.h5 --knots K --output PDE.h5
    fluxformer convert MODEL.h5 --knots K --output PDE.h5 --how fit
    fluxformer convert MODEL.h5 --merge L --output FEWER.h5
    fluxformer convert MODEL.h5 --keep 1,2,4 --output FEWER.h5
    fluxformer convert --report MODEL.h5 ...

MODEL.h5 is the output of a training, of any other run, or a model file that `import` wrote. The weights of layer l are taken as samples at
depth l - 1 of weights that are linear between K knots, 1 <= K <= S. The result is a model file on as many depth cells as there were layers:

    fluxformer train DECK --model.file=PDE.h5 --model.kind=pde --model.knots=K     trains it further (DECK: that of the Transformer)
    fluxformer evolve --model.file=PDE.h5 --mesh.cells=16                          the same equation on other cells

--how says how the knots are found:

    pick           the weights at the knots' places, linear between the two layers there
    fit            least squares over all layers, entry by entry (K = 1: the mean)
    permutations   the same after heads and hidden units of each layer were put into the order that suits its neighbours best
    full           (default) the same after everything that may be done to a layer without changing the model

With K = S and one cell per layer the result is the Transformer, whatever the way; `fit` and `pick` then copy every bit. On more cells, and
with fewer knots, the result depends on the way, since what is linear between two layers depends on how each is written. `full` writes each
layer in its canonical form first: LayerNorm folded into the maps behind it (pre-norm), what nothing reads removed (the bias of keys, a
constant over channels in front of a LayerNorm), queries and keys, values and outputs of each head balanced by a singular value decomposition.
Then it rotates heads (orthogonal Procrustes) and reorders heads and hidden units (Hungarian method), layer by layer and in turns with the fit.
The states of such a model can differ by a constant over channels; its logits do not.

Few knots need training after it, and layers left out may do as well: try both.

--merge makes a Transformer of S - 1 layers: L and L + 1 become one with the mean of their aligned weights, over twice the length.
--keep makes a Transformer of these layers alone; `fluxformer removal` says which can go.

--report writes nothing. It prints how continuous the weights are, as they are and aligned: roughness (the mean square distance of neighbouring
layers over that of all pairs: 1 if their order does not matter, 6/(S(S+1)) for weights linear in depth), the share p of the orders of the
layers that are as smooth, and the distance of neighbours; and what K knots miss of the weights, for each way.

Ends with status 2 and one message for PDE models and for what has no equation (norm post or sphere; --report takes them), with status 1 if the
disk is full.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.hdf5_file import open_file, reading
from fluxformer.convert.continuity import MOST_LAYERS, RANDOM_ORDERS, least_share, roughness, share_as_smooth
from fluxformer.convert.gauges import aligned, canonical, distance, size
from fluxformer.convert.knots import MOST_ROUNDS, WAYS, convert, merged
from fluxformer.convert.transformer import Layer, Transformer, read_transformer
from fluxformer.io import plain, without_checkpoints
from fluxformer.model_file import require_one_step_a_layer, write_model
from fluxformer.part_file import refuse_place
from fluxformer.tensors import Unfit, held

import h5py
import numpy as np

EQUATION = ("pre", "none")  # norms whose layers are Euler steps of an equation
LARGE = 512  # hidden units or channels from which on aligning all pairs of layers takes minutes
SIGNIFICANT = 0.05
EQUAL = 1e-20  # of the sum of squares: what round-off makes of equal layers


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fluxformer convert", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage="fluxformer convert MODEL.h5 --knots K --output PDE.h5 [--how WAY] [--overwrite]\n"
                                           "       fluxformer convert MODEL.h5 --merge L --output FEWER.h5 [--overwrite]\n"
                                           "       fluxformer convert MODEL.h5 --keep L,L,... --output FEWER.h5 [--overwrite]\n"
                                           "       fluxformer convert --report MODEL.h5 [MODEL.h5 ...]")
    parser.add_argument("models", nargs="+", metavar="MODEL.h5", help="model file, or output of a training or any other run")
    parser.add_argument("--knots", type=int, metavar="K", help="number of knots, from 1 to the number of layers")
    parser.add_argument("--merge", type=int, metavar="L", help="make layers L and L + 1 one, L from 1")
    parser.add_argument("--keep", metavar="L,L,...", help="keep these layers alone, in their order, from 1")
    parser.add_argument("--output", metavar="PDE.h5", help="model file to write")
    parser.add_argument("--how", choices=tuple(WAYS), help="; ".join(f"{name}: {what}" for name, what in WAYS.items()) + " (default: full)")
    parser.add_argument("--report", action="store_true", help="print how continuous the weights of each MODEL are; writes nothing")
    parser.add_argument("--overwrite", action="store_true", help="replace PDE.h5 if it is there")
    options = parser.parse_args(arguments)
    given = [name for name in ("knots", "merge", "keep", "output", "how") if getattr(options, name) is not None] + (["overwrite"] if options.overwrite else [])
    if options.report and given:
        raise Unfit(f"--{given[0]} has no effect beside --report, which writes nothing")
    ways = [name for name in ("knots", "merge", "keep") if getattr(options, name) is not None]
    if not options.report and (len(ways) != 1 or options.output is None):
        raise Unfit("--output and one of --knots, --merge and --keep say what to write (or --report what to print)")
    if options.how is not None and options.knots is None:
        raise Unfit(f"--how has no effect beside --{ways[0]}: it says how knots are found")
    if not options.report and len(options.models) > 1:
        raise Unfit(f"{len(options.models)} models: one at a time is converted")
    return options


def main(arguments: list[str]) -> None:
    """`fluxformer convert`: writes the PDE model, or prints the report."""
    options = parse(arguments)
    if not options.report:
        write = _convert if options.knots is not None else _merge if options.merge is not None else _keep
        write(options.models[0], options)
        return
    for number, path in enumerate(without_checkpoints(options.models)):
        with open_file(path) as file:
            print(*([""] if number else []), *report(path, read_transformer(path, file)), sep="\n", flush=True)


def _convert(path: str, options: argparse.Namespace) -> None:
    refuse_place(options.output, (path,), options.overwrite)
    how, knots = options.how or "full", options.knots
    with open_file(path) as file:
        found = _of_an_equation(path, file)
        layers = len(found.layers)
        if not 1 <= knots <= layers:
            raise Unfit(f"--knots {knots}: {path} has {layers} layers, so that 1 to {layers} knots can be found")
        if how not in ("pick", "fit") and _large(found):
            print(f"large layers are aligned for some seconds each, up to {MOST_ROUNDS} times; --how fit does without", flush=True)
        done = convert(found.layers, knots, how, found.structure)
        fits = {"converted_how": how, "sum_of_squares": done.missed, "sum_of_squares_of_weights": done.total, "rounds": len(done.sums) - 1,
                "clipped_kappa": done.clipped}
        _write(options.output, found, done.knots, {"kind": "pde", "weights": "linear", "knots": knots, "cells": layers},
               {**_origin(path, file), **fits})
    if done.clipped:
        print(f"{done.clipped} number{'s' if done.clipped > 1 else ''} of kappa came out below 0 and became 0")
    missed = f"{100 * done.missed / done.total:.3g} %" if done.total > 0 else "nothing"
    rounds = len(done.sums) - 1
    print(f"{options.output}: {knots} knot{'s' if knots > 1 else ''} of {layers} layers ({how}); weights linear between them miss {missed} of "
          "the sum of squares of the weights" + (f", after {rounds} round{'s' if rounds > 1 else ''} of alignment to the fit" if rounds else "")
          + f"; on {layers} cells, if mesh.cells does not say otherwise")


def _merge(path: str, options: argparse.Namespace) -> None:
    refuse_place(options.output, (path,), options.overwrite)
    with open_file(path) as file:
        found, place = _of_an_equation(path, file), options.merge
        layers = len(found.layers)
        if not 1 <= place < layers:
            raise Unfit(f"--merge {place}: {path} has {layers} layers, so that 1 to {layers - 1} have one behind them"
                        if layers > 1 else f"--merge {place}: {path} has a single layer")
        if found.attributes.get("subflow", "euler") != "euler":
            raise Unfit(f"{path}: /model@subflow is midpoint: a step of twice the length is no layer of other weights; merge takes euler")
        fewer = merged(found.layers, place - 1, found.structure)
        _write(options.output, found, fewer, {name: layers - 1 for name in ("layers", "knots", "cells")},
               {**_origin(path, file), "converted_how": f"merge {place}"})
    print(f"{options.output}: {layers - 1} layers; {place} and {place + 1} of {layers} are one, with the mean of their aligned weights")


def _keep(path: str, options: argparse.Namespace) -> None:
    refuse_place(options.output, (path,), options.overwrite)
    with open_file(path) as file:
        found = read_transformer(path, file)
        require_one_step_a_layer(path, found.attributes, file["model"], "convert")
        layers = len(found.layers)
        kept = [int(one) if one.strip().isdecimal() else 0 for one in options.keep.split(",")]
        if not all(1 <= one <= layers for one in kept) or kept != sorted(set(kept)):
            raise Unfit(f"--keep {options.keep}: is no list of some of the layers 1 to {layers} of {path}, in their order")
        _write(options.output, found, [found.layers[one - 1] for one in kept], {name: len(kept) for name in ("layers", "knots", "cells")},
               {**_origin(path, file), "converted_how": f"keep {options.keep}"})
    print(f"{options.output}: {len(kept)} of {layers} layers")


def _of_an_equation(path: str, file: h5py.File) -> Transformer:
    """A Transformer whose layers are Euler steps."""
    found = read_transformer(path, file)
    if (norm := found.structure.norm) not in EQUATION:
        raise Unfit(f"{path}: /model@norm is {norm}: what normalises the state itself is no step of an equation; convert takes "
                    f"{' and '.join(EQUATION)}")
    require_one_step_a_layer(path, found.attributes, file["model"], "convert")
    return found


def _write(path: str, of: Transformer, layers: list[Layer], attributes: dict[str, Any], origin: dict[str, str | int | float]) -> None:
    """The model with other layers, or knots."""
    arrays = {f"layers/{number}/{name}": held(name, array) for number, layer in enumerate(layers, start=1) for name, array in layer.items()}
    write_model(path, {**of.attributes, **attributes}, {**arrays, **of.around}, of.words, of.pixels, origin={"experiment": "convert", **origin})


def _origin(path: str, file: h5py.File) -> dict[str, str | int | float]:
    """Where the model comes from: attributes of the file."""
    said: dict[str, str | int | float] = {"converted_from": os.path.basename(path)}
    with reading(path):
        for name in ("experiment", "created", "git_revision", "command_line"):
            if name in file.attrs:
                said[f"source_{name}"] = str(plain(file.attrs[name]))
    return said


def _large(model: Transformer) -> bool:
    return max(model.structure.ffn, model.structure.width) > LARGE


def report(path: str, model: Transformer) -> list[str]:
    """Lines about the continuity of the weights of a model: roughness with p, distance of neighbours, and what K knots miss."""
    layers, structure = model.layers, model.structure
    count, large = len(layers), _large(model)
    lines = [f"{path}: {count} layers, width {structure.width}, {structure.heads} heads, ffn {structure.ffn}, norm {structure.norm}"]
    if count < 2:
        return [*lines, "a single layer has no neighbour"]
    if large:
        lines.append(f"more than {LARGE} channels or hidden units: only neighbours are aligned, and no knots are fitted to aligned layers")
    members = [canonical(layer, structure) for layer in layers]
    plain_distances, aligned_distances = np.zeros((count, count)), np.zeros((count, count))
    for one in range(count):
        for other in range(one):
            plain_distances[one, other] = plain_distances[other, one] = distance(layers[one], layers[other])
            if not large or other == one - 1:
                near = aligned(members[one], members[other], structure, rotate=True)
                aligned_distances[one, other] = aligned_distances[other, one] = distance(near, members[other])
    columns = [_measures(plain_distances, list(map(size, layers)), True), _measures(aligned_distances, list(map(size, members)), not large)]
    lines += ["", f"{'weights over depth':<24}{'as they are':>14}{'aligned':>14}"]
    lines += [f"{name:<24}{one:>14}{other:>14}" for (name, one), (_, other) in zip(*columns)]
    few = count <= MOST_LAYERS
    least = least_share(count)
    lines += ["", f"roughness is 1 in the mean over all orders of the layers, {6 / (count * (count + 1)):.3g} if weights are linear in depth.",
              (f"p is the share of all {np.prod(range(1, count + 1))} orders" if few else f"p is the share of {RANDOM_ORDERS} random orders")
              + f" that are as smooth; with {count} layers the least p is {f'2/{count}! = ' if few else ''}{least:.2g}"
              + (f", so that p can never be significant (below {SIGNIFICANT})." if least >= SIGNIFICANT else "."),
              "The distance of neighbours is 1 for independent layers as they are. Alignment lowers it for any layers: compare it with that of the",
              "untrained model, not with 1."]
    return [*lines, "", *_knots_table(model, ("pick", "fit") if large else tuple(WAYS))]


def _measures(distances: np.ndarray, sizes: list[float], all_pairs: bool) -> list[tuple[str, str]]:
    """Names and values of the measures; those of all pairs only if all distances are known."""
    count = len(sizes)
    pairs = [(distances[place, place + 1], sizes[place] + sizes[place + 1]) for place in range(count - 1)]
    relative = [between / both if both > 0 else 0.0 for between, both in pairs]
    known = all_pairs and distances.max() > EQUAL * sum(sizes)
    return [("roughness", f"{roughness(distances, np.arange(count)):.4f}" if known else "-"),
            ("p", f"{share_as_smooth(distances):.4f}" if known else "-"), ("distance of neighbours", f"{np.mean(relative):.4f}")]


def _knots_table(model: Transformer, ways: tuple[str, ...]) -> list[str]:
    """What weights linear between K knots miss, for each way; of many layers for some K."""
    count = len(model.layers)
    some = range(1, count + 1) if count <= MOST_LAYERS else sorted({1, 2, count // 4, count // 2, 3 * count // 4, count - 1, count})
    lines = ["sum of squares that K knots miss, over that of the weights in the same form", f"{'K':>3}" + "".join(f"{way:>14}" for way in ways)]
    for knots in some:
        results = [convert(model.layers, knots, way, model.structure) for way in ways]
        lines.append(f"{knots:>3}" + "".join(f"{done.missed / done.total if done.total > 0 else 0:>14.4f}" for done in results))
    return lines
