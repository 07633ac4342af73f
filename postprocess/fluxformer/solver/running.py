"""Runs the program: `fluxformer.run`."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING

from fluxformer.dataset import dataset
from fluxformer.io import Run, RunError, parse_settings
from fluxformer.solver.launcher import bound, default_ranks, environment, launched, refuse_several_pythons
from fluxformer.solver.program import keys, of_python, program, value_text
from fluxformer.solver.progress import Display
from fluxformer.text import NO_HOME, for_python, one_line

if TYPE_CHECKING:
    import xarray


class ProgramError(RunError):
    """The program refused, failed or was stopped.

    Attributes
    ----------
    code : int
        Its exit code: 2 bad input, 3 numerical failure, 4 stopped with a checkpoint, 1 anything else; negative: the signal that ended it.
    output : str
        The file that it was to write; after codes 3 and 4 `fluxformer.open(output, unfinished=True)` reads what there is.
    command : list of str
    """

    def __init__(self, message: str, code: int, output: str, command: list[str]) -> None:
        super().__init__(message, code, output, command)  # all of them, so that it can be pickled
        self.code, self.output, self.command = code, output, command

    def __str__(self) -> str:
        return str(self.args[0])


def run(experiment: str, deck: str | os.PathLike[str] | None = None, settings: Mapping[str, object] | None = None, *,
        output: str | os.PathLike[str] | None = None, ranks: int | None = None, overwrite: bool = False, progress: bool = True,
        launcher: str | None = None, variables: Mapping[str, str] | None = None) -> xarray.Dataset:
    """Runs an experiment of the program and opens what it wrote.

        data = fluxformer.run("evolve", deck="input/evolve/evolve.ini", settings={"mesh.layers": 24}, output="out/deep.h5", ranks=2)

    Parameters
    ----------
    experiment : str
        One of `fluxformer.experiments()`.
    deck : path-like, optional
        An INI file, or an output file whose settings are run again.
    settings : mapping, optional
        "section.key" to a flag, number, text or list of them; overrides the deck. `fluxformer.keys(experiment)` shows all. Unknown keys
        and wrong values are refused by the program.
    output : path-like, optional
        The file to write, `output.file`; default: that of the settings, of the deck, or of the program. Its folder is made if needed.
    ranks : int, optional
        MPI ranks; default: the tasks of the SLURM job (SLURM_NTASKS, which a step `srun -n 1` sets to 1), else 1. There may be more than cores.
    overwrite : bool
        True: an existing output is replaced once the new one is complete.
    progress : bool
        False: nothing is shown but warnings.
    launcher : str, optional
        What starts several ranks: "mpiexec", "srun", "mpirun --map-by node", ...; default: FLUXFORMER_LAUNCHER, else srun inside a SLURM
        job and mpiexec elsewhere.
    variables : mapping, optional
        Environment variables of the program beside those of this Python.

    Returns
    -------
    xarray.Dataset
        As `fluxformer.open` returns it.

    Raises
    ------
    ProgramError
        With the message and the exit code of the program.
    RunError
        If there is no program or launcher.
    KeyboardInterrupt
        After Ctrl-C (in a notebook: interrupt), when the run has finished its step and written a checkpoint; settings
        {"checkpoint.restart": "auto"} continue it. A second Ctrl-C kills it.
    """
    return dataset(Starter(ranks, launcher, variables or {}, progress).run(experiment, deck, settings or {}, output, overwrite), "", False)


class Starter:
    """Starts runs in the same way; several threads may use it. The arguments are those of `run`.

    Attributes
    ----------
    under_way : set of Popen
        What is running now.
    """

    def __init__(self, ranks: int | None, launcher: str | None, variables: Mapping[str, str], progress: bool, at_once: int = 1) -> None:
        refuse_several_pythons()
        self._ranks = default_ranks() if ranks is None else of_python(ranks)
        if not isinstance(self._ranks, int) or self._ranks < 1:
            raise RunError(f"ranks = {ranks!r}: a whole number from 1 on")
        self._launcher, self._progress = launcher, progress
        self._environment = environment(self._ranks, at_once, variables)
        self.under_way: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, experiment: str, deck: str | os.PathLike[str] | None, settings: Mapping[str, object],
            output: str | os.PathLike[str] | None = None, overwrite: bool = False) -> str:
        """Runs to the end; returns the path of the output. ProgramError and KeyboardInterrupt as from `fluxformer.run`."""
        if deck is not None and not isinstance(deck, (str, os.PathLike)):
            raise RunError(f"deck = {deck!r}: the path of a deck or of an output file; settings= are keys and values that override it")
        if not isinstance(settings, Mapping):
            raise RunError(f'settings = {settings!r}: keys and their values, such as {{"mesh.layers": 24}}')
        texts = {key: setting_text(key, value) for key, value in settings.items()}
        if output is not None:
            texts["output.file"] = os.fspath(output)
        if overwrite:
            texts["output.overwrite"] = "true"
        path = output_of(experiment, deck, texts)
        if path.startswith("~"):
            raise RunError(f"output.file = {path}: {NO_HOME}")
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        except OSError as failure:
            raise RunError(f"output.file = {path}: {failure.filename}: {failure.strerror}") from None
        command = launched([program(), experiment, *([os.path.abspath(deck)] if deck is not None else []), *([] if self._progress else ["--quiet"]),
                            *(f"--{key}={value}" for key, value in texts.items())], self._ranks, self._launcher)
        code, message = self._ended(command)
        if code != 0:
            raise ProgramError(message, code, path, command)
        return path

    def stop(self) -> None:
        """Asks all that is running, or being started, to finish its step and to write a checkpoint: mpiexec and srun pass this signal on to the
        ranks."""
        self._stopped = True
        for process in [*self.under_way]:
            process.send_signal(signal.SIGUSR1)

    def _ended(self, command: list[str]) -> tuple[int, str]:
        """Runs the command to its end; returns its exit code, and what it said of a failure in one line."""
        try:
            process = subprocess.Popen(bound(command), env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, errors="backslashreplace", start_new_session=True)  # Ctrl-C in a terminal is for Python alone
        except OSError as failure:
            raise RunError(f"{command[0]}: {failure.strerror}") from None
        self.under_way.add(process)
        if self._stopped:  # another thread has asked to, while this run was started
            process.send_signal(signal.SIGUSR1)
        lines: queue.Queue[tuple[str, bool] | None] = queue.Queue()

        def read(stream: IO[str], is_error: bool) -> None:
            for line in stream:
                lines.put((line.rstrip("\n"), is_error))
            lines.put(None)

        assert process.stdout is not None and process.stderr is not None
        readers = [threading.Thread(target=read, args=one, daemon=True) for one in ((process.stdout, False), (process.stderr, True))]
        display = Display(self._progress)
        try:
            for reader in readers:
                reader.start()
            interrupted = self._relay(lines, readers, display)
            code = process.wait()
        except BaseException as failure:
            kill(process)
            if isinstance(failure, KeyboardInterrupt):
                raise KeyboardInterrupt("the run was killed") from None
            raise
        finally:
            self.under_way.discard(process)
            display.close()
            for reader in readers:
                reader.join()
            process.stdout.close()
            process.stderr.close()
        if code == 0:
            display.release()
        message = for_python(one_line(display.failure(code) if code != 0 else "the run was complete")) or f"{command[0]} ended with exit code {code}"
        if interrupted:
            raise KeyboardInterrupt(message if abs(code) != signal.SIGUSR1 else "stopped before it began")
        return code, message

    def _relay(self, lines: queue.Queue[tuple[str, bool] | None], readers: list[threading.Thread], display: Display) -> bool:
        """Shows lines until both streams have ended; returns whether Ctrl-C has stopped the run. KeyboardInterrupt for a second one."""
        interrupted, asked = False, 0.0
        while lines.qsize() > 0 or any(reader.is_alive() for reader in readers):
            try:
                try:
                    one = lines.get(timeout=0.1)
                except queue.Empty:
                    one = None
                if one is not None:
                    display.take(*one)
                if interrupted and time.monotonic() > asked + 1:  # a launcher that is just starting its ranks loses a signal
                    asked = time.monotonic()
                    self.stop()
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
        return interrupted


def setting_text(key: str, value: object) -> str:
    """The value of a key as decks write it. RunError, with the key, for what is no setting."""
    try:
        return value_text(value)
    except RunError as failure:
        raise RunError(f"{key} = {failure}") from None


def output_of(experiment: str, deck: str | os.PathLike[str] | None, settings: Mapping[str, str]) -> str:
    """The file that a run will write, by its settings, its deck or the program's default."""
    if "output.file" in settings:
        return settings["output.file"]
    if deck is not None and os.path.isfile(deck):
        if os.fspath(deck).endswith(".h5"):
            with Run(deck, unfinished=True) as earlier:
                stored = earlier.settings
        else:
            with open(deck, encoding="utf-8", errors="replace") as file:
                stored = parse_settings("\n".join(line.split("#")[0] for line in file))
        if "output.file" in stored:
            return str(stored["output.file"])
    return str(keys(experiment)["output.file"].default)


def kill(process: subprocess.Popen[str]) -> None:
    """Ends a launcher and its ranks: it is asked to, then all of its session are killed."""
    process.terminate()
    try:
        process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        pass
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.getsid(int(name)) == process.pid:
                os.kill(int(name), signal.SIGKILL)
        except OSError:  # it has ended meanwhile, or is not ours
            pass
    process.wait()
