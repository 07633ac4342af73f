// The options of all experiments: conditions can be parsed, and roles are as other code assumes.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/registry.hpp"

namespace fluxformer::test {
namespace {

std::shared_ptr<const Options> options_of(const ExperimentEntry& entry) {
  return std::make_shared<const Options>(entry.declare);
}

TEST(ExperimentOptions, name_keys_and_values_in_their_conditions_that_exist) {
  for (const auto& entry : experiments()) EXPECT_NO_THROW(options_of(entry)) << entry.name;
}

TEST(ExperimentOptions, are_all_accepted_at_their_defaults) {
  for (const auto& entry : experiments()) {
    const Settings settings(options_of(entry), "", {});
    EXPECT_NO_THROW(settings.refuse_idle_keys()) << entry.name;
    EXPECT_NO_THROW(Settings(settings.options(), settings.resolved(), {}).refuse_idle_keys()) << entry.name;
  }
}

TEST(ExperimentOptions, have_one_role_in_all_experiments) {
  std::map<std::string, Role> known;
  for (const auto& entry : experiments()) {
    const auto options = options_of(entry);
    for (const Option& option : options->all()) {
      const auto [found, added] = known.emplace(option.name, option.role);
      EXPECT_EQ(found->second, option.role) << entry.name << ": " << option.name;
    }
  }
  for (const auto& [name, role] : known)
    EXPECT_EQ(role == Role::output || role == Role::permission,
              name.starts_with("output.") || name.starts_with("checkpoint.") || name == trust_files_key)
        << name;
  EXPECT_EQ(known.at("output.overwrite"), Role::permission);
  EXPECT_EQ(known.at(trust_files_key), Role::permission);
}

TEST(ExperimentOptions, may_change_in_a_continued_run_where_they_do_not_change_the_solution) {
  std::set<std::string> free;
  for (const auto& entry : experiments()) {
    const auto options = options_of(entry);
    for (const Option& option : options->all())
      if (option.role == Role::free) free.insert(option.name);
  }
  const std::set<std::string> expected{"adjoint.folder",      "data.directory",   "data.file",
                                       "evolve.steady",       "evolve.stop",      "evolve.time",
                                       "mesh.ranks_depth",    "mesh.ranks_token", "paths.ranks_point",
                                       "run.memory",          "run.time_limit",   "scaling.machine",
                                       "scaling.repetitions", "scaling.steps",    "scaling.warm_up",
                                       "train.micro_batches", "train.pipeline",   "train.report_depth"};
  EXPECT_EQ(free, expected);
}

// Role `model` is what a model file decides: everything but the coefficients, which override it if given.
TEST(ModelSettings, describe_a_model_by_all_options_of_role_model) {
  const auto options = std::make_shared<const Options>(declare_model_options);
  ModelSpec spec;
  spec.attention.normalisation = Normalisation::sinkhorn;
  spec.transport = true;
  // Coefficients replace those of a file, and its angles and windows are compared as such.
  std::set<std::string> described{"equation.alpha",  "equation.rho",          "equation.kappa",
                                  "equation.nu",     "attention.rotary_base", "attention.rotary_share",
                                  "attention.window"};
  for (const auto& [name, value] : settings_of(spec)) described.insert(name);
  std::set<std::string> of_model;
  for (const Option& option : options->all())
    if (option.role == Role::model) of_model.insert(option.name);
  EXPECT_EQ(described, of_model);
  EXPECT_NO_THROW(Settings(options, "", {}).with(settings_of(spec)));  // types and choices
}

TEST(ModelSettings, of_role_model_are_left_to_the_file) {
  const auto options = std::make_shared<const Options>(declare_model_options);
  Settings settings(options, "[model]\nfile = weights.h5\nwidth = 32\n", {});
  leave_model_to_file(settings);
  const Settings stored(options, settings.resolved(), {});
  EXPECT_TRUE(stored.given("model.width"));
  EXPECT_TRUE(stored.given("model.seed"));
  EXPECT_TRUE(stored.given("equation.c"));
  for (const char* name : {"model.kind", "mesh.layers", "depth.norm", "attention.heads", "equation.alpha"})
    EXPECT_FALSE(stored.given(name)) << name;
}

}  // namespace
}  // namespace fluxformer::test
