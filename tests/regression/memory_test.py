#!/usr/bin/python3
"""Memory of a run: at most four copies of the state, plus half a copy (u* in single precision) if a front is tracked. Newer PETSc holds
another: TSStep keeps the state from which a step began (3.18 does not, 3.22 does).
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

BINARY = os.environ.get("FLUXFORMER_BINARY", os.path.join(os.path.dirname(__file__), "..", "..", "build", "bin", "fluxformer"))
TOKENS, WIDTH, SAMPLES = 49, 16, 128


def copies_of_petsc():
    """Held by TSStep besides those of its method."""
    said = subprocess.run([BINARY, "--version"], check=True, capture_output=True, text=True).stdout
    return 0 if int(re.search(r"petsc = 3\.(\d+)", said).group(1)) <= 18 else 1


def peak(arguments):
    """Peak resident memory of one run in bytes, as reported by the kernel for a child process that ran nothing else."""
    watcher = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)")
    return int(subprocess.run([sys.executable, "-c", watcher, BINARY, *arguments], check=True, capture_output=True,
                              text=True).stdout)


class MemoryTest(unittest.TestCase):
    def copies(self, method, threshold):
        """Number of copies of the state that a run holds, but for PETSc's own, from the increase with depth, so that libraries do not count."""
        with tempfile.TemporaryDirectory() as folder:
            def run(layers):
                return peak(["evolve", "--quiet", f"--mesh.layers={layers}", f"--mesh.tokens_x={TOKENS}", "--model.kind=pde",
                             "--model.knots=2", f"--model.width={WIDTH}", "--model.ffn=16", "--inflow.source=noise",
                             f"--inflow.samples={SAMPLES}", f"--evolve.method={method}", "--evolve.cfl=1",
                             "--evolve.time=2", f"--front.threshold={threshold}", "--output.fields=none",
                             f"--output.file={folder}/{layers}.h5"])
            few, many = 6, 36
            state = 8 * (many - few) * TOKENS * WIDTH * SAMPLES
            return (run(many) - run(few)) / state - copies_of_petsc()

    # 0.15 margin: the weights of each cell (0.02 copies here) and allocator overhead.
    def test_euler_holds_three_copies(self):
        self.assertLess(self.copies("euler", 0), 3.15)

    def test_ssp_holds_four_copies(self):
        self.assertLess(self.copies("ssp", 0), 4.15)

    def test_a_front_costs_half_a_copy(self):
        self.assertLess(self.copies("ssp", 0.05), 4.65)


if __name__ == "__main__":
    unittest.main()
