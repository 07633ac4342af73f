#pragma once

namespace fluxformer {

/// The whole program, what `main` returns:
///   fluxformer                                     lists the experiments by family
///   fluxformer EXPERIMENT --help                   its keys
///   fluxformer check FILE...                       whether HDF5 survives these files
///   fluxformer plot FILE...                        a command of the Python package, which gets the arguments
///   fluxformer EXPERIMENT DECK [--section.key=value ...] [--validate] [--quiet]
/// DECK is an INI file, or an output file whose settings are reused; it may be left out (all defaults). All
/// but the last are answered before MPI starts, by the first of the processes that a launcher has started;
/// `check` by each of them. A command of the package takes the place of the first process, the others are done.
/// Returns the exit code, the same on all ranks; messages go to the standard error of rank 0.
int run_program(int argc, char** argv);

/// The last of them, for a program that has a Session: collective over MPI_COMM_WORLD.
int run_command_line(int argc, char** argv);

}  // namespace fluxformer
