#!/usr/bin/env bash
# What: trains a Transformer and PDE models (without and with LayerNorm, and one distilled from the Transformer) for each of several
#       seeds, runs the comparison experiments on them, and writes a report.
# How:  from the top of the project, after the build:
#           jobscripts/compare.sh DECKS OUT [--seeds "1 2 3"] [--ranks 2] [--without "ablation ..."] [[EXPERIMENT:]--section.key=value ...]
#       DECKS is a folder of decks: transformer.ini, pde.ini, normed.ini, distilled.ini, evolve.ini and one named after each experiment,
#       for hessian also its controls linear.ini and mlp.ini; anything without a deck, or named by --without (which may name report),
#       is skipped. A setting is passed to every experiment that has the key, or to the named one alone (train:--run.precision=mixed).
#       When called again, results of the same deck, settings and models are not recomputed, and stopped trainings continue from their
#       checkpoint; with more seeds only these are trained and compared, in files of their own (NAME_seeds_4_5.h5), which the report
#       takes together. In a SLURM job the ranks are its tasks.
# Writes: OUT/*.h5, OUT/*.log (output of the programs), OUT/report.html, OUT/report.pdf.
set -euo pipefail
shopt -s extglob
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. .ci/setup.sh
export PYTHONPATH=$PWD/postprocess${PYTHONPATH:+:$PYTHONPATH}

usage='jobscripts/compare.sh DECKS OUT [--seeds "1 2 3"] [--ranks 2] [--without "ablation ..."] [[EXPERIMENT:]--section.key=value ...]'
[ $# -ge 2 ] || die "$usage"
decks=${1%/} out=${2%/}
shift 2
seeds="1 2 3" ranks=2 without=" " settings=()
while [ $# -gt 0 ]; do
  case ${1#+([a-z_]):} in
    --models.* | --model.file=* | --model.seed=* | --run.seed=* | --ablation.seeds=* | --output.* | --distill.teacher=* | --checkpoint.restart=*)
      die "$1: the script sets this itself"
      ;;
    --*.*=*) settings+=("$1") ;;
    --seeds | --ranks | --without)
      [ $# -ge 2 ] || die "$1 needs a value"
      case $1 in
        --seeds) seeds=${2//,/ } ;;
        --ranks) ranks=$2 ;;
        *) without+="${2//,/ } " ;;
      esac
      shift
      ;;
    *) die "'$1' is not an option: $usage" ;;
  esac
  shift
done
read -ra seeds <<<"$seeds"
[ ${#seeds[@]} -gt 0 ] || die "--seeds is empty"

# shellcheck source=jobscripts/machine.sh
. jobscripts/machine.sh
[ -f "$decks/transformer.ini" ] || die "$decks: not a folder of decks (it has no transformer.ini)"
command -v "$FLUXFORMER_BIN" >/dev/null || die "no executable $FLUXFORMER_BIN: build it, or set FLUXFORMER_BIN"

# has NAME: it has a deck and is not excluded
has() { [ -f "$decks/$1.ini" ] && [[ $without != *" $1 "* ]]; }
# Every other deck is named after the experiment it runs.
experiments=()
for deck in "$decks"/*.ini; do
  name=$(basename "$deck" .ini)
  case $name in transformer | pde | normed | distilled | linear | mlp | evolve) continue ;; esac
  if has "$name"; then experiments+=("$name"); fi
done

# of_experiment[NAME]: the settings whose keys that experiment has, one per line
declare -A of_experiment taken
for name in train evolve "${experiments[@]}"; do
  of_experiment[$name]=''
  [ ${#settings[@]} -gt 0 ] || continue
  help=$("$FLUXFORMER_BIN" "$name" --help)
  for setting in "${settings[@]}"; do
    if [[ $setting != --* && ${setting%%:*} != "$name" ]]; then continue; fi
    word=--${setting#*--} key=${setting#*--}
    if grep -q "^  ${key%%=*} " <<<"$help"; then of_experiment[$name]+=$word$'\n' taken[$setting]=yes; fi
  done
done
for setting in "${settings[@]}"; do
  [ "${taken[$setting]:-no}" = yes ] || die "$setting: no experiment here has this key"
done

run_program() {
  if [ -n "${SLURM_JOB_ID:-}" ]; then
    (launch "$FLUXFORMER_BIN" "$@")
  else
    mpiexec -n "$ranks" "$FLUXFORMER_BIN" "$@"
  fi </dev/null
}

inputs=() # files that the next result depends on
# results_of DECK WORDS SEEDS FILE...: of FILES, complete results of this deck and these words that are no older than the inputs, those that
# have some of these seeds, a line each; then "kept" if the first of FILES is such a result with any seeds, else "free"; in the last line
# the seeds that none of them has. WORDS do not name seeds and output file.
results_of() {
  "$FLUXFORMER_PYTHON" - "${inputs[*]}" "$@" <<'PYTHON'
import os
import sys

from fluxformer.io import Run, RunError

inputs, deck, words, seeds, *files = sys.argv[1:]
newest = {name: os.path.getmtime(name) for name in inputs.split()}
with open(deck, encoding="utf-8") as text:
    deck = text.read()


def seeds_of(path):
    """The seeds of a result, none for a run from a single one; None if it is missing, of something else or out of date."""
    try:
        with Run(path) as run:
            found = [str(int(seed)) for seed in run.coordinate("seed")] if "seed" in run.coordinates else []
            own = [word for word in run.attributes["command_line"].split(" ")[1:]
                   if not word.startswith(("--models.seeds=", "--ablation.seeds=", "--output.file="))]
            same = run.attributes["deck"] == deck and " ".join(own) == words
    except (RunError, OSError):
        return None
    models = [name for name in newest if not found or name.rsplit("_", 1)[-1] in {seed + ".h5" for seed in found}]
    return found if same and all(newest[name] <= os.path.getmtime(path) for name in models) else None


done, left = set(), seeds.split()
known = {path: found for path in files if (found := seeds_of(path)) is not None}
for path, found in known.items():
    if not seeds or ({*found} & {*left} and not {*found} & done):
        print(path)
        done |= {*found}
        left = [seed for seed in left if seed not in done]
print("kept" if files[0] in known else "free")
print(*left)
PYTHON
}

of_seeds= # the key that lists the seeds of a comparison; empty for a run from one seed
# find_results NAME EXPERIMENT DECK SETTING...: sets words (of the program), done_files, left (seeds) and place (kept or free: of OUT/NAME.h5)
find_results() {
  local name=$1 experiment=$2 more found places=("$out/$1.h5")
  mapfile -t more < <(printf '%s' "${of_experiment[$experiment]}")
  words=("$experiment" "$decks/$3.ini" "${@:4}" "${more[@]}" --output.overwrite=true)
  if [ -n "$of_seeds" ]; then places+=("$out/$name"_seeds_*.h5); fi
  mapfile -t found < <(results_of "$decks/$3.ini" "${words[*]}" "${of_seeds:+${seeds[*]}}" "${places[@]}")
  left=${found[-1]} place=${found[-2]} done_files=("${found[@]:0:${#found[@]}-2}")
}

# is_done: whether all that find_results looked for is there
is_done() { [ ${#done_files[@]} -gt 0 ] && [ -z "$left" ]; }

# solve NAME: after find_results, writes OUT/NAME.h5, unless it is up to date; of a comparison only the seeds that are missing
solve() {
  local name=$1 status=0 these=()
  if is_done; then
    echo "${done_files[*]} is done"
    return 0
  fi
  if [ -n "$of_seeds" ]; then
    these=("--$of_seeds=${left// /,}")
    if [ "$place" = kept ]; then name+=_seeds_${left// /_}; fi
  fi
  # A checkpoint beside a result belongs to that result, not to the one that will replace it.
  if [ -f "$out/$name.h5" ]; then rm -f "$out/$name".checkpoint*.h5; fi
  run_program "${words[@]}" "${these[@]}" --output.file="$out/$name.h5" >"$out/$name.log" 2>&1 || status=$?
  if [ $status -eq 0 ]; then
    tail -n 1 "$out/$name.log"
  else # the program's own message, without those of the launcher
    grep '^fluxformer:' "$out/$name.log" || tail -n 20 "$out/$name.log"
    echo "full output: $out/$name.log"
  fi
  return $status
}

mkdir -p "$out"
mpi_environment "$ranks"
models=() controls=() trained=() trained_controls=() results=()
for kind in transformer pde normed distilled linear mlp; do
  if [ "$kind" != transformer ] && ! has "$kind"; then continue; fi
  case $kind in linear | mlp) has hessian || continue ;; esac # its controls
  case $kind in
    pde) models+=("--models.independent=$out/pde_{seed}.h5") ;;
    linear | mlp) controls+=("--models.$kind=$out/${kind}_{seed}.h5") ;;
    *) models+=("--models.$kind=$out/${kind}_{seed}.h5") ;;
  esac
  for seed in "${seeds[@]}"; do
    start=$seed
    case $kind in pde | normed) start=$((1000 + seed)) ;; esac # independent: other initial weights than the Transformer's
    own=(--run.seed="$seed" --model.seed="$start" --checkpoint.restart=auto) inputs=()
    if [ $kind = distilled ]; then
      inputs=("$out/transformer_$seed.h5")
      own+=(--distill.teacher="${inputs[0]}")
    fi
    find_results "${kind}_$seed" train $kind "${own[@]}"
    needed_stage "train $kind, seed $seed" solve "${kind}_$seed"
    case $kind in linear | mlp) trained_controls+=("$out/${kind}_$seed.h5") ;; *) trained+=("$out/${kind}_$seed.h5") ;; esac
  done
done
results+=("${trained[@]}" "${trained_controls[@]}")
if has evolve && has pde; then
  inputs=("$out/pde_${seeds[0]}.h5")
  find_results evolve evolve evolve --model.file="${inputs[0]}"
  needed_stage "evolve" solve evolve
  results+=("$out/evolve.h5")
fi
for name in "${experiments[@]}"; do
  own=("${models[@]}") inputs=("${trained[@]}") of_seeds=models.seeds
  if [ "$name" = hessian ]; then own+=("${controls[@]}") inputs+=("${trained_controls[@]}"); fi
  if [ "$name" = ablation ]; then own=() inputs=() of_seeds=ablation.seeds; fi # it trains its own models
  find_results "$name" "$name" "$name" "${own[@]}"
  needed_stage "$name" solve "$name"
  is_done || find_results "$name" "$name" "$name" "${own[@]}" # with the file that was just written
  results+=("${done_files[@]}")
done
if [[ $without = *" report "* ]]; then
  finish
  exit
fi
needed_stage "report" "$FLUXFORMER_PYTHON" -m fluxformer report "${results[@]}" --claims input/paper/compare/claims.toml \
  --claims input/paper/hessian/claims.toml --claims input/paper/identifiability/claims.toml --output "$out"
finish

printf '\npage     %s\n' "$(realpath "$out")/report.html"
printf 'print    %s\n' "$(realpath "$out")/report.pdf"
printf 'claims   %s\n' "$(realpath "$out")/claims.png"
