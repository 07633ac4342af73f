"""State dicts from elsewhere: files of several formats, read as arrays by name, and handed out once each.

A file or array that is wrong raises Unfit or RunError, which name it.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.environment import of_environment
from fluxformer.hdf5_file import RunError, open_file, reading, regular_file
from fluxformer.safetensors import SafeTensors
from fluxformer.tensors import Tensor, Unfit, as_float64, held, sizes
from fluxformer.text import once

import h5py
import numpy as np

Arrays = dict[str, np.ndarray]  # arrays by name
Item = TypeVar("Item")

# Segments of names that wrappers of a model add: DistributedDataParallel, torch.compile, FSDP, activation checkpointing.
WRAPPERS = re.compile(r"(?:(?<=\.)|^)(?:module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
OF_TORCH = (".pt", ".pth", ".bin")  # endings of files of torch.save
INDEX = ".index.json"  # ending of the file that says which of several files holds a tensor
PART = re.compile(r"-\d{5}-of-(\d{5})\.\w+$")  # the ending of one of several files

COPIES = 5  # memory over the size of a float32 state dict: as it is, as float64 in memory and in the image of the file


def listed(names: Iterable[str]) -> str:
    """Names as text, sorted; of many only the first."""
    found, most = sorted(names), 20
    return (", ".join(found[:most]) + (f", ... ({len(found)} in all)" if len(found) > most else "")) or "nothing"


def plain_name(name: str) -> str:
    """The name of an array without what wrappers of the model put into it: module. or _orig_mod., any number of times."""
    return WRAPPERS.sub("", name)


def read_state(path: str, key: str = "") -> Arrays:
    """The arrays of a state dict in any of the formats, under the names in the file.

    Parameters
    ----------
    path : str
    key : str
        The state dict is a part of what the file holds: the entry of this name (its parts separated by dots) in a file of torch.save, else
        the arrays whose names begin with it and a dot. "": the file is the state dict.

    Raises
    ------
    RunError
        If the file cannot be read, or holds no such part.
    """
    regular_file(path)
    kind = os.path.splitext(path)[1].lower()
    readers = {".npz": read_npz, ".h5": read_hdf5, ".hdf5": read_hdf5, ".safetensors": read_safetensors}
    if kind in OF_TORCH:
        return read_torch(path, key)
    if kind not in readers:
        raise Unfit(f"{path}: the ending tells the format, one of {', '.join((*readers, *OF_TORCH))}")
    return part_of(path, readers[kind](path), key)


def read_tensors(path: str, key: str = "") -> dict[str, Tensor]:
    """The arrays of a state dict by name, as `read_state`; those of a safetensors file are read when they are asked for. A path that ends
    with .index.json stands for the files that it lists."""
    if path.endswith(INDEX):
        return part_of(path, _read_parts(path), key)
    if (parts := PART.search(path)) and int(parts[1]) > 1:
        raise Unfit(f"{path}: one of {int(parts[1])} files of a checkpoint; import the file that lists them all (model.safetensors{INDEX})")
    if os.path.splitext(path)[1].lower() == ".safetensors":
        return part_of(path, SafeTensors(path).tensors(), key)
    return {name: held(f"{path}: {name}", array) for name, array in read_state(path, key).items()}


def part_of(path: str, found: dict[str, Item], key: str) -> dict[str, Item]:
    """The items whose names begin with `key` and a dot, without it; all of them for "". Unfit if there are none."""
    if not key:
        return found
    part = {name.removeprefix(key + "."): item for name, item in found.items() if name.startswith(key + ".")}
    if not part:
        raise Unfit(f"{path}: --key {key}: no name begins with {key}.; it holds {listed(found)}")
    return part


def _read_parts(path: str) -> dict[str, Tensor]:
    """The arrays of all files of a checkpoint, whose index says which file holds each."""
    regular_file(path)
    try:
        with open(path, "rb") as stream:
            places = json.loads(stream.read().decode("utf-8-sig"), object_pairs_hook=once)["weight_map"]
        if not isinstance(places, dict) or not all(isinstance(one, str) and one == os.path.basename(one) and one not in ("", ".", "..")
                                                   for one in places.values()):
            raise ValueError("weight_map does not give a file beside the index for each name")
    except (ValueError, KeyError, TypeError, RecursionError) as failure:
        raise Unfit(f"{path}: not the index of a checkpoint in several files: {failure}") from None
    folder = os.path.dirname(path)
    parts = {}
    for name in sorted(set(places.values())):
        part = os.path.join(folder, name)
        if os.path.dirname(os.path.realpath(part)) != os.path.realpath(folder):
            raise Unfit(f"{part}: a link out of the folder; put a copy of the file there (as cp -L does)")
        parts[name] = (SafeTensors(part).tensors() if name.endswith(".safetensors")
                       else {tensor: held(f"{part}: {tensor}", array) for tensor, array in read_state(part).items()})
    for name, file in places.items():
        if name not in parts[file]:
            raise Unfit(f"{os.path.join(folder, file)}: {name} is missing, which {path} says is in it; it holds {listed(parts[file])}")
    for file, tensors in parts.items():
        if others := [name for name in tensors if places.get(name) != file]:
            raise Unfit(f"{os.path.join(folder, file)}: {listed(others)}: {path} does not say that it holds these")
    return {name: parts[file][name] for name, file in places.items()}


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


def _state_dicts(value: Any, is_tensor: Callable[[Any], bool], place: str = "") -> dict[str, dict[str, Any]]:
    """The state dicts in what torch.save wrote, by their place: keys joined by dots, "" for all of it."""
    if not isinstance(value, dict) or place.count(".") > 3:
        return {}
    if value and all(isinstance(name, str) and is_tensor(one) for name, one in value.items()):
        return {place: value}
    found: dict[str, dict[str, Any]] = {}
    for name, one in value.items():
        if isinstance(name, str):
            found |= _state_dicts(one, is_tensor, f"{place}.{name}" if place else name)
    return found


def state_dict_in(path: str, state: Any, key: str, is_tensor: Callable[[Any], bool]) -> dict[str, Any]:
    """The state dict in what torch.save wrote.

    Parameters
    ----------
    path : str
        Name of the file, for messages.
    state : object
        What the file holds.
    key : str
        Where the state dict is, keys joined by dots; "": it is all of the file, or its entry state_dict.
    is_tensor : callable
        Tells whether an object is a tensor.

    Raises
    ------
    Unfit
        If there is no state dict; the message says which there are.
    """
    found = _state_dicts(state, is_tensor)
    place = key or ("state_dict" if "" not in found and "state_dict" in found else "")
    if place in found:
        return found[place]
    if key:
        raise Unfit(f"{path}: --key {key}: no state dict is there; {f'there are {listed(found)}' if found else 'the file has none'}")
    if not found:
        raise Unfit(f"{path}: holds more than a state dict; save model.state_dict() alone")
    raise Unfit(f"{path}: holds more than a state dict ({listed(map(str, state))}): --key says which of the state dicts in it is the model; "
                f"there are {listed(found)}")


def read_torch(path: str, key: str = "") -> Arrays:
    """Reads a file of torch.save; runs no code from the file. `key`: where in it the state dict is."""
    try:
        import torch
    except ModuleNotFoundError:
        raise Unfit(f"{path}: reading it needs PyTorch (apt-get install python3-torch), or save the state dict as .npz "
                    "where PyTorch is") from None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as failure:  # pickle can raise anything, and PyTorch's message suggests executing code from the file
        if isinstance(failure, (ImportError, TypeError)) and of_environment(failure):
            raise
        raise Unfit(f"{path}: not a state dict; save model.state_dict(), not the model (what needs code from the file is not read)") from None
    state = state_dict_in(path, state, key, lambda one: isinstance(one, torch.Tensor))
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
    """Hands out each array once, as float64, and keeps track of unused ones. Names are those without wrappers (`plain_name`), and are
    found with them too. Unfit if two names are the same without wrappers."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays: Arrays = {}
        self._saved: dict[str, str] = {}  # name here: name in the file
        for saved, array in arrays.items():
            name = plain_name(saved)
            if name in self._arrays:
                raise Unfit(f"{self._saved[name]} and {saved} are the same array, but for what wrappers put into names")
            self._saved[name], self._arrays[name] = saved, array
        self._left = set(self._arrays)

    def __contains__(self, name: str) -> bool:
        return plain_name(name) in self._arrays

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
        name = plain_name(name)
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
        """Names of arrays that were not taken and match none of these patterns, neither as here nor as in the file."""
        return sorted(name for name in self._left if not any(
            fnmatch.fnmatchcase(one, pattern) for one in (name, self._saved[name]) for pattern in ignored))
