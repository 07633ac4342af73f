#pragma once

// The options of section [petsc].

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fluxformer {

/// Options of PETSc: names without dash, and values ("" for a flag).
using SolverOptions = std::vector<std::pair<std::string, std::string>>;

/// True if the option may stand in a file (a deck, settings stored in an output): it chooses methods and
/// numbers of PETSc's TS, SNES, KSP or PC or of SLEPc's EPS, ST, BV or DS, or prints to the terminal. Any
/// other can open files or start programs: viewers, logs, trajectories, Python, compilers. The command line
/// may hold them all.
bool can_stand_in_a_file(std::string_view name, std::string_view value);

/// Sets the options in PETSc's database. Throws BadInput for a name that is empty, starts with a dash or
/// contains blanks, and for a TS, SNES or PC that cannot work here (PETSc crashes with some).
void set_petsc_options(const SolverOptions& options);
/// Removes from PETSc's database the options of this list that PETSc never looked up, and returns their
/// names. Called after the solvers were set up.
std::vector<std::string> remove_unused_petsc_options(const SolverOptions& options);

}  // namespace fluxformer
