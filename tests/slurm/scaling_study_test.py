#!/usr/bin/env python3
"""Scaling studies on a real SLURM with two virtual nodes: one job per size in sequence, and one that plots them.

All studies are submitted at the start, so that their jobs run concurrently. Status 77 if SLURM is not installed.
"""

import glob
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cluster import Cluster, skip_without_slurm  # noqa: E402 (the folder is put on the path first)
from program import SCALING_DECK, ProgramTest  # noqa: E402

STRONG, WEAK = "jobscripts/strong_scaling.sh", "jobscripts/weak_scaling.sh"


def setUpModule():
    global site, studies
    site = Cluster(nodes=2, cpus=6)
    unittest.addModuleCleanup(site.stop)
    site.write("tiny.ini", SCALING_DECK.replace("layers = 6", "layers = 3"))
    # By mode and number of ranks; 0 is the plotting job.
    studies = {"strong": study(STRONG, "--time=5", "tiny.ini", "1 2 3"),
               "weak": study(WEAK, "--nodes=2", "--quiet", "tiny.ini", "2,1", "--scaling.study=grown"),
               "one cannot run": study(STRONG, "tiny.ini", "2 4 1", "--mesh.layers=2"),
               "none can run": study(STRONG, "tiny.ini", "3", "--mesh.layers=2")}


def study(*words):
    """Submits a study; returns {ranks: job}, with 0 for the plotting job."""
    said = site.told(*words)
    jobs = {int(ranks or 0): job for job, ranks in re.findall(r"^job (\d+)  (?:ranks (\d+)$)?", said, re.MULTILINE)}
    end = re.search(r"^to cancel: scancel (.*)$", said, re.MULTILINE).group(1)
    assert end.split() == list(jobs.values()), said
    return jobs


def queue():
    return sorted(site.told("squeue", "-h", "-t", "all", "-o", "%i").split(), key=int)


class ScalingStudies(ProgramTest):
    def setUp(self):
        self.folder = site.project

    def log(self, name, job):
        return site.read(f"{name}-{job}.log")

    def assert_done(self, name, log):
        ended = site.ended(studies[name][0])
        self.assertEqual((ended["JobState"], ended["ExitCode"], ended["NumTasks"]), ("COMPLETED", "0:0", "1"), log)

    def assert_drawn(self, folder, log, sizes):
        """A table with a row for each number of ranks; figures; the table as numbers."""
        for ranks in sizes:
            self.assertRegex(log, rf"(?<!\S){ranks}(?!\S).*\d\.\d")
        self.assertTrue(glob.glob(self.path(folder + "/figures/*.png")), log)
        self.assertTrue(glob.glob(self.path(folder + "/figures/*.csv")), log)

    def test_a_strong_study_runs_its_sizes_in_turn_and_draws_them(self):
        jobs = studies["strong"]
        folder = "out/tiny_strong-" + jobs[1]
        log = self.log("tiny_strong", jobs[0]) if site.ended(jobs[0]) else ""
        self.assert_done("strong", log)
        self.assert_drawn(folder, log, (1, 2, 3))
        before = None
        for ranks in (1, 2, 3):
            ended = site.job(jobs[ranks])
            self.assertEqual((ended["NumTasks"], ended["TimeLimit"], ended["Account"]), (str(ranks), "00:05:00", "tests"))
            self.assertIn("ended with exit code 0", self.log(f"tiny_strong_{ranks}", jobs[ranks]))
            with self.open(f"{folder}/ranks_000{ranks}.h5") as result:
                self.assertEqual((result.attrs["ranks"], result["scaling"].attrs["mode"], result["scaling"].attrs["layers"]), (ranks, "strong", 3))
            if before:
                self.assertGreaterEqual(ended["StartTime"], before["EndTime"])
            before = ended

    def test_a_weak_study_gives_each_rank_the_problem_of_the_deck(self):
        jobs = studies["weak"]
        folder = "out/tiny_weak-" + jobs[2]
        log = self.log("tiny_weak", jobs[0]) if site.ended(jobs[0]) else ""
        self.assert_done("weak", log)
        self.assert_drawn(folder, log, (1, 2))
        for ranks in (1, 2):
            with self.open(f"{folder}/ranks_000{ranks}.h5") as result:
                scaling = result["scaling"].attrs
                self.assertEqual((result.attrs["ranks"], scaling["mode"], scaling["layers"], scaling["study"]), (ranks, "weak", 3 * ranks, "grown"))

    def test_a_size_that_cannot_run_is_named_and_the_others_are_drawn(self):
        jobs = studies["one cannot run"]
        folder, ended = "out/tiny_strong-" + jobs[2], site.ended(jobs[0])
        log = self.log("tiny_strong", jobs[0])
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("FAILED", "1:0"), log)
        self.assert_drawn(folder, log, (1, 2))
        self.assertTrue(log.endswith(f"no results in {folder} on these numbers of ranks (the logs of their jobs say why): 4\n"), log)
        self.assertEqual([site.job(jobs[ranks])["ExitCode"] for ranks in (2, 4, 1)], ["0:0", "2:0", "0:0"])
        self.assertIn("every rank needs a cell", self.log("tiny_strong_4", jobs[4]))

    def test_a_study_without_results_says_so(self):
        jobs = studies["none can run"]
        ended = site.ended(jobs[0])
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("FAILED", "1:0"))
        self.assertEqual(self.log("tiny_strong", jobs[0]), f"plot_scaling.sbatch: no results in out/tiny_strong-{jobs[3]} on these numbers of "
                                                           "ranks (the logs of their jobs say why): 3\n")

    def test_a_dry_run_prints_what_would_be_submitted(self):
        before = queue()
        printed = site.told(STRONG, "--dry-run", "--time=5", "tiny.ini", "1 2", "--mesh.layers=2")
        start = f"cd {site.project} && sbatch --account=tests --comment=site --time=5 --parsable "
        run = "jobscripts/run.sbatch scaling tiny.ini --mesh.layers=2 --scaling.mode=strong --output.file=out/tiny_strong"
        self.assertEqual(printed.splitlines(), [
            f"{start}--job-name=tiny_strong_1 --ntasks=1 {run}-%j/ranks_0001.h5",
            f"{start}--dependency=afterany:JOB1 --job-name=tiny_strong_2 --ntasks=2 {run}-JOB1/ranks_0002.h5",
            f"{start}--dependency=afterany:JOB1:JOB2 --job-name=tiny_strong --nodes=1 --ntasks=1 --time=00:10:00 "
            "jobscripts/plot_scaling.sbatch out/tiny_strong-JOB1 1 2"])
        self.assertEqual(queue(), before)

    def test_wrong_use_is_one_clear_line_before_anything_is_submitted(self):
        before = queue()
        for words, what in (((), "strong_scaling.sh: a deck (.ini or .h5) and the numbers of ranks are needed: jobscripts/strong_sc"),
                            (("tiny.ini",), "strong_scaling.sh: a deck (.ini or .h5) and the numbers"),
                            (("tiny.ini", ""), "strong_scaling.sh: no number of ranks"),
                            (("tiny.ini", "1 0"), "strong_scaling.sh: '0' is not a number of ranks"),
                            (("tiny.ini", "1 two"), "strong_scaling.sh: 'two' is not a number of ranks"),
                            (("tiny.ini", "1,-2"), "strong_scaling.sh: '-2' is not a number of ranks"),
                            (("tiny.ini", "1 2\n1"), "strong_scaling.sh: 1 is given twice"),
                            (("tiny.ini", "1", "2"), "strong_scaling.sh: '2' is not of the form --section.key=value"),
                            (("none.ini", "1 2"), "run.sbatch: no deck none.ini"),
                            (("--ntasks=3", "tiny.ini", "1"), "strong_scaling.sh: --ntasks=3: the script"),
                            (("tiny.ini", "1", "--output.file=a.h5"), "strong_scaling.sh: --output.file=a.h5: the script sets this")):
            with self.subTest(words):
                done = site.call(STRONG, *words)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertTrue(done.stderr.startswith(what), done.stderr)
        done = site.call(STRONG, "tiny.ini", "1", FLUXFORMER_PYTHON="false")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr, "plot_scaling.sbatch: false cannot plot: set FLUXFORMER_PYTHON in jobscripts/machine.sh\n")
        self.assertEqual(queue(), before)

    def test_what_cannot_all_be_submitted_is_taken_back(self):
        before = queue()
        done = site.call(WEAK, "--hold", "tiny.ini", "1 2 99")
        self.assertNotEqual(done.returncode, 0)
        submitted = [job for job in queue() if job not in before]
        self.assertEqual(len(submitted), 2, done)
        self.assertIn("weak_scaling.sh: not all could be submitted; cancelling those that were: " + " ".join(submitted), done.stderr)
        for job in submitted:
            self.assertEqual(site.ended(job)["JobState"], "CANCELLED")


if __name__ == "__main__":
    skip_without_slurm()
    unittest.main()
