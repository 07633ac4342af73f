"""A private SLURM with a project folder: the unmodified job scripts, with the site's settings in machine.sh."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "regression"))

from program import BINARY, DECK, ENVIRONMENT, ROOT, TRAIN_DECK  # noqa: E402 (the folder is put on the path first)

NEEDED = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "squeue", "sinfo", "salloc")
PATIENCE = 1200  # seconds; what these jobs do takes one or two, and a time limit is looked at twice a minute

# Virtual nodes on one machine: their ranks share its cores and communicate over TCP like those of real
# nodes.
SITE = f"""
site_options=(--account=tests --comment=site)
cores_per_node=1
binding=none
FLUXFORMER_BIN={BINARY}
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none
"""


def skip_without_slurm():
    """Ends with status 77 where SLURM is not installed."""
    os.environ["PATH"] = ENVIRONMENT["PATH"] = ENVIRONMENT["PATH"] + ":/usr/sbin:/sbin"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        print(f"NOT RUN: no {', '.join(missing)}: apt-get install --no-install-recommends slurmctld slurmd slurm-client munge",
              file=sys.stderr)
        sys.exit(77)


class Cluster:
    def __init__(self, nodes, cpus):
        self.folder = tempfile.mkdtemp(prefix="fluxformer-slurm-")
        self.project = os.path.join(self.folder, "project")
        shutil.copytree(os.path.join(ROOT, "jobscripts"), os.path.join(self.project, "jobscripts"))
        os.symlink(os.path.join(ROOT, "postprocess"), os.path.join(self.project, "postprocess"))
        for name, text in (("small.ini", DECK), ("train.ini", TRAIN_DECK)):
            self.write(name, text)
        with open(os.path.join(self.project, "jobscripts", "machine.sh"), "a", encoding="utf-8") as stream:
            stream.write(SITE)
        state = os.path.join(self.folder, "slurm")
        os.mkdir(state)
        self.environment = {**ENVIRONMENT, "SLURM_CONF": os.path.join(state, "slurm.conf"), "FLUXFORMER_PYTHON": sys.executable}
        self.environment.pop("SLURM_JOB_ID", None)
        # Stops the cluster when its input ends: on request, or when this process has died for any reason.
        self.stopper = subprocess.Popen(["bash", "-c", 'read -r _; exec "$0" "$1"', os.path.join(HERE, "stop.sh"), state],
                                        stdin=subprocess.PIPE, start_new_session=True)
        subprocess.run([os.path.join(HERE, "start.sh"), state, str(nodes), str(cpus)], env=self.environment, check=True,
                       stdin=subprocess.DEVNULL, timeout=PATIENCE)

    def stop(self):
        self.stopper.communicate(timeout=PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.project, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as stream:
            stream.write(text)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as stream:
                return stream.read()
        except FileNotFoundError:
            return ""

    def call(self, *words, folder=None, **environment):
        """Runs a command, in the project folder by default."""
        return subprocess.run(words, cwd=folder or self.project, env={**self.environment, **environment}, capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL, timeout=PATIENCE)

    def told(self, *words, **more):
        """The output of a command that must succeed."""
        done = self.call(*words, **more)
        if done.returncode:
            raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, *words, **environment):
        """The number of a job given to submit.sh."""
        return self.number(self.told("jobscripts/submit.sh", *words, **environment))

    def number(self, said):
        return re.search(r"^Submitted batch job (\d+)$", said, re.MULTILINE).group(1)

    def job(self, job):
        """SLURM's record of a job or array task: {name: value}."""
        return dict(re.findall(r"(\S+?)=(.*?)(?= \S+?=|\s*$)", self.told("scontrol", "show", "job", "-o", job).splitlines()[0]))

    def until(self, holds, what):
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"this does not come: {what}\n" + self.told("squeue", "--states=all", "--format=%i %j %T %r %M"))
            time.sleep(0.1)

    def ended(self, job):
        """The job, once it has ended and will not be requeued."""
        self.until(lambda: self.job(job)["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED"),
                   f"the end of job {job}")
        return self.job(job)
