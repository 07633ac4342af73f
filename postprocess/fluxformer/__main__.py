"""fluxformer: figures and reports of Fluxformer's output, predictions of scaling, models from elsewhere.

    python3 -m fluxformer plot FILE...        figures of a run, whatever experiment wrote it
    python3 -m fluxformer report FILE...      one page on the comparison of Transformer and PDE models
    python3 -m fluxformer predict FILE...     time of a step on more ranks and other sizes, from small scaling runs
    python3 -m fluxformer import STATE FILE   a PyTorch state dict becomes a model file

COMMAND --help explains each. PYTHONPATH=postprocess finds this package without installing it.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

COMMANDS = {"plot": "plot", "report": "report.command", "predict": "scaling.predict", "import": "import_weights"}


def main(arguments: list[str] | None = None) -> None:
    """Runs a command with its arguments (default: those of the program).

    Ends with one message and status 2 for what cannot be read or done, 1 for what the system refuses (a full disk)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print((__doc__ or "").strip())
        return
    name = arguments[0]
    if name not in COMMANDS:
        _fail(f"{name}: no such command; there are {', '.join(COMMANDS)}")
    try:
        command = importlib.import_module(f"fluxformer.{COMMANDS[name]}")
    except ImportError as failure:
        from fluxformer.missing import message
        if failure.name is None or failure.name.startswith("fluxformer"):
            raise
        _fail(message(failure.name))
    from fluxformer.io import RunError
    try:
        command.main(arguments[1:])
    except RunError as failure:
        _fail(str(failure), name)
    except OSError as failure:
        _fail(f"{failure.filename or 'output'}: {failure.strerror or failure}", name, status=1)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as failure:
        if "FLUXFORMER_TRACEBACK" in os.environ:
            raise
        reason = " ".join(str(failure).split()) or type(failure).__name__
        _fail(f"a file does not hold what the program writes ({reason}); FLUXFORMER_TRACEBACK=1 shows where", name)


def _fail(message: str, command: str = "", status: int = 2) -> NoReturn:
    print(f"fluxformer{command and ' ' + command}: {message}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
