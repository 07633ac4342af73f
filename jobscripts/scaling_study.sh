# shellcheck shell=bash
# What: shared by strong_scaling.sh and weak_scaling.sh: submits all jobs of a study, or none.
# How:  sourced by them at the top of the project:  . jobscripts/scaling_study.sh MODE ARGUMENT...
# Writes: nothing itself.

mode=$1
shift
usage="jobscripts/${mode}_scaling.sh [--dry-run] [sbatch options] DECK \"1 2 4 8\" [--section.key=value ...]"

wrong() {
  printf '%s_scaling.sh: %s\n' "$mode" "$*" >&2
  exit 2
}

asked_dry=no options=()
while [ $# -gt 0 ] && [[ $1 = -* || $1 != *.@(ini|h5) ]]; do
  case $1 in
    --dry-run) asked_dry=yes ;;
    --quiet | -Q) ;; # it would hide the job numbers
    --ntasks | --ntasks=* | -n* | --array | --array=* | -a*) wrong "$1: the script sets the tasks itself, for each size" ;;
    *) options+=("$1") ;;
  esac
  shift
done
[ $# -ge 2 ] || wrong "a deck (.ini or .h5) and the numbers of ranks are needed: $usage"
deck=$1
read -ra sizes <<<"${2//[,[:space:]]/ }"
shift 2
[ ${#sizes[@]} -gt 0 ] || wrong "no number of ranks: $usage"
seen=' '
for ranks in "${sizes[@]}"; do
  [[ $ranks =~ ^[1-9][0-9]{0,6}$ ]] || wrong "'$ranks' is not a number of ranks: $usage"
  [[ $seen != *" $ranks "* ]] || wrong "$ranks is given twice: $usage"
  seen+="$ranks "
done
for setting; do
  case $setting in
    --output.file=* | --scaling.mode=*) wrong "$setting: the script sets this itself" ;;
    --*.*=*) ;;
    *) wrong "'$setting' is not of the form --section.key=value: $usage" ;;
  esac
done
# shellcheck source=jobscripts/machine.sh
. jobscripts/machine.sh
# shellcheck source=jobscripts/submit_all.sh
. jobscripts/submit_all.sh

# study SETTING...: submits all jobs. The folder is named after the first one, which knows its own number only as %j.
study() {
  local ranks after=()
  name=$(basename -- "$deck") name=${name%.*}_$mode folder=$scratch/$name-%j
  for ranks in "${sizes[@]}"; do
    submit "${after[@]}" --job-name="${name}_$ranks" --ntasks="$ranks" jobscripts/run.sbatch scaling "$deck" "$@" \
      --scaling.mode="$mode" --output.file="$folder/ranks_$(printf %04d "$ranks").h5"
    folder=$scratch/$name-${jobs[0]}
    after=(--dependency="afterany:${jobs[-1]}") # any: a size that cannot run does not end the study
  done
  after=(--dependency="afterany:$(IFS=: && echo "${jobs[*]}")")
  submit "${after[@]}" --job-name="$name" --nodes=1 --ntasks=1 --time=00:10:00 jobscripts/plot_scaling.sbatch "$folder" "${sizes[@]}"
}

submit_all study "$@"
printf 'results  %s\n' "$folder"
for i in "${!sizes[@]}"; do printf 'job %s  ranks %s\n' "${jobs[i]}" "${sizes[i]}"; done
printf 'job %s  the table in its log, figures in %s/figures\n' "${jobs[-1]}" "$folder"
printf 'to cancel: scancel %s\n' "${jobs[*]}"
