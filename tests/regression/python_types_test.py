#!/usr/bin/env python3
"""The types that the functions of the Python package give are true: mypy finds no contradiction. Status 77 if it is not installed."""

import importlib.util
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from python_package import ENVIRONMENT, POSTPROCESS, TIMEOUT  # noqa: E402 (its folder is put on the path first)

if importlib.util.find_spec("mypy") is None:
    print("NOT RUN: mypy is missing (apt-get install mypy)", file=sys.stderr)
    sys.exit(77)


class Types(unittest.TestCase):
    def mypy(self, *arguments):
        """What it prints of the package with the options of its pyproject.toml; it leaves no cache behind."""
        return subprocess.run([sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", os.devnull, *arguments],
                              cwd=POSTPROCESS, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT)

    def test_types_are_true(self):
        end = self.mypy("-p", "fluxformer")
        self.assertEqual(end.returncode, 0, end.stdout + end.stderr)
        self.assertRegex(end.stdout, r"no issues found in \d{2,} source files")


if __name__ == "__main__":
    unittest.main()
