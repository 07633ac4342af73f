#!/usr/bin/env python3
"""The sources that clang-tidy has to read again: those that differ from a commit that it has passed, or include a header that does.

    tidy_sources.py BUILD BASE      BUILD: folder with compile_commands.json; BASE: file with the name of the commit

Prints a regular expression for each file of the compile commands, of which unity sources are some, for run-clang-tidy; all files if the
commit is not in this clone or the checks differ. Run from the top of the project; writes nothing.
"""

import json
import os
import re
import subprocess
import sys

CHECKED = ("src", "solvers", "drivers")
RULES = (".clang-tidy", "cmake/FluxformerTargets.cmake", ".ci/tidy_sources.py")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.splitlines()


def changed(base):
    """Files that differ from the commit, those that git does not know among them; None if that cannot be said."""
    try:
        with open(base, encoding="utf-8") as stream:
            commit = stream.read().strip()
        if not commit:
            return None
        git("cat-file", "-e", commit + "^{commit}")
        files = git("diff", "--name-only", "--no-renames", commit) + git("ls-files", "--others", "--exclude-standard", "--", *CHECKED)
    except (OSError, subprocess.CalledProcessError):
        return None
    return None if any(path in files for path in RULES) else {os.path.realpath(path) for path in files}


class Includes:
    """What a file includes, directly or not."""

    def __init__(self):
        self.direct = {}

    def of(self, path):
        if path not in self.direct:
            try:
                with open(path, encoding="utf-8") as stream:
                    names = INCLUDE.findall(stream.read())
            except OSError:  # of the compiler
                names = []
            places = (os.path.dirname(path), "src", ".")
            self.direct[path] = [os.path.realpath(there) for name in names
                                 if (there := next((one for place in places if os.path.exists(one := os.path.join(place, name))), None))]
        return self.direct[path]

    def all_of(self, path):
        found, left = {path}, [path]
        while left:
            new = set(self.of(left.pop())) - found
            found |= new
            left += new
        return found


def main():
    build, base = sys.argv[1:]
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as stream:
        sources = sorted({os.path.realpath(os.path.join(one["directory"], one["file"])) for one in json.load(stream)})
    places = tuple(os.path.realpath(folder) + "/" for folder in (*CHECKED, *(os.path.join(build, folder) for folder in CHECKED)))
    sources = [path for path in sources if path.startswith(places)]
    files, includes = changed(base), Includes()
    for path in sources:
        if files is None or files & includes.all_of(path):
            print(f"^{re.escape(path)}$")


if __name__ == "__main__":
    main()
