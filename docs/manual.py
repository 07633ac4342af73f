#!/usr/bin/env python3
"""Writes the manual page of the program, fluxformer(1), from `fluxformer --describe=json`.

    docs/manual.py PROGRAM FILE

Standard library only.
"""

import datetime
import os
import re
import subprocess
import sys
import time

from describe import description, keys_by_section, owners

# Requests of man(7). What the program says of itself is put between them.
HEAD = r""".\" Made by docs/manual.py.
.TH FLUXFORMER 1 @date@ "@version@" "User Commands"
.SH NAME
fluxformer \- a Transformer solved as a partial differential equation over depth and tokens
.SH SYNOPSIS
.nf
\fBfluxformer\fR \fIEXPERIMENT\fR [\fIDECK\fR] [\fB\-\-\fIsection\fB.\fIkey\fB=\fIvalue\fR ...] [\fB\-\-validate\fR] [\fB\-\-quiet\fR]
\fBmpiexec \-n\fR \fIRANKS\fR \fBfluxformer\fR \fIEXPERIMENT\fR [\fIDECK\fR] ...
\fBfluxformer\fR \fIEXPERIMENT\fR \fB\-\-help\fR
\fBfluxformer\fR \fICOMMAND\fR [\fIARGUMENT\fR ...]
\fBfluxformer\fR [\fB\-\-version\fR | \fB\-\-describe=json\fR]
.fi
.SH DESCRIPTION
The hidden states of all layers of a Transformer and of all its tokens are the solution of a partial differential equation: transported
through depth, mixed by attention, transformed by the feed\-forward network.
.B fluxformer
solves it in time, trains such models, and compares them with Transformers.
Each run is one
.I EXPERIMENT
and writes one HDF5 file.
.PP
A
.I DECK
is an INI file with the settings of a run, or an output file whose settings are used again.
What neither it nor the command line gives has its default; the command line overrides the deck.
A line of a deck is
.I key
.B =
.IR value ,
below the line
.RI [ section ];
a comment begins with #.
.PP
Without arguments the program lists experiments and commands.
.SH OPTIONS
.TP
.B \-\-\fIsection\fB.\fIkey\fB=\fIvalue
A setting; see KEYS. An empty value clears a word.
.TP
.B \-\-petsc.\fIname\fB=\fIvalue
An option of PETSc, SLEPc or TAO, without its hyphen; the section [petsc] of a deck holds them, too.
.TP
.B \-\-validate
Check everything but the files to write, print what would run, and stop.
.TP
.B \-\-quiet
No display of progress.
.TP
.BR \-\-help ", " \-h
The keys of an experiment; what a command does.
.TP
.B \-\-version
Revision, compiler, libraries.
.TP
.B \-\-describe=json
Experiments, keys, commands and the names in files, for programs; of one experiment, if its name comes before.
"""
COMMANDS = r""".SH COMMANDS
They read and write files and start without MPI. All but
.B check
belong to the Python package fluxformer;
.I COMMAND
.B \-\-help
explains each. Of the processes that a launcher starts, the first does the work.
"""
KEYS = r""".SH KEYS
By section of a deck. After a key stands its default.
"""
TAIL = r""".SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
Anything else: a full disk, an error of a library.
.TP
.B 2
Invalid input: deck, command line, data, model, output folder. One message names it; nothing was run.
.TP
.B 3
Numerical failure: state not finite or too large, a solver failed. The file holds the results up to then.
.TP
.B 4
Stopped by a signal (SIGTERM, SIGUSR1, SIGINT) or \fBrun.time_limit\fR, with a checkpoint beside the output.
.PP
A command of the Python package ends with its own code, 0, 1 or 2, or by the signal that it got.
.SH ENVIRONMENT
.TP
.B FLUXFORMER_PYTHON
The Python that runs the commands, instead of that of configure time; that of job scripts.
.TP
.B PYTHONPATH
Folders with the Python package, after that which is installed beside the program.
.TP
.B FLUXFORMER_TRACEBACK
If set, commands show where a fault happened.
.TP
.B FLUXFORMER_BIN
The program that Python (fluxformer.run) and job scripts start.
.TP
.B FLUXFORMER_LAUNCHER
What starts several ranks for Python and job scripts: auto, srun, mpirun; for Python also another one, with its options.
.TP
.B FLUXFORMER_PROGRESS
Seconds between lines of progress that go to no terminal; 5, unless it is set.
.TP
.BR OMP_NUM_THREADS ", " OPENBLAS_NUM_THREADS ", " BLIS_NUM_THREADS
Threads of a rank in matrix products; one, unless one of them is set.
.TP
.B OPENBLAS_CORETYPE
Kernels of matrix products; the program warns if they do not fit the processor.
.TP
.B PETSC_OPTIONS
Options that PETSc reads when it starts; they are kept in the file.
.TP
.B HDF5_USE_FILE_LOCKING
Whether HDF5 locks files; commands read without locks, unless it is set.
.SH FILES
.I PREFIX
is that of the installed tree, /usr for the Debian package.
.TP
.I PREFIX/share/fluxformer/input
Decks of all experiments.
.TP
.I PREFIX/share/fluxformer/jobscripts
Job scripts for SLURM.
.TP
.I PREFIX/share/fluxformer/postprocess
The Python package.
.TP
.I PREFIX/share/doc/fluxformer
Guide, references and results.
.TP
.IR NAME .h5.part
The output of a run that goes on.
.TP
.IR NAME .checkpoint.h5
From which \fB\-\-checkpoint.restart=auto\fR goes on.
.SH EXAMPLES
.nf
mpiexec \-n 2 fluxformer @deck@ \-\-output.file=first.h5
fluxformer plot first.h5 \-\-output figures
fluxformer @experiment@ first.h5 \-\-output.file=again.h5
.fi
.SH SEE ALSO
.BR mpiexec (1),
.BR h5dump (1),
.BR python3 (1)
"""


def roff(text):
    """A text as it is, in the language of the page."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti").replace("`", "\\(ga")
    return "\\&" + text if text.startswith(".") else text


def paragraph(heading, *lines):
    """A heading in bold (after which may stand what is not) and an indented paragraph."""
    return "\n".join([".TP", heading, *lines, ""])


def bold(text):
    return f"\\fB{roff(text)}\\fR"


def capital(sentence):
    """A sentence that begins with a capital letter, unless a formula or a name is its first word."""
    return sentence[0].upper() + sentence[1:] if re.match(r"[a-z]+[ ,;:]", sentence) else sentence


def meaning(key, names):
    """The sentence of a key, its range and choices, when it counts, and the experiments that have it."""
    low = f"> {key['above']:g}" if "above" in key else f">= {key['minimum']:g}" if "minimum" in key else ""
    bounds = " and ".join(filter(None, [low, f"<= {key['maximum']:g}" if "maximum" in key else ""]))
    parts = [capital(roff(key["sentence"]))]
    if key.get("choices"):
        parts.append("One of " + ", ".join(map(bold, key["choices"])))
    if bounds:
        parts.append(f"{key['type'].capitalize()} {roff(bounds)}")
    if key.get("when"):
        parts.append(f"Counts if {roff(key['when'])}")
    if names:
        parts.append("Of " + ", ".join(map(bold, names)))
    return [part if part.endswith(".") else part + "." for part in parts]


def value(key):
    """The default of a key as one writes it, with its unit."""
    default = key["default"]
    text = ", ".join(map(str, default)) if isinstance(default, list) else str(default).lower() if isinstance(default, bool) else str(default)
    return (text + (f" {key['unit']}" if key.get("unit") else "")) if text else "(empty)"


def keys(described):
    """The keys by section; one that several experiments have in the same way stands there once."""
    sections = {}  # {section: {what a key is: (key, experiments)}}
    for one in described["experiments"]:
        for key in one["keys"]:
            rows = sections.setdefault(key["name"].partition(".")[0], {})
            rows.setdefault(str(key), (key, []))[1].append(one["name"])
    for section, rows in sections.items():
        everyone = list(dict.fromkeys(name for _, names in rows.values() for name in names))
        yield f".SS [{section}]\nOf {', '.join(map(bold, everyone))}.\n"
        for key, names in rows.values():
            yield paragraph(f"{bold(key['name'])} = {roff(value(key))}", *meaning(key, names if names != everyone else []))


def page(described, version, date):
    """The manual page, for man(1)."""
    first = described["experiments"][0]
    parts = [HEAD.replace("@version@", roff(version)).replace("@date@", date), ".SH EXPERIMENTS\n"]
    for family in dict.fromkeys(one["family"] for one in described["experiments"]):
        parts.append(f".SS {roff(family)}\n")
        for one in described["experiments"]:
            if one["family"] == family:
                sections = dict.fromkeys(key["name"].partition(".")[0] for key in one["keys"])
                parts.append(paragraph(bold(one["name"]), f"{capital(roff(one['sentence']))}.", f"Sections: {', '.join(sections)}."))
    parts.append(COMMANDS)
    parts += [paragraph(f"{bold(one['name'])} \\fI{roff(one['arguments'])}\\fR", f"{capital(roff(one['sentence']))}.")
              for one in described["commands"]]
    parts += [KEYS, *keys(described)]
    deck = f"{first['name']} PREFIX/share/fluxformer/input/{first['family']}/{first['name']}.ini"
    parts.append(TAIL.replace("@deck@", deck).replace("@experiment@", first["name"]))
    return "".join(parts)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    said = subprocess.run([sys.argv[1], "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"^git_revision = (\w+)|$", said, re.MULTILINE)[1] or ""
    # The day of the build, unless that is to be the same on any day.
    date = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time()), datetime.timezone.utc)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(page(description(sys.argv[1]), f"Fluxformer {version[:10]}".strip(), f"{date:%Y-%m-%d}"))


if __name__ == "__main__":
    main()
