"""The processes of a run: a launcher and its ranks, each of which Open MPI gives a process group of its own, in one session."""

import os
import signal


def has_ended(process, state):
    """Whether no thread of it is left: a process of which only the first one has ended still holds its files open and locked."""
    try:
        return state == "X" or (state == "Z" and len(os.listdir(f"/proc/{process}/task")) == 1)
    except (FileNotFoundError, ProcessLookupError):
        return True


def members(session):
    """The processes of a session that have not ended."""
    found = []
    for one in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{one}/stat", encoding="utf-8", errors="replace") as stream:
                state, _, _, its_session = stream.read().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_session) == session and not has_ended(one, state):
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
