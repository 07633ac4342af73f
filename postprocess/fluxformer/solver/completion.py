"""Completes names of experiments and keys in texts, in IPython and notebooks: fluxformer.run("ev<TAB>, settings={"mesh.la<TAB>."""

from __future__ import annotations

import re
from typing import Any

CALL = r"\b(?:run|sweep|keys)\("
FIRST = re.compile(r"""\s*(?:experiment\s*=\s*)?["']\w*$""")
EXPERIMENT = re.compile(r"""\s*(?:experiment\s*=\s*)?["'](\w+)["']""")


def candidates(text: str) -> list[str]:
    """What may stand at the end of the text: experiments as the first argument of a call, then keys of that experiment."""
    from fluxformer.solver.program import described
    *calls, arguments = re.split(CALL, text)
    if not calls or not re.search(r"""["'][\w.]*$""", arguments) or arguments.count(")") > arguments.count("("):
        return []
    entries = described()
    if FIRST.match(arguments):
        return list(entries)
    named = EXPERIMENT.match(arguments)
    return [key["name"] for key in entries[named[1]]["keys"]] if named and named[1] in entries else []


def load(shell: Any) -> None:
    """Adds this to the completion of an IPython shell: for the whole cell; before IPython 8.6, which tells no more, for its line."""
    def found(text: str, begun: str) -> list[str]:
        try:
            return [name for name in candidates(text) if name.startswith(begun)]
        except Exception:  # no program, say: completion is silent
            return []

    try:
        from IPython.core.completer import SimpleCompletion, context_matcher
    except ImportError:
        shell.set_hook("complete_command", lambda _, event: found(event.text_until_cursor, event.symbol), re_key=".*" + CALL + r""".*["'][\w.]*$""")
        return

    @context_matcher()
    def names(context: Any) -> dict[str, Any]:
        before = [*context.full_text.split("\n")[:context.cursor_line], context.text_until_cursor]
        return {"completions": [SimpleCompletion(name) for name in found("\n".join(before), context.token)]}
    shell.Completer.custom_matchers.append(names)
