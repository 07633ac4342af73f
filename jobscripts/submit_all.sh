# shellcheck shell=bash disable=SC2154
# What: shared by scaling_study.sh and study.sh: submits many jobs, or none.
# How:  sourced by them at the top of the project. They set asked_dry (yes or no) and options (of sbatch).
# Writes: nothing itself.

# submit WORD...: with submit.sh; appends the job number to jobs
submit() {
  local said job
  said=$(jobscripts/submit.sh "${dry[@]}" "${options[@]}" --parsable "$@")
  if [ ${#dry[@]} -gt 0 ]; then
    printf '%s\n' "$said"
    job=JOB$((${#jobs[@]} + 1))
  else
    printf '%s\n' "${said%$'\n'*}"
    job=${said##*$'\n'} job=${job%%;*} # number;cluster where there are several
    [[ $job =~ ^[0-9]+$ ]] || wrong "sbatch returned no job number"
  fi
  jobs+=("$job")
}

take_back() {
  [ ${#jobs[@]} -gt 0 ] || return 0
  printf '%s: not all could be submitted; cancelling those that were: %s\n' "${0##*/}" "${jobs[*]}" >&2
  scancel "${jobs[@]}"
}

# submit_all COMMAND...: runs it, which submits; first only for its errors, so that they are reported before anything is submitted. Ends
# the script after that if it is a dry run. Sets jobs
submit_all() {
  jobs=() dry=(--dry-run)
  if [ "$asked_dry" = yes ]; then
    "$@"
    exit
  fi
  "$@" >/dev/null
  jobs=() dry=()
  trap take_back EXIT
  "$@"
  trap - EXIT
}
