"""What happens to the files of a folder, as it happens: Linux's inotify, which is microseconds behind and misses nothing."""

import ctypes
import os
import select
import struct
import time

MADE, CLOSED, LEFT, ARRIVED = 0x100, 0x8, 0x40, 0x80  # IN_CREATE, IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO
RENAMED = LEFT | ARRIVED
HEADER = struct.Struct("iIII")


class FolderEvents:
    """A context manager around the events of one folder from its opening on."""

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_CLOEXEC)
        wanted = MADE | CLOSED | RENAMED
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, os.fsencode(folder), wanted) < 0:
            raise OSError(ctypes.get_errno(), "inotify cannot watch", folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._descriptor)

    def after(self, seconds):
        """[(when, what, name)] of what happened, as soon as something has; [] if nothing does for so long."""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return []
        content, place, found = os.read(self._descriptor, 1 << 16), 0, []
        now = time.monotonic()
        while place < len(content):
            _, what, _, length = HEADER.unpack_from(content, place)
            name = content[place + HEADER.size:place + HEADER.size + length].rstrip(b"\0").decode()
            found.append((now, what & (MADE | CLOSED | RENAMED), name))
            place += HEADER.size + length
        return found
