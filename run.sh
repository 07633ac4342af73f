#!/usr/bin/env bash
# From a fresh clone to figures: installs missing packages (Debian, as root or with sudo), builds, solves the
# PDE of a 12-layer Transformer over depth and tokens on 2 MPI ranks, and plots the result. Then trains small
# Transformers and the corresponding PDE models on built-in digits, compares them, and writes a report (minutes).
#
#   ./run.sh [solve] [--key=value ...]      additional settings for the first run, e.g. --mesh.layers=24; solve: ends after its figures
#
# Writes build/ (the executable), out/evolve.h5 (the first result), out/figures/ (PNG and PDF) and out/comparison/
# (the report and its data; when run again, results that are up to date are not recomputed).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. .ci/setup.sh

last=compare # stage
if [ "${1:-}" = solve ]; then last=draw && shift; fi
ranks=2
result=out/evolve.h5
figures=out/figures
comparison=out/comparison

configure() {
  local tests=()
  # The tests need additional packages: a first configuration without them excludes the tests.
  if [ ! -f build/CMakeCache.txt ] && [ -n "$(missing_of libgtest-dev)" ]; then tests=(-DBUILD_TESTING=OFF); fi
  # shellcheck disable=SC2046 # nothing or one word
  cmake --preset release $(unity_in build) -DPython3_EXECUTABLE="$FLUXFORMER_PYTHON" "${tests[@]}"
}
build() { cmake --build build --target fluxformer completion manual; }
solve() {
  mkdir -p out
  mpiexec -n "$ranks" build/bin/fluxformer evolve input/evolve/evolve.ini \
    --output.file="$result" --output.overwrite=true --checkpoint.restart=auto "$@" </dev/null
}
draw() { build/bin/fluxformer plot "$result" --output "$figures"; }
compare() { jobscripts/compare.sh input/compare "$comparison" --ranks "$ranks" --without normed; } # to save a minute

need_packages run
mpi_environment "$ranks"
needed_stage "configure" configure
needed_stage "build" build
needed_stage "solve on $ranks ranks" solve "$@"
needed_stage "draw" draw
if [ $last = compare ]; then needed_stage "compare" compare; fi
finish

printf '\nresult   %s\n' "$PWD/$result"
printf 'figures  %s\n' "$PWD/$figures"
printf '         %s\n' "$figures"/*.png
if [ $last = compare ]; then printf 'page     %s\n' "$PWD/$comparison/report.html"; fi
printf 'again    mpiexec -n %s build/bin/fluxformer evolve input/evolve/evolve.ini --help\n' "$ranks"
