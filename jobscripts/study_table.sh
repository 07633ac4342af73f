# shellcheck shell=bash disable=SC2034,SC2154
# What: of study.sh: reads the table of a study, finds out what is finished, and has the program check what is not.
# How:  sourced by it, with its variables: table, out, data, settings, where.
# Writes: nothing.

# A row has parts, which are jobs: a run is one of the same name, a comparison has NAME/trainings_1, ..., NAME/attention, ...
rows=() parts=()
declare -A needs_of words_of         # of a row: the rows that it needs; what it runs, with all settings
declare -A parts_of inputs_of        # of a row: its parts; the results of what it needs
declare -A place_of                  # of a run: what find_finished says
declare -A state needs files job_of  # of a part: done or todo; the parts that it needs; its results; the words of its job

# read_table: sets rows, needs_of and words_of
read_table() {
  local lines line number=0 words seed
  mapfile -t lines < <(rows_of "$table")
  [ ${#lines[@]} -gt 0 ] || wrong "$table has no rows"
  for line in "${lines[@]}"; do
    number=$((number + 1))
    read -ra words <<<"$line"
    [ ${#words[@]} -ge 4 ] || wrong "$table, row $number: it needs a name, the rows that it needs (or -), and what to run with which deck"
    if [[ ${words[0]} != *'{seed}'* ]]; then
      add_row "${words[@]}"
      continue
    fi
    read_seeds "$(sed -nE 's/.* --seeds +(\S+).*/\1/p' <<<"$line")" || wrong "$table, row ${words[0]}: its name asks for --seeds 1-6 or alike"
    for seed in "${seeds[@]}"; do
      read -ra words < <(sed -E "s/ --seeds +\S+//; s/\{seed\}/$seed/g" <<<"$line")
      add_row "${words[@]}"
    done
  done
  for line in "${settings[@]}"; do
    [ "${taken[$line]:-no}" = yes ] || wrong "$line: no row has an experiment with this key"
  done
}

# add_row NAME NEEDS WORD...: a row for one seed, or for all. NAME_{seed} among NEEDS are all rows of that name
add_row() {
  local name=$1 need row words
  [[ $name =~ ^[A-Za-z0-9_]+$ ]] || wrong "$table: '$name' is not a name of letters, digits and _"
  [ -z "${words_of[$name]:-}" ] || wrong "$table: there are two rows $name"
  needs_of[$name]=''
  for need in ${2//,/ }; do
    [ "$need" != - ] || continue
    for row in "${rows[@]}"; do
      if [[ $row =~ ^${need/\{seed\}/[0-9]+}$ ]]; then needs_of[$name]+=" $row"; fi
    done
    [[ "${needs_of[$name]} " =~ \ ${need/\{seed\}/[0-9]+}\  ]] || wrong "$table, row $name: it needs $need, which is no row above it"
  done
  words=("${@:3}")
  words=("${words[@]//=OUT\//=$out/}")
  words=("${words[@]/%=DATA/=$data}")
  check_words "$name" "${words[@]}"
  settings_for "${words[@]}"
  words_of[$name]="${words[*]} ${chosen[*]}"
  rows+=("$name")
}

# check_words NAME WORD...: what is wrong with them at first sight
check_words() {
  local word
  if [ "$2" = compare ]; then
    [ -f "$3/transformer.ini" ] || wrong "$table, row $1: $3 is not a folder of decks (it has no transformer.ini)"
    return # compare.sh checks the others
  fi
  if [ -z "${help_of[$2]:-}" ]; then
    help_of[$2]=$("$FLUXFORMER_BIN" "$2" --help 2>&1) || wrong "$table, row $1: $(grep '^fluxformer:' <<<"${help_of[$2]}")"
  fi
  [ -f "$3" ] || wrong "$table, row $1: no deck $3"
  for word in "${@:4}"; do
    case $word in
      --output.file=* | --output.overwrite=* | --checkpoint.restart=*) wrong "$table, row $1: $word: the script sets this itself" ;;
      --*.*=*) ;;
      *) wrong "$table, row $1: '$word' is not of the form --section.key=value" ;;
    esac
  done
}

# settings_for WHAT DECKS...: sets chosen: the settings of the command line that are for a row
settings_for() {
  local setting experiment mine=()
  if [ "$1" != compare ]; then
    choose_settings "$1" "${settings[@]}"
    return
  fi
  for setting in "${settings[@]}"; do # as they are: compare.sh hands them on
    for experiment in train evolve $(experiments_of "$2"); do
      choose_settings "$experiment" "$setting"
      if [ ${#chosen[@]} -gt 0 ]; then
        mine+=("$setting")
        break
      fi
    done
  done
  chosen=("${mine[@]}")
}

# add_part ROW PART STATE WORDS NEEDS FILES: it is only done if what it needs is
add_part() {
  local need
  parts+=("$2") parts_of[$1]+=" $2" state[$2]=$3 job_of[$2]=$4 needs[$2]=$5 files[$2]=$6
  for need in $5; do
    if [ "${state[$need]}" = todo ]; then state[$2]=todo; fi
  done
}

# look: finds out what is finished; sets parts and what belongs to them
look() {
  local name need part needed words
  parts=()
  for name in "${rows[@]}"; do
    needed='' inputs_of[$name]='' parts_of[$name]=''
    for need in ${needs_of[$name]}; do
      for part in ${parts_of[$need]}; do needed+=" $part" inputs_of[$name]+=" ${files[$part]}"; done
    done
    read -ra words <<<"${words_of[$name]}"
    if [ "${words[0]}" = compare ]; then look_at_comparison "$name" "$needed"; else look_at_run "$name" "$needed"; fi
  done
}

look_at_run() {
  local file=$out/$1/result.h5 now=todo
  read -ra inputs <<<"${inputs_of[$1]}"
  find_finished "${words[1]}" "${words[*]}" "" "$file"
  if [ "$place" = kept ]; then now='done'; fi
  place_of[$1]=$place
  add_part "$1" "$1" $now "${words[*]}" "$2" "$file"
}

# The lines of compare.sh --list: stage, seeds, what it needs, done or todo, results
look_at_comparison() {
  local call list stage its_seeds after now results its_needs part trainings=''
  call=("${words[1]}" "$out/$1" "${words[@]:2}" --without report)
  list=$(jobscripts/compare.sh "${call[@]}" --list 2>&1) || wrong "$table, row $1: $list"
  while read -r stage its_seeds after now results; do
    part=$1/$stage its_needs=$2
    if [ "$stage" = trainings ]; then part+=_$its_seeds trainings+=" $part"; fi
    if [ "$after" = trainings ]; then its_needs=$trainings; fi
    add_part "$1" "$part" "$now" "compare ${call[*]} --seeds $its_seeds --only $stage" "$its_needs" "$results"
  done <<<"$list"
}

# row_is_done NAME: all of its parts are
row_is_done() {
  local part
  for part in ${parts_of[$1]}; do
    if [ "${state[$part]}" = todo ]; then return 1; fi
  done
}

# unfinished: the parts that are not done
unfinished() {
  local part found=''
  for part in "${parts[@]}"; do if [ "${state[$part]}" = todo ]; then found+=" $part"; fi; done
  echo "${found# }"
}

# for_page: the results of those that are done, without trainings of a row, which are there for other rows: the page would take them for the
# models of the comparisons on the same data
for_page() {
  local part found=''
  for part in "${parts[@]}"; do
    if [ "${state[$part]}" != todo ] && [[ ${job_of[$part]} != "train "* ]]; then found+=" ${files[$part]}"; fi
  done
  echo "$found"
}

# check: has the program check the rows that are not finished
check() {
  local name need words message
  for name in "${rows[@]}"; do
    if row_is_done "$name"; then continue; fi
    read -ra words <<<"${words_of[$name]}"
    if [ "${words[0]}" = compare ]; then
      message=$(jobscripts/compare.sh "${words[1]}" "$out/$name" "${words[@]:2}" --validate 2>&1) || wrong "$table, row $name: $message"
      continue
    fi
    for need in ${needs[$name]}; do
      if [ "${state[$need]}" = todo ]; then place_of[$name]=old; fi # what it is made from will be another
    done
    message=$(refusal "$out" "$name/result.h5" "${place_of[$name]}" "${words[@]}" --checkpoint.restart=auto)
    [ -z "$message" ] || wrong "$table, row $name: $message"
  done
}
