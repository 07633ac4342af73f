#!/usr/bin/env bash
# What: sbatch with the settings of the site (machine.sh). Errors in the arguments are reported now, not in the job.
# How:  in place of sbatch: options first, then the script and the script's arguments:
#           jobscripts/submit.sh [--dry-run] [sbatch options] jobscripts/run.sbatch evolve input/evolve/evolve.ini
#       --dry-run only prints the sbatch command. --nodes=N without --ntasks fills N nodes, if
#       machine.sh sets cores_per_node. All paths are relative to the top of the project.
# Writes: nothing; the job does.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=jobscripts/machine.sh
. jobscripts/machine.sh

wrong() {
  printf 'submit.sh: %s\n' "$*" >&2
  exit 2
}
dry=no nodes='' ntasks='' options=()
while [ $# -gt 0 ] && [[ $1 != *.sbatch ]]; do
  case $1 in
    --dry-run) dry=yes ;;
    *) options+=("$1") ;;
  esac
  case $1 in
    --nodes=* | -N?*) nodes=${1#--nodes=} nodes=${nodes#-N} ;;
    --nodes | -N) nodes=${2:-} ;;
    --ntasks | --ntasks=* | --ntasks-per-node* | -n*) ntasks=given ;;
  esac
  shift
done
[ $# -gt 0 ] || wrong 'which script? jobscripts/submit.sh [--dry-run] [sbatch options] jobscripts/run.sbatch EXPERIMENT DECK [...]'
script=$1
shift
[ -f "$script" ] || wrong "no script $script (in $PWD)"

needs='' # a script that does not share job.sh would run instead of being checked
if grep -q '^\. jobscripts/job\.sh' "$script"; then
  needs=$(FLUXFORMER_CHECK=yes SLURM_SUBMIT_DIR=$PWD bash "$script" "$@") || exit
fi
mapfile -t needs <<<"$needs"
if [ -z "$ntasks" ] && [ -n "$cores_per_node" ] && [[ $nodes =~ ^[0-9]+$ ]]; then
  needs+=(--ntasks=$((nodes * cores_per_node)))
fi
command=(sbatch "${site_options[@]}")
for word in "${needs[@]}"; do
  if [ -n "$word" ]; then command+=("$word"); fi
done
command+=("${options[@]}" "$script" "$@")

printf '%q ' cd "$PWD"
printf '&&'
printf ' %q' "${command[@]}"
printf '\n'
if [ $dry = no ]; then exec "${command[@]}"; fi
