#!/usr/bin/env bash
# Debian 13 beside this system: makes a root folder with debootstrap and does there what a user does, in a clone of the commit of this
# checkout: run.sh up to the first figures, and test.sh's build and tests. Compares run.sh's result with that of this system's build. Then
# makes the container image and the Debian packages in it, and installs the packages in a root of their own.
#
#   tests/portability/debian13.sh [FOLDER]      default: a temporary folder, which is removed at the end. A folder that is given is kept,
#                                               and used again by the next call.
#
# Needs root, buildah and a mirror of Debian (DEBIAN_MIRROR, default http://deb.debian.org/debian); takes many gigabytes. The folder's
# /proc, /sys and /dev are mounted in name spaces of this script's own: however it ends, nothing stays mounted, and no process goes on.
# A step that fails ends it.
set -euo pipefail
here=$(cd -- "$(dirname -- "$0")" && pwd)
cd -- "$here/../.."
. .ci/setup.sh

release=trixie
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
program=build/bin/fluxformer # of this system, and in the clone

check_needs() {
  [ "$(id -u)" -eq 0 ] || die "making the root folder of another system takes root: call it as root or with sudo"
  command -v debootstrap >/dev/null || die "debootstrap is missing (apt-get install debootstrap)"
  command -v buildah >/dev/null || die "buildah is missing (apt-get install buildah)"
  [ -x "$program" ] || die "$program is missing, whose numbers are compared: ./run.sh or ./test.sh build makes it"
  wget -q --spider --tries=2 --timeout=60 "$mirror/dists/$release/Release" || die "no Debian 13 at $mirror (DEBIAN_MIRROR names another mirror)"
}

# The first call checks, and runs this script again in name spaces of mounts and processes, which end with it.
if [ "${FLUXFORMER_PORTABILITY:-}" != inside ]; then
  [ $# -le 1 ] || die "at most one folder"
  check_needs
  cmake --build build --target fluxformer
  if [ $# -eq 1 ]; then
    mkdir -p "$1"
    root=$(cd -- "$1" && pwd)
    [ -z "$(ls -A "$root")" ] || [ -e "$root/debootstrap" ] || [ -e "$root/srv/made" ] || die "$root is neither empty nor made by this script"
  else
    root=$(mktemp -d /var/tmp/fluxformer-debian13.XXXXXX)
    trap 'rm -rf --one-file-system "$root"' EXIT
  fi
  FLUXFORMER_PORTABILITY=inside unshare --mount --pid --fork --kill-child --mount-proc "$here/${0##*/}" "$root" &
  inside=$!
  trap 'kill -KILL "$inside"; exit 1' INT TERM HUP
  status=0
  wait "$inside" || status=$?
  exit "$status"
fi
root=$1
clone=$root/srv/fluxformer

make_root() {
  if [ ! -e "$root/srv/made" ]; then
    debootstrap --variant=minbase "$release" "$root" "$mirror"
    tar -C "$root" --exclude=./srv/* -cf "$root/srv/bare.tar" .
  fi
  : >"$root/srv/made"
  cp /etc/hosts "$root/etc/hosts" # SLURM looks up the name of this machine
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/speed"
}
mount_folders() {
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys" # hwloc, and with it Open MPI, counts cores there
  mount --rbind /dev "$root/dev"
  mount -t tmpfs shm "$root/dev/shm"
  mkdir -p "$root/mnt/data"
  if [ -n "${FLUXFORMER_DATA:-}" ]; then mount --bind -o ro "$FLUXFORMER_DATA" "$root/mnt/data"; fi
}
copy_source() {
  [ -e "$clone" ] || git init -q "$clone"
  git -C "$clone" fetch -q "$PWD" HEAD
  git -C "$clone" reset -q --hard FETCH_HEAD
  git -C "$clone" log -1 --oneline --no-decorate
}
inside() { # COMMAND: in the clone, with nothing of this environment but the proxy
  chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin ${FLUXFORMER_DATA:+FLUXFORMER_DATA=/mnt/data} \
    ${http_proxy:+"http_proxy=$http_proxy"} bash -c "cd /srv/fluxformer && $1" </dev/null
}
first_figures() {
  inside './run.sh solve'
  [ -n "$(ls "$clone"/out/figures/*.png)" ]
}
compare_numbers() { # of run.sh with those of the same settings here, on as many ranks
  mpi_environment 2
  mpiexec -n 2 "$program" evolve input/evolve/evolve.ini --quiet --output.overwrite=true --output.file="$root/srv/here.h5" </dev/null
  "$FLUXFORMER_PYTHON" - "$clone/out/evolve.h5" "$root/srv/here.h5" <<'END'
import sys
import h5py
import numpy as np
there, here = (h5py.File(path)["field/u"][...] for path in sys.argv[1:])
largest, difference = np.abs(here).max(), np.abs(there - here).max()
print(f"field/u: {there.size} numbers of at most {largest:.4g} differ by at most {difference:.2g}")
sys.exit(0 if difference <= 1e-12 * largest else "more than 1e-12 of the largest")
END
}
tests() { inside './test.sh ctest' | tee "$root/srv/tests.log"; }
image_and_packages() { tests/portability/container.sh "$root/srv/bare.tar" "$root/srv/packages"; }
packages_installed() {
  local bare=$root/srv/bare
  rm -rf --one-file-system "$bare"
  mkdir "$bare"
  tar -C "$bare" -xf "$root/srv/bare.tar"
  tests/portability/deb.sh "$bare" "$root"/srv/packages/*.deb
}
versions() {
  echo "here:" && "$program" --version
  echo "Debian 13:" && inside "$program --version"
  inside "dpkg-query -W libhdf5-openmpi-dev libxsmm-dev libopenblas-serial-dev python3 python3-numpy python3-h5py python3-matplotlib"
  grep 'tests passed' "$root/srv/tests.log"
}

needed_stage "Debian 13: root folder" make_root
mount_folders
needed_stage "Debian 13: source" copy_source
needed_stage "Debian 13: ./run.sh solve" first_figures
needed_stage "Debian 13: numbers" compare_numbers
needed_stage "Debian 13: ./test.sh ctest" tests
needed_stage "Debian 13: versions" versions
needed_stage "Debian 13: image, packages" image_and_packages
needed_stage "Debian 13: packages installed" packages_installed
finish
