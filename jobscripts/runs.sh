# shellcheck shell=bash disable=SC2034,SC2154
# What: shared by compare.sh, study.sh and job.sh: the rows of a table, which results are finished, what the program says to a run, and a run
#       with its signals.
# How:  sourced by them at the top of the project; needs machine.sh.
# Writes: what a run writes.

declare -A help_of
# has_key EXPERIMENT KEY: the experiment has the key; the program names an experiment that it does not know
has_key() {
  if [ -z "${help_of[$1]:-}" ]; then help_of[$1]=$("$FLUXFORMER_BIN" "$1" --help); fi
  [[ ${help_of[$1]} = *$'\n'"  $2 "* ]]
}

# is_among EXPERIMENT NAMES: one of the names, with blanks between them, is its own, or the former one of several: hessian or paths
is_among() {
  [[ " $2 " = *" $1 "* || ($1 = hessian_* && " $2 " = *" hessian "*) || ($1 = paths_* && " $2 " = *" paths "*) ]]
}

declare -A taken
# choose_settings EXPERIMENT SETTING...: sets chosen: those whose keys the experiment has, and of EXPERIMENT:--section.key=value its own;
# marks them in taken
choose_settings() {
  local setting word
  chosen=()
  for setting in "${@:2}"; do
    word=--${setting#*--}
    if [[ $setting != --* ]] && ! is_among "$1" "${setting%%:*}"; then continue; fi
    word=${word%%=*}
    if has_key "$1" "${word#--}"; then chosen+=("--${setting#*--}") taken[$setting]=yes; fi
  done
}

# read_seeds WORD: sets seeds, from "1 2 3", 1,2,3 or 1-3; false if it is something else, or nothing
read_seeds() {
  local word
  seeds=()
  for word in ${1//,/ }; do
    [[ $word =~ ^([0-9]+)(-([0-9]+))?$ ]] || return
    mapfile -t -O ${#seeds[@]} seeds < <(seq "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]:-${BASH_REMATCH[1]}}")
  done
  [ ${#seeds[@]} -gt 0 ]
}

# rows_of TABLE: its lines without comments and blank lines; an editor may have put a byte-order mark before them and carriage returns behind
rows_of() { sed $'1s/^\xEF\xBB\xBF//; s/\r$//; s/#.*//' "$1" | grep '[^[:space:]]'; }

# experiments_of DECKS: those that have a deck of their name in the folder; the others are for train and evolve
experiments_of() {
  local deck
  for deck in "$1"/*.ini; do
    deck=${deck##*/}
    case ${deck%.ini} in transformer | pde | normed | distilled | converged | linear | mlp | evolve) ;; *) echo "${deck%.ini}" ;; esac
  done
}

# refusal OUT FILE PLACE WORD...: what the program says if it would not run this and write FILE in OUT; nothing if that is about a model in
# OUT, which may have to be made yet. PLACE is that of find_finished: checkpoints of an old result do not count, as they will be removed
refusal() {
  local out=$1 file=$2 status=0 said
  if [ "$3" = old ]; then file+=.new; fi
  said=$("$FLUXFORMER_BIN" "${@:4}" --output.file="$out/$file" --validate 2>&1 >/dev/null </dev/null) || status=$?
  if [ $status -eq 0 ]; then return; fi
  said=$(grep '^fluxformer:' <<<"$said" | tail -n 1) || true
  if [[ $said != *" = $out/"* || $said = "fluxformer: output.file"* ]]; then printf '%s\n' "$said"; fi
}

inputs=() # files that the next result depends on
# results_of DECK WORDS SEEDS FILE...: of FILES, complete results of this deck and these words that are no older than the inputs, those that
# have some of these seeds, a line each; then what the first of FILES is: "kept" if it is such a result with any seeds, "old" if it is
# another complete result, else "free"; in the last line the seeds that none of them has. Of WORDS, the output file and how it is written
# do not count; nor do the seeds, if SEEDS are named.
results_of() {
  local file some=no
  for file in "${@:4}"; do if [ -f "$file" ]; then some=yes; fi; done
  if [ $some = no ]; then
    printf 'free\n%s\n' "$3"
    return
  fi
  "$FLUXFORMER_PYTHON" - "${inputs[*]}" "$@" <<'PYTHON'
import os
import sys

from fluxformer.io import Run, RunError

inputs, deck, words, seeds, *files = sys.argv[1:]
newest = {name: os.path.getmtime(name) if os.path.exists(name) else float("inf") for name in inputs.split()}
with open(deck, encoding="utf-8") as text:
    deck = text.read()
other = ("--output.file=", "--output.overwrite=", "--checkpoint.restart=", *(("--models.seeds=", "--ablation.seeds=") if seeds else ()))


def that_count(words):
    """Those that say what is computed."""
    return [word for word in words if not word.startswith(other)]


def look(path):
    """Whether it is a complete result, and its seeds, none for a run from a single one; None if of something else or out of date."""
    try:
        with Run(path) as run:
            found = [str(int(seed)) for seed in run.coordinate("seed")] if seeds and "seed" in run.coordinates else []
            own = that_count(run.attributes["command_line"].split(" ")[1:])
            same = run.attributes["deck"] == deck and own == that_count(words.split(" "))
    except (RunError, OSError):
        return False, None
    models = [name for name in newest if not found or name.rsplit("_", 1)[-1] in {seed + ".h5" for seed in found}]
    return True, found if same and all(newest[name] <= os.path.getmtime(path) for name in models) else None


done, left = set(), seeds.split()
complete = {path: look(path) for path in files}
known = {path: found for path, (_, found) in complete.items() if found is not None}
for path, found in known.items():
    if not seeds or ({*found} & {*left} and not {*found} & done):
        print(path)
        done |= {*found}
        left = [seed for seed in left if seed not in done]
print("kept" if files[0] in known else "old" if complete[files[0]][0] else "free")
print(*left)
PYTHON
}

# find_finished ARGUMENT...: those of results_of; sets done_files, place (kept, old or free) and left (seeds)
find_finished() {
  local found
  mapfile -t found < <(results_of "$@")
  if [ ${#found[@]} -lt 2 ]; then
    echo "${0##*/}: $FLUXFORMER_PYTHON cannot read results: set FLUXFORMER_PYTHON in jobscripts/machine.sh" >&2
    exit 1
  fi
  left=${found[-1]} place=${found[-2]} done_files=("${found[@]:0:${#found[@]}-2}")
}

# forget_checkpoints FILE PLACE: removes the checkpoints of FILE if they belong to the old result that it is, or to older inputs
forget_checkpoints() {
  local checkpoint input
  for checkpoint in "${1%.h5}".checkpoint*.h5; do
    [ -f "$checkpoint" ] || continue
    if [ "$2" = old ]; then rm -f "$checkpoint"; fi
    for input in "${inputs[@]}"; do
      if [ "$input" -nt "$checkpoint" ]; then rm -f "$checkpoint"; fi
    done
  done
}

signalled=${signalled:-} # the signal that ended a run
# attend COMMAND...: runs it and sets status. USR1, which SLURM sends before the time limit, TERM, which scancel sends, and INT (Ctrl-C)
# are passed on as USR1, or as the signal stop_with: the program finishes its step, writes a checkpoint and exits with 4. After TERM and INT
# status is 143 or 130, not 4: what was cancelled must not continue by itself. A further one, not at once, ends it without a checkpoint. After
# USR1 nothing more is begun: status is 4.
attend() {
  local run='' again='' command=$1 since=$SECONDS
  if [ "$signalled" = USR1 ]; then
    echo "$(date -Is) time is nearly up: not begun"
    status=4
    return
  fi
  trap 'pass_on USR1 "time is nearly up: requesting a checkpoint"' USR1
  trap 'pass_on TERM "cancelled"' TERM
  trap 'pass_on INT "interrupted"' INT
  trap 'pass_on TERM "the terminal is closed"' HUP
  if [ -z "${SLURM_JOB_ID:-}" ]; then set -m; fi # Ctrl-C then reaches only this script
  "$@" </dev/null &
  run=$!
  set +m
  if [ -n "$signalled" ]; then ask "${stop_with:-USR1}"; fi # it came before there was a run
  while true; do # a trapped signal ends wait: wait again until the run itself has ended
    status=0
    wait "$run" || status=$?
    kill -0 "$run" 2>/dev/null || break
  done
  trap - USR1 TERM INT HUP
  if [ -n "$again" ]; then { kill -KILL -- "-$again" && wait "$again"; } 2>/dev/null || true; fi
  case $signalled in
    TERM) status=143 ;;
    INT) status=130 ;;
    USR1) if [ "$status" -eq 138 ]; then status=4; fi ;; # it had not begun to listen
  esac
}

# pass_on SIGNAL MESSAGE: of attend
pass_on() {
  local signal=${stop_with:-USR1}
  echo "$(date -Is) $2"
  if [[ $signalled = @(TERM|INT) ]] && [ $SECONDS -gt $((since + 1)) ]; then signal=TERM; fi
  signalled=$1 since=$SECONDS
  if [ -n "$run" ]; then ask "$signal"; fi
}

# ask SIGNAL: of attend, sends it to the run. A launcher that has not started its ranks yet loses the signal, so it gets USR1 again and again.
ask() {
  kill "-$1" "$run" || true
  if [ "$1" = USR1 ] && [ -z "$again" ] && [[ $command = @(launch|run_program) ]]; then
    set -m # a group of its own, that its sleep ends with it
    while sleep 10 && kill -USR1 "$run"; do :; done >/dev/null 2>&1 </dev/null &
    again=$!
    set +m
  fi
}

# run_program WORD...: becomes the program on the tasks of the job, or on $ranks ranks of this machine
run_program() {
  if [ -n "${SLURM_JOB_ID:-}" ]; then launch "$FLUXFORMER_BIN" "$@"; fi
  exec mpiexec -n "$ranks" "$FLUXFORMER_BIN" "$@"
}

# logged LOG COMMAND...: attends it with its output in LOG; then shows its last line, or why it failed
logged() {
  local log=$1
  shift
  attend "$@" >"$log" 2>&1
  if [ "$status" -eq 0 ]; then
    tail -n 1 "$log"
  else # the program's own message, without those of the launcher
    grep '^fluxformer:' "$log" || tail -n 20 "$log"
    echo "full output: $log"
  fi
}
