#!/usr/bin/env bash
# Builds the image of packaging/Containerfile from a Debian root, and runs it: version, a deck on two ranks, figures, the explorer.
#
#   tests/portability/container.sh ROOT_ARCHIVE [FOLDER]     a tar file of what `debootstrap --variant=minbase` made; a folder for the Debian
#                                                            packages that the image is made of (deb.sh tries them)
#
# Needs root, buildah, and / as a mount point (it is none in a plain chroot). Compiles the program. Writes a folder in
# /var/tmp, or TMPDIR, of some gigabytes, and removes it.
set -euo pipefail
archive=$(realpath -- "${1:?which archive? tests/portability/container.sh ROOT_ARCHIVE [FOLDER]}")
packages=$(realpath -m -- "${2:-/}")
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
. .ci/setup.sh

[ -f "$archive" ] || die "no file $archive"
[ "$(id -u)" -eq 0 ] || die "needs root, to build an image in a chroot"
command -v buildah >/dev/null || die "buildah is missing: apt-get install -y --no-install-recommends buildah"
mountpoint -q / || die "/ is not a mount point here, which buildah needs: run it outside of the chroot"

store=$(mktemp -d "${TMPDIR:-/var/tmp}/fluxformer-image.XXXXXX")
of_store() { buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$@"; }
inside() { of_store run --isolation chroot "$container" -- "$@"; }
trap 'rm -rf --one-file-system -- "$store"' EXIT

say "base image"
container=$(of_store from scratch)
of_store add -q "$container" "$archive" /
inside sh -c 'echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/speed' # as in Debian's own images
of_store commit -q "$container" base
of_store rm "$container" >/dev/null
say "image"
# With layers the second one, or what else is made of the stage, does not build again.
bud() { of_store bud --layers --isolation chroot --build-arg BASE=localhost/base -f packaging/Containerfile "$@" .; }
if [ "$packages" != / ]; then
  bud --target build -t build
  container=$(of_store from build)
  mkdir -p -- "$packages"
  cp -- "$(of_store mount "$container")"/deb/packages/*.deb "$packages"
  of_store rm "$container" >/dev/null
fi
bud -t fluxformer
of_store images
say "run"
[ "$(of_store inspect --type image --format '{{.OCIv1.Config.Entrypoint}}' fluxformer)" = "[fluxformer]" ] || die "the image does not start the program"
container=$(of_store from fluxformer)
inside fluxformer --version
# shellcheck disable=SC2016 # expanded in the container
inside sh -c 'set -e; cd /tmp
  export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  mpiexec -n 2 fluxformer evolve /usr/share/fluxformer/input/evolve/evolve.ini --mesh.layers=2 --evolve.time=4 --output.file=out.h5
  fluxformer plot out.h5 --output figures
  fluxformer view out.h5 --output page.html
  test -s figures/front.png
  test -s page.html'
