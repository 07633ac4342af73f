#!/usr/bin/env python3
"""What cmake --install makes runs from anywhere: the program, decks, the Python package and job scripts of a tree that was moved."""

import os
import re
import shutil
import subprocess
import sys
import unittest

from program import BINARY, ENVIRONMENT, MPIEXEC, TIMEOUT, ProgramTest

BUILD = os.path.dirname(os.path.dirname(BINARY))
# As env -i would leave it, but for what MPI needs as root and on few cores.
MPI = {name: value for name, value in ENVIRONMENT.items() if name.startswith(("OMPI_", "PRTE_")) or name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


class InstalledTree(ProgramTest):
    def setUp(self):
        super().setUp()
        first, self.tree = self.path("first"), self.path("a moved tree")
        self.ended("cmake", "--install", BUILD, "--prefix", first, "--component", "program", environment=ENVIRONMENT)
        os.rename(first, self.tree)

    def ended(self, *words, code=0, folder=None, environment=None):
        """Standard output of a command, found on a PATH of the tree and /usr/bin alone."""
        if environment is None:
            environment = {"PATH": f"{self.tree}/bin:/usr/bin", "HOME": self.folder, **MPI}
        path = shutil.which(words[0], path=environment["PATH"])
        end = subprocess.run([path, *words[1:]], cwd=folder or self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, check=False, timeout=TIMEOUT)
        self.assertEqual(end.returncode, code, f"{words}\n{end.stdout}{end.stderr}")
        return end.stdout

    def test_it_runs_where_it_was_moved_to(self):
        share = os.path.join(self.tree, "share", "fluxformer")
        with self.subTest("the program says its version"):
            self.assertRegex(self.ended("fluxformer", "--version"), r"\d+\.\d+\.\d+")
        with self.subTest("a deck of the tree on two ranks"):
            self.ended(shutil.which(MPIEXEC), "-n", "2", "fluxformer", "evolve", os.path.join(share, "input/evolve/evolve.ini"),
                       "--mesh.layers=2", "--model.width=8", "--model.ffn=12", "--evolve.time=4", "--output.file=out.h5")
        with self.subTest("figures, by the program and by the package alone"):
            self.assertIn("front.png", self.ended("fluxformer", "plot", "out.h5", "--output", "figures"))
            self.assertTrue(os.path.exists(self.path("figures/front.png")))
            self.assertIn("front.png", self.ended("fluxformer-tools", "plot", "out.h5", "--output", "again"))
        with self.subTest("both by a link from another folder"):
            for program, words in (("fluxformer", ("plot", "--help")), ("fluxformer-tools", ())):
                os.symlink(os.path.join(self.tree, "bin", program), self.path(program))
                self.assertIn("plot FILE", self.ended(self.path(program), *words))
        with self.subTest("another Python, and one that is not there"):
            environment = {"PATH": f"{self.tree}/bin:/usr/bin", "FLUXFORMER_PYTHON": sys.executable}
            self.assertIn("plot FILE", self.ended("fluxformer-tools", environment=environment))
            self.assertIn("plot FILE", self.ended("fluxformer", "plot", "--help", environment=environment))
            self.ended("fluxformer-tools", environment={**environment, "FLUXFORMER_PYTHON": "/none"}, code=127)
            self.ended("fluxformer", "plot", "--help", environment={**environment, "FLUXFORMER_PYTHON": "/none"}, code=2)
        with self.subTest("the manual page and completion"):
            with open(os.path.join(share, "..", "man", "man1", "fluxformer.1"), encoding="utf-8") as stream:
                self.assertIn("\\fBevolve\\fR", stream.read())
            script = os.path.join(share, "..", "bash-completion", "completions", "fluxformer")
            loop = '. "$1"; COMP_WORDS=(fluxformer evolve --mesh.la) COMP_CWORD=2; _fluxformer; echo "${COMPREPLY[@]}"'
            self.assertEqual(self.ended("bash", "-c", loop, "bash", script), "--mesh.layers=\n")
        with self.subTest("job scripts, in a copy that is a folder to work in"):
            shutil.copytree(share, self.path("work"))
            said = self.ended(os.path.join(self.folder, "work/jobscripts/submit.sh"), "--dry-run", "--ntasks=2", "jobscripts/run.sbatch", "evolve",
                              "input/evolve/evolve.ini", environment={"PATH": f"{self.tree}/bin:/usr/bin:/bin", "FLUXFORMER_BIN": "fluxformer"})
            self.assertIn("sbatch --ntasks=2", said)
        with self.subTest("documents, and what their links lead to"):
            documents = os.path.join(self.tree, "share", "doc", "fluxformer")
            self.assertTrue(os.path.exists(os.path.join(documents, "LICENSE")))
            with open(os.path.join(documents, "README.md"), encoding="utf-8") as stream:
                links = re.findall(r"\]\(([\w./-]+)", stream.read())
            self.assertGreater(len(links), 10)
            self.assertEqual([link for link in links if not os.path.exists(os.path.join(documents, link))], [])

    def test_it_names_neither_the_source_nor_the_build(self):
        """Texts of the tree and the run path of the program: no folder of the place where it was made."""
        where = [BUILD, os.path.realpath(BUILD), os.environ.get("FLUXFORMER_SOURCE_DIR") or BUILD]
        for folder, _, names in os.walk(self.tree):
            for name in names:
                path = os.path.join(folder, name)
                if path != os.path.join(self.tree, "bin", "fluxformer"):
                    with open(path, "rb") as stream:
                        text = stream.read()
                    self.assertFalse([one for one in where if one.encode() in text], path)
        said = subprocess.run(["readelf", "-d", os.path.join(self.tree, "bin", "fluxformer")], capture_output=True, text=True, check=True).stdout
        for line in re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", said):
            for folder in filter(None, line.split(":")):
                self.assertTrue(os.path.isabs(folder) and os.path.isdir(folder), line)
                self.assertFalse([one for one in where if folder.startswith(one)], line)
                # Debian's alternatives choose one OpenBLAS for all libraries: with another one PETSc's liblapack does not start.
                self.assertNotIn("openblas", os.path.basename(folder))

    def test_the_program_comes_without_headers_and_libraries(self):
        self.assertEqual(sorted(os.listdir(self.tree)), ["bin", "share"])
        self.assertEqual(sorted(os.listdir(os.path.join(self.tree, "bin"))), ["fluxformer", "fluxformer-tools"])
        self.assertFalse([folder for folder, _, _ in os.walk(self.tree) if folder.endswith("__pycache__")])


if __name__ == "__main__":
    unittest.main()
