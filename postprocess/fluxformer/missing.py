"""The message for a module that cannot be imported; needs the standard library only."""

from __future__ import annotations

import sys

PACKAGES = {"h5py": "python3-h5py", "numpy": "python3-numpy", "matplotlib": "python3-matplotlib", "scipy": "python3-scipy",
            "xarray": "python3-xarray", "h5netcdf": "python3-h5netcdf", "torch": "python3-torch"}


def message(name: str) -> str:
    """How to install the module `name`."""
    package = PACKAGES.get(name.split(".")[0], f"python3-{name.split('.')[0]}")
    return (f"{name} is missing for {sys.executable}. On Debian: apt-get install {package}, and use /usr/bin/python3 "
            "(another python3 that comes first on PATH does not see Debian's packages)")
