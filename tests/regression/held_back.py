"""Holds the program back at a moment of its work, so that a signal or a kill arrives there however busy the machine is.

A test that stops a run holds it back first: no test waits for some time and hopes that the run is then where it should be.
tests/support/hold.c, which is preloaded into the program, does the waiting.
"""

import glob
import os
import re
import shutil
import signal
import tempfile
import time

from program import HOLD, TIMEOUT, ProgramTest

# The program has begun to catch signals by then.
WHILE_MPI_STARTS = ("call", "MPI_Init_thread")


class Hold:
    """Runs that have `environment` wait just before the event: the `count`-th time that one of their processes opens a file
    whose path ends in `name` ("open"), gives a file that name ("rename") or calls that function ("call"). They go on after `let_go`."""

    def __init__(self, event, name, count=1):
        self.folder = tempfile.mkdtemp(prefix="fluxformer-hold-")
        self.begin()
        self.environment = {"LD_PRELOAD": HOLD, "FLUXFORMER_HOLD_EVENT": event, "FLUXFORMER_HOLD_NAME": name,
                            "FLUXFORMER_HOLD_COUNT": str(count), "FLUXFORMER_HOLD_FOLDER": self.folder, "FLUXFORMER_HOLD_BY": str(os.getpid())}

    def path(self, name):
        return os.path.join(self.folder, name)

    def begin(self):
        with open(self.path("wait"), "w", encoding="utf-8"):
            pass

    def seen(self, what):
        """Process ids with a mark: "held" or "woken"."""
        return sorted(int(re.search(r"\d+$", path).group()) for path in glob.glob(self.path(what + ".*")))

    def wait_for(self, what, process, count=1):
        """Waits until `count` processes have the mark; returns them. `process` must not end before."""
        deadline = time.monotonic() + TIMEOUT
        while len(self.seen(what)) < count:
            assert process.poll() is None, f"the run ended before it was {what}: {process.communicate()}"
            assert time.monotonic() < deadline, f"{len(self.seen(what))} of {count} processes are {what}"
            time.sleep(0.005)
        return self.seen(what)

    def let_go(self):
        os.remove(self.path("wait"))

    def again(self):
        """Runs that begin from now on are held back, too; those that were held before must have ended."""
        for path in glob.glob(self.path("*.*")):
            os.remove(path)
        self.begin()

    def end(self):
        """Lets go, too, what a failed test has left."""
        shutil.rmtree(self.folder, ignore_errors=True)


class HeldBackTest(ProgramTest):
    """Starts runs that wait at a given moment."""

    def setUp(self):
        super().setUp()
        # A script in the background ignores SIGINT, and what it starts inherits that.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

    def hold(self, event, name, count=1):
        hold = Hold(event, name, count)
        self.addCleanup(hold.end)
        return hold

    def start_held(self, moment, *arguments, ranks=1, held=1, wrapper=()):
        """A run that `held` of its processes have held up at the moment (event, name[, count]); returns it and the hold."""
        hold = self.hold(*moment)
        process = self.start(*arguments, ranks=ranks, environment=hold.environment, wrapper=wrapper)
        self.addCleanup(self.stop, process)
        hold.wait_for("held", process, held)
        return process, hold

    def stopped_at(self, moment, number, *arguments, ranks=1, held=1):
        """How a run ends that gets the signal at that moment, or its launcher, as from a queue."""
        process, hold = self.start_held(moment, *arguments, ranks=ranks, held=held)
        os.kill(process.pid, number)
        hold.wait_for("woken", process, held)  # mpiexec may take a while to pass it on
        hold.let_go()
        return self.ended(process)

    def killed_at(self, moment, *arguments, ranks=1):
        """Kills all processes of a run at that moment."""
        process, _ = self.start_held(moment, *arguments, ranks=ranks)
        return self.stop(process)
