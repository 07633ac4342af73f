#include "drivers/train/train_checks.hpp"

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "drivers/common/model_settings.hpp"

namespace fluxformer {
namespace {

bool implicit_in_depth(const Settings& settings) {
  const auto& method = settings.word("adjoint.method");
  return settings.word("train.gradient") == "adjoint" &&
         (method == "beuler" || method == "cn" || method == "theta");
}

}  // namespace

void refuse_what_training_ignores(const Settings& settings) {
  if (implicit_in_depth(settings) && is_mixed(precision_of(settings)))
    throw BadInput("adjoint.method = " + settings.word("adjoint.method") +
                   ": residuals of implicit methods cannot become smaller than the "
                   "rounding of run.precision = " +
                   settings.word("run.precision") + "; use an explicit method, or single");
  if (settings.real("equation.epsilon") > 0)
    throw BadInput(
        "equation.epsilon: training solves the steady state by a march through depth, which cannot handle "
        "diffusion in depth");
  if (settings.word("depth.scheme") != "shift")
    throw BadInput("depth.scheme = " + settings.word("depth.scheme") +
                   ": training marches through depth; leave the key out and choose train.gradient = adjoint "
                   "with adjoint.method");
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

void require_memory_of_training(MPI_Comm comm, const Settings& settings, const Parameters& parameters,
                                const KeptStates& kept) {
  // Copies of the parameters: values, gradient, variables, two moments; and the weights of another stage on
  // their way into a file.
  const double copies = kept.one_stage ? 5 : 6;
  // Bytes for the place of a cell among the weights and for what refers to its state.
  constexpr double of_each_cell = 64;
  // The states: that of a batch at the entry of every depth cell (adjoints may keep fewer: of every layer),
  // and one hidden layer of the reaction.
  const auto& spec = parameters.spec;
  const auto depth = equation_spec(settings, spec).depth;
  const int cells = kept.cells.count(),
            layers = std::max(1, static_cast<int>(static_cast<long>(cells) * depth.layers / depth.cells));
  const int rows_kept = settings.word("train.gradient") == "backprop" ? cells : std::min(cells, layers);
  const double states = static_cast<double>(kept.tokens) * kept.samples *
                        (static_cast<double>(spec.width) * rows_kept * kept.micro_batches + spec.ffn);
  double bytes = sizeof(double) * copies * static_cast<double>(parameters.values.size()) +
                 sizeof(float) * states + of_each_cell * cells;
  largest_over_ranks({&bytes, 1}, comm);
  constexpr double giga = 1e9;
  require_memory(comm, bytes,
                 "model.width = " + std::to_string(spec.width) + ", mesh.layers = " +
                     std::to_string(spec.layers) + ", mesh.cells = " + std::to_string(depth.cells) + ", " +
                     std::to_string(kept.micro_batches) + " x " + std::to_string(kept.samples) +
                     " samples of a batch and " + std::to_string(kept.tokens) + " tokens",
                 giga * settings.real("run.memory"));
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
        text << "equation.kappa = " << kappa << ": explicit steps through depth are stable up to " << largest
             << " with these mesh.cells; use more cells, or train.gradient = adjoint with adjoint.method = "
                "beuler";
        throw BadInput(text.str());
      }
  }
  return largest;
}

}  // namespace fluxformer
