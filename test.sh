#!/usr/bin/env bash
# Installs missing packages (Debian, as root or with sudo), builds with warnings as errors, and runs all tests.
#
#   ./test.sh [build|ctest|lint|asan|all]     default: all
#
#   build   release build with all tests (build/)
#   ctest   build, then every test: architecture, unit, mpi on 1 to 6 ranks, convergence, regression, slurm
#   lint    shellcheck over the scripts, comments of the headers (doxygen), clang-tidy over src/, solvers/, drivers/
#   asan    build with address and undefined-behaviour sanitizers (build-asan/); unit tests, MPI tests on 2 ranks, fuzz tests
#
# Writes only to build/, build-lint/ and build-asan/. After a failed stage the later ones still run, except after a failed build.
# Prints the time of each stage at the end; exit status 0 if all passed.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. .ci/setup.sh

jobs=$(cores)

build() {
  # shellcheck disable=SC2046 # nothing or one word
  cmake --preset release $(unity_in build) -DFLUXFORMER_WERROR=ON -DBUILD_TESTING=ON -DPython3_EXECUTABLE="$FLUXFORMER_PYTHON"
  cmake --build build
}
run_tests() { # one more than cores: many tests wait for the disk, or for a process to end
  ctest --test-dir build --output-on-failure -j $((jobs + 1)) </dev/null
}

scripts() { git ls-files -- '*.sh' '*.sbatch' .ci/run; }
shell_lint() { scripts | xargs -r shellcheck -x; }
api_comments() {
  cmake --build build --target docs
  "$FLUXFORMER_PYTHON" docs/undocumented.py build/docs/warnings.log
}
tidy() { # clang cannot read g++'s precompiled headers: compile commands without them, and the generated header; several sources at once
  # share the reading of headers, but include .cpp files, and their names shadow each other's (within a source, g++ finds that)
  cmake --preset release -B build-lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DFLUXFORMER_UNITY=ON -DBUILD_TESTING=OFF >build/lint-configure.log
  cmake --build build-lint --target fluxformer_git_revision >>build/lint-configure.log
  run-clang-tidy-16 -quiet -p build-lint -j "$jobs" -checks=-bugprone-suspicious-include -extra-arg=-Wno-shadow \
    "^$PWD/(build-lint/)?(src|solvers|drivers)/" >build/clang-tidy.log 2>build/clang-tidy.err ||
    {
      grep -vE '^(clang-tidy-16|$)' build/clang-tidy.log
      return 1
    }
}

asan() { # -O1 -g1 builds in half the time of -O2 -g, and the tests are short
  # shellcheck disable=SC2046 # nothing or one word
  cmake --preset asan $(unity_in build-asan) -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DBUILD_TESTING=ON -DPython3_EXECUTABLE="$FLUXFORMER_PYTHON"
  cmake --build build-asan --target fluxformer unit_and_mpi_tests
}
asan_tests() {
  ctest --test-dir build-asan --output-on-failure -j $((jobs + 1)) -R '^unit\.|^mpi\..*\.np2$|^fuzz\.' </dev/null
}

what=${1:-all}
case $what in
  build | ctest | lint | asan | all) ;;
  *) die "no stage '$what' (build, ctest, lint, asan, all)" ;;
esac
wants() { [ "$what" = all ] || [ "$what" = "$1" ]; }

need_packages run test
mpi_environment 6
if [ "$what" != asan ]; then needed_stage "build" build; fi
if wants ctest; then stage "ctest" run_tests; fi
if wants lint; then
  stage "lint: shellcheck" shell_lint
  stage "lint: comments of the headers" api_comments
  stage "lint: clang-tidy" tidy
fi
if wants asan; then
  needed_stage "asan: build" asan
  stage "asan: ctest" asan_tests
fi
finish
