#!/usr/bin/env python3
"""PETSc's log shows where a run spends its time: communication phases and parts of a layer are events."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from program import ProgramTest  # noqa: E402 (the folder is put on the path first)


class LogEvents(ProgramTest):
    def test_phases_and_pieces_are_events_of_the_log(self):
        log = os.path.join(self.folder, "log.txt")
        end = self.run_program("evolve", "small.ini", "--mesh.ranks_token=2", "--depth.scheme=upwind", "--equation.kappa=0.1", "--equation.nu=0.1",
                               "--output.file=logged.h5", ranks=2, environment={"PETSC_OPTIONS": f"-log_view :{log}"})
        self.assertEqual(end.code, 0, end)
        with open(log, encoding="utf-8") as stream:
            rows = [line.split() for line in stream if line.startswith("Flux")]
        counts = {row[0]: int(re.match(r"\d+", row[1]).group()) for row in rows}
        self.assertEqual(set(counts), {"FluxGhosts", "FluxRing", "FluxReduction", "FluxOutput", "FluxAttention",
                                       "FluxReaction", "FluxTokenDiff", "FluxTokenTrans"})
        self.assertTrue(all(count > 0 for count in counts.values()), counts)
        self.assertEqual(counts["FluxAttention"], counts["FluxReaction"])  # one of each per layer and stage


if __name__ == "__main__":
    unittest.main()
