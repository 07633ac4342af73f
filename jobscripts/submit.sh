#!/usr/bin/env bash
# What: sbatch with the settings of the site (machine.sh). Errors in the arguments are reported now, not in the job.
# How:  in place of sbatch: options first, then the script and the script's arguments:
#           jobscripts/submit.sh [--dry-run] [sbatch options] jobscripts/run.sbatch evolve input/evolve/evolve.ini
#       --dry-run only prints the sbatch command. --nodes=N needs --ntasks, or --ntasks-per-node=M for N times M ranks; alone it fills N
#       nodes, if machine.sh sets cores_per_node. A sweep of more rows than an array may have becomes several arrays. From inside a job, the
#       new one inherits nothing of that job. All paths are relative to the top of the project.
# Writes: nothing; the job does.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# sbatch hands its environment on, and srun in the new job would follow the memory and tasks of the job that this is called from. What says
# how to reach SLURM stays.
if [ -n "${SLURM_JOB_ID:-}" ]; then
  for name in "${!SLURM_@}"; do
    if [[ $name != SLURM_@(CONF*|CLUSTERS|JWT) ]]; then unset "$name"; fi
  done
fi
# shellcheck source=jobscripts/machine.sh
. jobscripts/machine.sh

wrong() {
  printf 'submit.sh: %s\n' "$*" >&2
  exit 2
}
dry=no options=()
while [ $# -gt 0 ] && [[ $1 != *.sbatch ]]; do
  case $1 in
    --dry-run) dry=yes ;;
    *) options+=("$1") ;;
  esac
  shift
done
[ $# -gt 0 ] || wrong 'which script? jobscripts/submit.sh [--dry-run] [sbatch options] jobscripts/run.sbatch EXPERIMENT DECK [...]'
script=$1
shift
[ -f "$script" ] || wrong "no script $script (in $PWD)"

# option NAME [LETTER]: the value of the last --NAME=VALUE, --NAME VALUE, -LETTER VALUE or -LETTERVALUE of the site and the command line
option() {
  local letter=${2:-none} word before='' value=''
  for word in "${site_options[@]}" "${options[@]}"; do
    if [[ $before = "--$1" || $before = "-$letter" ]]; then value=$word; fi
    if [[ $word = "--$1="* ]]; then value=${word#*=}; fi
    if [[ $word = "-$letter"?* ]]; then value=${word#"-$letter"}; fi
    before=$word
  done
  printf '%s\n' "$value"
}

# seconds TIME: of a time as sbatch reads it; nothing if it is no such time, or no limit
seconds() {
  local days=0 clock=$1 parts
  if [[ $1 =~ ^([0-9]+)-([0-9:]+)$ ]]; then days=${BASH_REMATCH[1]} clock=${BASH_REMATCH[2]}; fi
  [[ $clock =~ ^[0-9]+(:[0-9]+){0,2}$ ]] || return 0
  IFS=: read -ra parts <<<"$clock"
  if [ "$clock" = "$1" ]; then # minutes, minutes:seconds, hours:minutes:seconds
    if [ ${#parts[@]} -lt 3 ]; then parts=(0 "${parts[@]}"); fi
  fi # behind days: hours, hours:minutes, hours:minutes:seconds
  echo $((((10#$days * 24 + 10#${parts[0]}) * 60 + 10#${parts[1]:-0}) * 60 + 10#${parts[2]:-0}))
}

# of_script NAME: the value of #SBATCH --NAME=VALUE
of_script() { sed -n "s/^#SBATCH --$1=//p" "$script" | tail -n 1; }

# The signal to stop comes some time before the time limit: a job that has less would be stopped as soon as it begins.
check_time() {
  local limit signal lead
  limit=$(option time t) signal=$(option signal)
  limit=${limit:-${SBATCH_TIMELIMIT:-$(of_script time)}} signal=${signal:-${SBATCH_SIGNAL:-$(of_script signal)}}
  lead=60 # SLURM's default
  if [[ $signal = *@* ]]; then lead=${signal#*@}; fi
  [[ -n $signal && $lead =~ ^[0-9]+$ ]] || return 0
  limit=$(seconds "$limit")
  if [[ -n $limit && $limit -gt 0 && $limit -lt $((10#$lead)) ]]; then
    wrong "the time limit is $limit seconds, and the signal to stop comes $lead seconds before its end (--signal=$signal): the run would be stopped" \
      "as it begins. Ask for a longer --time, or for a later signal: --signal=B:USR1@$((limit / 4))"
  fi
}

# tasks_of_nodes: the --ntasks that --nodes and --ntasks-per-node mean; beside the --ntasks of the script they would only be limits. Of the
# site they may be limits, and so may they of a script for one task.
tasks_of_nodes() {
  local nodes per_node
  if [[ " ${options[*]}" != *" "@(--nodes|-N|--ntasks-per-node)* || $(of_script ntasks) = 1 ]]; then return; fi
  nodes=$(option nodes N) per_node=$(option ntasks-per-node)
  if [ -n "$(option ntasks n)" ]; then return; fi
  [ -n "$nodes" ] || wrong "--ntasks-per-node=$per_node: on how many nodes? Add --nodes=N, or give the ranks as --ntasks=N"
  [[ $nodes =~ ^[1-9][0-9]*$ ]] || wrong "--nodes=$nodes: not one number of nodes; give the number of ranks too: --ntasks=N"
  per_node=${per_node:-$cores_per_node}
  [ -n "$per_node" ] || wrong "--nodes=$nodes: how many ranks? Add --ntasks-per-node=M or --ntasks=N, or set cores_per_node in jobscripts/machine.sh"
  [[ $per_node =~ ^[1-9][0-9]*$ ]] || wrong "--ntasks-per-node=$per_node: not a number of ranks"
  echo "--ntasks=$((nodes * per_node))"
}

# check_array: whether the indices of --array are below MaxArraySize
check_array() {
  local array index
  array=$(option array a)
  array=${array%%%*}
  for index in ${array//[,:-]/ }; do
    if [[ $index =~ ^[0-9]+$ && $((10#$index)) -gt $most ]]; then
      wrong "--array=$array: an index is at most $most here (MaxArraySize is $((most + 1))). Without --array a sweep of more rows becomes several" \
        "arrays; --after=$most before its table makes index 1 its row $((most + 1))"
    fi
  done
}

# send ARRAY WORD...: prints the sbatch command with the option ARRAY, if any, and these words for the script, and runs it
send() {
  local command=(sbatch "${site_options[@]}" ${1:+"$1"} ${tasks:+"$tasks"} "${options[@]}" "$script" "${@:2}")
  printf '%q ' cd "$PWD"
  printf '&&'
  printf ' %q' "${command[@]}"
  printf '\n'
  if [ $dry = no ]; then "${command[@]}"; fi
}

# send_rows ROWS WORD...: a sweep of so many rows (behind those of --after=N, the first word), in arrays of at most $most
send_rows() {
  local left=$1 after=0 here words
  shift
  if [[ $1 = --after=* ]]; then
    after=${1#*=}
    shift
  fi
  while [ "$left" -gt 0 ]; do
    here=$((left < most ? left : most)) words=("$@")
    if [ "$after" -gt 0 ]; then words=("--after=$after" "$@"); fi
    if ! send "--array=1-$here" "${words[@]}"; then
      [ "$after" -eq 0 ] || echo "submit.sh: the rows behind row $after are not submitted: put --after=$after before the table to submit them" >&2
      exit 1
    fi
    after=$((after + here)) left=$((left - here))
  done
}

asked='' # by the script; one that does not share job.sh would run instead of being checked
if grep -q '^\. jobscripts/job\.sh' "$script"; then
  asked=$(FLUXFORMER_CHECK=yes SLURM_SUBMIT_DIR=$PWD bash "$script" "$@") || exit
fi
check_time
tasks=$(tasks_of_nodes) || exit
if [[ $asked = --array=* || -n $(option array a) ]]; then
  most=$(scontrol show config 2>/dev/null | sed -nE 's/^MaxArraySize *= *([0-9]+).*/\1/p') || true
  most=$((${most:-1001} - 1)) # indices are below it; 1001 is SLURM's default
  [ "$most" -gt 0 ] || wrong "this SLURM takes no job arrays (MaxArraySize is $((most + 1)))"
  check_array
fi
if [[ $asked = --array=1-* && -z $(option array a) ]]; then
  send_rows "${asked#--array=1-}" "$@"
else
  send "$asked" "$@"
fi
