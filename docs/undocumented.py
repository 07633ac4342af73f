#!/usr/bin/env python3
"""Sorts doxygen's warnings: prints those that count, and ends with status 1 if there is any.

    docs/undocumented.py build/docs/warnings.log

Every class, free function, public function and type needs a comment. Four declarations need none of their own: a data member (its name
and default say it, or a `///<`), a function whose body stands in the line that declares it (or an assignment), an override (the comment is that of the base),
and a line directly below one with a comment, which speaks for the whole group. Standard library only.
"""

import functools
import re
import sys

UNDOCUMENTED = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): warning: (?:Compound \S|Member .*\((?P<kind>\w+)\) of ).* is not documented\.$")
COMMENT = re.compile(r"\s*///(?!<)")


@functools.lru_cache(maxsize=None)
def lines(path):
    with open(path, encoding="utf-8") as file:
        return [""] + file.read().split("\n")


def speaks_for_itself(path, number):
    """The body, or the word that replaces it, stands in the line; or the base class has the comment."""
    return re.search(r"\{.*\}|= (default|delete);|\boperator=\(|\b(override|final)\b", lines(path)[number]) is not None


def belongs_to_group(path, number):
    """Lines of declarations, without a gap, lead up to a comment."""
    before = number - 1
    while re.search(r"[;}](\s*//.*)?$", lines(path)[before]) and not re.match(r"\s*(public|private|protected):", lines(path)[before]):
        before -= 1
    return before < number - 1 and COMMENT.match(lines(path)[before]) is not None


def counts(warning):
    match = UNDOCUMENTED.match(warning)
    if match is None or match["kind"] is None:  # another complaint, or a class
        return True
    place = match["file"], int(match["line"])
    return match["kind"] != "variable" and not speaks_for_itself(*place) and not belongs_to_group(*place)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        warnings = list(dict.fromkeys(file.read().splitlines()))
    found = [warning for warning in warnings if counts(warning)]
    places = {}  # inherited members are reported once for each class
    for warning in found:
        places.setdefault(warning.split(": warning:")[0], warning)
    print("\n".join(places.values()) or "every class and function of the headers has its comment")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
