"""Files that other programs read get their name when they are complete: `NAME.part` until then, and nothing if the writing fails."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from fluxformer.hdf5_file import RunError

PART = ".part"


def refuse_place(path: str, sources: tuple[str, ...], overwrite: bool) -> None:
    """RunError unless a file can be written to `path`; an earlier one is replaced only if asked, and nothing but files ever.

    Parameters
    ----------
    path : str
    sources : tuple of str
        Files that are read: none of them may be replaced.
    overwrite : bool
    """
    folder = os.path.dirname(path) or "."
    if not os.path.basename(path):
        raise RunError(f"'{path}' is no name for a file")
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise RunError(f"{folder}: not a folder that can be written")
    for one in (path, path + PART):
        if os.path.lexists(one) and not stat.S_ISREG(os.lstat(one).st_mode):
            raise RunError(f"{one} is there and not a regular file: choose another name")
    if os.path.exists(path) and not overwrite:
        raise RunError(f"{path} is there already: choose another name, or --overwrite")
    for source in sources:
        if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
            raise RunError(f"{path} is the file that is read: choose another name")


class Sink:
    """A file for h5py to write into. After the first error of the system (a full disk) it takes everything and keeps nothing: HDF5
    would make several errors of it, and end the process at times. `check` raises it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._place = self._end = 0
        self._failure: OSError | None = None

    def check(self) -> None:
        """Raises the first error of the system, if there was one."""
        if self._failure is not None:
            raise self._failure

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As of any file."""
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._end}[whence]
        return self._place

    def tell(self) -> int:
        """As of any file."""
        return self._place

    def flush(self) -> None:
        """Nothing is held back."""

    def write(self, content: memoryview) -> int:
        """All of it."""
        left = memoryview(content).cast("B")
        if self._failure is None:
            try:
                self._stream.seek(self._place)
                while len(left):
                    left = left[self._stream.write(left):]
            except OSError as failure:
                self._failure = failure
        size = memoryview(content).nbytes
        self._place += size
        self._end = max(self._end, self._place)
        return size

    def readinto(self, buffer: memoryview) -> int:
        """What was written; zeros where nothing was."""
        whole = memoryview(buffer).cast("B")
        whole[:] = bytes(len(whole))
        if self._failure is None:
            try:
                self._stream.seek(self._place)
                done = 0
                while done < len(whole) and (found := self._stream.read(len(whole) - done)):
                    whole[done:done + len(found)] = found
                    done += len(found)
            except OSError as failure:
                self._failure = failure
        self._place += len(whole)
        return len(whole)

    def read(self, size: int) -> bytes:
        """As `readinto`; h5py takes what has it for a file."""
        whole = bytearray(size)
        self.readinto(memoryview(whole))
        return bytes(whole)

    def truncate(self, size: int | None = None) -> int:
        """To this size, or where it stands."""
        self._end = self._place if size is None else size
        if self._failure is None:
            try:
                self._stream.truncate(self._end)
            except OSError as failure:
                self._failure = failure
        return self._end


@contextlib.contextmanager
def writing(path: str) -> Iterator[BinaryIO]:
    """The file `path`.part, unbuffered, for writing and reading; it becomes `path` at the end of the block, or is removed if that ends
    with an exception. OSError, with `path` in it, if the system refuses."""
    part = path + PART
    try:
        with open(part, "w+b", buffering=0) as stream:
            yield stream
        os.replace(part, path)
    except BaseException as failure:
        with contextlib.suppress(OSError):
            os.remove(part)
        if isinstance(failure, OSError):
            raise OSError(failure.errno, f"cannot be written ({failure.strerror or failure})", path) from None
        raise
