#!/usr/bin/env bash
# What: ends the SLURM that start.sh started in DIR: first its jobs, then its daemons by their process ids, and no others.
# How:  tests/slurm/stop.sh DIR
# Writes: nothing; removes DIR/pid/*. State and logs stay.
set -euo pipefail
[ -d "${1:-}/pid" ] || { echo "stop.sh: no SLURM of start.sh in '${1:-}'" >&2 && exit 2; }
dir=$(cd -- "$1" && pwd)
export SLURM_CONF=$dir/slurm.conf

# runs FILE: the daemon whose id is in the file is alive, and still that daemon (a zombie has no exe; Debian's ends in -wlm)
runs() {
  local name=${1##*/} pid
  pid=$(cat "$1" 2>/dev/null) && [[ $(readlink "/proc/$pid/exe") = */"${name%%.*}"* ]]
}
# ended_in SECONDS COMMAND...: the command becomes false
ended_in() {
  local end=$((SECONDS + $1))
  shift
  while "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}
any_jobs() { [ -n "$(timeout 50 squeue -h 2>/dev/null)" ]; }

if runs "$dir/pid/slurmctld"; then # jobs outlive the slurmd that started them
  timeout 50 scancel --user="$(id -un)" || true
  ended_in 200 any_jobs || echo "stop.sh: jobs are left" >&2
fi
for file in "$dir"/pid/slurmd.* "$dir/pid/slurmctld" "$dir/pid/munged"; do
  pid=$(cat "$file" 2>/dev/null || true)
  if runs "$file"; then
    kill "$pid" || true
    ended_in 10 runs "$file" || kill -KILL "$pid" || true
  fi
  rm -f "$file"
done
