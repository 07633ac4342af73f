#!/usr/bin/env python3
"""The Python package works from the source tree and after pip, and says in one line what is missing or wrong; its functions say what they do."""

import ast
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import TIMEOUT, ProgramTest  # noqa: E402
from python_package import ENVIRONMENT, POSTPROCESS, call, start  # noqa: E402


def public(body, place):
    """(place, node) of the functions, classes and methods that others may use."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield f"{place}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{place}.{node.name}")


def annotated(function):
    """True if result and arguments (except a method's first) have types."""
    signature = function.args
    arguments = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs, *filter(None, (signature.vararg, signature.kwarg))]
    return function.returns is not None and all(one.annotation or one.arg in ("self", "cls") for one in arguments)


class Package(ProgramTest):
    def test_after_pip_it_draws_and_opens_what_the_program_wrote(self):
        self.evolve("--output.file=out.h5")
        bare = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}

        def call(*arguments):
            end = subprocess.run(arguments, cwd=self.folder, capture_output=True, text=True, env=bare, timeout=TIMEOUT)
            self.assertEqual(end.returncode, 0, end.stdout + end.stderr)
            return end.stdout

        call(sys.executable, "-m", "venv", "--system-site-packages", "env")
        # From a copy: setuptools leaves a folder beside what it builds. No index: nothing is downloaded.
        call("cp", "-r", POSTPROCESS, "source")
        call("env/bin/pip", "install", "--quiet", "--no-index", "--no-build-isolation", "./source")
        self.assertIn("front.png", call("env/bin/fluxformer-tools", "plot", "out.h5"))
        self.assertIn("report.html", call("env/bin/fluxformer-tools", "report", "out.h5"))
        with open(self.path("report.html"), encoding="utf-8") as stream:
            page = stream.read()
        self.assertIn("<style>\n:root {", page)  # templates and style sheet are installed, too
        self.assertEqual(page.count("<svg"), 1)
        found = json.loads(call("env/bin/python", "-c", "import fluxformer, json; data = fluxformer.open('out.h5', 'history')\n"
                                "print(json.dumps([fluxformer.__file__, data['norm'].shape]))"))
        self.assertIn(os.path.join("env", "lib"), found[0])
        with self.open("out.h5") as file:
            self.assertEqual(tuple(found[1]), file["history/norm"].shape)

    def test_it_teaches_and_refuses_in_one_line(self):
        self.assertIn("plot FILE", start().stdout)
        for command in ("plot", "view", "report", "predict", "import", "tokens", "text", "export", "convert"):
            end = start(command, "--help")
            self.assertEqual((end.returncode, end.stderr), (0, ""))
            self.assertIn(f"fluxformer {command}", end.stdout)
        for arguments, word in ((("plto",), "there are plot, view, report, predict, import, tokens, text, export, convert"), (("plot", "none.h5"), "no such file"),
                                (("report", "none.h5"), "no such file"), (("predict", "none.h5"), "no such file")):
            end = start(*arguments, cwd=self.folder)
            self.assertEqual((end.returncode, len(end.stderr.splitlines())), (2, 1), end.stderr)
            self.assertIn(word, end.stderr)

    def test_a_missing_module_is_named_with_its_package(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "h5py.py"), "w", encoding="utf-8") as stream:
                stream.write("raise ModuleNotFoundError('no h5py', name='h5py')\n")
            end = start("plot", "a.h5", env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join((folder, POSTPROCESS))})
        self.assertEqual((end.returncode, len(end.stderr.splitlines())), (2, 1), end.stderr)
        self.assertIn("python3-h5py", end.stderr)

    def test_odd_files_end_in_one_line(self):
        self.evolve("--output.file=good.h5", "--output.fields=none")

        def delete(name):
            return lambda file: file.attrs.__delitem__(name) if name in file.attrs else file.__delitem__(name)

        def replace(name, value):
            return lambda file: file.attrs.__setitem__(name, value)

        def fill(name):
            return lambda file: file[name].__setitem__(..., np.nan)

        def shrink(name):
            def change(file):
                del file[name]
                file[name] = 1.0
            return change

        cases = {"no settings": (delete("settings"), 0), "no ranks": (delete("ranks"), 0), "a number as settings": (replace("settings", 3), "settings"),
                 "a number as command line": (replace("command_line", 2.5), "command_line"), "no experiment": (delete("experiment"), "experiment"),
                 "TeX in the command line": (replace("command_line", "fluxformer evolve $\\frac$ $_^"), 0),
                 "no axis": (delete("depth"), "/depth"), "no norm": (delete("history/norm"), 0),
                 "a single number as norm": (shrink("history/norm"), "does not hold"), "all NaN": (fill("history/norm"), 0)}
        for name, (change, outcome) in cases.items():
            with self.subTest(name):
                shutil.copy(self.path("good.h5"), self.path("odd.h5"))
                with h5py.File(self.path("odd.h5"), "r+") as file:
                    change(file)
                end = call("plot", self.path("odd.h5"))
                if outcome == 0:
                    self.assertEqual((end.returncode, end.stderr), (0, ""))
                else:
                    self.assertEqual((end.returncode, len(end.stderr.splitlines())), (2, 1), end.stderr)
                    self.assertIn(outcome, end.stderr)

    def test_what_is_public_has_a_docstring_and_types(self):
        seen = 0
        for path in sorted(glob.glob(os.path.join(POSTPROCESS, "fluxformer", "**", "*.py"), recursive=True)):
            place = os.path.relpath(path, os.path.join(POSTPROCESS, "fluxformer"))
            with open(path, encoding="utf-8") as stream:
                module = ast.parse(stream.read())
            if not module.body:
                continue
            self.assertTrue(ast.get_docstring(module), place)
            for name, node in public(module.body, place):
                with self.subTest(name):
                    seen += 1
                    self.assertTrue(ast.get_docstring(node), "no docstring")
                    self.assertTrue(isinstance(node, ast.ClassDef) or annotated(node), "not all types are given")
        self.assertGreater(seen, 100)

    def test_no_module_imports_itself_through_others(self):
        """Imports have no circle; those for types alone and those inside functions count, too."""
        paths = glob.glob(os.path.join(POSTPROCESS, "fluxformer", "**", "*.py"), recursive=True)
        names = {os.path.relpath(path, POSTPROCESS).removesuffix(".py").removesuffix("/__init__").replace(os.sep, "."): path for path in paths}
        imports = {}
        for name, path in names.items():
            with open(path, encoding="utf-8") as stream:
                nodes = list(ast.walk(ast.parse(stream.read())))
            found = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
            for node in nodes:
                if isinstance(node, ast.ImportFrom):
                    self.assertEqual(node.level, 0, f"{path}: an import relative to its folder")
                    found |= {f"{node.module}.{one.name}" if f"{node.module}.{one.name}" in names else node.module for one in node.names}
            imports[name] = found & set(names)
        self.assertGreater(sum(map(len, imports.values())), 100)
        while free := [name for name, needed in imports.items() if not needed & set(imports)]:
            for name in free:
                del imports[name]
        self.assertEqual(imports, {}, "a circle, or what needs one")

    def test_no_module_stands_apart(self):
        """Every module of the package is found by pip: folders have an __init__.py."""
        for path in glob.glob(os.path.join(POSTPROCESS, "fluxformer", "**", "*.py"), recursive=True):
            self.assertTrue(os.path.exists(os.path.join(os.path.dirname(path), "__init__.py")), path)


if __name__ == "__main__":
    unittest.main()
