"""The Python around this package: its faults (libraries that are missing, broken, or of a version that does not fit), which are never faults
of a file, and its shell. Needs the standard library only."""

from __future__ import annotations

import sys
import types
from typing import Any

PACKAGES = {"h5py": "python3-h5py", "numpy": "python3-numpy", "matplotlib": "python3-matplotlib", "scipy": "python3-scipy",
            "xarray": "python3-xarray", "jinja2": "python3-jinja2", "plotly": "python3-plotly", "h5netcdf": "python3-h5netcdf",
            "IPython": "python3-ipython", "torch": "python3-torch"}


def ipython() -> Any:
    """The shell of IPython or of a notebook that this Python runs in; None elsewhere."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def missing(name: str) -> str:
    """The message for a module that cannot be imported: how to install it."""
    package = PACKAGES.get(name.split(".")[0], f"python3-{name.split('.')[0]}")
    return (f"{name} is missing for {sys.executable}. On Debian: apt-get install {package}, and use /usr/bin/python3 "
            "(another python3 that comes first on PATH does not see Debian's packages)")


def of_environment(failure: BaseException) -> bool:
    """True if the exception tells of the Python around this package, whatever file was read: a module cannot be imported or fails while it
    is, or a module, class or function lacks something that another version of it has."""
    if isinstance(failure, (ImportError, NameError)) or isinstance(failure, TypeError) and "unexpected keyword argument" in str(failure):
        return True
    # An AttributeError of other things may come from a file: a group where an array is expected.
    if isinstance(failure, AttributeError) and isinstance(failure.obj, (types.ModuleType, type)):
        return True
    trace = failure.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "<module>" and trace.tb_frame.f_globals.get("__name__") != "__main__":
            return True  # while a module was imported
        trace = trace.tb_next
    return False


def versions() -> str:
    """The versions of Python and of the libraries that are loaded."""
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in PACKAGES}
    return ", ".join([f"Python {sys.version.split()[0]}", *(f"{name} {version}" for name, version in found.items() if version)])


def fault(failure: BaseException) -> str:
    """The message for an exception of the environment."""
    if isinstance(failure, ModuleNotFoundError) and failure.name and not failure.name.startswith("fluxformer"):
        return missing(failure.name)
    return (f"{type(failure).__name__}: {failure}. This is a fault of the Python libraries or of this program, not of a file ({versions()}); "
            "FLUXFORMER_TRACEBACK=1 shows where")
