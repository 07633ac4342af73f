"""Runs a command on a hostile input and judges its end by what the program promises (docs/reliability.md)."""

import collections
import hashlib
import os
import re
import resource
import subprocess
import threading
import time

from processes import kill, members

CODES = {0: "done", 1: "the system refuses", 2: "bad input", 3: "numerical failure", 4: "stopped"}
SECONDS, BYTES = 30, 2 << 30  # most for one run: of work; memory of its largest process
CEILING = 3 << 30  # what a process gets
PATIENCE = 4 * SECONDS  # on a machine that does other work too
NOISE = ("PETSC ERROR", "HDF5-DIAG", "H5E", "terminate called", "MPI_ABORT", "Traceback", "Signal:", "Segmentation", "bad_alloc", "std::",
         "vector::", "basic_string", "Assertion", "stack smashing", "malloc()", "free()", "AddressSanitizer", "runtime error")
OWN = "run"  # what a run may write begins so
KEY = re.compile(r"\b[a-z_]+\.[a-z_0-9]+\b|\[[a-z_]+\]|/(?:model|state)\b|\bline \d+|(?<![\w-])-[a-z_]{3,}")
OF_THE_SYSTEM = re.compile(r"memory|space|written|limit")  # what exit code 1 is for

Ended = collections.namedtuple("Ended", "code out err seconds work bytes")


def run(arguments, folder, environment, seconds=PATIENCE):
    """The end of the command, which is killed with all its processes after so many seconds (code None)."""
    # On the way to a hang or to the end of the memory nothing else on this machine is to be harmed.
    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (CEILING, CEILING))

    begun = time.monotonic()
    process = subprocess.Popen(arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment, start_new_session=True, preexec_fn=limit)
    texts = [b"", b""]

    def read(k, stream):
        while piece := stream.read1(1 << 16):
            texts[k] += piece if len(texts[k]) < 1 << 20 else b""

    readers = [threading.Thread(target=read, args=pair, daemon=True) for pair in enumerate((process.stdout, process.stderr))]
    for one in readers:
        one.start()
    hangs = threading.Event()

    def stop():
        hangs.set()
        kill(members(process.pid))

    clock = threading.Timer(seconds, stop)
    clock.start()
    _, status, used = os.wait4(process.pid, 0)  # its largest process, or that of its largest child
    clock.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    for one in readers:
        one.join(5)
    process.stdout.close()
    process.stderr.close()
    out, err = (text.decode("utf-8", "backslashreplace") for text in texts)
    return Ended(None if hangs.is_set() else process.returncode, out, err, time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss << 10)


def contents(folder):
    """{path: what tells its content} of all files below the folder that are not the run's own."""
    found = {}
    for place, folders, names in os.walk(folder):
        if place == folder:
            folders[:] = [name for name in folders if name != "tmp" and not name.startswith(OWN)]
        for name in names:
            path = os.path.join(place, name)
            if place == folder and name.startswith(OWN):
                continue
            if os.path.islink(path) or not os.path.isfile(path):
                found[os.path.relpath(path, folder)] = "no regular file"
            else:
                with open(path, "rb") as stream:
                    found[os.path.relpath(path, folder)] = hashlib.sha256(stream.read()).hexdigest()
    return found


def faults(ended, ranks, names, before, after, output=None, allowed=(0, 1, 2), speaker="fluxformer"):
    """What is wrong with the end of a run, as a list of sentences; [] if it kept all promises.

    `names`: one of them has to be in a refusal, unless it names a key; `output`: the file that is there after code 0;
    `before`, `after`: `contents` of the folder."""
    found = []
    messages = [line for line in ended.err.splitlines() if line.startswith(speaker)]
    if ended.code is None:
        found.append(f"hangs: it was killed after {ended.seconds:.0f} s")
    elif ended.code < 0 or ended.code >= 128:
        number = -ended.code if ended.code < 0 else ended.code - 128
        found.append(f"dies by signal {number}")
    elif ended.code not in CODES or ended.code not in allowed:
        found.append(f"exit code {ended.code}")
    if ended.work > SECONDS:
        found.append(f"works for {ended.work:.0f} s")
    if ended.bytes > BYTES:
        found.append(f"takes {ended.bytes / 1e9:.2f} GB of memory")
    found += [f"prints {word!r}" for word in NOISE if word in ended.err]
    if ended.code in (1, 2, 3, 4):
        refusals = [line for line in messages if "continuing from" not in line and "falls back" not in line]
        if len(refusals) != 1:
            found.append(f"{len(refusals)} messages with exit code {ended.code}")
        elif ended.code in (1, 2) and not any(name in refusals[0] for name in names) and not KEY.search(refusals[0]):
            found.append("its message names neither the file nor a key")
        elif ended.code == 1 and not OF_THE_SYSTEM.search(refusals[0]):
            found.append("exit code 1 for bad input")
        if ended.code in (1, 2) and ranks == 1 and len(messages) < len(ended.err.splitlines()):
            found.append("prints lines that are no messages")
    if ended.code == 0 and output and not os.path.exists(output):
        found.append(f"ends well without {os.path.basename(output)}")
    if before != after:
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        found.append(f"writes or changes {', '.join(changed)}")
    return found
