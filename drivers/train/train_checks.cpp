#include "drivers/train/train_checks.hpp"

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/restart_check.hpp"
#include "drivers/train/train_experiment.hpp"

namespace fluxformer {
namespace {

/// Keys that differ from their default though nothing looks at them: the deck means something else than it
/// says.
void refuse_idle_keys(const Settings& settings) {
  Schema schema;
  declare_train(schema);
  const Settings defaults(schema, {}, {}, {});
  const auto idle = [&](const char* key, bool needed, const char* what) {
    const auto& option = *schema.find(key);
    if (!needed && value_text(settings, option) != value_text(defaults, option))
      throw BadInput(std::string(key) + ": needs " + what);
  };
  const auto is = [&](const char* key, const char* word) { return settings.word(key) == word; };

  const bool adjoint = is("train.gradient", "adjoint");
  for (const char* key :
       {"adjoint.method", "adjoint.keep", "adjoint.folder", "adjoint.theta", "adjoint.segment"})
    idle(key, adjoint, "train.gradient = adjoint");
  idle("adjoint.folder", is("adjoint.keep", "disk"), "adjoint.keep = disk");
  idle("adjoint.theta", is("adjoint.method", "theta"), "adjoint.method = theta");
  idle("adjoint.segment", !is("adjoint.keep", "stages"), "adjoint.keep = segments or disk");

  const bool sgd = is("train.optimiser", "sgd");
  idle("train.momentum", sgd, "train.optimiser = sgd");
  for (const char* key : {"train.beta1", "train.beta2", "train.epsilon"})
    idle(key, !sgd, "train.optimiser = adam or adamw");
  idle("train.last_rate", is("train.schedule", "cosine"), "train.schedule = cosine");
  idle("distill.copy", !is("distill.teacher", ""), "distill.teacher");

  const bool news = is("data.set", "20news"), text = news || is("data.set", "topics");
  idle("data.tokens", !text, "a data.set of images");
  for (const char* key : {"data.length", "data.vocabulary", "data.least_count"})
    idle(key, text, "data.set = 20news or topics");
  for (const char* key : {"data.headers", "data.quotes", "data.footers"})
    idle(key, news, "data.set = 20news");
  idle("data.alphabets", is("data.set", "omniglot"), "data.set = omniglot");
  idle("data.classes", is("data.set", "topics"), "data.set = topics");
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
  refuse_idle_keys(settings);
}

void refuse_other_lattice(const Settings& settings, const data::Dataset& data) {
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
