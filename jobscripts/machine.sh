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

# --- Examples: the lines to change. docs/guide/cluster.md says more of libraries, file systems and networks.
#
# Debian machine or workstation with SLURM; the program built here, or of the package fluxformer:
#   site_options=(--partition=debug)
#   cores_per_node=16
#   FLUXFORMER_BIN=fluxformer                                     # of the package
#   binding=none                                                  # several jobs share the node
#   export OMPI_MCA_btl=self,vader                                # one node: no search for networks (vader is also a name in Open MPI 5)
#   export OMPI_MCA_rmaps_base_oversubscribe=1                    # more ranks than cores, with mpirun: Open MPI 4
#   export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe   # the same in Open MPI 5, which does not read the line above
#
# Cluster with modules, which do not work under set -u, or with spack; names differ between sites. What the program was built with:
#   site_options=(--account=my-project --partition=compute --exclusive)
#   cores_per_node=128
#   scratch=$SCRATCH/fluxformer
#   set +u; module purge; module load gcc openmpi petsc slepc hdf5 python; set -u
#   FLUXFORMER_PYTHON=python3
# or
#   set +u; . "$HOME/spack/share/spack/setup-env.sh"; spack load fluxformer; set -u    # an environment: spack env activate DIR
#   FLUXFORMER_BIN=fluxformer FLUXFORMER_PYTHON=python3
#
# Apptainer image (packaging/fluxformer.def) whose run script is the program: such an image is executable. The Open MPI inside must
# be compatible with the PMIx of the srun outside: Open MPI 4 (Debian 12) or 5 (Debian 13), `srun --mpi=list` shows what there is.
#   launcher=srun
#   FLUXFORMER_BIN=$HOME/fluxformer.sif
#   FLUXFORMER_PYTHON=$HOME/fluxformer-python                     # two lines: #!/bin/sh
#                                                                 #   exec apptainer exec "$HOME/fluxformer.sif" /usr/bin/python3 "$@"
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
