#!/usr/bin/env python3
"""docs/reference, the keys of docs/guide and postprocess/fluxformer/experiments.json match the program's description. Files of every experiment are
compared with it in the tests of that experiment (described.undescribed)."""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from described import description, entries  # noqa: E402 (the folder is put on the path first)
from program import BINARY, ROOT, ProgramTest  # noqa: E402


class OutputFormat(ProgramTest):
    def test_documents_are_made_from_what_the_program_says(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "docs", "describe.py"), BINARY, "--check"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_every_axis_of_a_variable_is_a_coordinate_of_the_same_file(self):
        for experiment in description()["experiments"]:
            paths = {one["path"] for one in experiment["variables"]}
            for one in experiment["variables"]:
                if one["path"].startswith(("/model/", "/state/", "/optimiser/")):  # sizes without coordinates
                    continue
                for axis in one["axes"]:
                    known = "/" + axis in paths or axis.startswith("extent_") or axis == "transformer_depth" and "/<model>_depth" in paths
                    self.assertTrue(known, (experiment["name"], one))

    def test_keys_are_those_of_help(self):
        for experiment in description()["experiments"]:
            text = subprocess.run([BINARY, experiment["name"], "--help"], check=True, capture_output=True, text=True).stdout
            for key in experiment["keys"]:
                self.assertIn(f"  {key['name']} =", text)

    def test_one_experiment_alone_can_be_asked_for(self):
        text = subprocess.run([BINARY, "evolve", "--describe=json"], check=True, capture_output=True, text=True).stdout
        self.assertEqual([one["name"] for one in json.loads(text)["experiments"]], ["evolve"])

    def test_a_name_that_is_not_described_is_found(self):
        self.assertTrue(any(pattern.match("/field/u") for pattern, _ in entries("evolve")))
        self.assertFalse(any(pattern.match("/field/v") for pattern, _ in entries("evolve")))


if __name__ == "__main__":
    unittest.main()
