#pragma once

// The goal J of an intervention: a number that a model's last state gives for each sample, with its derivatives.
//
//   logits   J = z_a - z_b       logit   J = z_a       loss   J = log(sum_c exp z_c) - z_a
//
// z are the logits of the classes, or of the words at one token of a model that guesses words.

#include <memory>
#include <string>
#include <vector>

#include "model/parameters.hpp"
#include "operators/slab.hpp"

namespace fluxformer::interventions {

enum class GoalKind { logits, logit, loss };

/// The goal named by "logits", "logit" or "loss"; throws BadInput for another word.
GoalKind goal_kind(const std::string& word);

/// The question that is asked of a last state.
struct Question {
  GoalKind kind = GoalKind::logits;
  int a = 0, b = 0;  ///< classes, or words
  int token = 0;     ///< global index of the token whose word is guessed; not read for classes
};

/// J of each sample of a slab. Calls are collective over the token line. `pull` and `pull_along` are at the state
/// of the last `value`.
class Goal {
 public:
  virtual ~Goal() = default;
  /// The logits of the last `value`, [sample][class or word]: the same on all ranks of the line.
  virtual const std::vector<double>& logits() const = 0;
  /// J of each sample at the last state u, valid until the next call. Throws BadInput for a class, word or token that
  /// does not exist.
  virtual const std::vector<double>& value(const Question& question, const double* u) = 0;
  /// u_bar := dJ/du of each sample; samples do not meet.
  virtual void pull(double* u_bar) = 0;
  /// w_dot := (d2J/du2) u_dot, after `pull`.
  virtual void pull_along(const double* u_dot, double* w_dot) = 0;
};

/// The goal of the classes of a model, or of its words if it guesses words. Both are borrowed. Throws BadInput for a
/// model without a head.
std::unique_ptr<Goal> make_goal(const Parameters& parameters, const SlabContext& context);

}  // namespace fluxformer::interventions
