#!/usr/bin/env python3
"""Writes the completion of bash for the program: experiments, commands, flags, keys and their values, from `fluxformer --describe=json`,
and the options of commands, from the sources of the Python package.

    docs/completion.py PROGRAM FILE

The program is not started at <TAB>. Standard library only.
"""

import ast
import json
import os
import sys

from describe import ROOT, description

PACKAGE = os.path.join(ROOT, "postprocess", "fluxformer")

SCRIPT = """\
# Completion of bash for fluxformer, made by docs/completion.py: experiments, commands, flags, keys and their values. Where bash-completion
# does not find it: . FOLDER/share/bash-completion/completions/fluxformer
# shellcheck shell=bash

_fluxformer_keys() { # EXPERIMENT
  case $1 in
@keys@
    *) return 1 ;;
  esac
}

_fluxformer_options() { # COMMAND
  case $1 in
@options@
  esac
}

_fluxformer_values() { # EXPERIMENT KEY: what it may be; FILE for a word of any kind
  case "$1 $2" in
@values@
  esac
}

_fluxformer_files() { # WORD PREFIX [SUFFIX...]: folders and files, of these suffixes if there are any
  local suffix found
  mapfile -t found < <(
    if [ $# -eq 2 ]; then compgen -f -- "$1"; else compgen -d -- "$1"; fi
    for suffix in "${@:3}"; do compgen -f -X "!*.$suffix" -- "$1"; done
  )
  COMPREPLY+=("${found[@]/#/"$2"}")
  compopt -o filenames 2>/dev/null
}

_fluxformer_words() { # WORD PREFIX WORDS: those that begin so
  local found
  mapfile -t found < <(compgen -W "$3" -- "$1")
  COMPREPLY+=("${found[@]/#/"$2"}")
}

_fluxformer() {
  local words=() word joined="" at=0 last current prefix="" experiment key value i
  COMPREPLY=()
  # The equals sign is a word of its own where COMP_WORDBREAKS holds it.
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = && ${#words[@]} -gt 0 ]]; then
      words[-1]+="=" joined=yes
    elif [[ $joined && $word != --* ]]; then
      words[-1]+=$word joined=""
    else
      words+=("$word") joined=""
    fi
  done
  last=$((${#words[@]} - 1))
  current=${words[last]}
  case ${words[0]##*/} in
    @launchers@)
      while ((at < last)) && [[ ${words[at]##*/} != fluxformer ]]; do ((++at)); done
      if ((at == last)); then # of the launcher, or the name of what it starts
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
        compopt -o bashdefault -o default 2>/dev/null
        return
      fi
      ;;
  esac
  experiment=${words[at + 1]}
  if ((last == at + 1)); then
    case $current in
      -*) _fluxformer_words "$current" "" "--help --version --describe=json" ;;
      *) _fluxformer_words "$current" "" "@experiments@ @commands@" ;;
    esac
    return
  fi
  if ! _fluxformer_keys "$experiment" >/dev/null; then # a command
    case $current in
      -*) _fluxformer_words "$current" "" "--help $(_fluxformer_options "$experiment")" ;;
      *) _fluxformer_files "$current" "" ;;
    esac
    return
  fi
  case $current in
    --*=*)
      key=${current%%=*} value=${current#*=}
      [[ ${COMP_WORDS[COMP_CWORD]} == "$current" ]] && prefix=$key=
      local values
      values=$(_fluxformer_values "$experiment" "${key#--}")
      case $values in
        FILE) _fluxformer_files "$value" "$prefix" ;;
        LIST*)
          [[ $value == *,* ]] && prefix+=${value%,*},
          _fluxformer_words "${value##*,}" "$prefix" "${values#LIST }"
          ;;
        *) _fluxformer_words "$value" "$prefix" "$values" ;;
      esac
      ;;
    -*)
      _fluxformer_words "$current" "" "--help --validate --quiet $(_fluxformer_keys "$experiment")"
      [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
      ;;
    *)
      for ((i = at + 2; i < last; ++i)); do
        [[ ${words[i]} == -* ]] || return 0 # there is a deck
      done
      _fluxformer_files "$current" "" ini h5
      ;;
  esac
  return 0
}

complete -F _fluxformer fluxformer
# A launcher in front of it, unless it has a completion of its own.
for _fluxformer_launcher in @launcher_names@; do
  complete -p "$_fluxformer_launcher" >/dev/null 2>&1 || [ -e "${BASH_SOURCE[0]%/*}/$_fluxformer_launcher" ] ||
    complete -F _fluxformer "$_fluxformer_launcher"
done
unset _fluxformer_launcher
"""
LAUNCHERS = ("mpiexec", "mpirun", "srun")


def values(key):
    """What may follow `--key=`, in the words of the script; empty where nothing is known, as of numbers."""
    if key["type"] == "flag":
        return "true false"
    choices = " ".join(key.get("choices", []))
    if choices:
        return f"LIST {choices}" if key["type"].startswith("list") else choices
    return "FILE" if key["type"] == "word" else ""


def values_of_keys(experiments):
    """{values: patterns of "EXPERIMENT KEY"}; the experiment is left open if all that have a key agree on it."""
    found = {}  # {key: {values: experiments}}
    for one in experiments:
        for key in one["keys"]:
            found.setdefault(key["name"], {}).setdefault(values(key), []).append(one["name"])
    patterns = {}
    for key, kinds in found.items():
        for kind, names in kinds.items():
            if kind:
                patterns.setdefault(kind, []).extend([f'*" {key}"'] if len(kinds) == 1 else [f'"{name} {key}"' for name in names])
    return patterns


def options_of(module):
    """The options of a command: those that its module declares, and the module whose `main` this one may call."""
    with open(os.path.join(PACKAGE, *module.split(".")) + ".py", encoding="utf-8") as file:
        nodes = list(ast.walk(ast.parse(file.read())))
    found = [node.args[0].value for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and "main" in [one.name for one in node.names]:
            found += options_of(node.module.removeprefix("fluxformer."))
    return sorted({name for name in found if name.startswith("--")})


def options():
    """{command of the Python package: its options}."""
    with open(os.path.join(PACKAGE, "commands.json"), encoding="utf-8") as file:
        return {one["name"]: " ".join(options_of(one["module"])) for one in json.load(file)}


def script(described):
    """The completion, as a script for bash."""
    experiments = described["experiments"]
    keys = {one["name"]: " ".join(f"--{key['name']}=" for key in one["keys"]) for one in experiments}
    parts = {"keys": "\n".join(f'    {name}) echo "{words}" ;;' for name, words in keys.items()),
             "options": "\n".join(f'    {name}) echo "{words}" ;;' for name, words in options().items()),
             "values": "\n".join(f'    {" | ".join(patterns)}) echo "{kind}" ;;' for kind, patterns in values_of_keys(experiments).items()),
             "experiments": " ".join(keys), "commands": " ".join(one["name"] for one in described["commands"]),
             "launchers": " | ".join(LAUNCHERS), "launcher_names": " ".join(LAUNCHERS)}
    text = SCRIPT
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(script(description(sys.argv[1])))


if __name__ == "__main__":
    main()
