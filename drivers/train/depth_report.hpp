#pragma once

// How near a trained PDE model is to its equation: its loss on the depth cells that it was trained on, on
// twice, four and eight times as many, and in the limit.

#include <string>
#include <vector>

#include "analysis/depth/depth_limit.hpp"
#include "base/index.hpp"
#include "drivers/train/train_problem.hpp"
#include "io/archive_writer.hpp"
#include "io/variable.hpp"

namespace fluxformer {

// In the file of a training, beside model_file::depth_report.
namespace depth_report_variables {

inline const io::Variable cells = io::index("depth_cells",
                                            "depth cells on which the trained model was evaluated; the "
                                            "first number is mesh.cells"),
                          loss{"loss_on_cells", {"depth_cells"}, "", "mean loss on so many depth cells"},
                          accuracy{"accuracy_on_cells",
                                   {"depth_cells"},
                                   "",
                                   "share of correct guesses on so many depth cells"};
inline const io::Attribute samples{"depth_samples", "number of samples of loss_on_cells"},
    order{"depth_order", "observed order of convergence of the loss in depth; NaN: none"},
    asymptotic{"depth_asymptotic", "yes if that is the order of the method within a quarter, or no"},
    limit{"depth_limit", "loss in the limit of fine cells if depth_asymptotic, else that on the finest"};

}  // namespace depth_report_variables

/// The loss of a model on finer and finer depth cells.
struct DepthReport {
  std::string without;  ///< why nothing was measured; "" if something was
  std::string method;   ///< adjoint.method of its march; "" for layer maps
  Index samples = 0;    ///< number of test samples (training samples if none has a label)
  std::vector<double> cells, loss, accuracy;
  DepthLimit limit;  ///< of the loss

  /// A model counts as a solution of its equation if its loss changes by less than this in the limit.
  static constexpr double tolerance = 0.1;
  /// The fewest samples of which something is said: the mean of a few tells little about the others.
  static constexpr Index fewest_samples = 32;
  /// yes, no or unknown
  std::string converged() const;
  /// All of it in a sentence, or why nothing was measured.
  std::string text() const;
  /// Writes it to a group of the file. Collective.
  void write(io::ArchiveWriter& archive, const std::string& group) const;
  /// Adds what `write` writes.
  static void describe(io::Description& description, const std::string& group);
};

/// Evaluates the trained model with the march of its training on finer cells. On at most 64 samples, and on
/// fewer in a short training: it takes at most 3 % of the passes through the model that the training took.
/// A PDE model without an equation (depth.norm = post or sphere, depth.residual = false) gives the reason
/// instead, and so does one that fails on finer cells. Collective.
DepthReport depth_report(TrainProblem& problem);

}  // namespace fluxformer
