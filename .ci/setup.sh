# shellcheck shell=bash
# Shared by run.sh and test.sh: Debian packages, MPI environment, timed stages.
# Source it from the top of the project. It writes nothing except what apt installs.

# Debian's h5py and matplotlib belong to Debian's own Python; another one may come first on PATH.
FLUXFORMER_PYTHON=/usr/bin/python3
[ -x "$FLUXFORMER_PYTHON" ] || FLUXFORMER_PYTHON=$(command -v python3 || echo python3)
export FLUXFORMER_PYTHON

say() {
  if [ -t 1 ]; then printf '\n\033[1m== %s\033[0m\n' "$*"; else printf '\n== %s\n' "$*"; fi
}
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# one_of NAME...: the first name that this release has; if it has none of them, the first
one_of() {
  local name
  for name in "$@"; do
    if apt-cache policy "$name" 2>/dev/null | grep -E '^  Candidate: [^(]' >/dev/null; then
      echo "$name"
      return 0
    fi
  done
  echo "$1"
}

# packages_of GROUP...: the names listed under "# --- GROUP:" in debian-packages.txt; of "one | other" what this release has
packages_of() {
  local wanted=" $* " group='' line names
  while IFS= read -r line; do
    case $line in
      '# --- '*) group=${line#'# --- '} group=${group%%:*} ;;
      '#'* | '') ;;
      *)
        [[ $wanted == *" $group "* ]] || continue
        read -ra names <<<"${line%%#*}"
        if [ ${#names[@]} -eq 1 ]; then echo "${names[0]}"; else one_of "${names[@]//|/}"; fi
        ;;
    esac
  done <debian-packages.txt
  return 0
}

# cores this process may use; nproc alone would print OMP_NUM_THREADS
cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc; }

# missing_of NAME...: those that are not installed according to dpkg
missing_of() {
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s\n' "$name"
  done
}

# as_root COMMAND...: runs it as root; fails if that needs a password and there is no terminal
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@" </dev/null
  elif ! command -v sudo >/dev/null; then
    return 1
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@" </dev/null
  fi
}

# need_packages GROUP...: installs missing packages; if that fails, prints their names and the command
need_packages() {
  local names missing install
  mapfile -t names < <(packages_of "$@")
  if ! command -v dpkg-query >/dev/null; then
    echo "No dpkg found: using the compilers and libraries of the environment (modules, spack.yaml)."
    return 0
  fi
  mapfile -t missing < <(missing_of "${names[@]}")
  [ ${#missing[@]} -gt 0 ] || return 0
  if command -v apt-get >/dev/null && as_root apt-get update -q; then
    mapfile -t names < <(packages_of "$@") # only now does apt surely know which of several names this release has
    mapfile -t missing < <(missing_of "${names[@]}")
    say "installing ${#missing[@]} Debian package(s): ${missing[*]}"
    install=(apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}")
    if as_root env DEBIAN_FRONTEND=noninteractive "${install[@]}"; then
      mapfile -t missing < <(missing_of "${names[@]}")
      [ ${#missing[@]} -gt 0 ] || return 0
    fi
  fi
  {
    printf '\nThese Debian packages are missing and could not be installed:\n'
    printf '    %s\n' "${missing[@]}"
    printf 'Ask an administrator to run\n    apt-get update && apt-get install -y --no-install-recommends %s\n' "${missing[*]}"
    printf 'and run %s again. On other systems: spack env activate . (spack.yaml), then CMake by hand (CONTRIBUTING.md).\n' "${0##*/}"
  } >&2
  exit 1
}

# mpi_environment RANKS: settings without which Open MPI refuses to start or is very slow
mpi_environment() {
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  if [ "$(id -u)" -eq 0 ]; then # containers
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  if [ "$(cores)" -lt "$1" ]; then # more ranks than cores: allow it, and yield while waiting
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe # Open MPI 5
  fi
  # Bound ranks would share their cores, always the first ones, with those of other runs.
  export OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy:-none}
  export PRTE_MCA_hwloc_default_binding_policy=${PRTE_MCA_hwloc_default_binding_policy:-none} # Open MPI 5
}

# unity_in FOLDER: the option by which a build from nothing compiles several sources at once; a build folder that exists stays as it is
unity_in() { if [ ! -f "$1/CMakeCache.txt" ]; then echo -DFLUXFORMER_UNITY=ON; fi; }

stage_lines=()
failed=0 # status of the first stage that failed
# stage NAME COMMAND...: runs it under a heading and records the outcome; the script continues
stage() {
  local name=$1 begin=$SECONDS status
  shift
  say "$name"
  # In a subshell with `set -e`, which bash ignores in any context that tests the status.
  set +e
  (
    set -e
    "$@"
  )
  status=$?
  set -e
  note_stage "$name" "$begin" "$status"
}

# note_stage NAME BEGIN STATUS: records the outcome of a stage that began at BEGIN ($SECONDS)
note_stage() {
  local word=ok
  if [ "$3" -ne 0 ]; then
    word="FAILED ($3)"
    [ "$failed" -ne 0 ] || failed=$3
  fi
  stage_lines+=("$(printf '%-34s %6d s  %s' "$1" $((SECONDS - $2)) "$word")")
}

# needed_stage NAME COMMAND...: the same for stages that later ones depend on; a failure ends the script
needed_stage() {
  local before=$failed
  failed=0
  stage "$@"
  [ "$failed" -eq 0 ] || finish
  failed=$before
}

# finish: prints the time of every stage; ends the script if one failed
finish() {
  say "summary"
  printf '  %s\n' "${stage_lines[@]}"
  printf '  %-34s %6d s\n' "total" "$SECONDS"
  [ "$failed" -eq 0 ] || exit "$failed"
}
