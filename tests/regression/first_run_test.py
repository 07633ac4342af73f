#!/usr/bin/env python3
"""Every command of docs/first-run.md runs, in its order, in a folder that has what a built clone has; and makes the files that the page shows.
Outside the second tier its trainings are shorter.

Needs what postprocess/ needs; status 77 if matplotlib or h5py is not installed.
"""

import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import h5py  # noqa: F401 (what the commands need)
    import matplotlib  # noqa: F401
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

from program import BINARY, FULL_TIER, ROOT, ProgramTest  # noqa: E402 (the folder is put on the path first)


class FirstRun(ProgramTest):
    def test_every_block_of_the_page_runs(self):
        with open(os.path.join(ROOT, "docs", "first-run.md"), encoding="utf-8") as stream:
            page = stream.read()
        blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(blocks), 6)
        if not FULL_TIER:  # shorter trainings
            long = re.compile(r"--train\.samples=\d+ --train\.epochs=\d+")
            self.assertEqual(sum(len(long.findall(block)) for block in blocks), 2)
            blocks = [long.sub("--train.samples=400 --train.epochs=1", block) for block in blocks]
        os.makedirs(self.path("build/bin"))
        os.symlink(BINARY, self.path("build/bin/fluxformer"))
        for folder in ("input", "postprocess"):
            os.symlink(os.path.join(ROOT, folder), self.path(folder))
        for block in blocks:
            end = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=self.folder, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                                 capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
            self.assertEqual(end.returncode, 0, block + end.stdout + end.stderr)
        pictures = [name for _, _, names in os.walk(self.path("out")) for name in names if name.endswith(".png")]
        self.assertGreaterEqual(len(pictures), 2)


if __name__ == "__main__":
    unittest.main()
