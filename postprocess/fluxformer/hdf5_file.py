"""Opens HDF5 files that may come from anywhere: damaged, too large for what is stored in them, or made to read other files.

No other module of the package opens them for reading. What is refused and what cannot be read raises a RunError that names the file.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from types import TracebackType

# Parallel file systems often refuse locks, and none are needed here. HDF5 reads this variable when it
# is loaded.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")

import h5py  # noqa: E402 (after the variable is set)

from fluxformer.environment import of_environment  # noqa: E402

PACKED = 1100  # deflate, the filter of Fluxformer, makes numbers at most 1032 times smaller
SLACK = 1 << 20  # rows that a growing file has announced and not written yet


class RunError(Exception):
    """The file cannot be read as a run of Fluxformer, or lacks the requested data."""

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks show: the lines of the caller without those of this package, which the message makes needless."""
        shell = sys.modules["IPython"].get_ipython()
        return shell.InteractiveTB.structured_traceback(type(self), self, _of_caller(self.__traceback__), tb_offset=1)


def _of_caller(trace: TracebackType | None) -> TracebackType | None:
    """The traceback up to the first line of this package."""
    if trace is None or trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "fluxformer":
        return None
    return TracebackType(_of_caller(trace.tb_next), trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def regular_file(path: str) -> None:
    """RunError unless `path` is a file with a beginning and an end: a pipe would be waited for."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(f"{path}: no such file") from None
    except OSError as failure:
        raise RunError(f"{path}: {failure.strerror}") from None
    if not stat.S_ISREG(mode):
        raise RunError(f"{path}: {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}")


@contextlib.contextmanager
def reading(path: str, what: str = "", kinds: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Turns what goes wrong inside (h5py and numpy raise every kind of exception) into a RunError that names
    the file and, if given, what was read."""
    try:
        yield
    except RunError:
        raise
    except kinds as failure:
        if of_environment(failure):
            raise
        reason = str(failure) or type(failure).__name__
        raise RunError(f"{path}: {what or 'it'} cannot be read: damaged, or not what the program writes ({reason})") from failure


def open_file(path: str, growing: bool = False) -> h5py.File:
    """Opens the file for reading; `growing`: another process may be writing it (HDF5's single writer,
    multiple readers)."""
    regular_file(path)
    try:
        file = h5py.File(path, "r", libver="latest", swmr=True) if growing else h5py.File(path, "r")
    except Exception as failure:
        if of_environment(failure):
            raise
        if "unable to lock file" in str(failure):
            raise RunError(f"{path}: is locked by another process, or its file system has no locks: HDF5_USE_FILE_LOCKING=FALSE reads it "
                           "without one") from None
        raise RunError(f"{path}: not a readable HDF5 file ({failure})") from None
    try:
        with reading(path):
            _refuse_other_files(path, file)
    except BaseException:
        file.close()
        raise
    return file


def _refuse_other_files(path: str, file: h5py.File) -> None:
    """RunError if reading anything in the file would read another file, or fill the memory with what is not there."""
    seen, groups = set(), [file["/"]]
    while groups:
        group = groups.pop()
        for name in group:
            kind = group.id.links.get_info(name.encode("utf-8", "surrogateescape")).type
            if kind == h5py.h5l.TYPE_SOFT:
                continue  # leads to something in the file, which is visited anyway, or to nothing
            place = f"{group.name.rstrip('/')}/{name}"
            if kind != h5py.h5l.TYPE_HARD:
                raise RunError(f"{path}: {place} is a link to another file, which is not followed")
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                continue
            seen.add(address)
            if isinstance(item, h5py.Group):
                groups.append(item)
            elif isinstance(item, h5py.Dataset):
                _refuse_dataset(f"{path}: {place}", item)


def _refuse_dataset(place: str, dataset: h5py.Dataset) -> None:
    made = dataset.id.get_create_plist()
    if made.get_layout() == h5py.h5d.VIRTUAL:
        raise RunError(f"{place} is a virtual dataset: its numbers are in other files, which are not read")
    if made.get_external_count():
        raise RunError(f"{place} keeps its numbers in another file, which is not read")
    stored = dataset.id.get_storage_size()
    if dataset.nbytes > stored * (PACKED if made.get_nfilters() else 1) + SLACK:
        raise RunError(f"{place} is said to have {dataset.nbytes} bytes, of which {stored} are stored")
