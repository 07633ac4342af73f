#include "base/petsc_options.hpp"

#include <petscsys.h>

#include <algorithm>
#include <span>

#include "base/error.hpp"

namespace fluxformer {

namespace {

bool contains(std::span<const std::string_view> list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

/// The parts of "mg_levels_ksp_type" between the underscores.
std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  while (!name.empty()) {
    const auto end = std::min(name.find('_'), name.size());
    parts.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return parts;
}

// What may stand before the family: the solvers of the march, of blocks and of grids.
constexpr std::string_view prefixes[] = {"march", "sub", "mg", "levels", "coarse", "redundant", "inner"},
                           families[] = {"ts", "snes", "ksp", "pc", "eps", "st", "bv", "ds"};
// Options with these words take the name of a file, or a viewer, which may be one; without a value they
// print.
constexpr std::string_view printing[] = {"monitor", "view", "reason", "eps_error"};
constexpr std::string_view opening[] = {
    "binary",  "debug",    "dir",    "directory", "dirname",    "display", "draw", "dump", "email", "exec",
    "file",    "filename", "files",  "hdf5",      "hg",         "history", "info", "lg",   "load",  "log",
    "logging", "matlab",   "path",   "plot",      "print",      "python",  "ray",  "save", "saws",  "script",
    "sp",      "tmp",      "tmpdir", "trace",     "trajectory", "viewer",  "vtk"};
constexpr std::string_view programs[] = {"python", "matlab", "shell"};

// PETSc has more, which need a stored matrix, a mass matrix, grids or parts of the right-hand side, and crash
// or fail without. Every KSP fails politely.
struct Methods {
  std::string_view family;
  std::vector<std::string_view> names;
};
const Methods methods[] = {
    {"ts", {"alpha", "arkimex", "bdf", "beuler", "cn", "euler", "glee", "rk", "ssp", "theta"}},
    {"snes", {"anderson", "ksponly", "ncg", "newtonls", "newtontr", "ngmres", "nrichardson", "qn"}},
    {"pc", {"jacobi", "ksp", "mat", "none"}}};

/// Refuses pc_type, sub_pc_type, ... with a method that cannot work.
void require_usable_method(std::string_view name, std::string_view value) {
  const auto parts = parts_of(name);
  if (parts.size() < 2 || parts.back() != "type") return;
  const auto found = std::ranges::find(methods, parts[parts.size() - 2], &Methods::family);
  if (found == std::end(methods) || contains(found->names, value)) return;
  std::string list;
  for (const auto one : found->names) (list += list.empty() ? "" : ", ") += one;
  throw BadInput("petsc." + std::string(name) + " = " + std::string(value) + ": must be one of " + list +
                 "; the others do not work where only products with the Jacobian are known");
}

}  // namespace

bool can_stand_in_a_file(std::string_view name, std::string_view value) {
  const auto parts = parts_of(name);
  const auto family = std::ranges::find_if(parts, [](auto part) { return !contains(prefixes, part); });
  if (family == parts.end() || !contains(families, *family)) return false;
  if (std::ranges::any_of(parts, [](auto part) { return contains(opening, part); })) return false;
  if (std::ranges::any_of(printing, [&](auto word) { return name.find(word) != std::string_view::npos; }))
    return value.empty();
  // A viewer is written type:file, a file folder/name.
  return value.find_first_of(":/\\") == std::string_view::npos && !contains(programs, value);
}

void set_petsc_options(const SolverOptions& options) {
  for (const auto& [name, value] : options) {
    if (name.empty() || name[0] == '-' || name.find_first_of(" \t\r\n") != std::string::npos)
      throw BadInput("petsc." + name + ": a PETSc option is named without its dash and without blanks");
    require_usable_method(name, value);
  }
  for (const auto& [name, value] : options)
    check(PetscOptionsSetValue(nullptr, ("-" + name).c_str(), value.empty() ? nullptr : value.c_str()));
}

std::vector<std::string> remove_unused_petsc_options(const SolverOptions& options) {
  std::vector<std::string> unused;
  for (const auto& [name, value] : options) {
    PetscBool used = PETSC_FALSE;
    check(PetscOptionsUsed(nullptr, name.c_str(), &used));
    if (used == PETSC_TRUE) continue;
    unused.push_back(name);
    // At the end PETSc would act on some, or complain.
    check(PetscOptionsClearValue(nullptr, ("-" + name).c_str()));
  }
  return unused;
}

}  // namespace fluxformer
