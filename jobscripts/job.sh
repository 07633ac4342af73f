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

# literal WORD: it, or its value, does not begin with a quotation mark or ~, which no shell has taken away
literal() { [[ ${1#*=} != [\"\'\~]* ]]; }
not_literal="a value is written without quotation marks, and with the whole path instead of ~"

# checked EXPERIMENT DECK SETTING...: exits with one line if these cannot be run, and silently if only a check was requested
checked() {
  [ $# -ge 2 ] || wrong "an experiment and a deck are needed: $usage"
  [ -f "$2" ] || wrong "no deck $2 (in $PWD)"
  local setting
  for setting in "${@:3}"; do
    [[ $setting = --* ]] || wrong "'$setting' is not of the form --section.key=value: $usage"
    literal "$setting" || wrong "$setting: $not_literal"
  done
  literal "$scratch" || wrong "scratch=$scratch in jobscripts/machine.sh: $not_literal"
  command -v "$FLUXFORMER_BIN" >/dev/null || wrong "no executable $FLUXFORMER_BIN: build it, or set it in jobscripts/machine.sh"
  if [ "${FLUXFORMER_CHECK:-no}" = yes ]; then exit 0; fi
}

# in_job COMMAND...: attends it (runs.sh) with a line in the log before and after; sets status
in_job() {
  local what="$*"
  export SLURM_EXPORT_ENV=ALL # sbatch --export=NONE applies to the job; the ranks need what machine.sh has set
  echo "$(date -Is) job $SLURM_JOB_ID: ${what#launch } on $SLURM_NTASKS tasks of $SLURM_JOB_NODELIST"
  attend "$@"
  trap : USR1 # what comes now comes too late
  echo "$(date -Is) ended with exit code $status"
}

words=() # of the run
# name_output EXPERIMENT DECK SETTING...: sets words, these with the name of the output, and output, that name. Without --output.file the
# deck's is replaced by a name unique to the job; %j in it is the job number, as in sbatch --output. Its folder is created.
name_output() {
  local word
  words=("${@//%j/$SLURM_JOB_ID}") output=''
  for word in "${words[@]}"; do
    if [[ $word = --output.file=* ]]; then output=${word#*=}; fi
  done
  if [ -z "$output" ]; then
    output=$(basename -- "$2")
    output=$scratch/${output%.*}-${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}.h5
    words+=(--output.file="$output")
  fi
  mkdir -p -- "$(dirname -- "$output")"
}

# run_job EXPERIMENT DECK SETTING...: runs them on the tasks of the job. SIGUSR1, which SLURM sends before the time limit,
# and SIGTERM, which scancel sends, are passed to the run as SIGUSR1: it finishes its step, writes a checkpoint and exits with 4.
# Sets status and what name_output sets.
run_job() {
  name_output "$@"
  in_job launch "$FLUXFORMER_BIN" "${words[@]}"
  if [ "$status" = 0 ] && [ ! -e "$output" ]; then # srun ends so where a node refuses the tasks
    echo "$(date -Is) but there is no $output: the tasks were not started"
    status=1
  fi
}

# begin_round FOLDER: before a run that next_round may repeat. A file in FOLDER keeps the number of rounds in which it did not get on, and, as
# its time, the beginning of this one.
begin_round() {
  local idle=0
  rounds=$1/job-$SLURM_JOB_ID.rounds
  if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] && [ -f "$rounds" ]; then idle=$(cat -- "$rounds"); fi
  mkdir -p -- "$1"
  echo "${idle:-0}" >"$rounds"
  begun=${EPOCHREALTIME/,/.}
}

# got_on FILE...: one of the files (checkpoints) is newer than this round, and run.time_limit, of the deck or the settings, was not over in
# the first half of it. Otherwise the run had time for a step at most.
got_on() {
  local file newer=no limit='' word
  for file; do
    if [ "$file" -nt "$rounds" ]; then newer=yes; fi
  done
  if [ ${#words[@]} -gt 0 ]; then # the deck, which may also be an output file: no text, and large
    limit=$(head -c 100000 -- "${words[1]}" | LC_ALL=C sed -nE 's/^\s*(run\.)?time_limit\s*=\s*([0-9.eE+-]+).*/\2/p' | tail -n 1)
  fi
  for word in "${words[@]}"; do
    if [[ $word = --run.time_limit=* ]]; then limit=${word#*=}; fi
  done
  [ $newer = yes ] && awk -v took="${EPOCHREALTIME/,/.}" -v from="$begun" -v limit="${limit:-0}" \
    'BEGIN { exit (limit > 0 && took - from > 2 * limit) }'
}

# next_round AGAIN FILE...: after the run. If it was stopped (status 4), SLURM is to run the job again, except after two rounds one after the
# other in which it did not get on: it would not in a third one either. Where the job does not run again, says why, and that AGAIN, words for
# submit.sh, goes on.
next_round() {
  local again="jobscripts/submit.sh [sbatch options] jobscripts/$script$1" idle
  idle=$(($(cat -- "$rounds") + 1))
  if got_on "${@:2}"; then idle=0; fi
  if [ "$status" -eq 4 ] && [ "$idle" -lt 2 ]; then
    echo "$idle" >"$rounds"
    if scontrol requeue "$SLURM_JOB_ID"; then return; fi
    echo "$script: could not requeue job $SLURM_JOB_ID: submit again: $again" >&2
  elif [ "$status" -eq 4 ]; then
    echo "$script: not requeued: in two rounds one after the other the run did not get on: there was no newer checkpoint, or run.time_limit was over" \
      "in the first half of the round. Submit again with more time: $again" >&2
    echo "$idle" >"$rounds" # for whoever requeues it by hand
    return
  fi
  rm -f -- "$rounds"
}

# A signal that comes before the run has begun, while modules are loaded, must not end the job: attend begins nothing then.
trap 'signalled=USR1' USR1

# shellcheck source=jobscripts/machine.sh
. jobscripts/machine.sh
# shellcheck source=jobscripts/runs.sh
. jobscripts/runs.sh
