"""The project's files: those git tracks or would track, or every file without git."""

import os
import subprocess


def project_files(root):
    """Sorted paths relative to `root`, '/' between folders. Build folders and results are left out."""
    try:
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True).stdout
        names = [name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if not f.startswith(("build", ".git", "__pycache__")) and f != "out"]
            names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(name for name in set(names) if os.path.isfile(os.path.join(root, name)))
