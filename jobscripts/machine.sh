# shellcheck shell=bash disable=SC2034
# What: all site-specific settings. Edit this file in place; three example sites are at its end.
# How:  sourced by submit.sh before it submits, and by the job scripts inside the job.
# Writes: nothing.

# Options of every sbatch. They override the #SBATCH lines of a script; those on submit.sh's command line override these.
site_options=()

# Ranks per node: submit.sh --nodes=N requests N times as many if no --ntasks is given. Empty: it refuses --nodes alone.
cores_per_node=

# srun, mpirun, or auto: srun if it supports PMIx, without which it cannot start Open MPI, otherwise mpirun.
launcher=${FLUXFORMER_LAUNCHER:-auto}

# What a rank is bound to: cores, sockets, none. Ranks that migrate lose their caches; use none on shared nodes.
binding=cores

# Output folder of a job without --output.file: on the parallel file system, if there is one.
scratch=out

# The executable, as built here or installed. Load the compilers and libraries it was built with.
FLUXFORMER_BIN=${FLUXFORMER_BIN:-build/bin/fluxformer}

# Python with h5py and matplotlib, for plotting.
FLUXFORMER_PYTHON=${FLUXFORMER_PYTHON:-/usr/bin/python3}

# One core per rank: attention and matrix products are parallelised by MPI, not by threads.
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1} OPENBLAS_NUM_THREADS=1

# --- Examples: the lines to change.
#
# Debian machine, packages as in debian-packages.txt: none, but perhaps
#   site_options=(--partition=debug)
#   cores_per_node=16
#
# Cluster with modules (which do not work under set -u):
#   site_options=(--account=my-project --partition=compute --exclusive)
#   cores_per_node=128
#   scratch=$SCRATCH/fluxformer
#   set +u; module purge; module load gcc openmpi petsc slepc hdf5 python; set -u
#   FLUXFORMER_PYTHON=python3
#
# Apptainer image whose run script is the program: such an image is executable. The Open MPI inside must
# be compatible with the PMIx of the srun outside.
#   launcher=srun
#   FLUXFORMER_BIN=$HOME/fluxformer.sif
#   export APPTAINER_BIND=$SCRATCH

# launch COMMAND...: replaces this process by the launcher, which starts COMMAND once per task of the job
launch() {
  local with=$launcher bind=()
  if [ "$with" = auto ]; then
    with=mpirun
    if srun --mpi=list 2>&1 | grep -qw pmix; then with=srun; fi
  fi
  case $with in
    srun)
      if [ "$binding" != none ]; then bind=(--cpu-bind="$binding"); fi
      exec srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "${bind[@]}" "$@"
      ;;
    *) exec mpirun -n "${SLURM_NTASKS:?run this inside a job}" --bind-to "${binding%s}" "$@" ;;
  esac
}
