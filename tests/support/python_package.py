"""The Python package `fluxformer` (postprocess/) as its tests call it: the path to it, its command line, a folder for each test."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
POSTPROCESS = os.path.join(ROOT, "postprocess")
# As from a shell without a display.
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MPLBACKEND")},
               "PYTHONPATH": POSTPROCESS, "PYTHONDONTWRITEBYTECODE": "1"}
TIMEOUT = 1000  # seconds; on a quiet machine a command takes a second, mypy half a minute
COMMAND = [sys.executable, "-m", "fluxformer"]

sys.dont_write_bytecode = True
sys.path.insert(0, POSTPROCESS)


def start(*arguments, **how):
    """`python3 -m fluxformer ARGUMENTS` in a Python of its own."""
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False,
                          **{"timeout": TIMEOUT, "env": ENVIRONMENT, **how})


def call(*arguments):
    """Runs `python3 -m fluxformer ARGUMENTS` in this Python, which saves the second that a new one takes to begin."""
    from fluxformer.__main__ import main
    code, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*map(str, arguments)])
        except SystemExit as end:
            code = end.code or 0
    return types.SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def assert_picture(test, path):
    """path.png and path.pdf are a figure of the usual width, with something in it."""
    import matplotlib.image
    picture = matplotlib.image.imread(path + ".png")
    test.assertGreater(picture.shape[1], 1000)
    test.assertGreater(picture[..., :3].std(), 0.02, "an empty picture")
    with open(path + ".pdf", "rb") as stream:
        test.assertEqual(stream.read(5), b"%PDF-")


def write_checkpoint(path):
    """A file that is a checkpoint to readers: a schema and the state of a run, without a record of it."""
    import h5py
    with h5py.File(path, "w") as file:
        file.attrs["schema_version"] = 1
        file.create_group("state").attrs["complete"] = 1
    return path


class FolderTest(unittest.TestCase):
    """Each test has a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def assert_refused(self, result, *words):
        """One line that says why, and status 2."""
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
