#!/usr/bin/env bash
# From a fresh clone to a picture: installs what is missing (Debian, as root or with sudo), builds, solves the
# PDE of a 12-layer Transformer over depth and tokens on 2 MPI ranks, and draws its figures.
#
#   ./run.sh [--key=value ...]      more settings for the run, e.g. --mesh.layers=24
#
# Writes build/ (the executable), out/evolve.h5 (the result) and out/figures/ (PNG and PDF).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. .ci/setup.sh

ranks=2
result=out/evolve.h5
figures=out/figures

configure() {
  local tests=()
  # The tests want packages that running does not: a first configuration without them leaves the tests out.
  if [ ! -f build/CMakeCache.txt ] && [ -n "$(missing_of libgtest-dev)" ]; then tests=(-DBUILD_TESTING=OFF); fi
  cmake --preset release -DPython3_EXECUTABLE="$FLUXFORMER_PYTHON" "${tests[@]}"
}
build() { cmake --build build --target fluxformer; }
solve() {
  mkdir -p out
  mpiexec -n "$ranks" build/bin/fluxformer evolve input/evolve.ini \
    --output.file="$result" --output.overwrite=true "$@" </dev/null
}
draw() { "$FLUXFORMER_PYTHON" postprocess/plot_evolve.py "$result" --output "$figures"; }

need_packages run
mpi_environment "$ranks"
needed_stage "configure" configure
needed_stage "build" build
needed_stage "solve on $ranks ranks" solve "$@"
needed_stage "draw" draw
finish

printf '\nresult   %s\n' "$PWD/$result"
printf 'figures  %s\n' "$PWD/$figures"
printf '         %s\n' "$figures"/*.png
printf 'again    mpiexec -n %s build/bin/fluxformer evolve input/evolve.ini --help\n' "$ranks"
