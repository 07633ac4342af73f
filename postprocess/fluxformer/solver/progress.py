"""Shows how far a run is: a bar in a notebook, one line that is written over in a terminal, lines now and then elsewhere."""

from __future__ import annotations

import html
import os
import re
import sys
import time
from typing import Any, TextIO

from fluxformer.environment import ipython

# As base/progress.cpp writes it: "train 265 of 4158 steps, 6.48 a second, 9:59 left, loss 5.5".
LINE = re.compile(r"(?P<what>\w+) (?P<done>[-+.\de]+)(?: of (?P<total>[-+.\de]+))? .*, [-+.\deinf]+ a second")
MESSAGE = "fluxformer: "
OWN_CODES = (1, 2, 3, 4)  # exit codes with which the program says why
BETWEEN_LINES = 5.0  # seconds


def notebook() -> Any:
    """The shell of a notebook if this is one, else None."""
    shell = ipython()
    return shell if type(shell).__name__ == "ZMQInteractiveShell" else None


class Display:
    """Takes the lines that the program writes: progress, and everything else, which is passed on. `show`: False shows warnings and errors only."""

    def __init__(self, show: bool) -> None:
        self._show = show
        self._handle: Any = None
        self._open = 0  # letters of the line that is written over
        self._printed = 0.0
        self._held: list[str] = []  # the program's messages and what followed, until it is known whether they end the run
        self.errors: list[str] = []  # the last lines of the standard error that are no progress

    def take(self, line: str, is_error: bool) -> None:
        """A line of the program: of its standard error, or of its standard output."""
        match = LINE.match(line) if is_error else None
        if is_error and match is None:
            self.errors = [*self.errors[-20:], line]
            if self._held or line.startswith(MESSAGE):
                self._held.append(line)
                return
        self.release()
        if match is not None and self._show:
            self._progress(line, match)
        elif match is None and self._show:
            self._tell(line, is_error)

    def release(self) -> None:
        """Prints what was held back: the run goes on, or has ended well."""
        self._print(self._held, sys.stderr)
        self._held = []

    def failure(self, code: int) -> str:
        """The message of a run that has failed with this exit code. With one of the program's own it is the last line that it said; those before
        are printed, what a launcher says of it is not. With another, of a crash say, it is all that was written at the end."""
        messages = [line for line in self._held if line.startswith(MESSAGE)]
        own = messages.pop().removeprefix(MESSAGE) if messages and code in OWN_CODES else None
        self._print(messages, sys.stderr)
        self._held = []
        return own if own is not None else " ".join(line for line in self.errors if line not in messages)

    def _tell(self, line: str, is_error: bool) -> None:
        """What the program says of the run, partly on its standard error: notebooks show that as if it were a fault."""
        if notebook() is None:
            self._print([line], sys.stderr if is_error else sys.stdout)
        elif line:
            self._print([line], sys.stdout)

    def _print(self, lines: list[str], stream: TextIO) -> None:
        if lines:
            self.close()
            print("\n".join(lines), file=stream, flush=True)

    def _progress(self, line: str, match: re.Match[str]) -> None:
        done, total = float(match["done"]), float(match["total"] or 0)
        if notebook() is not None:
            bar = f'<progress value="{done:g}" max="{total:g}" style="width:20em"></progress> ' if total > 0 else ""
            self._draw(f"{bar}<code>{html.escape(line)}</code>")
        elif sys.stderr.isatty():
            width = (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1  # 0: it does not say
            filled = f"[{'#' * int(20 * done / total):.<20}] " if total > 0 else ""
            text = (filled + line)[:width]
            sys.stderr.write("\r" + text.ljust(min(self._open, width)))
            sys.stderr.flush()
            self._open = len(text)
        elif time.monotonic() - self._printed > BETWEEN_LINES or " took " in line:
            self._printed = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    def _draw(self, text: str) -> None:
        from IPython.display import HTML, display
        if self._handle is None:
            self._handle = display(HTML(text), display_id=True)
        else:
            self._handle.update(HTML(text))

    def close(self) -> None:
        """Ends the line that was being written over."""
        if self._open:
            sys.stderr.write("\n")
            sys.stderr.flush()
        self._open = 0
