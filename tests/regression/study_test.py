#!/usr/bin/env python3
"""jobscripts/study.sh --local with input/study.txt: results and a page; called again it only runs what is missing or out of date.

study_tables_test.py has smaller tables, tests/slurm/study_test.py submits one. Status 77 if matplotlib is not installed.
"""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import matplotlib  # noqa: F401 (needed by the report)
except ImportError as missing:
    print(f"NOT RUN: {missing}", file=sys.stderr)
    sys.exit(77)

from program import ROOT  # noqa: E402 (the folder is put on the path first)
from study_case import StudyTest  # noqa: E402

TABLE = "input/study.txt"


class SmallStudy(StudyTest):
    def test_it_becomes_a_page_and_only_what_is_missing_is_run_again(self):
        stages = self.study(TABLE, self.path("out"))
        rows = ["digits", "blocks", "markov", "network", "prune", "digits_1", "digits_2", "pruning"]
        self.assertEqual(list(stages), [*rows, "report", "summary"])
        results = [*(row + "/result.h5" for row in rows[1:]), *(f"digits/{name}.h5" for name in ("transformer_2", "pde_1", "attention"))]
        for name in results:
            with self.open("out/" + name) as result:
                self.assertEqual((result.attrs["status"], result.attrs["ranks"]), ("done", 2), name)
                self.assertEqual("out/" + name in self.page(), not name.startswith("digits_"), name)  # trainings for other rows
        self.assertEqual(self.open("out/digits/attention.h5")["seed"][...].tolist(), [1, 2])
        for heading in ("Perturbations", "Attention paths", "What was asked, what was found", "Everything at once"):
            self.assertIn(heading, self.page())
        before = self.files()
        again = self.study(TABLE, self.path("out"))
        self.assertEqual({name for name, text in again.items() if " is done" in text}, {*rows})
        self.assertEqual(self.files(), before)

        # The same study without most of its rows, whose figures take their time.
        with open(os.path.join(ROOT, TABLE), encoding="utf-8") as stream:
            few = self.table(*(line for line in stream if line.startswith(("digits_{seed} ", "pruning "))))
        os.remove(self.path("out/digits_2/result.h5"))
        again = self.study(few, self.path("out"))
        self.assertEqual({name for name, text in again.items() if " is done" in text}, {"digits_1"})
        new = {name for name, written in self.files().items() if before.get(name) != written and not re.search(r"\.\w+\.h5$", name)}
        self.assertEqual(new, {"report.html", "digits_2/result.h5", "pruning/result.h5"})


if __name__ == "__main__":
    unittest.main()
