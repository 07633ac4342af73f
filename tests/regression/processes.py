"""The processes of a run: a launcher and its ranks, each of which Open MPI gives a process group of its own, in one session."""

import os
import signal


def members(session):
    """Those of a session that have not ended."""
    found = []
    for one in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{one}/stat", encoding="utf-8", errors="replace") as stream:
                state, _, _, its_session = stream.read().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_session) == session and state not in "ZX":
            found.append(int(one))
    return sorted(found)


def kill_all(session):
    """SIGKILL for the launcher and every rank; nothing of them is left, not even what was being started."""
    while left := members(session):
        kill(left)


def kill(processes):
    """SIGKILL; those that ended in the meantime do not matter."""
    for one in processes:
        try:
            os.kill(one, signal.SIGKILL)
        except ProcessLookupError:
            pass
