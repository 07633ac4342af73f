"""Runs jobscripts/study.sh on this machine, and looks at what it has made. Shared by the scripts of this folder."""

import glob
import os
import re
import subprocess

from held_back import HeldBackTest
from processes import kill_all
from program import BINARY, ENVIRONMENT, ROOT, TIMEOUT


class StudyTest(HeldBackTest):
    def start_study(self, *words, environment=None):
        """The script, on this machine, in a session of its own."""
        return subprocess.Popen([os.path.join(ROOT, "jobscripts", "study.sh"), "--local", *words], cwd=ROOT, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env={**ENVIRONMENT, "FLUXFORMER_BIN": BINARY, **(environment or {})})

    def study(self, *words, code=0):
        """What it says of each row: {name: lines}; the messages are in self.said."""
        process = self.start_study(*words)
        try:
            out, self.said = process.communicate(timeout=TIMEOUT)
        finally:
            kill_all(process.pid)
        self.assertEqual(process.returncode, code, out + self.said)
        stages = re.split(r"^== (.*)$", out, flags=re.MULTILINE)
        return dict(zip(stages[1::2], stages[2::2]))

    def table(self, *rows):
        return self.path(self.write("table.txt", "".join(rows)))

    def files(self):
        """When each result and page was written."""
        return {os.path.relpath(path, self.path("out")): os.stat(path).st_mtime_ns
                for end in ("*/*.h5", "report.html") for path in glob.glob(self.path("out/" + end))}

    def page(self):
        with open(self.path("out/report.html"), encoding="utf-8") as stream:
            return stream.read()
