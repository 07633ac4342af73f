#!/usr/bin/env python3
"""What people submit, without a SLURM: submit.sh says what is wrong before anything is queued and asks for what was meant; chain.sbatch
ends when it cannot go on, and says so. tests/slurm submits to a real one.
"""

import os
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from program import BINARY, ENVIRONMENT, ROOT, TIMEOUT, Ended, TrainTest  # noqa: E402 (the folder is put on the path first)

RUN, SWEEP = ("jobscripts/run.sbatch", "evolve", "small.ini"), "jobscripts/sweep.sbatch"
OVER_SWEEP = ("evolve", "small.ini")


class JobTest(TrainTest):
    """A project folder with the job scripts, and programs of its own that come first on PATH."""

    def setUp(self):
        super().setUp()
        shutil.copytree(os.path.join(ROOT, "jobscripts"), self.path("jobscripts"))
        os.symlink(os.path.join(ROOT, "postprocess"), self.path("postprocess"))
        os.mkdir(self.path("bin"))
        self.environment = {**{name: value for name, value in ENVIRONMENT.items() if not name.startswith(("SLURM_", "SBATCH_"))},
                            "FLUXFORMER_BIN": BINARY, "PATH": self.path("bin") + ":" + ENVIRONMENT["PATH"]}

    def program(self, name, script):
        self.write(name, script if script.startswith("#!") else "#!/bin/sh\n" + script)
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def on_path(self, name, script):
        self.program("bin/" + name, script)

    def site(self, text):
        with open(self.path("jobscripts/machine.sh"), "a", encoding="utf-8") as stream:
            stream.write(text)

    def call(self, *words, **environment):
        done = subprocess.run(words, cwd=self.folder, env={**self.environment, **environment}, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT)
        return Ended(done.returncode, done.stdout, done.stderr)


class Submissions(JobTest):
    def asked(self, *words, **environment):
        """The sbatch commands, behind their program, that submit.sh prints for these words."""
        done = self.call("jobscripts/submit.sh", "--dry-run", *words, **environment)
        self.assertEqual((done.code, done.err), (0, ""), done)
        return [line.partition(" sbatch ")[2] for line in done.out.splitlines()]

    def refused(self, *words, because, **environment):
        done = self.call("jobscripts/submit.sh", "--dry-run", *words, **environment)
        self.assertEqual((done.code, done.out, done.err.count("\n")), (2, "", 1), done)
        for part in because:
            self.assertIn(part, done.err)

    def test_nodes_times_tasks_per_node_are_the_tasks(self):
        run = " ".join(RUN)
        for words in (("--nodes=2", "--ntasks-per-node=4"), ("-N", "2", "--ntasks-per-node", "4"), ("-N2", "--ntasks-per-node=4")):
            self.assertEqual(self.asked(*words, *RUN), [f"--ntasks=8 {' '.join(words)} {run}"])
        self.assertEqual(self.asked("--nodes=2-3", "-n", "5", *RUN), ["--nodes=2-3 -n 5 " + run])
        self.refused("--nodes=2", *RUN, because=("--nodes=2: how many ranks?", "--ntasks-per-node=M"))
        self.refused("--ntasks-per-node=4", *RUN, because=("--ntasks-per-node=4: on how many nodes?", "--nodes=N"))
        self.refused("--nodes=2-3", "--ntasks-per-node=4", *RUN, because=("--nodes=2-3: not one number", "--ntasks=N"))
        # Of the site they may be limits; together with one of the command line they are meant.
        self.site("\nsite_options=(--ntasks-per-node=8)\n")
        self.assertEqual(self.asked(*RUN), ["--ntasks-per-node=8 " + run])
        self.assertEqual(self.asked("--nodes=2", *RUN), ["--ntasks-per-node=8 --ntasks=16 --nodes=2 " + run])
        self.site("\nsite_options=() cores_per_node=16\n")
        self.assertEqual(self.asked("--nodes=2", *RUN), ["--ntasks=32 --nodes=2 " + run])

    def test_a_time_limit_shorter_than_the_lead_of_the_signal_is_refused(self):
        for words, limit in ((("--time=1",), 60), (("-t", "0:30"), 30), (("-t1:59",), 119), (("--time=0-0:1",), 60)):
            self.refused(*words, *RUN, because=(f"the time limit is {limit} seconds", "120 seconds before its end", "--time"))
        self.refused("--signal=B:USR1@90000", "--time=1-0", *RUN, because=("the time limit is 86400 seconds",))
        self.refused(*RUN, SBATCH_TIMELIMIT="1", because=("the time limit is 60 seconds",))
        for words in (("--time=2",), ("--time=1", "--signal=B:USR1@10"), ("--time=UNLIMITED",), ("--time=0",), ("--time=1-0",), ()):
            self.assertEqual(len(self.asked(*words, *RUN)), 1)
        # Nothing signals it, and it is for one task.
        self.assertEqual(self.asked("--time=1", "--nodes=1", "jobscripts/plot_scaling.sbatch", "out", "1"),
                         ["--time=1 --nodes=1 jobscripts/plot_scaling.sbatch out 1"])
        self.site("\nsite_options=(--time=1)\n")
        self.refused(*RUN, because=("the time limit is 60 seconds",))
        self.assertEqual(len(self.asked("--time=10", *RUN)), 1)

    def test_a_sweep_of_more_rows_than_an_array_may_have_becomes_several(self):
        self.write("table.txt", "".join(f"--run.seed={seed}\n" for seed in range(2500)))
        self.on_path("scontrol", "exit 1\n")  # then SLURM's default is taken
        plain = "table.txt evolve small.ini"
        self.assertEqual(self.asked(SWEEP, "table.txt", *OVER_SWEEP),
                         [f"--array=1-1000 {SWEEP} {plain}", f"--array=1-1000 {SWEEP} --after=1000 {plain}", f"--array=1-500 {SWEEP} --after=2000 {plain}"])
        self.refused("--array=1-1500%4", SWEEP, "table.txt", *OVER_SWEEP, because=("--array=1-1500: an index is at most 1000", "MaxArraySize is 1001"))
        self.on_path("scontrol", "echo 'MaxArraySize            = 10001'\n")
        self.assertEqual(self.asked(SWEEP, "--after=7", "table.txt", *OVER_SWEEP), [f"--array=1-2493 {SWEEP} --after=7 {plain}"])
        self.assertEqual(self.asked("-a", "2,1500", SWEEP, "table.txt", *OVER_SWEEP), [f"--array=1-2500 -a 2\\,1500 {SWEEP} {plain}"])
        self.refused(SWEEP, "--after=2500", "table.txt", *OVER_SWEEP, because=("--after=2500: table.txt has only 2500 rows",))
        self.refused(SWEEP, "--after=two", "table.txt", *OVER_SWEEP, because=("--after=two: not a number of rows",))
        self.on_path("scontrol", "echo 'MaxArraySize = 0'\n")
        self.refused(SWEEP, "table.txt", *OVER_SWEEP, because=("takes no job arrays (MaxArraySize is 0)",))
        # What was submitted before sbatch refused is said.
        self.on_path("scontrol", "echo 'MaxArraySize = 1001'\n")
        self.on_path("sbatch", 'case "$*" in *--after=1000*) echo "sbatch: no" >&2; exit 1 ;; esac\n')
        done = self.call("jobscripts/submit.sh", SWEEP, "table.txt", *OVER_SWEEP)
        self.assertEqual((done.code, done.err), (1, "sbatch: no\nsubmit.sh: the rows behind row 1000 are not submitted: put --after=1000 before "
                                                    "the table to submit them\n"), done)

    def test_tables_from_windows_are_read(self):
        self.write("table.txt", b"\xef\xbb\xbf# seeds\r\n--run.seed=1\r\n\r\n--run.seed=2   # the second\r\n")
        self.assertEqual(self.asked(SWEEP, "table.txt", *OVER_SWEEP), [f"--array=1-2 {SWEEP} table.txt evolve small.ini"])
        self.site('\nlaunch() { printf "<%s>" "$@"; : >"$output"; }\n')
        job = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "6", "SLURM_NTASKS": "1", "SLURM_JOB_NODELIST": "here"}
        for words, row, seed in (((), 1, 1), ((), 2, 2), (("--after=1",), 1, 2)):
            done = self.call("bash", SWEEP, *words, "table.txt", *OVER_SWEEP, **job, SLURM_ARRAY_TASK_ID=str(row))
            self.assertEqual(done.code, 0, done)
            # The output has the number of the row.
            self.assertIn(f"<evolve><small.ini><--run.seed={seed}><--output.file=out/small-6_{seed}.h5>", done.out)
            os.remove(self.path(f"out/small-6_{seed}.h5"))
        # A launcher that has started nothing and says 0, as srun does where a node refuses its tasks.
        self.site("\nlaunch() { :; }\n")
        done = self.call("bash", SWEEP, "table.txt", *OVER_SWEEP, **job, SLURM_ARRAY_TASK_ID="1")
        self.assertEqual(done.code, 1, done)
        self.assertIn("there is no out/small-6_1.h5: the tasks were not started", done.out)

    def test_no_shell_takes_away_quotation_marks_and_tildes(self):
        literal = "without quotation marks, and with the whole path instead of ~"
        for setting in ("--output.file=~/out.h5", '--output.file="my out.h5"', "--output.file='out.h5'"):
            self.refused(*RUN, setting, because=(f"run.sbatch: {setting}: ", literal))
            self.write("table.txt", f"--run.seed=1\n{setting.replace('output.file', 'model.file').replace(' ', '')}\n")
            self.refused(SWEEP, "table.txt", *OVER_SWEEP, because=("sweep.sbatch: table.txt, row 2: ", literal))
        self.assertEqual(len(self.asked(*RUN, "--output.file=./~/it's=~.h5")), 1)
        self.site('\nscratch="~/results"\n')
        self.refused(*RUN, because=("run.sbatch: scratch=~/results in jobscripts/machine.sh: ", literal))

    def test_a_job_inherits_nothing_of_the_one_it_is_submitted_from(self):
        self.on_path("sbatch", 'env | grep "^SLURM_"\n')
        inherited = {"SLURM_MEM_PER_CPU": "100", "SLURM_NTASKS_PER_NODE": "4", "SLURM_NTASKS": "4", "SLURM_CPU_BIND": "quiet"}
        ways = {"SLURM_CONF": "here", "SLURM_JWT": "mine"}  # to SLURM
        for job, left in (({"SLURM_JOB_ID": "7"}, ways), ({}, {**inherited, **ways})):
            done = self.call("jobscripts/submit.sh", *RUN, **inherited, **ways, **job)
            self.assertEqual((done.code, sorted(done.out.splitlines()[1:])), (0, sorted(f"{name}={value}" for name, value in left.items())), done)


class Chains(JobTest):
    WORDS = ("train", "train.ini", "--quiet", "--output.file=out/a b.h5")
    AGAIN = r"jobscripts/submit.sh [sbatch options] jobscripts/chain.sbatch train train.ini"

    def setUp(self):
        super().setUp()
        self.site('\nlaunch() { exec "$@"; }\n')
        self.on_path("scontrol", 'echo "scontrol $*"\n')

    def round(self, *words, restarts=0, script="chain", **environment):
        job = {"SLURM_SUBMIT_DIR": self.folder, "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_JOB_NODELIST": "here",
               **({"SLURM_RESTART_COUNT": str(restarts)} if restarts else {})}
        return self.call("bash", f"jobscripts/{script}.sbatch", *words, **job, **environment)

    def test_that_cannot_be_requeued_say_how_to_go_on(self):
        stopped = (*self.WORDS, "--run.time_limit=1e-6")
        self.on_path("scontrol", "echo 'scontrol: fatal: no configuration' >&2\nexit 1\n")
        refused = self.round(*stopped)
        # A compute node without it: all other programs are there.
        os.remove(self.path("bin/scontrol"))
        for folder in ("/bin", "/usr/bin", "/usr/local/bin"):
            for name in os.listdir(folder):
                if name != "scontrol" and not os.path.lexists(self.path("bin/" + name)):
                    os.symlink(os.path.join(folder, name), self.path("bin/" + name))
        missing = self.round(*stopped, PATH=self.path("bin"))
        for end in (refused, missing):
            self.assertEqual(end.code, 4, end)
            self.assertEqual(end.err.count("could not requeue job 7: submit again: " + self.AGAIN), 1, end)
            self.assertIn(r"--output.file=out/a\ b.h5", end.err)
        self.assertEqual([name for name in os.listdir(self.path("out")) if name.endswith(".rounds")], [])

    # Programs that are stopped, before and after they have written a checkpoint. The clock of files ticks every few milliseconds.
    NOTHING, ADVANCE = "exit 4\n", "sleep 0.1\ntouch out/chain.checkpoint.h5\nexit 4\n"

    def test_that_do_not_get_on_end_after_two_rounds(self):
        limited = self.write("limited.ini", "[run]\ntime_limit = 1e-3  # seconds\n")
        nothing, advance = self.program("nothing", self.NOTHING), self.program("advance", self.ADVANCE)
        chain = ("--output.file=out/chain.h5",)
        for words, program in ((self.WORDS, nothing), ((*self.WORDS, "--run.time_limit=1e-6"), BINARY), (("train", limited, *chain), advance)):
            rounds = [self.round(*words, restarts=restarts, FLUXFORMER_BIN=program) for restarts in range(3)]
            self.assertEqual([end.code for end in rounds], [4, 4, 4], rounds)
            self.assertEqual([end.out.count("scontrol requeue 7") for end in rounds], [1, 0, 0], rounds)
            self.assertIn("not requeued: in two rounds one after the other the run did not get on", rounds[1].err)
            self.assertIn("Submit again with more time: jobscripts/submit.sh [sbatch options] jobscripts/chain.sbatch train ", rounds[1].err)
        # One that got on is no such round, nor is it with a limit that was not over in its first half; and a job that is submitted again
        # begins to count again.
        words = ("train", "train.ini", *chain)
        for restarts, (program, *more) in enumerate(((nothing,), (advance,), (nothing,), (advance, "--run.time_limit=1000"), (nothing,))):
            end = self.round(*words, *more, restarts=restarts, FLUXFORMER_BIN=program)
            self.assertIn("scontrol requeue 7", end.out, (restarts, end))
        end = self.round(*words, FLUXFORMER_BIN=nothing)
        self.assertIn("scontrol requeue 7", end.out, end)

    def test_of_comparisons_end_too(self):
        self.write("transformer.ini", "")
        self.program("jobscripts/compare.sh", self.NOTHING)
        rounds = [self.round(".", "out", restarts=restarts, script="compare") for restarts in range(2)]
        self.assertEqual([end.code for end in rounds], [4, 4], rounds)
        self.assertEqual([end.out.count("scontrol requeue 7") for end in rounds], [1, 0], rounds)
        self.assertIn("jobscripts/compare.sbatch . out", rounds[1].err)

    def signalled_at(self, mark):
        """A chain that gets the signal when that file is there, and which may go on then."""
        chain = subprocess.Popen(["bash", "jobscripts/chain.sbatch", *self.WORDS, "--train.epochs=100000"], cwd=self.folder,
                                 env={**self.environment, "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_JOB_NODELIST": "here"},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.stop, chain)
        self.assertTrue(self.wait_for(mark, chain))
        os.kill(chain.pid, signal.SIGUSR1)
        self.write("signalled", "")
        end = self.ended(chain)
        self.assertEqual((end.code, end.out.count("scontrol requeue 7")), (4, 1), end)
        return end

    def test_that_are_signalled_while_modules_are_loaded_are_requeued(self):
        self.site('\ntouch loading\nwhile [ ! -e signalled ]; do :; done\n')
        self.assertIn("time is nearly up: not begun", self.signalled_at("loading").out)

    def test_whose_launcher_loses_the_signal_send_it_again(self):
        # As mpirun does until it has started its ranks. The job script waits ten seconds between two signals; here that is a short time.
        self.on_path("sleep", "exec /bin/sleep 0.05\n")
        self.program("deaf", "#!/bin/bash\ntrap 'touch lost' USR1\ntouch starting\nwhile [ ! -e lost ]; do :; done\n"
                             "trap 'exit 4' USR1\nwhile true; do :; done\n")
        self.site("\nlaunch() { exec ./deaf; }\n")
        self.assertIn("time is nearly up: requesting a checkpoint", self.signalled_at("starting").out)


if __name__ == "__main__":
    unittest.main()
