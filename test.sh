#!/usr/bin/env bash
# Installs missing packages (Debian, as root or with sudo), builds with warnings as errors, and runs the tests, in one of two tiers.
#
#   ./test.sh [all|full] [build|ctest|lint|asan|clang|baseline]     default: all, and every stage
#   ./test.sh portability [FOLDER]                   Debian 13 beside this system (tests/portability/debian13.sh); not part of the above:
#                                                    when a package of debian-packages.txt or its use changes, and before a release.
#                                                    As root. A FOLDER that is given is kept and used again
#
#           all: what continuous integration runs            full: before a piece of work is called done
#
#   build   release build with all tests (build/)            the same
#   ctest   every test without the label `full`: units,      all tests, each MPI claim alone and on 4 and 6 ranks, too: campaigns,
#           convergence, regression, slurm, MPI claims       chains of jobs, all figures, what builds again (tests/CMakeLists.txt
#           together on 1, 2 and 3 ranks (4 where one        says which and why)
#           needs a grid of 2 x 2)
#   lint    shellcheck, comments of headers (doxygen),       clang-tidy over everything; when it has passed, tests/tidy-base
#           clang-tidy over sources that differ, or          names this commit
#           include a header that differs, from the
#           commit in tests/tidy-base
#   asan    address and undefined-behaviour sanitizers       the whole program (build-asan/): all unit tests, MPI tests on 2 ranks,
#           over base, io and data, their unit tests and     fuzz tests
#           the fuzz readers (in build/)
#   clang                                                    the program by clang++ (build-clang/), its unit tests of operators
#   baseline                                                 for x86-64-v2 (-DFLUXFORMER_NATIVE=OFF, build-baseline/), OpenBLAS and libxsmm
#                                                            as on such a processor: unit tests of operators, MPI claims about same bits
#                                                            and round-off on 1 and 2 ranks
#
# Formatting and the rules of the house are tests of ctest (architecture.*). Writes only to build/, build-lint/, build-asan/ and, in the
# second tier, build-clang/, build-baseline/ and tests/tidy-base. After a failed stage the later ones still run, except after a failed
# build. Prints the time of each stage at the end; exit status 0 if all passed.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. .ci/setup.sh

tier=all
case ${1:-} in all | full) tier=$1 && shift ;; esac
what=${1:-all}
case $what in
  build | ctest | lint | asan | all | portability) ;;
  clang | baseline) [ "$tier" = full ] || die "stage '$what' is of the second tier: ./test.sh full $what" ;;
  *) die "no stage '$what' (build, ctest, lint, asan, with all or full before it; full clang, full baseline; portability)" ;;
esac
wants() { [ "$what" = all ] || [ "$what" = "$1" ]; }
full() { [ "$tier" = full ]; }
jobs=$(cores)
if full; then export FLUXFORMER_TIER=full; fi # scripts of tests run more cases on more ranks

# configured_in FOLDER OPTION...: a release build with tests
configured_in() {
  # shellcheck disable=SC2046 # nothing or one word
  cmake --preset release -B "$1" $(unity_in "$1") -DFLUXFORMER_WERROR=ON -DBUILD_TESTING=ON -DPython3_EXECUTABLE="$FLUXFORMER_PYTHON" "${@:2}"
}
build() {
  configured_in build
  cmake --build build
}
tests_in() { # FOLDER OPTION...; one more than cores: many tests wait for the disk, or for a process to end
  ctest --test-dir "$1" --no-tests=error --output-on-failure -j $((jobs + 1)) "${@:2}" </dev/null
}
run_tests() { tests_in build -LE "$(if full; then echo '^together$'; else echo '^full$'; fi)"; }

scripts() { git ls-files -- '*.sh' '*.sbatch' .ci/run packaging/deb cmake/fluxformer-tools.in; }
shell_lint() { scripts | xargs -r shellcheck -x; }
api_comments() {
  cmake --build build --target docs
  "$FLUXFORMER_PYTHON" docs/undocumented.py build/docs/warnings.log
}
tidy() { # clang cannot read g++'s precompiled headers: compile commands without them, and the generated header; several sources at once
  # share the reading of headers, but include .cpp files, and their names shadow each other's (within a source, g++ finds that)
  local sources base=tests/tidy-base
  cmake --preset release -B build-lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DFLUXFORMER_UNITY=ON -DBUILD_TESTING=OFF >build/lint-configure.log
  cmake --build build-lint --target fluxformer_git_revision >>build/lint-configure.log
  if full; then base=/dev/null; fi
  "$FLUXFORMER_PYTHON" .ci/tidy_sources.py build-lint "$base" >build/clang-tidy.sources
  mapfile -t sources <build/clang-tidy.sources
  echo "${#sources[@]} groups of sources"
  [ ${#sources[@]} -gt 0 ] || return 0
  run-clang-tidy-16 -quiet -p build-lint -j "$jobs" -checks=-bugprone-suspicious-include -extra-arg=-Wno-shadow \
    "${sources[@]}" >build/clang-tidy.log 2>build/clang-tidy.err ||
    {
      grep -vE '^(clang-tidy-16|$)' build/clang-tidy.log
      return 1
    }
  # A tree with changes would name a commit that nobody has looked at.
  if full && git diff --quiet HEAD -- src solvers drivers .clang-tidy; then git rev-parse HEAD >tests/tidy-base; fi
}

asan() {
  if full; then # -O1 -g1 builds in half the time of -O2 -g, and the tests are short
    # shellcheck disable=SC2046 # nothing or one word
    cmake --preset asan $(unity_in build-asan) -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DBUILD_TESTING=ON -DPython3_EXECUTABLE="$FLUXFORMER_PYTHON"
    cmake --build build-asan --target fluxformer unit_and_mpi_tests
  else
    cmake --build build --target sanitized
  fi
}
asan_tests() {
  if full; then tests_in build-asan -R '^unit\.|^mpi\..*\.np2$|^fuzz\.'; else tests_in build -C sanitized -L '^sanitized$'; fi
}

by_clang() { # with all instructions of this machine
  local compiler
  compiler=$(command -v clang++-16 || command -v clang++)
  configured_in build-clang -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="${compiler/++/}"
  cmake --build build-clang --target fluxformer unit_operators
  tests_in build-clang -R '^unit\.operators$'
}
for_baseline() { # by g++, as what is packed and installed elsewhere
  local claims='ranks_do_not_matter|integrator_restart_is_exact|term_conformance|transformer_is_the_cfl_one_scheme'
  configured_in build-baseline -DFLUXFORMER_NATIVE=OFF
  cmake --build build-baseline --target unit_operators mpi_claims
  OPENBLAS_CORETYPE=Nehalem LIBXSMM_TARGET=wsm tests_in build-baseline -R "^unit\.operators\$|^mpi\.($claims)\.np[12]\$"
}

if [ "$what" = portability ]; then exec tests/portability/debian13.sh "${@:2}"; fi

groups=(run test)
if full; then groups+=(full); fi
need_packages "${groups[@]}"
mpi_environment 6
case "$tier $what" in
  "full asan" | "full clang" | "full baseline") ;;
  *) needed_stage "build" build ;;
esac
if wants ctest; then stage "ctest" run_tests; fi
if wants lint; then
  stage "lint: shellcheck" shell_lint
  stage "lint: comments of the headers" api_comments
  if command -v run-clang-tidy-16 >/dev/null; then
    stage "lint: clang-tidy" tidy
  else
    stage_lines+=("lint: clang-tidy: NOT CHECKED, it takes Debian 12's clang-tidy-16")
  fi
fi
if wants asan; then
  needed_stage "asan: build" asan
  stage "asan: ctest" asan_tests
fi
if full && wants clang; then stage "clang" by_clang; fi
if full && wants baseline; then stage "baseline" for_baseline; fi
finish
