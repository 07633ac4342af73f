"""How the program is started on several ranks: mpiexec, or the launcher of a site, with the environment that it needs."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping

from fluxformer.io import RunError

VARIABLE = "FLUXFORMER_LAUNCHER"  # as in jobscripts/machine.sh: auto, srun, mpirun, ...
# What a launcher tells the processes that it starts. A program that is started from one of them must not take it for its own.
OF_LAUNCHERS = ("OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "OMPI_FIRST_RANKS", "OMPI_APP_CTX", "OMPI_FILE_LOCATION", "OMPI_MCA_ess_", "OMPI_MCA_orte_", "OMPI_MCA_pmix",
                "OMPI_ARGV", "OMPI_COMMAND", "OMPI_NUM_APP_CTX", "PMIX_", "PMI_", "PALS_", "PRTE_LAUNCHED", "SLURM_PROCID", "SLURM_LOCALID")
TASKS_OF_PYTHON = ("OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE")
# For `bound`. 1 is PR_SET_PDEATHSIG.
BINDING = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGUSR1))
if os.getppid() != int(sys.argv[1]):
    sys.exit("its Python has ended")
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as failure:
    sys.exit(f"{sys.argv[2]}: {failure.strerror}")
"""


def in_job() -> bool:
    """True inside a SLURM job."""
    return "SLURM_JOB_ID" in os.environ


def refuse_several_pythons() -> None:
    """RunError if this Python is one of several that a launcher has started: each would start a run of its own."""
    for name in TASKS_OF_PYTHON:
        if os.environ.get(name, "1") not in ("", "0", "1"):
            raise RunError(f"{os.environ[name]} copies of this script were started ({name}); start it once (srun -n 1, or without a launcher): "
                           "it starts the ranks of the program itself")


def default_ranks() -> int:
    """The tasks of the SLURM job; 1 outside of one."""
    tasks = os.environ.get("SLURM_NTASKS", "1") if in_job() else "1"
    return int(tasks) if tasks.isdigit() and int(tasks) > 0 else 1


@functools.cache
def _srun_starts_open_mpi() -> bool:
    """True if srun supports PMIx, without which it cannot start Open MPI."""
    try:
        said = subprocess.run(["srun", "--mpi=list"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return False
    return "pmix" in (said.stdout + said.stderr).replace(",", " ").split()


def launched(command: list[str], ranks: int, launcher: str | None) -> list[str]:
    """The command behind its launcher.

    Parameters
    ----------
    command : list of str
    ranks : int
    launcher : str, optional
        "srun", "mpiexec", "mpirun", another such program with its options ("mpirun --map-by node"; `-n RANKS` is added, unless {ranks} stands
        in it), or "auto" (also FLUXFORMER_LAUNCHER): srun inside a SLURM job if it can, else mpiexec; none for one rank.

    Raises
    ------
    RunError
        If the launcher is not there.
    """
    named = launcher or os.environ.get(VARIABLE) or "auto"
    if named == "auto":
        if ranks == 1:
            return command
        named = "srun" if in_job() and _srun_starts_open_mpi() else "mpiexec"
    words = shlex.split(named)
    if not words or shutil.which(words[0]) is None:
        raise RunError(f"{named}: no such launcher on PATH; name another in {VARIABLE}, or with launcher=")
    if words == ["srun"]:
        words += ["--mpi=pmix", "--kill-on-bad-exit=1", *(["--overlap"] if "SLURM_STEP_ID" in os.environ else [])]
    if any("{ranks}" in word for word in words):
        return [word.replace("{ranks}", str(ranks)) for word in words] + command
    return [*words, "-n", str(ranks), *command]


def bound(command: list[str]) -> list[str]:
    """The command, as one that Linux sends SIGUSR1 when the thread that started it ends, as all do in a Python that is killed: the run stops with
    a checkpoint. To ask for that between fork and exec is not safe where there are threads: another Python does, and becomes the command."""
    return [sys.executable, "-I", "-S", "-c", BINDING, str(os.getpid()), *command]


def environment(ranks: int, at_once: int, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program: one thread a rank; outside of a job as many ranks as one likes, bound to no core (several runs at a time
    would be bound to the same ones), that wait without using one if there are too few; Open MPI starts for root, too. What is set already stays, and `more` has the last word."""
    marks = OF_LAUNCHERS if ranks > 1 else (*OF_LAUNCHERS, "SLURM_STEP")  # with these Open MPI takes a program without a launcher for a task of the step
    given = {name: value for name, value in os.environ.items() if not name.startswith(marks)}
    found = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "FLUXFORMER_PROGRESS": "0.5"}
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        found |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if not in_job():  # Open MPI 4, and the same for 5
        found |= {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
                  "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none"}
    if ranks * at_once > len(os.sched_getaffinity(0)):
        found["OMPI_MCA_mpi_yield_when_idle"] = "1"
    return {**found, **given, **more}
