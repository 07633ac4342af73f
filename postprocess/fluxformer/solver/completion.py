"""Completes names of experiments and keys in texts, in IPython and notebooks: fluxformer.run("ev<TAB>, settings={"mesh.la<TAB>."""

from __future__ import annotations

import re
from typing import Any

CALL = r"\b(?:run|sweep|keys)\("
FIRST = re.compile(CALL + r"""\s*(?:experiment\s*=\s*)?["']\w*$""")
EXPERIMENT = re.compile(CALL + r"""\s*(?:experiment\s*=\s*)?["'](\w+)["']""")


def candidates(text: str) -> list[str]:
    """What may stand at the end of the text: experiments as the first argument of a call, then keys of that experiment."""
    from fluxformer.solver.program import described
    entries = described()
    if FIRST.search(text):
        return list(entries)
    named = EXPERIMENT.findall(text)
    if not named or named[-1] not in entries:
        return []
    return [key["name"] for key in entries[named[-1]]["keys"]]


def load(shell: Any) -> None:
    """Adds this to the completion of an IPython shell."""
    def complete(_: Any, event: Any) -> list[str]:
        try:
            return [name for name in candidates(event.text_until_cursor) if name.startswith(event.symbol)]
        except Exception:  # no program, say: completion is silent
            return []
    shell.set_hook("complete_command", complete, re_key=".*" + CALL + r""".*["'][\w.]*$""")
