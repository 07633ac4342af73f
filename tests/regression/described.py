"""Checks that a file matches the program's description of its files (fluxformer --describe=json)."""

import functools
import json
import os
import re
import subprocess

import h5py

from program import BINARY, ROOT

OF_EVERY_FILE = {"unit", "long_name", "digest"}
OF_HDF5 = {"CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "_Netcdf4Dimid", "DIMENSION_LABELS"}


@functools.lru_cache(maxsize=None)
def description():
    """The output of --describe=json."""
    return json.loads(subprocess.run([BINARY, "--describe=json"], check=True, capture_output=True, text=True).stdout)


def names_of(family=None):
    """Names of all experiments, or of those of a family, in the order of the program."""
    return [one["name"] for one in description()["experiments"] if family in (None, one["family"])]


def experiments_of(folder):
    """Names of the experiments, evolve and train left out, that have a deck in a folder of input/: those that compare.sh runs there."""
    return [name for name in names_of() if name not in ("evolve", "train") and os.path.exists(os.path.join(ROOT, "input", folder, name + ".ini"))]


@functools.lru_cache(maxsize=None)
def entries(experiment):
    """(pattern of a path, entry) for everything that files of that experiment may contain, those without <...> first."""
    found = next(one for one in description()["experiments"] if one["name"] == experiment)["variables"]

    def pattern(path):
        return re.compile(re.sub(r"<[^>]*>", "([^/@]+)", re.escape(path).replace(r"\<", "<").replace(r"\>", ">")) + r"\Z")

    return [(pattern(one["path"]), one) for one in sorted(found, key=lambda one: "<" in one["path"])]


def entry_of(experiment, path):
    """The entry of a path and the text matched by its <...>; None if there is none."""
    for pattern, entry in entries(experiment):
        if match := pattern.match(path):
            return entry, dict(zip(re.findall(r"<[^>]*>", entry["path"]), match.groups()))
    return None


def axes_of(dataset):
    """Names of the coordinates along its dimensions."""
    if h5py.h5ds.is_scale(dataset.id):
        return [dataset.name.removeprefix("/")]
    return [dataset.dims[k][0].name.removeprefix("/") if len(dataset.dims[k]) else "" for k in range(dataset.ndim)]


def undescribed(file):
    """The differences between an open file and its description: a list of sentences."""
    problems = []
    experiment = file.attrs["experiment"]

    def look(name, thing):
        for attribute in set(thing.attrs) - OF_HDF5:
            spelled = f"{name}@{attribute}"
            known = entry_of(experiment, spelled) or isinstance(thing, h5py.Dataset) and attribute in OF_EVERY_FILE
            if not known:
                problems.append(f"{spelled} is not described")
        if isinstance(thing, h5py.Dataset):
            problems.extend(differences(experiment, name, thing))

    look("/", file)
    file.visititems(lambda name, thing: look("/" + name, thing))
    return problems


def differences(experiment, name, dataset):
    found = entry_of(experiment, name)
    if found is None:
        yield f"{name} is not described"
        return
    entry, stands_for = found
    if name.startswith(("/model/", "/state/", "/extent_")):  # sizes without coordinates
        return
    wanted = [functools.reduce(lambda axis, pair: axis.replace(*pair), stands_for.items(), axis) for axis in entry["axes"]]
    axes = axes_of(dataset)
    # If not all depths are stored, a field has its own depth axis.
    axes = ["depth" if axis == "stored_depth" and "stored_depth" not in wanted else axis for axis in axes]
    if axes != wanted:
        yield f"{name} is over {axes}, described as {wanted}"
    if dataset.attrs["unit"] != (entry["unit"] or "1"):
        yield f"{name} is in {dataset.attrs['unit']}, described as {entry['unit']}"
    if "<" not in entry["path"] and dataset.attrs["long_name"] != entry["meaning"]:
        yield f"{name}: long_name differs from its description"
