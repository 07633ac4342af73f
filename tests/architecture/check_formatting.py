#!/usr/bin/env python3
"""Checks that every C++ file is formatted as .clang-format requires.

    check_formatting.py ROOT [CLANG_FORMAT]

Status 0: yes; 1: no, the places are printed; 77: clang-format is not there, or of another release than Debian 12's, which formats
differently (ctest shows the test as skipped).
"""

import os
import re
import shutil
import subprocess
import sys

from project_files import project_files

SKIPPED = 77
RELEASE = 14  # of clang-format: Debian 12


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    root = sys.argv[1]
    tool = shutil.which(sys.argv[2] if len(sys.argv) == 3 else "clang-format")
    if tool is None:
        print("NOT CHECKED: clang-format is missing (apt-get install clang-format)", file=sys.stderr)
        return SKIPPED
    said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if not re.search(rf"\bversion {RELEASE}\.", said):
        print(f"NOT CHECKED: this takes clang-format {RELEASE}, that of Debian 12; here is {said}", file=sys.stderr)
        return SKIPPED
    sources = [path for path in project_files(root) if path.endswith((".hpp", ".cpp"))]
    if not sources:
        print(f"no C++ file below {root}: nothing was checked", file=sys.stderr)
        return 1
    result = subprocess.run([tool, "--dry-run", "-Werror", "--style=file", *sources], cwd=os.path.abspath(root),
                            capture_output=True, text=True)
    places = [line for line in result.stderr.splitlines() if line.split(":")[0] in sources]
    bad = list(dict.fromkeys(line.split(":")[0] for line in places))
    for path in bad:
        print(next(line for line in places if line.startswith(path + ":")))
    if result.returncode and not bad:
        print(result.stderr)
        return 1
    if bad:
        print(f"{len(bad)} of {len(sources)} files; this mends them:\n    clang-format -i {' '.join(bad)}")
        return 1
    print(f"all {len(sources)} files are formatted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
