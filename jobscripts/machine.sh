# shellcheck shell=bash
# What: the facts of one site; no other file has any. Copy it, or edit it in place.
# How:  sourced by run.sbatch inside the job; for account and partition also before sbatch:
#           . jobscripts/machine.sh && sbatch --ntasks=8 jobscripts/run.sbatch evolve input/evolve.ini
# Writes: nothing.

# Account, partition, constraints: sbatch reads them from the environment. Empty means the site's default.
#   export SBATCH_ACCOUNT=my-project SBATCH_PARTITION=compute SBATCH_CONSTRAINT=

# Compilers and libraries, as they were when the code was built (Debian packages need nothing here):
#   module purge && module load gcc openmpi petsc hdf5
#   spack env activate /path/to/the/project

# The executable: as built here, or the installed one.
FLUXFORMER_BIN=${FLUXFORMER_BIN:-build/bin/fluxformer}

# One core per rank: attention and matrix products are spread by MPI, not by threads.
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1} OPENBLAS_NUM_THREADS=1

# launch COMMAND...: starts one process per task of the job. srun where it speaks PMIx with Open MPI, else mpirun.
launch() {
  if [ "${FLUXFORMER_LAUNCHER:-}" != mpirun ] && srun --mpi=list 2>&1 | grep -qw pmix; then
    exec srun --mpi=pmix "$@"
  fi
  exec mpirun -n "${SLURM_NTASKS:?run this inside a job}" "$@"
}
