"""State dicts from elsewhere: files of several formats, read as arrays by name, and handed out once each.

A file or array that is wrong raises Unfit or RunError, which name it.
"""

from __future__ import annotations

import fnmatch
import os
import zipfile
from collections.abc import Iterable, Mapping

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.environment import of_environment
from fluxformer.hdf5_file import RunError, open_file, reading, regular_file
from fluxformer.safetensors import SafeTensors
from fluxformer.tensors import Tensor, Unfit, as_float64, held, sizes

import h5py
import numpy as np

Arrays = dict[str, np.ndarray]  # arrays by name

COPIES = 5  # memory over the size of a float32 state dict: as it is, as float64 in memory and in the image of the file


def listed(names: Iterable[str]) -> str:
    """Names as text, sorted; of many only the first."""
    found, most = sorted(names), 20
    return (", ".join(found[:most]) + (f", ... ({len(found)} in all)" if len(found) > most else "")) or "nothing"


def read_state(path: str) -> Arrays:
    """The arrays of a state dict in any of the formats."""
    regular_file(path)
    kind = os.path.splitext(path)[1].lower()
    readers = {".npz": read_npz, ".h5": read_hdf5, ".hdf5": read_hdf5, ".pt": read_torch, ".pth": read_torch, ".bin": read_torch,
               ".safetensors": read_safetensors}
    if kind not in readers:
        raise Unfit(f"{path}: the ending tells the format, one of {', '.join(readers)}")
    return readers[kind](path)


def read_tensors(path: str) -> dict[str, Tensor]:
    """The arrays of a state dict by name; arrays of a safetensors file are read when they are asked for."""
    if os.path.splitext(path)[1].lower() == ".safetensors":
        return SafeTensors(path).tensors()
    return {name: held(f"{path}: {name}", array) for name, array in read_state(path).items()}


def read_safetensors(path: str) -> Arrays:
    """Reads a file of safetensors.torch.save_file."""
    file = SafeTensors(path)
    return {name: file.read(name) for name in file.places}


def read_npz(path: str) -> Arrays:
    """Reads a file of numpy.savez."""
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(member.file_size for member in archive.infolist())
            names = archive.namelist()
        if len(set(names)) < len(names):
            raise ValueError("two arrays of one name")
        refuse_too_much(path, total)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except RunError:
        raise
    except Exception as failure:  # numpy raises any error of zipfile, zlib or its own parser
        if of_environment(failure):
            raise
        raise Unfit(f"{path}: not a readable .npz file of numbers ({failure})") from None


def read_hdf5(path: str) -> Arrays:
    """Reads an HDF5 file; groups count as dots."""
    found: dict[str, h5py.Dataset] = {}

    def keep(place: str, item: h5py.HLObject) -> None:
        name = place.replace("/", ".")
        if isinstance(item, h5py.Dataset):
            if name in found:
                raise Unfit(f"{path}: {name} is in it twice, as {found[name].name} and {item.name}")
            found[name] = item

    with open_file(path) as file, reading(path):
        file.visititems(keep)
        refuse_too_much(path, sum(item.nbytes for item in found.values()))
        state = {}
        for name, item in found.items():
            with reading(path, name):
                state[name] = item[...]
        return state


def read_torch(path: str) -> Arrays:
    """Reads a file of torch.save; runs no code from the file."""
    try:
        import torch
    except ImportError:
        raise Unfit(f"{path}: reading it needs PyTorch (apt-get install python3-torch), or save the state dict as .npz "
                    "where PyTorch is") from None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # pickle can raise anything, and PyTorch's message suggests executing code from the file
        raise Unfit(f"{path}: not a state dict; save model.state_dict(), not the model") from None
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in state.items()):
        raise Unfit(f"{path}: holds more than a state dict; save model.state_dict() alone")
    arrays = {}
    for name, tensor in state.items():
        try:
            half = tensor.is_floating_point() and tensor.dtype == torch.bfloat16  # which NumPy does not know
            arrays[name] = tensor.detach().to(torch.float32).numpy() if half else tensor.detach().numpy()
        except Exception as failure:  # sparse, quantised or on no device
            raise Unfit(f"{path}: {name} is not an array of numbers ({failure})") from None
    return arrays


def refuse_too_much(path: str, size: int) -> None:
    """Unfit if arrays of so many bytes cannot be converted in the memory of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if COPIES * size > memory:
        raise Unfit(f"{path}: its arrays have {size / 1e9:.3g} GB; to convert them takes up to {COPIES} times that, "
                    f"and this machine has {memory / 1e9:.3g} GB")


class StateDict:
    """Hands out each array once, as float64, and keeps track of unused ones."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._left = set(arrays)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def names(self) -> list[str]:
        """Names of all arrays, taken or not."""
        return list(self._arrays)

    def take(self, name: str, shape: tuple[int | None, ...], squeeze: bool = False) -> np.ndarray:
        """Takes one array, as float64.

        Parameters
        ----------
        name : str
        shape : tuple
            Expected sizes, None for any size from 1 on.
        squeeze : bool
            True: axes of length 1 are dropped first, as long as there are too many axes.

        Raises
        ------
        Unfit
            If the array is not there, has another shape, or holds anything but finite real numbers.
        """
        if name not in self._arrays:
            raise Unfit(f"{name} is not in the state dict, which holds {listed(self._arrays)}")
        array = np.asarray(self._arrays[name])
        while squeeze and array.ndim > len(shape) and 1 in array.shape:
            array = array.squeeze(array.shape.index(1))
        if array.ndim != len(shape) or any(want not in (None, size) for want, size in zip(shape, array.shape)):
            raise Unfit(f"{name} is {sizes(array.shape)} where {sizes(shape)} is expected")
        if 0 in array.shape:
            raise Unfit(f"{name} is {sizes(array.shape)}: every size has to be at least 1")
        array = as_float64(name, array.astype(np.float64) if array.dtype.kind in "iu" else array)
        self._left.discard(name)
        return array

    def left(self, ignored: Iterable[str]) -> list[str]:
        """Names of arrays that were not taken and match none of these patterns."""
        return sorted(name for name in self._left
                      if not any(fnmatch.fnmatchcase(name, pattern) for pattern in ignored))
