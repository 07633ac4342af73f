"""Output files as xarray Datasets."""

from __future__ import annotations

import os
from collections.abc import Hashable

import h5py
import numpy as np
import xarray
from xarray.backends.common import BackendArray
from xarray.core import indexing

from fluxformer.io import Run, RunError, plain, unit_of
from fluxformer.text import for_python

NOT_A_VARIABLE = b"This is a netCDF dimension but not a netCDF variable."


class _Stored(BackendArray):
    """A dataset of an open file; its numbers are read when they are indexed."""

    def __init__(self, stored: h5py.Dataset) -> None:
        text = h5py.check_string_dtype(stored.dtype) is not None
        self._stored = stored.asstr() if text else stored
        self.shape, self.dtype = stored.shape, np.dtype(object) if text else stored.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._stored.__getitem__)


def _variable(stored: h5py.Dataset) -> xarray.Variable:
    name = stored.name.split("/")[-1]
    dims = [axis[0].name.split("/")[-1] if len(axis) else f"{name}_axis{k}" for k, axis in enumerate(stored.dims)]
    if stored.ndim == 1 and h5py.h5ds.is_scale(stored.id):
        dims = [name]
    attributes = {"long_name": plain(stored.attrs.get("long_name", name))}
    if unit := unit_of(stored):
        attributes["units"] = unit
    return xarray.Variable(dims, indexing.LazilyIndexedArray(_Stored(stored)), attributes)


def _is_dimension_only(stored: h5py.Dataset) -> bool:
    return bytes(np.bytes_(stored.attrs.get("NAME", b""))).startswith(NOT_A_VARIABLE)


def dataset(path: str | os.PathLike, group: str, unfinished: bool) -> xarray.Dataset:
    """The xarray Dataset that `fluxformer.open` returns, which explains the arguments."""
    try:
        run = Run(path, unfinished=unfinished)
    except RunError as failure:
        raise RunError(for_python(str(failure))) from None
    try:
        return _dataset(run, group.strip("/"))
    except BaseException:
        run.close()
        raise


def _dataset(run: Run, group: str) -> xarray.Dataset:
    file = run.file
    if group and not isinstance(file.get(group), h5py.Group):
        raise RunError(f"{run.path}: no group /{group}; there are {', '.join('/' + name for name in _groups(file))}")
    coordinates = {name: _variable(one) for name, one in file.items()
                   if isinstance(one, h5py.Dataset) and not _is_dimension_only(one)}
    variables: dict[str, xarray.Variable] = {}

    def visit(name: str, one: h5py.HLObject) -> None:
        if isinstance(one, h5py.Dataset) and one.name.count("/") > 1:
            variables[name] = _variable(one)

    (file[group] if group else file).visititems(visit)
    used = {dim for one in variables.values() for dim in one.dims} if group else None
    coordinates = {name: one for name, one in coordinates.items() if used is None or {*one.dims} <= used}
    sizes: dict[Hashable, int] = {}  # a run that goes on, or was killed, extends its axes one after the other
    for one in (*variables.values(), *coordinates.values()):
        for dim, size in zip(one.dims, one.shape):
            sizes[dim] = min(size, sizes.get(dim, size))

    def cut(one: xarray.Variable) -> xarray.Variable:
        shorter = {dim: slice(sizes[dim]) for dim, size in zip(one.dims, one.shape) if size > sizes[dim]}
        return one.isel(shorter) if shorter else one

    attributes = run.described(group) if group else run.attributes
    found = xarray.Dataset({name: cut(one) for name, one in variables.items()},
                           {name: cut(one) for name, one in coordinates.items()}, attributes)
    found.set_close(run.close)
    return found


def _groups(file: h5py.File) -> list[str]:
    found: list[str] = []
    file.visititems(lambda name, one: found.append(name) if isinstance(one, h5py.Group) else None)
    return found
