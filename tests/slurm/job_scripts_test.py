#!/usr/bin/env python3
"""The job scripts on a real SLURM with three virtual nodes: normal use and user errors.

All jobs are submitted at the start, so that their waiting times overlap. Status 77 if SLURM is not installed.
"""

import concurrent.futures
import glob
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from cluster import Cluster, skip_without_slurm  # noqa: E402 (the folder is put on the path first)
from held_back import Hold  # noqa: E402
from program import ROOT, ProgramTest  # noqa: E402

# Tiny steps that never become steady.
LONG = ("evolve", "small.ini", "--evolve.method=ssp", "--evolve.cfl=0.25", "--evolve.time=96", "--output.history=7",
        "--output.every=12", "--inflow.every=0.75", "--checkpoint.every=6")
# In the middle of it.
MIDWAY = ("rename", ".checkpoint.h5", 3)
RUN, SWEEP, CHAIN = (f"jobscripts/{name}.sbatch" for name in ("run", "sweep", "chain"))
# A training whose depth is split among two ranks, then among two in each of two groups, then its tokens; the limit ends each part but the
# last after a step.
TRAINING = ("train", "train.ini", "--train.optimiser=sgd", "--train.epochs=1")
LIMIT = ("--run.time_limit=1e-6",)
GRIDS = ((2, ("--mesh.ranks_depth=2",), LIMIT), (4, ("--mesh.ranks_depth=2", "--train.micro_batches=3"), LIMIT), (2, ("--mesh.ranks_token=2",), ()))
# Python as the script of a job, and as one of its steps: it starts the program on all tasks of the job, or on some.
PYTHON = """#!/bin/bash
. jobscripts/machine.sh
export FLUXFORMER_BIN
%(python)s python.py batch all; %(python)s python.py batch 1
srun --mpi=pmix -n 1 %(python)s python.py step 2; srun -n 1 %(python)s python.py step 1
srun -n 2 %(python)s python.py twice 1
"""
SCRIPT = """import sys, fluxformer
name, ranks = sys.argv[1:]
try:
    with fluxformer.run("evolve", "small.ini", output=f"out/{name}-{ranks}.h5", ranks=None if ranks == "all" else int(ranks), progress=False) as data:
        print(name, ranks, data.attrs["ranks"])
except fluxformer.RunError as refused:
    print(name, refused)
"""
TABLE = """# four rows
--mesh.layers=2   --run.seed=3
--mesh.layers=3   # a comment behind

    # and one before
--mesh.layers=4
--mesh.layers=5 --evolve.time=5
"""


def setUpModule():
    global site, job, driven, held
    site = Cluster(nodes=3, cpus=6)
    unittest.addModuleCleanup(site.stop)
    site.write("table.txt", TABLE)
    pool = concurrent.futures.ThreadPoolExecutor(1)
    unittest.addModuleCleanup(pool.shutdown)
    held = {name: Hold(*MIDWAY) for name in ("chain", "cancelled", "cancelled mpirun", "killed")}
    for hold in held.values():
        unittest.addModuleCleanup(hold.end)
    job = {"chain": site.submit("--time=30", "--signal=B:USR1@1", CHAIN, *LONG, **held["chain"].environment)}
    job["after chain"] = site.submit("--ntasks=1", "--dependency=afterok:" + job["chain"], RUN, "evolve", "small.ini")
    driven = pool.submit(drive_the_chain)
    job["srun"] = site.submit("--nodes=2", "--export=NONE", RUN, "evolve", "small.ini")
    job["mpirun"] = site.submit("--nodes=2", RUN, "train", "train.ini", FLUXFORMER_LAUNCHER="mpirun")
    job["sweep"] = site.submit("--ntasks=1", SWEEP, "table.txt", "evolve", "small.ini")
    job["no such row"] = site.submit("--ntasks=1", "--array=5", SWEEP, "table.txt", "evolve", "small.ini")
    job["failing"] = site.submit("--hold", RUN, "evolve", "small.ini", "--mesh.layers=0")
    job["after failing"] = site.submit("--dependency=afterok:" + job["failing"], RUN, "evolve", "small.ini")
    job["after that"] = site.submit("--dependency=afterok:" + job["after failing"], RUN, "evolve", "small.ini")
    site.told("scontrol", "release", job["failing"])
    job["whole"] = site.submit(RUN, *LONG)
    # From inside a job that asked for its memory in another way.
    inside = ("salloc", "--ntasks=1", "--mem-per-cpu=100", "jobscripts/submit.sh", "--ntasks=1", "--mem=200", "--time=2", RUN, "evolve", "small.ini")
    job["inside"] = site.number(site.told(*inside))
    job["filled"] = site.submit("--nodes=2", "--ntasks-per-node=2", RUN, "evolve", "small.ini", "--mesh.layers=4")
    # As where an array has at most two rows.
    os.mkdir(site.path("few"))
    site.write("few/scontrol", "#!/bin/sh\necho 'MaxArraySize = 3'\n")
    os.chmod(site.path("few/scontrol"), 0o755)
    site.write("windows.txt", TABLE.replace("\n", "\r\n"))
    said = site.told("jobscripts/submit.sh", "--ntasks=1", SWEEP, "windows.txt", "evolve", "small.ini",
                     PATH=site.path("few") + ":" + site.environment["PATH"])
    job["first rows"], job["last rows"] = re.findall(r"^Submitted batch job (\d+)$", said, re.MULTILINE)
    job["cancelled"] = site.submit(CHAIN, *LONG, **held["cancelled"].environment)
    job["cancelled mpirun"] = site.submit(CHAIN, *LONG, FLUXFORMER_LAUNCHER="mpirun", **held["cancelled mpirun"].environment)
    job["killed"] = site.submit(RUN, *LONG, **held["killed"].environment)
    before = ()
    for number, (ranks, grid, stop) in enumerate(GRIDS):
        job[f"grid {number}"] = site.submit(f"--ntasks={ranks}", *before, RUN, *TRAINING, *grid, *stop, "--checkpoint.restart=auto",
                                            "--output.file=out/grids.h5")
        before = ("--dependency=afterany:" + job[f"grid {number}"],)
    site.write("python.py", SCRIPT)
    site.write("python.sh", PYTHON % {"python": sys.executable})
    job["python"] = site.number(site.told("sbatch", "--nodes=2", "--ntasks=2", "--output=python-%j.log", "python.sh", PYTHONPATH=os.path.join(ROOT, "postprocess")))
    job["one grid"] = site.submit("--ntasks=1", RUN, *TRAINING, "--output.file=out/grid.h5")


def log(name):
    return "".join(site.read(os.path.basename(path)) for path in glob.glob(site.path(f"*-{job[name]}.log")))


def out(name):
    return f"out/small-{job[name]}.h5"


def drive_the_chain():
    """Interrupts it by the time limit and by a signal, and skips the two minutes that a requeued job waits."""
    chain, hold, after = job["chain"], held["chain"], []

    def goes_on_and_ends(times):
        site.until(lambda: hold.seen("woken"), "the signal")
        hold.let_go()
        site.until(lambda: site.job(chain)["JobState"] == "PENDING" and site.job(chain)["Restarts"] == str(times), f"restart {times}")
        after.append(site.job(job["after chain"])["JobState"])

    def restart():
        # Not immediately: slurmd refuses steps of a job while it still clears up what ended.
        site.told("scontrol", "update", "JobId=" + chain, "StartTime=now+8", "TimeLimit=30")

    site.until(lambda: hold.seen("held"), "the chain's states")
    # The signal due one second before the limit is sent within a minute; the cluster lets a job overrun its limit by far.
    site.told("scontrol", "update", "JobId=" + chain, "TimeLimit=1")
    goes_on_and_ends(1)
    hold.again()
    restart()
    site.until(lambda: hold.seen("held"), "the chain's next states")
    site.told("scancel", "--batch", "--signal=USR1", chain)
    goes_on_and_ends(2)
    restart()
    return after


class JobScripts(ProgramTest):
    def setUp(self):
        self.folder = site.project

    def assert_done(self, name):
        ended = site.ended(job[name])
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("COMPLETED", "0:0"), log(name))
        return ended

    def test_python_starts_the_program_on_the_tasks_of_its_job(self):
        self.assert_done("python")
        said = [line for line in log("python").splitlines() if not line.startswith("srun: Warning")]  # that one task needs one node
        self.assertEqual(said[:4], ["batch all 2", "batch 1 1", "step 2 2", "step 1 1"], said)
        self.assertEqual(len([line for line in said[4:] if line.startswith("twice 2 copies of this script were started")]), 2, said)

    def test_a_run_is_spread_over_two_nodes_by_srun_and_by_mpirun(self):
        for name, file in (("srun", out("srun")), ("mpirun", f"out/train-{job['mpirun']}.h5")):
            ended = self.assert_done(name)
            self.assertEqual((ended["NumNodes"], ended["NumTasks"], ended["Account"]), ("2", "2", "tests"))
            with self.open(file) as result:
                self.assertEqual((result.attrs["status"], result.attrs["ranks"]), ("done", 2))
        self.assertNotEqual(site.call("scontrol", "requeue", job["srun"]).returncode, 0, "it would run again")

    def test_a_sweep_has_a_task_for_each_row(self):
        for row, settings in enumerate((("layers = 2", "seed = 3"), ("layers = 3",), ("layers = 4",), ("layers = 5", "time = 5")), 1):
            ended = site.ended(f"{job['sweep']}_{row}")
            self.assertEqual(ended["JobState"], "COMPLETED", ended)
            self.assertIn("ended with exit code 0", site.read(f"fluxformer-sweep-{job['sweep']}_{row}.log"))
            with self.open(f"out/small-{job['sweep']}_{row}.h5") as result:
                for setting in settings:
                    self.assertIn(setting + "\n", result.attrs["settings"] + "\n")
        self.assertIn("not found", site.call("scontrol", "show", "job", f"{job['sweep']}_5").stdout)
        ended = site.ended(job["no such row"])
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("FAILED", "2:0"))
        self.assertEqual(site.read(f"fluxformer-sweep-{job['no such row']}_5.log"),
                         "sweep.sbatch: table.txt has no row 5, it has rows 1 to 4\n")

    def test_a_sweep_in_two_arrays_names_its_files_by_row(self):
        for row, (array, index) in enumerate((("first rows", 1), ("first rows", 2), ("last rows", 1), ("last rows", 2)), 1):
            ended = site.ended(f"{job[array]}_{index}")
            self.assertEqual(ended["JobState"], "COMPLETED", ended)
            with self.open(f"out/small-{job[array]}_{row}.h5") as result:
                self.assertIn(f"layers = {row + 1}\n", result.attrs["settings"])

    def test_nodes_times_tasks_per_node_are_the_ranks(self):
        ended = self.assert_done("filled")
        self.assertEqual((ended["NumNodes"], ended["NumTasks"]), ("2", "4"))
        self.assertEqual(self.open(out("filled")).attrs["ranks"], 4)

    def test_a_job_submitted_from_inside_another_has_its_own_memory(self):
        self.assert_done("inside")

    def test_a_failure_stops_what_depends_on_it(self):
        ended = site.ended(job["failing"])
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("FAILED", "2:0"))
        self.assertIn("fluxformer: mesh.layers = 0", log("failing"))
        for name in ("after failing", "after that"):
            self.assertEqual(site.ended(job[name])["JobState"], "CANCELLED")
            self.assertEqual(log(name), "")

    def test_what_is_cancelled_while_it_writes_does_not_look_finished(self):
        for name, command in (("cancelled", ("scancel", job["cancelled"])), ("cancelled mpirun", ("scancel", job["cancelled mpirun"])),
                              ("killed", ("scancel", "--signal=KILL", job["killed"] + ".0"))):
            site.until(lambda name=name: held[name].seen("held"), "states of the run " + name)
            site.told(*command)
            held[name].let_go()
        for name in ("cancelled", "cancelled mpirun", "killed"):
            ended = site.ended(job[name])
            self.assertEqual((ended["JobState"], ended["Restarts"]), ("FAILED" if name == "killed" else "CANCELLED", "0"), name)
            # The interrupted run may have had time to write a checkpoint and report that it is
            # incomplete.
            if os.path.exists(self.path(out(name))):
                with self.open(out(name)) as result:
                    self.assertEqual(result.attrs["status"], "interrupted", name)
        self.assertFalse(os.path.exists(self.path(out("killed"))))

    def test_what_is_printed_is_what_is_submitted(self):
        words = ("--nodes=2", "--hold", "--time=00:07:00", "--job-name=it's held", SWEEP, "table.txt", "evolve", "small.ini")
        printed = site.told("jobscripts/submit.sh", "--dry-run", *words)
        self.assertEqual(printed, f"cd {site.project} && sbatch --account=tests --comment=site --array=1-4 --ntasks=2 --nodes=2 --hold "
                                  f"--time=00:07:00 --job-name=it\\'s\\ held {SWEEP} table.txt evolve small.ini\n")
        before = site.told("squeue", "-h", "-t", "all", "-o", "%i")
        self.assertNotIn("held", site.told("squeue", "-h", "-o", "%j"))
        said = site.told("jobscripts/submit.sh", *words)
        self.assertTrue(said.startswith(printed), said)
        by_script, by_hand = site.number(said), site.number(site.told("bash", "-c", printed, folder=self.folder))
        self.assertNotIn(by_script, before.split())
        for job_id in (by_script, by_hand):
            self.assertEqual(site.told("scontrol", "write", "batch_script", job_id, "-").strip(), site.read(SWEEP).strip())
        either = re.compile(rf"(?<!\d)({by_script}|{by_hand})(?!\d)")
        one, other = ({name: either.sub("ID", value.replace(site.project, "PROJECT")) for name, value in site.job(job_id).items()
                       if not name.endswith("Time") and name not in ("Priority", "LastSchedEval", "AllocNode:Sid")} for job_id in (by_script, by_hand))
        self.assertEqual(one, other)
        self.assertEqual((one["JobName"], one["TimeLimit"], one["NumTasks"], one["Account"]), ("it's held", "00:07:00", "2", "tests"))
        site.told("scancel", by_script, by_hand)

    def test_wrong_use_is_one_clear_line(self):
        site.write("bad.txt", "--mesh.layers=2\nmesh.layers=3\n")
        site.write("empty.txt", "# nothing\n")
        queue = ("squeue", "-h", "-t", "all", "-o", "%i")
        before = site.told(*queue)
        for words, what in (((), "submit.sh: which script?"), (("jobscripts/no.sbatch",), "submit.sh: no script jobscripts/no.sbatch"),
                            ((RUN, "evolve"), "run.sbatch: an experiment and a deck are needed: jobscripts/submit.sh [sbatch options] "),
                            ((CHAIN, "evolve", "none.ini"), "chain.sbatch: no deck none.ini"),
                            ((RUN, "evolve", "small.ini", "mesh.layers=3"), "run.sbatch: 'mesh.layers=3' is not of the form --section.key=value"),
                            ((CHAIN, *LONG, "--checkpoint.restart=no"), "chain.sbatch: --checkpoint.restart: the script sets this"),
                            ((SWEEP,), "sweep.sbatch: a table is needed"), ((SWEEP, "no.txt", "evolve"), "sweep.sbatch: no table no.txt"),
                            ((SWEEP, "table.txt", "evolve", "none.ini"), "sweep.sbatch: no deck none.ini"),
                            ((SWEEP, "empty.txt", "evolve", "small.ini"), "sweep.sbatch: empty.txt has no rows"),
                            ((SWEEP, "bad.txt", "evolve", "small.ini"), "sweep.sbatch: bad.txt, row 2: 'mesh.layers=3' is not of"),
                            ((SWEEP, "table.txt", "evolve", "small.ini", "--output.file=a.h5"), "sweep.sbatch: --output.file: the script")):
            with self.subTest(words):
                done = site.call("jobscripts/submit.sh", *words)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertTrue(done.stderr.startswith(what), done.stderr)
        self.assertEqual(site.told(*queue), before)
        # Passed to sbatch directly, they report it in the log.
        for words, folder, what in (((RUN, "evolve"), self.folder, "run.sbatch: an experiment and a deck are needed"),
                                    ((self.path(RUN), *LONG), site.folder, "run.sbatch: no jobscripts/job.sh in "),
                                    ((SWEEP, "table.txt", "evolve", "small.ini"), self.folder, "sweep.sbatch: this is a job array: --array=1-4")):
            number = site.number(site.told("sbatch", "--output=wrong-%j.log", "--ntasks=1", *words, folder=folder))
            self.assertEqual(site.ended(number)["ExitCode"], "2:0")
            said = site.read(os.path.join(folder, f"wrong-{number}.log"))
            self.assertEqual((said.startswith(what), said.count("\n")), (True, 1), said)

    def test_a_training_goes_on_over_other_stages_of_depth(self):
        self.assert_done("grid 2")
        self.assert_done("one grid")
        for number, steps in ((0, 1), (1, 2)):
            self.assertIn(f"after {steps} steps; continue with", log(f"grid {number}"))
        self.assertIn("after 2 steps", log("grid 2"))
        one, other = ({name: item[...] for name, item in self.arrays_of(name).items()} for name in ("out/grid.h5", "out/grids.h5"))
        self.assertEqual(sorted(one), sorted(other))
        for name in one:  # nine steps, with sums in other orders
            np.testing.assert_allclose(other[name], one[name], rtol=1e-9, atol=1e-12, err_msg=name)

    def arrays_of(self, name):
        """name -> array of the model in a file of the site."""
        found = {}
        self.open(name)["model"].visititems(lambda path, item: found.update({path: item}) if isinstance(item, h5py.Dataset) else None)
        return found

    def test_what_was_stopped_twice_goes_on_with_the_same_bits(self):
        self.assertEqual(driven.result(), ["PENDING", "PENDING"], "a dependant began before the chain was done")
        self.assertEqual(self.assert_done("chain")["Restarts"], "2")
        self.assert_done("whole")
        said = log("chain")
        self.assertEqual((said.count("stopped by signal 10"), said.count("continuing from"), said.count("written to " + out("chain"))), (2, 2, 3), said)
        self.assertEqual((said.count("ended with exit code 4"), said.count("ended with exit code 0")), (2, 1), said)
        self.assert_same_bits(out("chain"), out("whole"))
        self.assert_done("after chain")


if __name__ == "__main__":
    skip_without_slurm()
    unittest.main()
