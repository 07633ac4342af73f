#include "drivers/train_checks.hpp"

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "drivers/model_options.hpp"
#include "drivers/train_experiment.hpp"

namespace fluxformer {
namespace {

void refuse_idle_adjoint_keys(const Settings& settings) {
  Schema schema;
  declare_train(schema);
  const Settings defaults(schema, {}, {}, {});
  const auto needs = [](bool differs, const char* key, bool met, const char* what) {
    if (differs && !met) throw BadInput(std::string(key) + ": needs " + what);
  };
  const auto word = [&](const char* key, bool met, const char* what) {
    needs(settings.word(key) != defaults.word(key), key, met, what);
  };
  const auto& keep = settings.word("adjoint.keep");
  const bool theta = settings.real("adjoint.theta") != defaults.real("adjoint.theta");
  const bool segment = settings.integer("adjoint.segment") != defaults.integer("adjoint.segment");
  const bool adjoint = settings.word("train.gradient") == "adjoint";
  const char* evaluator = "train.gradient = adjoint";
  word("adjoint.method", adjoint, evaluator);
  word("adjoint.keep", adjoint, evaluator);
  word("adjoint.folder", adjoint, evaluator);
  needs(theta, "adjoint.theta", adjoint, evaluator);
  needs(segment, "adjoint.segment", adjoint, evaluator);
  word("adjoint.folder", keep == "disk", "adjoint.keep = disk");
  needs(theta, "adjoint.theta", settings.word("adjoint.method") == "theta", "adjoint.method = theta");
  needs(segment, "adjoint.segment", keep != "stages", "adjoint.keep = segments or disk");
}

bool implicit_in_depth(const Settings& settings) {
  const auto& method = settings.word("adjoint.method");
  return settings.word("train.gradient") == "adjoint" &&
         (method == "beuler" || method == "cn" || method == "theta");
}

}  // namespace

void refuse_what_training_ignores(const Settings& settings) {
  if (settings.real("equation.epsilon") > 0)
    throw BadInput(
        "equation.epsilon: training solves the steady state by a march through depth, which knows no "
        "diffusion in depth");
  if (settings.word("depth.scheme") != "shift")
    throw BadInput("depth.scheme = " + settings.word("depth.scheme") +
                   ": training marches through depth; leave the key out and choose train.gradient = adjoint "
                   "with adjoint.method");
  if (settings.count("mesh.ranks_depth") > 1)
    throw BadInput("mesh.ranks_depth = " + std::to_string(settings.count("mesh.ranks_depth")) +
                   ": training does not split depth; its ranks share the samples of a batch, and tokens with "
                   "mesh.ranks_token");
  refuse_idle_adjoint_keys(settings);
}

void refuse_other_lattice(const Settings& settings, const Dataset& data) {
  const auto same = [&](const char* key, int tokens) {
    const int asked = settings.count(key);
    if (asked > 0 && asked != tokens)
      throw BadInput(std::string(key) + " = " + std::to_string(asked) + ": the data has " +
                     std::to_string(tokens) + "; leave the key out");
  };
  same("mesh.tokens_x", data.tokens_x());
  same("mesh.tokens_y", data.tokens_y());
}

double largest_kappa(const Settings& settings, const Parameters& parameters, const TokenLine& line) {
  if (implicit_in_depth(settings)) return std::numeric_limits<double>::max();
  const auto equation = equation_spec(settings, parameters.spec);
  const int axes = std::max(1, (line.tokens_x() > 1 ? 1 : 0) + (line.tokens_y() > 1 ? 1 : 0));
  const double largest = 0.5 * equation.speed / (equation.depth.spacing() * axes);
  for (const auto& view : parameters.layout.views()) {
    if (view.name != "kappa") continue;
    for (const double kappa : parameters.view(view.path()))
      if (kappa > largest * (1 + 1e-12)) {
        std::ostringstream text;
        text << "equation.kappa = " << kappa << ": explicit steps through depth bear at most " << largest
             << " on these mesh.cells; more of them help, or train.gradient = adjoint with adjoint.method = "
                "beuler";
        throw BadInput(text.str());
      }
  }
  return largest;
}

}  // namespace fluxformer
