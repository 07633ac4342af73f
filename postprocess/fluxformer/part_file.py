"""Files that other programs read get their name when they are complete: `NAME.part` until then, and nothing if the writing fails."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterator
from typing import Any

from fluxformer.hdf5_file import RunError

PART = ".part"


def refuse_place(path: str, sources: tuple[str, ...], overwrite: bool) -> None:
    """RunError unless a file can be written to `path`; an earlier file is replaced only if asked, and nothing
    but a file ever.

    Parameters
    ----------
    path : str
    sources : tuple of str
        Files that are read: none of them may be replaced.
    overwrite : bool
        True: an earlier file may be replaced.
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


class PartFile(io.FileIO):
    """A file that is being written, also by h5py. After the first error of the system (a full disk) it takes everything and keeps nothing:
    HDF5 would make several errors of it, and end the process at times. `check` raises it."""
    failure: OSError | None = None

    def check(self) -> None:
        """Raises the first error of the system, if there was one."""
        if self.failure is not None:
            raise self.failure

    def write(self, content: Any) -> int:
        """Writes all of it, unlike io.FileIO."""
        left = memoryview(content).cast("B")
        size = len(left)
        with self._errors_kept():
            while self.failure is None and len(left):
                left = left[super().write(left):]
        return size

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer with what was written, and with zeros where nothing was."""
        whole = memoryview(buffer).cast("B")
        whole[:] = bytes(len(whole))
        with self._errors_kept():
            super().readinto(whole)
        return len(whole)

    def truncate(self, size: int | None = None) -> int:
        """Sets the size of the file."""
        with self._errors_kept():
            super().truncate(size)
        return self.tell() if size is None else size

    @contextlib.contextmanager
    def _errors_kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as failure:
            self.failure = self.failure or failure


@contextlib.contextmanager
def writing(path: str) -> Iterator[PartFile]:
    """The file `path`.part, for writing and reading; it becomes `path` at the end of the block, or is removed if that ends with an exception.
    OSError, with `path` in it, if the system refuses."""
    part = path + PART
    try:
        with PartFile(part, "w+") as stream:
            try:
                yield stream
            finally:
                stream.check()  # what else went wrong went wrong after it
        os.replace(part, path)
    except BaseException as failure:
        with contextlib.suppress(OSError):
            os.remove(part)
        if isinstance(failure, OSError):
            raise OSError(failure.errno, f"cannot be written ({failure.strerror or failure})", path) from None
        raise
