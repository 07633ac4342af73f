# shellcheck shell=bash
# What: shared by the job scripts: checks of their arguments, the name of the output, the run and its signals.
# How:  sourced by them at the top of the project:  . jobscripts/job.sh SCRIPT "ARGUMENTS"
#       With FLUXFORMER_CHECK=yes, as submit.sh calls them, they check their arguments, print the sbatch options that
#       they need, and exit.
# Writes: nothing itself.

script=$1 usage="jobscripts/submit.sh [sbatch options] jobscripts/$1 $2"

wrong() {
  printf '%s: %s\n' "$script" "$*" >&2
  exit 2
}

# checked EXPERIMENT DECK SETTING...: exits with one line if these cannot be run, and silently if only a check was requested
checked() {
  [ $# -ge 2 ] || wrong "an experiment and a deck are needed: $usage"
  [ -f "$2" ] || wrong "no deck $2 (in $PWD)"
  local setting
  for setting in "${@:3}"; do
    [[ $setting = --* ]] || wrong "'$setting' is not of the form --section.key=value: $usage"
  done
  command -v "$FLUXFORMER_BIN" >/dev/null || wrong "no executable $FLUXFORMER_BIN: build it, or set it in jobscripts/machine.sh"
  if [ "${FLUXFORMER_CHECK:-no}" = yes ]; then exit 0; fi
}

# in_job COMMAND...: attends it (runs.sh) with a line in the log before and after; sets status
in_job() {
  local what="$*"
  export SLURM_EXPORT_ENV=ALL # sbatch --export=NONE applies to the job; the ranks need what machine.sh has set
  echo "$(date -Is) job $SLURM_JOB_ID: ${what#launch } on $SLURM_NTASKS tasks of $SLURM_JOB_NODELIST"
  attend "$@"
  echo "$(date -Is) ended with exit code $status"
}

# run_job EXPERIMENT DECK SETTING...: runs them on the tasks of the job. SIGUSR1, which SLURM sends before the time limit,
# and SIGTERM, which scancel sends, are passed to the run as SIGUSR1: it finishes its step, writes a checkpoint and exits with 4.
# Sets status. Without --output.file the deck's is replaced by a name unique to the job; %j in it is the job number,
# as in sbatch --output. Its folder is created.
run_job() {
  local name word
  set -- "${@//%j/$SLURM_JOB_ID}"
  if [[ " $* " != *" --output.file="* ]]; then
    name=$(basename -- "$2")
    name=$scratch/${name%.*}-${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}.h5
    set -- "$@" --output.file="$name"
  fi
  for word; do
    if [[ $word = --output.file=* ]]; then mkdir -p -- "$(dirname -- "${word#*=}")"; fi
  done
  in_job launch "$FLUXFORMER_BIN" "$@"
}

# shellcheck source=jobscripts/machine.sh
. jobscripts/machine.sh
# shellcheck source=jobscripts/runs.sh
. jobscripts/runs.sh
