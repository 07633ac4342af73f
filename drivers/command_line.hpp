#pragma once

namespace fluxformer {

/// The whole program between MPI_Init and MPI_Finalize:
///   fluxformer                                     lists the experiments by family
///   fluxformer EXPERIMENT --help                   its keys
///   fluxformer EXPERIMENT DECK [--section.key=value ...] [--validate] [--quiet]
/// DECK is an INI file, or an output file whose settings are reused; it may be left out (all defaults).
/// Collective over MPI_COMM_WORLD. Returns the exit code, the same on all ranks; messages go to rank 0's
/// standard error.
int run_command_line(int argc, char** argv);

}  // namespace fluxformer
