"""fluxformer: figures and reports of Fluxformer's output, predictions of scaling, models and samples from elsewhere.

{commands}

COMMAND --help explains each. Where the program is not at hand, `PYTHONPATH=postprocess python3 -m fluxformer COMMAND` does the same.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
import warnings
from typing import NoReturn

from fluxformer.commands import COMMANDS, overview
from fluxformer.environment import fault, of_environment, versions
from fluxformer.text import NO_HOME, one_line

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)  # a folder of others, or on a file system that is only read


def main(arguments: list[str] | None = None) -> None:
    """Runs a command with its arguments (default: the arguments of the program).

    The program ends with one message and status 2 for what cannot be read or done, 1 for what the system refuses (a full disk)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help"):
        try:
            print((__doc__ or "").strip().format(commands=overview()), flush=True)
        except OSError as failure:
            _fail(f"output: {failure.strerror}", status=1)
        return
    if name not in COMMANDS:
        _fail(f"{name}: no such command; there are {', '.join(COMMANDS)}")
    os.environ["MPLBACKEND"] = "Agg"  # figures go to files; a shell inside Jupyter names a back end that matplotlib alone does not have
    for word in arguments[1:]:
        if (word.partition("=")[2] if word.startswith("--") else word).startswith("~"):
            _fail(f"{word}: {NO_HOME}", name)
    try:
        command = importlib.import_module(f"fluxformer.{COMMANDS[name].module}")
        from fluxformer.io import RunError
    except Exception as failure:
        if "FLUXFORMER_TRACEBACK" in os.environ:
            raise
        _fail(fault(failure))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be texts
    try:
        with warnings.catch_warnings():
            if not sys.warnoptions:
                warnings.simplefilter("ignore")  # numpy and matplotlib warn about odd numbers: the figures show them
            command.main(arguments[1:])
        sys.stdout.flush()
    except RunError as failure:
        _fail(str(failure), name)
    except OSError as failure:
        reason = f"{failure.filename or 'output'}: {failure.strerror or failure}"
        if failure.errno in NOT_OURS:
            _fail(f"{reason}; choose another place{'' if name == 'export' else ' with --output'}", name)
        _fail(reason, name, status=1)
    except MemoryError:
        _fail(f"{_files(arguments)}: the memory is too small for it", name, status=1)
    except KeyboardInterrupt:
        _fail("stopped", name, status=128 + signal.SIGINT)
    except Exception as failure:  # what a strange file leads to cannot be listed
        if "FLUXFORMER_TRACEBACK" in os.environ:
            raise
        if of_environment(failure):
            _fail(fault(failure), name)
        reason = str(failure) or type(failure).__name__
        if isinstance(failure, AttributeError):
            _fail(f"{_files(arguments)}: stopped by a fault that can be of the file, of the Python libraries or of this program ({reason}; {versions()}); "
                  "FLUXFORMER_TRACEBACK=1 shows where", name)
        _fail(f"{_files(arguments)}: does not hold what the program writes ({reason}); FLUXFORMER_TRACEBACK=1 shows where", name)


def _files(arguments: list[str]) -> str:
    return ", ".join(one for one in arguments if os.path.exists(one)) or "a file"


def _fail(message: str, command: str = "", status: int = 2) -> NoReturn:
    print(f"fluxformer{command and ' ' + command}: {one_line(message)}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # Python would try once more at its end, and report it in its own way
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    sys.exit(status)


def supervised() -> None:
    """Runs `main` in a process of its own: HDF5 itself crashes on some damaged files, and this has to be said
    in a message too."""
    child = os.fork()
    if child == 0:
        # Libraries that crash say so on the standard error themselves, beside the message.
        real = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = os.fdopen(real, "w", buffering=1, errors="backslashreplace")
        main()
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if -code in CRASHES:
        _fail(f"{_files(sys.argv[1:])}: damaged; HDF5 ends with {signal.Signals(-code).name} on it", sys.argv[1])
    if code == -signal.SIGKILL:
        _fail(f"{_files(sys.argv[1:])}: killed; is the memory too small for it?", sys.argv[1], status=1)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    supervised()
