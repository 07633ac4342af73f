"""Runs that are killed or stopped at chosen moments and continued, and what must be true of their files afterwards."""

import collections
import os
import re
import shutil
import signal
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "regression")]

import h5py  # noqa: E402 (the folders are put on the path first)
import numpy as np  # noqa: E402

from folder_events import ARRIVED, CLOSED, MADE, RENAMED, FolderEvents  # noqa: E402
from processes import kill, members  # noqa: E402
from program import DECK, TIMEOUT, TRAIN_DECK, TrainTest  # noqa: E402
from small_studies import PAIRS, STUDIES, make_models, write_decks  # noqa: E402

GO_ON = "--checkpoint.restart=auto"
NEWEST, PREVIOUS, HISTORY = "out.checkpoint.h5", "out.checkpoint.previous.h5", "out.history.h5"
CHECKPOINTS = (NEWEST, PREVIOUS)
# A second or two each, with some sixty checkpoints; the inflow keeps changing, so that evolve never becomes steady.
RUNS = {
    "evolve": ("evolve", "small.ini", "--evolve.method=ssp", "--evolve.cfl=0.25", "--evolve.time=2048", "--output.history=7",
               "--output.every=256", "--inflow.every=0.75", "--checkpoint.every=32"),
    "evolve with error control": ("evolve", "small.ini", "--evolve.method=rk", "--evolve.variant=3bs", "--evolve.tolerance=1e-7",
                                  "--evolve.time=4096", "--output.every=512", "--output.history=11", "--checkpoint.every=64"),
    "train": ("train", "train.ini", "--train.epochs=20", "--train.validation=0.2", "--train.dropout=0.2", "--output.snapshots=4",
              "--checkpoint.every=5"),
}
# A training whose depth is split, too: two stages x two ranks over tokens, or two stages x two groups of samples.
RUNS |= {f"train, {words}": (*RUNS["train"], "--mesh.ranks_depth=2", f"--mesh.ranks_token={tokens}", "--train.micro_batches=3")
         for words, tokens in (("2 x 2 x 1", 2), ("2 x 1 x 2", 1))}
RANKS = {kind: 4 for kind in (*RUNS, *STUDIES) if "2 x" in kind or PAIRS in kind}  # of runs that need so many

Aim = collections.namedtuple("Aim", "share what is_it latest")  # events of files, and the most seconds behind one
OUTPUTS = ("out.h5", "out.h5.part", "out.xdmf", "out.xdmf.part")
AIMS = {
    "writing a checkpoint": Aim(0.35, MADE, lambda name: name == NEWEST + ".part", None),
    "renaming checkpoints": Aim(0.15, CLOSED | RENAMED, lambda name: name.startswith("out.checkpoint."), 5e-4),
    "the output": Aim(0.125, MADE | CLOSED | ARRIVED, OUTPUTS.__contains__, 2e-3),
    "copies of the weights": Aim(0.125, MADE | CLOSED | ARRIVED, lambda name: name.startswith(("out.best.", "out.epoch")), 2e-3),
    "any moment": Aim(0.25, 0, None, None),
}


def may_go(name):
    """Generations of checkpoints, which are judged by their steps; the stored states of a killed run until the next has copied them;
    what can be read during a training, a copy of what the output will hold; what is written for a try."""
    return name in (*CHECKPOINTS, HISTORY) or "interrupted" in name or is_trial(name)


def is_trial(name):
    """Checkpoints that `scaling` writes to time them."""
    return ".trial" in name


def words_of(kind):
    """Of the command line; studies write a checkpoint after each round of places."""
    return RUNS[kind] if kind in RUNS else (*STUDIES[kind], "--checkpoint.every=1e-6", "--output.file=out.h5")


STOPS = ("a signal", "a time limit")


class Lost(Exception):
    """Something that was there is not, or is not what it should be."""


def progress(path):
    """How far the checkpoint is, in steps, in time, or in places of a study and steps within the next; None if there is none. Lost if it is
    not whole."""
    if not os.path.exists(path):
        return None
    try:
        with h5py.File(path, "r") as file:
            state = file["state"]
            if state.attrs["complete"] != 1:
                raise Lost(f"{os.path.basename(path)} is not complete")
            for item in state.values():
                if item.dtype.kind == "f" and item.name.split("/")[-1] in ("u", "raw") and not np.isfinite(item[...]).all():
                    raise Lost(f"{os.path.basename(path)}: {item.name} is not finite")
                item[...]
            return tuple(float(state.attrs[name]) for name in ("points", "steps", "time") if name in state.attrs)
    except (OSError, KeyError, RuntimeError) as failure:
        raise Lost(f"{os.path.basename(path)} cannot be read: {failure}") from None


def check_whole(path):
    """Lost unless all of a file that is neither a checkpoint nor a history can be read."""
    try:
        with h5py.File(path, "r") as file:
            file.visititems(lambda _, item: item[...] if isinstance(item, h5py.Dataset) and item.shape != () else None)
            if file.attrs["status"] not in ("done", "interrupted"):
                raise Lost(f"{os.path.basename(path)} has the status {file.attrs['status']}")
    except (OSError, KeyError, RuntimeError) as failure:
        raise Lost(f"{os.path.basename(path)} cannot be read: {failure}") from None


def check_history(path):
    """Lost unless it can be read as a history that is being written, or as one that is complete."""
    try:
        with h5py.File(path, "r", libver="latest", swmr=True) as file:
            len(file["step"])
    except (OSError, KeyError, RuntimeError) as failure:
        raise Lost(f"{os.path.basename(path)} cannot be read: {failure}") from None


class Bench(TrainTest):
    """What the regression tests know about runs, on a folder that is kept: its checks raise AssertionError."""

    def __init__(self, folder, kind):
        super().__init__()
        self.folder = folder
        os.makedirs(self.path("tmp"), exist_ok=True)
        self.write("small.ini", DECK)
        self.write("train.ini", TRAIN_DECK)
        if kind in STUDIES:
            write_decks(self)
            models = os.path.join(os.path.dirname(folder), "models")  # for all runs beside this one
            if not os.path.exists(models):
                make_models(models)
            os.symlink(models, self.path("models"))
        # What Open MPI leaves behind when it is killed goes with the folder.
        self.environment = {"TMPDIR": self.path("tmp"), "OMPI_MCA_btl_vader_backing_directory": self.path("tmp")}

    def begin(self, kind, *settings, ranks):
        return self.start(*words_of(kind), "--quiet", *settings, ranks=ranks, environment=self.environment)

    def must_end(self, process, what):
        ended = self.ended(process)
        if ended.code != 0:
            raise Lost(f"{what} ends with {ended}")
        return ended

    def assert_same_study(self, first, second):
        """The same results, bit for bit, except for wall times, what is counted per second, and memory."""
        one, other = self.open(first), self.open(second)
        names, others = [], []
        one.visit(names.append)
        other.visit(others.append)
        names, others = ([name for name in found if not name.startswith("timing/")] for found in (names, others))
        self.assertEqual(names, others)
        for name in names:
            if isinstance(one[name], h5py.Group):
                for note, value in one[name].attrs.items():
                    self.assertEqual(str(other[name].attrs[note]), str(value), f"{note} of {name}")
            elif name != "scaling/memory" and not re.search(r"\bs\b", str(one[name].attrs.get("unit", ""))):
                self.assertEqual(one[name][...].tobytes(), other[name][...].tobytes(), f"{name}: {first} and {second} differ")


class Undisturbed:
    """The results of a run that nobody kills, how long it takes, how long a checkpoint, and how many events there are to aim at."""

    def __init__(self, folder, kind, ranks):
        self.bench = Bench(folder, kind)
        begun = time.monotonic()
        made, writing, self.events = None, [], collections.Counter()
        with FolderEvents(folder) as events:
            process = self.bench.begin(kind, ranks=ranks)
            ended, happened = False, []
            while not ended or happened:  # what happened just before the end is read after it
                ended, happened = process.poll() is not None, events.after(0.05)
                for when, what, name in happened:
                    self.events.update(key for key, aim in AIMS.items() if what & aim.what and aim.is_it(name))
                    if (what, name) == (MADE, NEWEST + ".part"):
                        made = when
                    elif (what, name) == (ARRIVED, NEWEST) and made is not None:
                        writing.append(when - made)
            self.bench.must_end(process, "an undisturbed run")
        self.seconds = time.monotonic() - begun
        self.write_seconds = statistics.median(writing or [0])

    @property
    def copies(self):
        return sorted(name for name in os.listdir(self.bench.folder) if name.startswith(("out.best.", "out.epoch")))


class Disturbed:
    """One run that is killed and continued until it is complete."""

    def __init__(self, folder, kind, ranks, whole, dice, earlier, count):
        self.bench, self.kind, self.ranks, self.whole, self.dice, self.count = Bench(folder, kind), kind, ranks, whole, dice, count
        self.settings = ()
        self.earlier = None
        if earlier:
            self.settings = ("--output.overwrite=true",)
            other = ("train", "train.ini") if words_of(kind)[0] == "train" else ("evolve", "small.ini")
            self.bench.must_end(self.bench.start(*other, "--quiet", "--model.seed=9", "--output.file=out.h5"), "an earlier run")
            for name in os.listdir(folder):
                if "checkpoint" in name or name == HISTORY:
                    os.remove(self.bench.path(name))
            self.earlier = self.bench.checksum("out.h5")
        self.seen = {}

    def files(self):
        """Name: what tells one file of that name from the next."""
        return {entry.name: (entry.stat().st_ino, entry.stat().st_mtime_ns) for entry in os.scandir(self.bench.folder) if entry.is_file()}

    def disturb(self, aim):
        """Starts or continues the run and kills it; False if it was complete before."""
        before, generations = self.files(), {name: progress(self.bench.path(name)) for name in CHECKPOINTS}
        with FolderEvents(self.bench.folder) as events:
            process = self.bench.begin(self.kind, GO_ON, *self.settings, ranks=self.ranks)
            try:
                self.wait_for_the_moment(aim, events, process)
                in_time = process.poll() is None
                if in_time:
                    self.kill_some(process)
            finally:
                kill(members(process.pid))
            ended = self.bench.ended(process)
        while members(process.pid):
            time.sleep(0.01)
        self.check_restart(generations, ended, aim)
        if not in_time and ended.code != 0:
            raise Lost(f"a run that nobody killed ends with {ended}")
        place = self.place(before, self.files())
        self.check_files(before, generations)
        self.count["came too late" if not in_time else "kills", aim] += 1
        if in_time:
            self.count["place", place] += 1
        return in_time and place != "after the end, before the exit"

    def wait_for_the_moment(self, name_of_aim, events, process):
        """A random one of the run, or a random event of its kind and a little later. A part of it lasts less than all."""
        aim = AIMS[name_of_aim]
        if aim.is_it is None:
            end = time.monotonic() + self.dice.uniform(0, self.whole.seconds)
            while process.poll() is None and time.monotonic() < end:
                time.sleep(min(0.01, max(0, end - time.monotonic())))
            return
        left = self.dice.randint(1, max(1, self.whole.events[name_of_aim] // (1 if name_of_aim == "the output" else 4)))
        delay = self.dice.uniform(0, 1.3 * self.whole.write_seconds if aim.latest is None else aim.latest)
        while process.poll() is None:
            for when, what, name in events.after(0.05):
                left -= bool(what & aim.what and aim.is_it(name))
                if left == 0:
                    time.sleep(max(0, when + delay - time.monotonic()))
                    return

    def stop(self, how):
        """Starts or continues a study that a signal stops at a checkpoint, or run.time_limit after some time: exit code 4, and the output is
        not there yet."""
        before, generations = self.files(), {name: progress(self.bench.path(name)) for name in CHECKPOINTS}
        limit = () if how == "a signal" else (f"--run.time_limit={self.dice.uniform(0, self.whole.seconds):g}",)
        with FolderEvents(self.bench.folder) as events:
            process = self.bench.begin(self.kind, GO_ON, *self.settings, *limit, ranks=self.ranks)
            if not limit:
                self.wait_for_the_moment("writing a checkpoint", events, process)
                process.send_signal(signal.SIGUSR1)
            ended = self.bench.ended(process)
        self.check_restart(generations, ended, "any moment")
        if ended.code not in (0, 4) or (ended.code == 4 and "fluxformer: stopped by" not in ended.err):
            raise Lost(f"a run that {how} stops ends with {ended}")
        self.check_files(before, generations)
        written = self.files().get("out.h5") != before.get("out.h5")
        if written != (ended.code == 0):
            raise Lost(f"a run that {how} stops has {'' if written else 'not '}written its output and ends with {ended}")
        self.count["stops", how] += ended.code == 4
        return ended.code == 4

    def kill_some(self, process):
        """All at once; now and then a single rank, or the launcher, which must end the others."""
        everyone = members(process.pid)
        if self.ranks > 1 and len(everyone) > 1 and self.dice.random() < 0.3:
            self.count["only one process"] += 1
            kill([self.dice.choice(everyone)])
            deadline = time.monotonic() + TIMEOUT
            while members(process.pid) and time.monotonic() < deadline:
                time.sleep(0.01)
            if members(process.pid):
                raise Lost(f"ranks still run {TIMEOUT} s after one of them, or mpiexec, was killed")
        kill(everyone)

    def check_restart(self, generations, ended, aim):
        """A run with a checkpoint continues from the newest one."""
        there = {name: value for name, value in generations.items() if value is not None}
        said = [line for line in ended.err.splitlines() if "continuing from" in line]
        if ended.code not in (0, 4, -signal.SIGKILL) and self.ranks == 1:
            raise Lost(f"a run that goes on ends with {ended}")
        if not said:
            if there and ended.code == 0:
                raise Lost(f"a run began afresh although there was {', '.join(there)}\n{ended}")
            return
        self.count["restarts", aim] += 1
        newest = NEWEST if NEWEST in there else PREVIOUS
        if newest not in there or f"continuing from {newest} " not in said[0]:
            raise Lost(f"{said[0]!r}, but there was {there}")
        self.count["fell back", aim] += newest == PREVIOUS

    def place(self, before, now):
        """Where the kill hit, by the files that it left."""
        def fresh(name):
            return name in now and now[name] != before.get(name)

        if fresh("out.h5"):
            return "after the end, before the exit"
        if fresh(NEWEST + ".part"):
            return "a checkpoint half written"
        if NEWEST not in now and PREVIOUS in now and fresh(PREVIOUS):
            return "between the two renames of a checkpoint"
        if any(fresh(name) and name != "out.h5.part" and name.endswith(".part") and not is_trial(name) for name in now):
            return "a copy of the weights half written"
        if fresh("out.h5.part"):
            return "the output begun, the checkpoints whole"
        return "before the output was begun"

    def check_files(self, before, generations):
        """Nothing under a final name is damaged, gone, or older than before."""
        now = {name: progress(self.bench.path(name)) for name in CHECKPOINTS}
        newest_before, newest = (max((value for value in one.values() if value is not None), default=(-1,)) for one in (generations, now))
        if newest < newest_before:
            raise Lost(f"the newest checkpoint was {newest_before}, now it is {newest}")
        there = self.files()
        for name in before:
            if name.endswith((".h5", ".xdmf")) and name not in there and not may_go(name):
                raise Lost(f"{name} is gone")
        for name in there:
            if name == HISTORY:
                check_history(self.bench.path(name))
            elif name.endswith(".h5") and not may_go(name) and there[name] != before.get(name):
                check_whole(self.bench.path(name))
        if self.earlier is None and "out.h5" in before and there["out.h5"] != before["out.h5"]:
            raise Lost("a finished output was replaced without output.overwrite")

    def finish(self):
        """Continues without a kill if needed and compares everything with the undisturbed run."""
        path = self.bench.path("out.h5")
        if not os.path.exists(path) or (self.earlier is not None and self.bench.checksum("out.h5") == self.earlier):
            generations = {name: progress(self.bench.path(name)) for name in CHECKPOINTS}
            ended = self.bench.must_end(self.bench.begin(self.kind, GO_ON, *self.settings, ranks=self.ranks), "the last part of a run")
            self.check_restart(generations, ended, "any moment")
        self.check_files({}, {})
        if left := [name for name in os.listdir(self.bench.folder) if is_trial(name)]:
            raise Lost(f"the run leaves {', '.join(left)}")
        shutil.copy(self.whole.bench.path("out.h5"), self.bench.path("whole.h5"))
        compare = {"evolve": self.bench.assert_same_bits, "train": self.bench.assert_same_training}.get(words_of(self.kind)[0],
                                                                                                       self.bench.assert_same_study)
        try:
            compare("out.h5", "whole.h5")
            for name in self.whole.copies:
                shutil.copy(self.whole.bench.path(name), self.bench.path("whole.h5"))
                self.bench.assert_same_model(name, "whole.h5")
        except AssertionError as failure:
            raise Lost(f"the result is not that of an undisturbed run: {failure}") from None
        finally:
            self.bench.doCleanups()
