#!/usr/bin/env bash
# Makes the Debian packages of this tree for the release that it runs on, for any x86-64 processor: installs what the build needs
# (as root or with sudo), builds, packs.
#
#   packaging/make_deb.sh [FOLDER]     default: build-deb
#
# Writes FOLDER: the build, and fluxformer_*.deb and fluxformer-dev_*.deb in FOLDER/packages.
set -euo pipefail
folder=$(realpath -m -- "${1:-$(dirname -- "${BASH_SOURCE[0]}")/../build-deb}")
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. .ci/setup.sh

need_packages run deb
cmake --preset release -B "$folder" -DFLUXFORMER_NATIVE=OFF -DFLUXFORMER_UNITY=ON -DBUILD_TESTING=OFF -DFLUXFORMER_PYTHON=/usr/bin/python3
cmake --build "$folder"
cd -- "$folder"
rm -rf packages
cpack
mkdir packages
mv -- *.deb packages
ls -l -- "$folder"/packages
