# shellcheck shell=bash disable=SC2034
# What: the facts of one site; no other file has any. Edit it in place; three sites stand at its end as examples.
# How:  sourced by submit.sh before it submits, and by the job scripts inside the job.
# Writes: nothing.

# Options of every sbatch. They win over the #SBATCH lines of a script; those on submit.sh's command line win over them.
site_options=()

# Ranks that fill a node: submit.sh --nodes=N asks for N times as many, where no --ntasks is given. Empty: it does not.
cores_per_node=

# srun, mpirun, or auto: srun where it speaks PMIx, the only way it starts Open MPI, else mpirun.
launcher=${FLUXFORMER_LAUNCHER:-auto}

# What a rank is bound to: cores, sockets, none. Ranks that wander lose their caches; none where nodes are shared.
binding=cores

# Folder for what a job writes, if it is not told a file: on the parallel file system, where there is one.
scratch=out

# Compilers and libraries as they were when the program was built; the program: as built here, or installed.
FLUXFORMER_BIN=${FLUXFORMER_BIN:-build/bin/fluxformer}

# Python with h5py and matplotlib, for figures.
FLUXFORMER_PYTHON=${FLUXFORMER_PYTHON:-/usr/bin/python3}

# One core per rank: attention and matrix products are spread by MPI, not by threads.
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1} OPENBLAS_NUM_THREADS=1

# --- Examples: the lines to change.
#
# Debian machine, packages as in debian-packages.txt: none, but perhaps
#   site_options=(--partition=debug)
#   cores_per_node=16
#
# Cluster with modules (which do not know set -u):
#   site_options=(--account=my-project --partition=compute --exclusive)
#   cores_per_node=128
#   scratch=$SCRATCH/fluxformer
#   set +u; module purge; module load gcc openmpi petsc slepc hdf5 python; set -u
#   FLUXFORMER_PYTHON=python3
#
# Apptainer image whose run script is the program: such an image is started like a program. The Open MPI inside must
# speak the PMIx of the srun outside.
#   launcher=srun
#   FLUXFORMER_BIN=$HOME/fluxformer.sif
#   export APPTAINER_BIND=$SCRATCH

# launch COMMAND...: becomes the launcher that starts COMMAND once per task of the job
launch() {
  local with=$launcher bind=()
  if [ "$with" = auto ]; then
    with=mpirun
    if srun --mpi=list 2>&1 | grep -qw pmix; then with=srun; fi
  fi
  case $with in
    srun)
      if [ "$binding" != none ]; then bind=(--cpu-bind="$binding"); fi
      exec srun --mpi=pmix --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "${bind[@]}" "$@"
      ;;
    *) exec mpirun -n "${SLURM_NTASKS:?run this inside a job}" --bind-to "${binding%s}" "$@" ;;
  esac
}
