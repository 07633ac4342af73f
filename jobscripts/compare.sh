#!/usr/bin/env bash
# What: trains a Transformer and PDE models (without and with LayerNorm, one distilled from the Transformer, one that is converged in depth)
#       for each of several seeds, runs the comparison experiments on them, and writes a report.
# How:  from the top of the project, after the build:
#           jobscripts/compare.sh DECKS OUT [--seeds "1 2 3"] [--ranks 2] [--without "ablation ..."] [--only "trainings ..."]
#               [[EXPERIMENT:]--section.key=value ...]
#       DECKS is a folder of decks: transformer.ini, pde.ini, normed.ini, distilled.ini, converged.ini, evolve.ini and one named after each
#       experiment, for hessian_spectrum also its controls linear.ini and mlp.ini; anything without a deck, or named by --without (which may
#       name report), is skipped. --only names the stages that run: trainings, evolve, experiments, report; --seeds 1-3 is --seeds "1 2 3".
#       A setting is passed to every experiment that has the key, or to the named one alone (train:--run.precision=mixed).
#       When called again, results of the same deck, settings and models are not recomputed, and what was stopped continues from its
#       checkpoint; with more seeds only these are trained and compared, in files of their own (NAME_seeds_4_5.h5), which the report
#       takes together. In a SLURM job the ranks are its tasks. --list says of each stage what is finished and runs nothing, --validate
#       has the program check what is not (jobscripts/study.sh, which makes jobs of the stages).
# Writes: OUT/*.h5, OUT/*.log (output of the programs), OUT/report.html, OUT/report.pdf, OUT/tables.md, OUT/findings.json, OUT/claims*.png, OUT/together.png.
set -euo pipefail
shopt -s extglob
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. .ci/setup.sh
export PYTHONPATH=$PWD/postprocess${PYTHONPATH:+:$PYTHONPATH}

usage='jobscripts/compare.sh DECKS OUT [--seeds "1 2 3"] [--ranks 2] [--without "ablation ..."] [--only "trainings ..."] [[EXPERIMENT:]--section.key=value ...]'
[ $# -ge 2 ] || die "$usage"
decks=${1%/} out=${2%/}
shift 2
what=run asked_seeds="1 2 3" ranks=2 without=" " only=" " settings=()
while [ $# -gt 0 ]; do
  case ${1#+([a-z_]):} in
    --models.* | --model.file=* | --model.seed=* | --run.seed=* | --ablation.seeds=* | --output.* | --distill.teacher=* | --checkpoint.restart=*)
      die "$1: the script sets this itself"
      ;;
    --*.*=*) settings+=("$1") ;;
    --list | --validate) what=${1#--} ;;
    --seeds | --ranks | --without | --only)
      [ $# -ge 2 ] || die "$1 needs a value"
      case $1 in
        --seeds) asked_seeds=$2 ;;
        --ranks) ranks=$2 ;;
        --without) without+="${2//,/ } " ;;
        *) only+="${2//,/ } " ;;
      esac
      shift
      ;;
    *) die "'$1' is not an option: $usage" ;;
  esac
  shift
done
# shellcheck source=jobscripts/machine.sh
. jobscripts/machine.sh
# shellcheck source=jobscripts/runs.sh
. jobscripts/runs.sh
read_seeds "$asked_seeds" || die "--seeds: '$asked_seeds' is no list of seeds"
[ -f "$decks/transformer.ini" ] || die "$decks: not a folder of decks (it has no transformer.ini)"
command -v "$FLUXFORMER_BIN" >/dev/null || die "no executable $FLUXFORMER_BIN: build it, or set FLUXFORMER_BIN"

# has NAME: it has a deck and is not excluded
has() { [ -f "$decks/$1.ini" ] && ! is_among "$1" "$without"; }
# wanted STAGE: it is not excluded
wanted() { ! is_among "$1" "$without" && { [ "$only" = " " ] || is_among "$1" "$only"; }; }
mapfile -t experiments < <(experiments_of "$decks")
for name in $only; do
  some=no
  for stage in trainings evolve report "${experiments[@]}"; do if is_among "$stage" "$name"; then some=yes; fi; done
  [ $some = yes ] || die "--only: there is no stage '$name' here"
done

# of_experiment[NAME]: the settings whose keys that experiment has, one per line
declare -A of_experiment
for name in train evolve "${experiments[@]}"; do
  of_experiment[$name]=''
  if [ ${#settings[@]} -eq 0 ] || { [ "$name" != train ] && ! wanted "$name"; }; then continue; fi
  choose_settings "$name" "${settings[@]}"
  if [ ${#chosen[@]} -gt 0 ]; then of_experiment[$name]=$(printf '%s\n' "${chosen[@]}"); fi
done
for setting in "${settings[@]}"; do
  for name in evolve "${experiments[@]}"; do # those that do not run
    if [ "${taken[$setting]:-no}" = no ]; then choose_settings "$name" "$setting"; fi
  done
  [ "${taken[$setting]:-no}" = yes ] || die "$setting: no experiment here has this key"
done

of_seeds= # the key that lists the seeds of a comparison; empty for a run from one seed
# find_results NAME EXPERIMENT DECK SETTING...: sets words (of the program), and what find_finished does, of OUT/NAME.h5
find_results() {
  local name=$1 experiment=$2 more places=("$out/$1.h5")
  mapfile -t more <<<"${of_experiment[$experiment]}"
  if [ -z "${more[0]}" ]; then more=(); fi
  words=("$experiment" "$decks/$3.ini" "${@:4}" "${more[@]}" --output.overwrite=true --checkpoint.restart=auto)
  if [ -n "$of_seeds" ]; then places+=("$out/$name"_seeds_*.h5); fi
  find_finished "$decks/$3.ini" "${words[*]}" "${of_seeds:+${seeds[*]}}" "${places[@]}"
  if [ -n "$of_seeds" ]; then words+=("--$of_seeds=${left// /,}"); fi
}

# is_done: whether all that find_results looked for is there
is_done() { [ ${#done_files[@]} -gt 0 ] && [ -z "$left" ]; }

# solve NAME: after find_results, writes OUT/NAME.h5, unless it is up to date; of a comparison only the seeds that are missing. Sets status
solve() {
  local name=$1
  status=0
  if is_done; then
    echo "${done_files[*]} is done"
    return
  fi
  if [ "$signalled" = USR1 ]; then # time is nearly up: the next job begins with it
    status=4
    return
  fi
  if [ -n "$of_seeds" ] && [ "$place" = kept ]; then name+=_seeds_${left// /_}; fi
  forget_checkpoints "$out/$name.h5" "$place"
  logged "$out/$name.log" run_program "${words[@]}" --output.file="$out/$name.h5"
}

# stage_of TITLE NAME: solves NAME, after find_results, as a stage; with --validate it is only checked
stage_of() {
  local begin=$SECONDS message
  case $what in
    run)
      say "$1"
      solve "$2"
      note_stage "$1" "$begin" "$status"
      [ "$status" -eq 0 ] || finish
      ;;
    validate)
      is_done || message=$(refusal "$out" "$2.h5" "$place" "${words[@]}")
      [ -z "${message:-}" ] || die "$1: $message"
      ;;
  esac
}

# show STAGE SEEDS NEEDS FILE...: a line of --list; without files it is not finished
show() {
  local state='done'
  [ $# -gt 3 ] || state=todo
  if [ "$what" = list ]; then echo "$1 $2 $3 $state ${*:4}"; fi
}

if [ "$what" = run ]; then mkdir -p "$out"; fi
mpi_environment "$ranks"
models=() controls=() trained=() trained_controls=() results=() not_trained=' '
for kind in transformer pde normed distilled converged linear mlp; do
  if [ "$kind" != transformer ] && ! has "$kind"; then continue; fi
  case $kind in linear | mlp) has hessian_spectrum || has hessian || continue ;; esac # its controls
  case $kind in
    pde) models+=("--models.independent=$out/pde_{seed}.h5") ;;
    linear | mlp) controls+=("--models.$kind=$out/${kind}_{seed}.h5") ;;
    *) models+=("--models.$kind=$out/${kind}_{seed}.h5") ;;
  esac
  for seed in "${seeds[@]}"; do
    case $kind in linear | mlp) trained_controls+=("$out/${kind}_$seed.h5") ;; *) trained+=("$out/${kind}_$seed.h5") ;; esac
    wanted trainings || continue
    start=$seed
    case $kind in pde | normed | converged) start=$((1000 + seed)) ;; esac # independent: other initial weights than the Transformer's
    own=(--run.seed="$seed" --model.seed="$start") inputs=()
    if [ $kind = distilled ]; then
      inputs=("$out/transformer_$seed.h5")
      own+=(--distill.teacher="${inputs[0]}")
    fi
    find_results "${kind}_$seed" train $kind "${own[@]}"
    is_done || not_trained+="$seed "
    if [ "$what" != validate ] || [ "$seed" = "${seeds[0]}" ]; then stage_of "train $kind, seed $seed" "${kind}_$seed"; fi
  done
done
results+=("${trained[@]}" "${trained_controls[@]}")
for seed in "${seeds[@]}"; do
  mapfile -t files < <(printf '%s\n' "${results[@]}" | grep "_$seed\.h5$")
  if [[ $not_trained = *" $seed "* ]]; then files=(); fi
  show trainings "$seed" - "${files[@]}"
done
if has evolve && has pde && wanted evolve; then
  inputs=("$out/pde_${seeds[0]}.h5")
  find_results evolve evolve evolve --model.file="${inputs[0]}"
  stage_of "evolve" evolve
  show evolve "${seeds[0]}" trainings "${done_files[@]}"
  results+=("$out/evolve.h5")
fi
for name in "${experiments[@]}"; do
  wanted "$name" || continue
  own=("${models[@]}") inputs=("${trained[@]}") of_seeds=models.seeds needs=trainings
  if is_among hessian_spectrum "$name"; then own+=("${controls[@]}") inputs+=("${trained_controls[@]}"); fi
  if [ "$name" = ablation ]; then own=() inputs=() of_seeds=ablation.seeds needs=-; fi # it trains its own models
  find_results "$name" "$name" "$name" "${own[@]}"
  stage_of "$name" "$name"
  if [ "$what" = run ]; then is_done || find_results "$name" "$name" "$name" "${own[@]}"; fi # with the file that was just written
  if [ -n "$left" ]; then done_files=(); fi
  show "$name" "$(IFS=, && echo "${seeds[*]}")" "$needs" "${done_files[@]}"
  results+=("${done_files[@]}")
done
if [ "$what" != run ]; then exit; fi
if ! wanted report; then
  finish
  exit
fi
needed_stage "report" "$FLUXFORMER_PYTHON" -m fluxformer report "${results[@]}" --claims input/paper/compare/claims.toml \
  --claims input/paper/hessian/claims.toml --claims input/paper/identifiability/claims.toml --claims input/paper/depth/claims.toml \
  --claims input/paper/clusters/claims.toml --traits input/paper/traits.toml --output "$out"
finish

printf '\npage     %s\n' "$(realpath "$out")/report.html"
printf 'print    %s\n' "$(realpath "$out")/report.pdf"
for picture in "$out"/claims*.png "$out"/together.png; do
  if [ -f "$picture" ]; then printf 'picture  %s\n' "$(realpath "$picture")"; fi
done
