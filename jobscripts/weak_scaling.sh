#!/usr/bin/env bash
# What: a weak-scaling study: as strong_scaling.sh, but with the problem of the deck on each rank, grown along its scaling.over.
# How:  jobscripts/weak_scaling.sh [--dry-run] [sbatch options] DECK "1 2 4 8" [--section.key=value ...]
#           jobscripts/weak_scaling.sh --time=00:10:00 input/scaling/evolve.ini "1 2 4 8" --mesh.layers=12
# Writes: as strong_scaling.sh, with weak instead of strong in the names.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=jobscripts/scaling_study.sh
. jobscripts/scaling_study.sh weak "$@"
