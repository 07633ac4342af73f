# shellcheck shell=bash
# What: what the job scripts share: their arguments checked, a name for the output, the run with its signals.
# How:  sourced by them at the top of the project:  . jobscripts/job.sh SCRIPT "ARGUMENTS"
#       With FLUXFORMER_CHECK=yes, as submit.sh calls them, they check their arguments, print the options that they
#       need of sbatch, and end.
# Writes: nothing itself.

script=$1 usage="jobscripts/submit.sh [sbatch options] jobscripts/$1 $2"

wrong() {
  printf '%s: %s\n' "$script" "$*" >&2
  exit 2
}

# checked EXPERIMENT DECK SETTING...: ends with one line if these cannot be run, or if no more was asked for
checked() {
  [ $# -ge 2 ] || wrong "an experiment and a deck are needed: $usage"
  [ -f "$2" ] || wrong "no deck $2 (in $PWD)"
  local setting
  for setting in "${@:3}"; do
    [[ $setting = --* ]] || wrong "'$setting' is no --section.key=value: $usage"
  done
  command -v "$FLUXFORMER_BIN" >/dev/null || wrong "no executable $FLUXFORMER_BIN: build it, or name it in jobscripts/machine.sh"
  if [ "${FLUXFORMER_CHECK:-no}" = yes ]; then exit 0; fi
}

# run_job EXPERIMENT DECK SETTING...: runs them on the tasks of the job. SIGUSR1, which SLURM sends before the time limit,
# and SIGTERM, which scancel sends, become SIGUSR1 to the run: it finishes its step, writes a checkpoint, ends with 4.
# Sets status. Without --output.file the deck's is replaced by one that no other job has; %j in it is the number of the job,
# as in sbatch --output. Its folder is made.
run_job() {
  local run='' cancelled=no name word
  set -- "${@//%j/$SLURM_JOB_ID}"
  if [[ " $* " != *" --output.file="* ]]; then
    name=$(basename -- "$2")
    name=$scratch/${name%.*}-${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}.h5
    set -- "$@" --output.file="$name"
  fi
  for word; do
    if [[ $word = --output.file=* ]]; then mkdir -p -- "$(dirname -- "${word#*=}")"; fi
  done
  export SLURM_EXPORT_ENV=ALL # sbatch --export=NONE is for the job; the ranks want what machine.sh has set
  echo "$(date -Is) job $SLURM_JOB_ID: $FLUXFORMER_BIN $* on $SLURM_NTASKS tasks of $SLURM_JOB_NODELIST"
  trap 'echo "$(date -Is) time is nearly up: asking for a checkpoint"; [ -z "$run" ] || kill -USR1 "$run"' USR1
  trap 'echo "$(date -Is) cancelled"; cancelled=yes; [ -z "$run" ] || kill -USR1 "$run"' TERM
  launch "$FLUXFORMER_BIN" "$@" &
  run=$!
  while true; do # a trapped signal ends wait: wait again until the run itself has ended
    status=0
    wait "$run" || status=$?
    kill -0 "$run" 2>/dev/null || break
  done
  trap - USR1 TERM
  if [ $cancelled = yes ]; then status=143; fi # not 4: nothing is to go on
  echo "$(date -Is) ended with exit code $status"
}

# shellcheck source=jobscripts/machine.sh
. jobscripts/machine.sh
