#pragma once

// The error that depth cells make in numbers that a model gives, and the share of each cell in it.
//
// The march u_i = G_i(u_{i-1}; h), i = 1 .. M, of any method of one step a cell, is compared with the same on r M cells, of which r make one step
// G^_i over cell i. With the defects d_i = G_i(u_{i-1}) - G^_i(u_{i-1}) and the derivatives lambda_i of a goal J
// with respect to the state behind cell i, the indicators
//
//   eta_i = lambda_i . d_i,     sum over i of eta_i ~ J(u_h) - J(u_{h/r})
//
// say how much each cell contributes. Source: Becker and Rannacher, Acta Numerica 10 (2001) 1.

#include <memory>
#include <string>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_probe.hpp"
#include "base/index.hpp"

namespace fluxformer::depth {

/// A number of a sample that its last state decides. loss: cross entropy, of a model without classes that of its
/// words to guess, with the weights by which the mean over samples is the mean over words; logit: z_y of its class
/// y; margin: z_y - log(sum over c != y of exp z_c); norm: mean square of the state over its real tokens and
/// channels.
enum class Goal { loss, logit, margin, norm };

/// Derivatives lambda_i of the goal. coarse: of the march itself (an error of first order in h in the sum).
/// mean: half the sum of those of G^ along u_h and along the fine march (of second order). exact: of the fan
/// J(G^_M .. G^_{i+1}(u_i)) - J(G^_M .. G^_i(u_{i-1})), whose sum is J(u_h) - J(u_{h/r}) without remainder; it costs
/// M marches.
enum class Weights { coarse, mean, exact };

/// Values of goals for the samples of a batch, and their derivatives in the last state.
class Goals {
 public:
  /// All but norm need a classifier, and samples with a class; loss takes words to guess as well.
  explicit Goals(std::vector<Goal> goals) : goals_(std::move(goals)) {}

  Index count() const { return std::ssize(goals_); }
  /// value := J of each sample and goal at a last state u, [sample of the batch][goal]; 0 for fillers.
  void values(ModelProbe& probe, const Batch& batch, const double* u, std::vector<double>& value) const;
  /// u_bar := dJ/du of each sample for goal number `goal`; 0 for padding and fillers.
  void derivative(ModelProbe& probe, const Batch& batch, Index goal, const double* u, double* u_bar) const;
  /// The sum of the weights of the samples, or words to guess, that are classified correctly at a last state u; NaN
  /// without a classifier. Collective over the token line.
  double correct(ModelProbe& probe, const Batch& batch, const double* u) const;

 private:
  std::vector<Goal> goals_;
};

/// Values of goals of the samples on the cells of a probe, and the share of them that is classified correctly; and
/// how far from another march their last states and logits are.
class GoalValues {
 public:
  /// Starts with so many samples. Probe and goals are borrowed. `own`: those on the model's own cells, which were
  /// shown the same batches, and are borrowed; null: these are they.
  GoalValues(ModelProbe& probe, const Goals& goals, Index samples, const GoalValues* own = nullptr);
  /// Adds the samples of a batch. Collective over the token line.
  void show(const Batch& batch);
  void reduce(MPI_Comm comm);

  /// [sample][goal]
  const std::vector<double>& by_sample() const { return values_.numbers(); }
  double mean(Index goal) const { return values_.mean(goal); }
  /// NaN without a classifier.
  double accuracy() const { return correct_.total()[0]; }
  /// The mean over the samples of |u_M - u*_M| / |u*_M - u_0|, where * is on the model's own cells.
  double state_distance() const { return distances_.total()[0]; }
  /// The mean over the samples of |z - z*| / |z*| for their logits z; NaN without classes.
  double logit_distance() const { return distances_.total()[1]; }

 private:
  /// First and last state of a batch on the cells of a probe, and its logits.
  struct Ends {
    std::vector<double> first, last, logits;
  };
  void add_distances(const Batch& batch, const Ends& here, const Ends& own);

  ModelProbe& probe_;
  const Goals& goals_;
  const GoalValues* own_;
  SampleTable values_;
  Sums correct_{1}, distances_{2};
  std::vector<Ends> kept_;  // of all batches of this rank, on the model's own cells
  std::size_t shown_ = 0;
  std::vector<double> value_;
};

/// Indicators of the samples.
class DepthIndicators {
 public:
  /// `fine` has r times the cells of `coarse`, of the same model and for the same batches; both are borrowed.
  /// Throws std::invalid_argument otherwise.
  DepthIndicators(ModelProbe& coarse, ModelProbe& fine, const Goals& goals, Weights weights, Index samples);
  /// Adds the samples of a batch. Collective over the token line.
  void show(const Batch& batch);
  void reduce(MPI_Comm comm) { table_.reduce(comm); }

  /// eta_i of each sample, [sample][goal][cell].
  const std::vector<double>& by_sample() const { return table_.numbers(); }
  /// Mean over the samples, [cell], of eta_i and of |eta_i|.
  std::vector<double> mean(Index goal) const;
  std::vector<double> mean_size(Index goal) const;

 private:
  using Slab = std::vector<double>;
  void add_products(const Batch& batch, Index goal, int cell, const Slab& lambda, double scale);
  void show_by_adjoints(const Batch& batch);
  void show_fan(const Batch& batch);

  ModelProbe &coarse_, &fine_;
  const Goals& goals_;
  Weights weights_;
  SampleTable table_;
  std::vector<std::unique_ptr<DepthMarch>> steps_, fine_steps_;  // G_i, G^_i
  std::vector<Slab> states_, fine_states_, defects_;  // u_0 .. u_M; those of the fine march there; d_1 .. d_M
};

}  // namespace fluxformer::depth
