#!/usr/bin/env bash
# Installs Debian packages of packaging/make_deb.sh in a Debian root of their release, runs what they hold from another folder, removes them,
# and checks that no file of theirs is left.
#
#   tests/portability/deb.sh ROOT DEB...     ROOT: a folder made by debootstrap; what the packages depend on is installed in it
#
# Needs root. Writes ROOT.
set -euo pipefail

listed() { # files of the system, but for what apt and dpkg know and keep
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/cache -o -path /var/log \
    -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -print | sort
}

inside() { # in the root, with the packages in /tmp/deb
  local deb made names=()
  export DEBIAN_FRONTEND=noninteractive HOME=/tmp/deb OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  cd /tmp/deb
  apt-get update -q
  for deb in *.deb; do
    names+=("$(dpkg-deb -f "$deb" Package)")
    apt-get satisfy -qy --no-install-recommends "$(dpkg-deb -f "$deb" Depends | sed -E 's/(^|, )fluxformer[^,]*//g; s/^, //')"
  done
  dpkg --purge "${names[@]}" # of a run that was stopped
  listed >before
  apt-get install -qy --no-install-recommends ./*.deb
  mkdir work
  cd work
  fluxformer --version
  mpiexec -n 2 fluxformer evolve /usr/share/fluxformer/input/evolve/evolve.ini --mesh.layers=2 --evolve.time=4 --output.file=out.h5
  fluxformer plot out.h5 --output figures
  fluxformer view out.h5 --output page.html
  for made in figures/front.png page.html /usr/share/man/man1/fluxformer.1 /usr/share/bash-completion/completions/fluxformer; do
    [ -s "$made" ]
  done
  cd ..
  dpkg -L "${names[@]}" >/tmp/deb/held
  apt-get purge -qy "${names[@]}"
  listed >after
  diff before after || {
    echo "deb.sh: these files are left (>) or gone (<)" >&2
    return 1
  }
  echo "${names[*]}: $(sort -u held | wc -l) files and folders came and went"
}

if [ "${1:-}" = --inside ]; then
  inside
  exit
fi
[ $# -ge 2 ] || {
  echo "deb.sh: which root and packages? tests/portability/deb.sh ROOT DEB..." >&2
  exit 2
}
[ "$(id -u)" -eq 0 ] || {
  echo "deb.sh: needs root, to install packages in $1" >&2
  exit 2
}
root=$(realpath -- "$1")
shift
rm -rf -- "${root:?}/tmp/deb"
mkdir "$root/tmp/deb"
cp -- "$@" "${BASH_SOURCE[0]}" "$root/tmp/deb"
# Mounts and processes of its own, which end with it.
# shellcheck disable=SC2016 # $0 is the root
unshare --mount --propagation private --pid --fork --kill-child bash -c 'set -e
  mount -t proc proc "$0/proc"
  mount --rbind /dev "$0/dev"
  mount -t tmpfs shm "$0/dev/shm"
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 chroot "$0" bash /tmp/deb/deb.sh --inside' "$root" </dev/null
rm -rf -- "${root:?}/tmp/deb"
