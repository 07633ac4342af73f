#!/usr/bin/env bash
# What: runs all studies of a table, as SLURM jobs that wait for those they need, or one after the other on this machine; then makes one
#       report page of all results. When called again, it runs only what is not finished; what was stopped continues.
# How:  from the top of the project, after the build:
#           jobscripts/study.sh [--dry-run] [--data DIR] [sbatch options] TABLE OUT [[EXPERIMENT:]--section.key=value ...]
#           jobscripts/study.sh --local [--ranks 2] [--dry-run] [--data DIR] TABLE OUT [[EXPERIMENT:]--section.key=value ...]
#           jobscripts/study.sh --report [--data DIR] TABLE OUT [...]         only the page, of what is finished
#       A row of TABLE (.txt) is a name, the names of the rows that it needs (or -), and what to run; # begins a comment:
#           NAME  NEEDS  EXPERIMENT DECK [--section.key=value ...]
#           NAME  NEEDS  compare DECKS [--seeds 1-6] [--without name,name] [[EXPERIMENT:]--section.key=value ...]
#       In these words OUT is the folder of the results, DATA that of the data (--data; default: data). Rows stand below those they need. A
#       setting is passed to every row whose experiment has the key, or to the named experiment alone. In SLURM a run is a job; of a
#       comparison (compare.sh) so are the trainings of each seed and each experiment. What is wrong is said before anything runs. A row is
#       finished if its result is complete, of the same deck and settings, and no older than those it needs.
# Writes: OUT/NAME/result.h5, of a comparison what compare.sh writes in OUT/NAME; logs OUT/NAME.log or, of jobs, OUT/NAME-JOB.log; OUT/jobs;
#       OUT/report.html, OUT/report.pdf, OUT/tables.md, OUT/findings.json, OUT/claims*.png, OUT/together.png, all in OUT/report.part until they are complete.
set -euo pipefail
shopt -s extglob
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. .ci/setup.sh
export PYTHONPATH=$PWD/postprocess${PYTHONPATH:+:$PYTHONPATH}

usage='jobscripts/study.sh [--dry-run] [--local [--ranks 2]] [--data DIR] [sbatch options] TABLE.txt OUT [--section.key=value ...]'
wrong() {
  printf 'study.sh: %s\n' "$*" >&2
  exit 2
}
where=slurm asked_dry=no ranks='' data=data options=()
while [ $# -gt 0 ] && [[ $1 = -* || $1 != *.txt ]]; do
  case $1 in
    --dry-run) asked_dry=yes ;;
    --local | --report) where=${1#--} ;;
    --ranks | --data)
      [ $# -ge 2 ] || wrong "$1 needs a value: $usage"
      if [ "$1" = --ranks ]; then ranks=$2; else data=${2%/}; fi
      shift
      ;;
    --quiet | -Q) ;; # it would hide the job numbers
    --array | --array=* | -a* | --dependency | --dependency=* | -d* | --job-name | --job-name=* | -J*) wrong "$1: the script sets this itself" ;;
    *) options+=("$1") ;;
  esac
  shift
done
[ $# -ge 2 ] || wrong "a table (.txt) and a folder for the results are needed: $usage"
table=$1 out=${2%/}
shift 2
settings=()
for word; do
  [[ $word = ?(+([a-z_]):)--*.*=* ]] || wrong "'$word' is not of the form --section.key=value: $usage"
  settings+=("$word")
done
[ -f "$table" ] || wrong "no table $table (in $PWD)"
[[ $out$data != *[[:space:]]* ]] || wrong "'$out', '$data': folders with blanks in their names cannot be used"
[ "$where" = slurm ] || [ ${#options[@]} -eq 0 ] || wrong "${options[0]}: an option of sbatch, which --$where does not use"
[ -z "$ranks" ] || [ "$where" = local ] || wrong "--ranks: only with --local; the ranks of a job are its --ntasks"
[[ ${ranks:=2} =~ ^[1-9][0-9]*$ ]] || wrong "--ranks: '$ranks' is not a number of ranks"
# shellcheck source=jobscripts/machine.sh
. jobscripts/machine.sh
# shellcheck source=jobscripts/runs.sh
. jobscripts/runs.sh
# shellcheck source=jobscripts/study_table.sh
. jobscripts/study_table.sh
command -v "$FLUXFORMER_BIN" >/dev/null || wrong "no executable $FLUXFORMER_BIN: build it, or set it in jobscripts/machine.sh"

# The page is up to date if it is newer than all that it shows.
page_is_done() {
  local file
  # shellcheck disable=SC2046 # names without blanks
  for file in $(for_page) input/paper/*/claims.toml input/paper/traits.toml; do
    if [ ! "$out/report.html" -nt "$file" ]; then return 1; fi
  done
}

# make_page: the report of what is finished. Sets status
make_page() {
  local results claims=() file
  read -ra results <<<"$(for_page)"
  status=1
  if [ ${#results[@]} -eq 0 ]; then
    echo "study.sh: no results in $out" >&2
    return
  fi
  for file in input/paper/*/claims.toml; do claims+=(--claims "$file"); done
  stop_with=TERM attend "$FLUXFORMER_PYTHON" -m fluxformer report "${results[@]}" "${claims[@]}" --traits input/paper/traits.toml \
    --output "$out/report.part" >/dev/null
  if [ "$status" -eq 0 ]; then # the page last: it says that all is there
    mv "$out"/report.part/!(report.html) "$out"
    mv "$out/report.part/report.html" "$out"
    rmdir "$out/report.part"
    echo "written to $out/report.html"
  fi
}

# run_row NAME: runs a row on this machine. Sets status
run_row() {
  local words
  read -ra words <<<"${words_of[$1]}"
  if [ "${words[0]}" = compare ]; then
    logged "$out/$1.log" jobscripts/compare.sh "${words[1]}" "$out/$1" "${words[@]:2}" --without report --ranks "$ranks"
    return
  fi
  read -ra inputs <<<"${inputs_of[$1]}"
  forget_checkpoints "$out/$1/result.h5" "${place_of[$1]}"
  mkdir -p "$out/$1"
  logged "$out/$1.log" run_program "${words[@]}" --checkpoint.restart=auto --output.overwrite=true --output.file="$out/$1/result.h5"
}

# run_locally: all rows that are not finished, except those that need one that failed; then the page
run_locally() {
  local name need begin broken=''
  mkdir -p "$out"
  for name in "${rows[@]}"; do
    say "$name"
    if row_is_done "$name"; then
      echo "$name is done"
      note_stage "$name" $SECONDS 0
      continue
    fi
    begin=$SECONDS status=0
    for need in ${needs_of[$name]}; do
      if [[ " $broken " = *" $need "* ]]; then status=1 && echo "not run: it needs $need"; fi
    done
    if [ "$status" -eq 0 ]; then run_row "$name"; fi
    if [ -n "$signalled" ]; then
      echo "study.sh: stopped in $name; the same command goes on from there" >&2
      exit "$status"
    fi
    note_stage "$name" "$begin" "$status"
    [ "$status" -eq 0 ] || broken+=" $name"
  done
  look
  if ! page_is_done; then
    say "report"
    begin=$SECONDS
    make_page
    note_stage "report" "$begin" "$status"
  fi
  [ -z "$broken" ] || echo "study.sh: failed:$broken" >&2
  finish
  printf '\npage     %s\n' "$(realpath "$out")/report.html"
}

# submit_study: a job for each part that is not finished, and one for the page. Sets told
submit_study() {
  local part need after script words
  local -A number_of
  told=()
  for part in "${parts[@]}"; do
    [ "${state[$part]}" = todo ] || continue
    after=''
    for need in ${needs[$part]}; do after+=${number_of[$need]:+:${number_of[$need]}}; done
    read -ra words <<<"${job_of[$part]}"
    if [ "${words[0]}" = compare ]; then
      script=compare words=("${words[@]:1}")
    else
      script=chain words+=(--output.overwrite=true --output.file="$out/$part/result.h5")
      read -ra inputs <<<"${inputs_of[$part]}"
      if [ ${#dry[@]} -eq 0 ]; then forget_checkpoints "$out/$part/result.h5" "${place_of[$part]}"; fi
    fi
    submit ${after:+--dependency=afterok"$after"} --job-name="${part//\//_}" "jobscripts/$script.sbatch" "${words[@]}"
    number_of[$part]=${jobs[-1]}
    after=${after#:}
    told+=("${jobs[-1]} ${part//\//_}${after:+  after ${after//:/ }}")
  done
  after=${jobs[*]}
  submit ${after:+--dependency=afterany:"${after// /:}"} --job-name=report --nodes=1 --ntasks=1 jobscripts/report.sbatch \
    --data "$data" "$table" "$out" "${settings[@]}"
  told+=("${jobs[-1]} report  after all of them")
}

read_table
look
if [ "$where" = report ]; then
  make_page
  not_yet=$(unfinished)
  if [ -n "$not_yet" ]; then
    echo "study.sh: not in the report, as they are not finished (their logs say why): $not_yet" >&2
    if [ "$status" -eq 0 ]; then status=1; fi
  fi
  exit "$status"
fi
check
if [ "$where" = local ]; then
  mpi_environment "$ranks"
  if [ $asked_dry = no ]; then run_locally; else echo "to be run: $(unfinished)"; fi
  exit
fi
if [ -z "$(unfinished)" ] && page_is_done; then
  echo "all is finished: $(realpath "$out")/report.html"
  exit
fi
if [ -f "$out/jobs" ] && queued=$(grep -Fx -f <(squeue -h --me -o '%A %j') "$out/jobs"); then
  wrong "jobs of this study are still in the queue: wait for them, or scancel $(cut -d' ' -f1 <<<"$queued" | paste -sd' ')"
fi
# shellcheck source=jobscripts/submit_all.sh
. jobscripts/submit_all.sh
if [ $asked_dry = no ]; then mkdir -p "$out"; fi
options=("--output=$out/%x-%j.log" "${options[@]}")
submit_all submit_study
for line in "${told[@]}"; do echo "job $line"; done
printf '%s\n' "${told[@]%%  after *}" >"$out/jobs"
printf 'page     %s\n' "$out/report.html"
printf 'to cancel: scancel %s\n' "${jobs[*]}"
