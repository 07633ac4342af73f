#!/usr/bin/env python3
"""Studies on a real SLURM with two virtual nodes: a job for each run, and for each stage of a comparison, after those that it needs.

Both studies are submitted at the start, so that their jobs run concurrently. Status 77 if SLURM is not installed.
"""

import concurrent.futures
import os
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cluster import Cluster, skip_without_slurm  # noqa: E402 (the folder is put on the path first)
from described import experiments_of  # noqa: E402
from held_back import Hold  # noqa: E402
from program import ROOT, ProgramTest  # noqa: E402

STUDY = "jobscripts/study.sh"
WITHOUT = ",".join(("normed", "distilled", "converged", "evolve", *(name for name in experiments_of("compare") if name != "attention")))
# A comparison of two seeds, whose trainings take a second, and a run of the model of another.
TABLE = f"""
digits   -        compare input/compare --seeds 1-2 --without {WITHOUT} --model.width=8 --model.ffn=8 --train.samples=64 \
--train.test_samples=16 --train.batch=16 --train.epochs=3 --samples.count=8 --attention.matching=4
trained  -        train train.ini
state    trained  evolve small.ini --model.file=OUT/trained/result.h5
"""
# The state of the second run becomes larger than it may.
FAILING = """
good     -        evolve small.ini
bad      -        evolve small.ini --evolve.max_norm=1e-3
after    bad      evolve small.ini --model.file=OUT/bad/result.h5
"""
FIRST = "digits_trainings_1"  # its job is interrupted


def setUpModule():
    global site, jobs, asked, failing, driven, hold
    site = Cluster(nodes=2, cpus=6)
    unittest.addModuleCleanup(site.stop)
    for folder in (".ci", "input"):
        os.symlink(os.path.join(ROOT, folder), site.path(folder))
    site.write("table.txt", TABLE)
    site.write("failing.txt", FAILING)
    hold = Hold("rename", "transformer_1.checkpoint.h5", 2)
    unittest.addModuleCleanup(hold.end)
    pool = concurrent.futures.ThreadPoolExecutor(1)
    unittest.addModuleCleanup(pool.shutdown)
    jobs = submitted(site.told(STUDY, "--time=5", "--hold", "table.txt", "out/study", **hold.environment))
    asked = {name: site.job(job)["Dependency"] for name, job in jobs.items()}
    for job in jobs.values():
        site.told("scontrol", "release", job)
    driven = pool.submit(interrupt)
    failing = submitted(site.told(STUDY, "failing.txt", "out/failing"))


def submitted(said):
    """{name: number} of the jobs that the script says it has submitted."""
    found = {name: job for job, name in re.findall(r"^job (\d+) (\w+)", said, re.MULTILINE)}
    end = re.search(r"^to cancel: scancel (.*)$", said, re.MULTILINE).group(1)
    assert end.split() == list(found.values()), said
    return found


def interrupt():
    """Signals a training as the time limit does, and skips the two minutes that a requeued job waits; what the others did then."""
    job = jobs[FIRST]
    site.until(lambda: hold.seen("held"), "the first training")
    site.told("scancel", "--batch", "--signal=USR1", job)
    site.until(lambda: hold.seen("woken"), "the signal")
    hold.let_go()
    site.until(lambda: site.job(job)["JobState"] == "PENDING" and site.job(job)["Restarts"] == "1", "the restart")
    others = [site.job(jobs[name])["JobState"] for name in ("digits_attention", "report")]
    site.told("scontrol", "update", "JobId=" + job, "StartTime=now+8")
    return others


def log(study, name):
    return site.read(f"out/{study}/{name}-{(jobs if study == 'study' else failing)[name]}.log")


def queue():
    return sorted(site.told("squeue", "-h", "-t", "all", "-o", "%i").split(), key=int)


class Studies(ProgramTest):
    def setUp(self):
        self.folder = site.project

    def assert_done(self, name):
        ended = site.ended(jobs[name])
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("COMPLETED", "0:0"), name + log("study", name))
        return ended

    def test_each_job_waits_for_those_that_it_needs(self):
        needed = {"digits_trainings_1": (), "digits_trainings_2": (), "digits_attention": ("digits_trainings_1", "digits_trainings_2"),
                  "trained": (), "state": ("trained",)}
        self.assertEqual({*jobs}, {*needed, "report"})
        for name, others in (*needed.items(), ("report", needed)):
            kind = "afterany" if name == "report" else "afterok"
            waits = re.findall(rf"{kind}:(\d+)", asked[name])
            self.assertEqual(sorted(waits, key=int), sorted((jobs[one] for one in others), key=int), f"{name}: {asked[name]}")
            ended = self.assert_done(name)
            for one in others:
                self.assertGreaterEqual(ended["StartTime"], site.job(jobs[one])["EndTime"], f"{name} after {one}")
        self.assertEqual(site.job(jobs["trained"])["TimeLimit"], "00:05:00")

    def test_what_the_time_limit_stops_continues_and_the_others_wait(self):
        self.assertEqual(driven.result(), ["PENDING", "PENDING"])
        self.assertEqual(self.assert_done(FIRST)["Restarts"], "1")
        self.assertEqual([log("study", FIRST).count(f"ended with exit code {code}") for code in (4, 0)], [1, 1], log("study", FIRST))
        self.assertIn("continuing from", site.read("out/study/digits/transformer_1.log"))
        with self.open("out/study/digits/transformer_1.h5") as result:
            self.assertEqual((result.attrs["status"], result["step"].size), ("done", 3 * 3))

    def test_a_finished_study_has_its_page_and_is_not_submitted_again(self):
        self.assert_done("report")
        page = site.read("out/study/report.html")
        for file in ("digits/attention.h5", "digits/transformer_2.h5", "state/result.h5"):
            self.assertIn("out/study/" + file, page)
        before = queue()
        self.assertEqual(site.told(STUDY, "table.txt", "out/study"), f"all is finished: {self.path('out/study')}/report.html\n")
        self.assertEqual(queue(), before)

    def test_a_failure_stops_what_needs_it_and_is_named_beside_the_page(self):
        ended = site.ended(failing["report"])
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("FAILED", "1:0"))
        self.assertEqual([site.job(failing[name])["JobState"] for name in ("good", "bad", "after")], ["COMPLETED", "FAILED", "CANCELLED"])
        self.assertIn("not in the report, as they are not finished (their logs say why): bad after\n", log("failing", "report"))
        self.assertIn("evolve.max_norm", log("failing", "bad"))
        self.assertIn("out/failing/good/result.h5", site.read("out/failing/report.html"))
        again = site.told(STUDY, "--dry-run", "--ntasks=1", "failing.txt", "out/failing")
        start = f"cd {site.project} && sbatch --account=tests --comment=site --output=out/failing/%x-%j.log --ntasks=1 --parsable "
        evolve = "jobscripts/chain.sbatch evolve small.ini"
        self.assertEqual(again.splitlines(), [
            f"{start}--job-name=bad {evolve} --evolve.max_norm=1e-3 --output.overwrite=true --output.file=out/failing/bad/result.h5",
            f"{start}--dependency=afterok:JOB1 --job-name=after {evolve} --model.file=out/failing/bad/result.h5 --output.overwrite=true "
            "--output.file=out/failing/after/result.h5",
            f"{start}--dependency=afterany:JOB1:JOB2 --job-name=report --nodes=1 --ntasks=1 jobscripts/report.sbatch --data data "
            "failing.txt out/failing"])

    def test_wrong_use_is_one_clear_line_before_anything_is_submitted(self):
        held = submitted(site.told(STUDY, "--hold", "failing.txt", "out/held", "--mesh.layers=3"))
        before = queue()
        site.write("key.txt", FAILING + "typing   -  evolve small.ini --evolve.cfll=1\n")
        for words, what in ((("failing.txt", "out/held", "--mesh.layers=3"), "jobs of this study are still in the queue: wait for them, or scancel "
                             + " ".join(held.values())),
                            (("--array=1-2", "failing.txt", "out/wrong"), "--array=1-2: the script sets this itself"),
                            (("--ranks", "2", "failing.txt", "out/wrong"), "--ranks: only with --local"),
                            (("key.txt", "out/wrong"), "key.txt, row typing: fluxformer: evolve.cfll: unknown key")):
            with self.subTest(words):
                done = site.call(STUDY, *words)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertTrue(done.stderr.startswith("study.sh: " + what), done.stderr)
        self.assertEqual(queue(), before)
        self.assertFalse(os.path.exists(self.path("out/wrong")))
        site.told("scancel", *held.values())

    def test_what_cannot_all_be_submitted_is_taken_back(self):
        before = queue()
        # An sbatch that the third job is too much for.
        os.mkdir(self.path("bin"))
        site.write("bin/sbatch", '#!/bin/sh\necho >>submissions\n[ $(wc -l <submissions) -lt 3 ] && exec '
                                 f'{shutil.which("sbatch", path=site.environment["PATH"])} "$@"\necho "sbatch: no" >&2\nexit 1\n')
        os.chmod(self.path("bin/sbatch"), 0o755)
        done = site.call(STUDY, "--hold", "failing.txt", "out/back", PATH=self.path("bin") + ":" + site.environment["PATH"])
        self.assertNotEqual(done.returncode, 0)
        new = [job for job in queue() if job not in before]
        self.assertEqual(done.stderr, f"sbatch: no\nstudy.sh: not all could be submitted; cancelling those that were: {' '.join(new)}\n")
        self.assertEqual([site.ended(job)["JobState"] for job in new], ["CANCELLED"] * 2)
        self.assertFalse(os.path.exists(self.path("out/back/jobs")))


if __name__ == "__main__":
    skip_without_slurm()
    unittest.main()
