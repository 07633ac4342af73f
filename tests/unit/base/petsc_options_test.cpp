// What may stand in a deck: choices of methods and numbers, and printing.

#include "base/petsc_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <petscsys.h>

#include "base/error.hpp"

namespace fluxformer {
namespace {

using testing::ElementsAre;

TEST(PetscOptionsInFiles, choose_methods_and_numbers) {
  const SolverOptions choices = {{"ts_type", "beuler"},
                                 {"ts_ssp_nstages", "9"},
                                 {"ts_adapt_clip", "0.1,5"},
                                 {"snes_mf_operator", ""},
                                 {"ksp_rtol", "1e-8"},
                                 {"march_ksp_type", "gmres"},
                                 {"mg_levels_ksp_max_it", "2"},
                                 {"pc_factor_levels", "1"},
                                 {"sub_pc_type", "ilu"},
                                 {"snes_linesearch_type", "bt"},
                                 {"eps_type", "lanczos"},
                                 {"eps_ncv", "40"},
                                 {"bv_type", "mat"},
                                 {"st_shift", "0.5"},
                                 {"st_ksp_rtol", "1e-8"},
                                 {"ds_method", "1"}};
  for (const auto& [name, value] : choices) EXPECT_TRUE(can_stand_in_a_file(name, value)) << name;
}

TEST(PetscOptionsInFiles, print_to_the_terminal_only) {
  for (const char* name : {"ts_monitor", "ksp_monitor", "ts_view", "snes_converged_reason", "eps_monitor",
                           "eps_view_values", "eps_error_relative"}) {
    EXPECT_TRUE(can_stand_in_a_file(name, "")) << name;
    for (const char* value : {"ascii:a", ":a", "binary", "a"})
      EXPECT_FALSE(can_stand_in_a_file(name, value)) << name << " = " << value;
  }
}

// Those of PETSc's options that take a file or a program.
TEST(PetscOptionsInFiles, open_no_files_and_start_no_programs) {
  const SolverOptions harmful = {{"log_view", ""},
                                 {"history", ""},
                                 {"options_file", "a"},
                                 {"citations", "a"},
                                 {"viewer_binary_filename", "a"},
                                 {"on_error_emacs", "a"},
                                 {"start_in_debugger", ""},
                                 {"pf_string", "a"},
                                 {"popen_machine", "a"},
                                 {"glvis_exec", "a"},
                                 {"library_preload", "a"},
                                 {"dll_append", "a"},
                                 {"mat_mumps_ooc_tmpdir", "a"},
                                 {"ts_trajectory_type", "basic"},
                                 {"ts_save_trajectory", ""},
                                 {"ts_monitor_solution_vtk", "a"},
                                 {"ts_monitor_lg_error", ""},
                                 {"ts_monitor_draw_solution", ""},
                                 {"ksp_plot_eigenvalues", ""},
                                 {"pc_asm_print_subdomains", "a"},
                                 {"pc_hypre_parasails_logging", "1"},
                                 {"pc_type", "python"},
                                 {"ksp_type", "python"},
                                 {"pc_type", "shell"},
                                 {"pc_python_type", "a.b"},
                                 {"sub_pc_python_type", "a.b"},
                                 {"ksp_rtol", "/etc/a"},
                                 {"ts_type", "binary:a"},
                                 {"", ""},
                                 {"_", ""},
                                 {"march", ""},
                                 {"eps_view_vectors", "binary:a"},
                                 {"eps_monitor_all", "draw::draw_lg"},
                                 {"prefix_push", "a"}};
  for (const auto& [name, value] : harmful)
    EXPECT_FALSE(can_stand_in_a_file(name, value)) << name << " = " << value;
}

TEST(PetscOptions, reach_petsc_and_the_unused_ones_are_named_and_removed) {
  const SolverOptions options = {
      {"fluxformer_number", "7"}, {"fluxformer_flag", ""}, {"fluxformer_ignored", "1"}};
  set_petsc_options(options);
  PetscInt number = 0;
  PetscBool flag = PETSC_FALSE;
  check(PetscOptionsGetInt(nullptr, nullptr, "-fluxformer_number", &number, nullptr));
  check(PetscOptionsGetBool(nullptr, nullptr, "-fluxformer_flag", &flag, nullptr));
  EXPECT_EQ(number, 7);
  EXPECT_EQ(flag, PETSC_TRUE);
  EXPECT_THAT(remove_unused_petsc_options(options), ElementsAre("fluxformer_ignored"));
  PetscBool ignored = PETSC_TRUE;
  check(PetscOptionsHasName(nullptr, nullptr, "-fluxformer_ignored", &ignored));
  EXPECT_EQ(ignored, PETSC_FALSE);
  for (const auto& [name, value] : options) check(PetscOptionsClearValue(nullptr, ("-" + name).c_str()));
}

TEST(PetscOptions, choose_only_methods_that_work_with_products_of_the_jacobian) {
  const SolverOptions crashing = {
      {"ts_type", "alpha2"}, {"march_snes_type", "fas"}, {"sub_pc_type", "kaczmarz"}, {"ts_type", ""}};
  for (const auto& option : crashing) EXPECT_THROW(set_petsc_options({option}), BadInput) << option.first;
  const SolverOptions working = {{"ts_type", "bdf"},
                                 {"snes_type", "qn"},
                                 {"pc_type", "none"},
                                 {"ts_ssp_type", "rks2"},
                                 {"ksp_type", "cgs"}};
  set_petsc_options(working);
  for (const auto& [name, value] : working) check(PetscOptionsClearValue(nullptr, ("-" + name).c_str()));
}

TEST(PetscOptions, with_a_dash_or_a_blank_are_refused_and_none_is_set) {
  for (const std::string name : {"-ts_type", " ts_type", "ts type", ""}) {
    EXPECT_THROW(set_petsc_options({{"fluxformer_first", "1"}, {name, "1"}}), BadInput) << name;
    PetscBool set = PETSC_TRUE;
    check(PetscOptionsHasName(nullptr, nullptr, "-fluxformer_first", &set));
    EXPECT_EQ(set, PETSC_FALSE);
  }
}

}  // namespace
}  // namespace fluxformer
