#pragma once

// Masked words (Devlin et al. 2019, arXiv 1810.04805): cross entropy of the word head at the tokens that were
// masked,
//
//   z = W g + b,   g = N(act(T x + t)) or x,   x = N_f(u) at a masked token
//
// where W is the word table or a matrix of its own,
//
// summed with the weights of Batch::masked. Every rank treats the masked tokens that it holds; logits are
// formed for a few of them at a time, never for all.

#include <Eigen/Core>

#include "base/index.hpp"
#include "model/row_stack.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer {

/// The task of a model with a word head.
class WordTask final : public Task {
 public:
  /// A row-major matrix, as the weights are stored.
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  /// `parameters` and `context` are borrowed. Throws BadInput without a word head, and for a loss other than
  /// cross entropy.
  WordTask(const Parameters& parameters, const SlabContext& context, const Loss& loss);
  std::unique_ptr<TaskTape> make_tape() const override;
  Evaluation value(const Batch& batch, const double* u, TaskTape& tape) override;
  Evaluation gradient(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                      TaskTape& tape, KeepFor keep_for) override;
  void product(Curvature part, const Batch& batch, const ParameterVector& direction, const double* u_dot,
               double* u_bar_dot, std::span<double> product, TaskTape& tape) override;
  int outputs() const override;
  void pull_output(const Batch& batch, Index sample, int c, double* u_bar, std::span<double> gradient,
                   const TaskTape& tape) override;

 private:
  /// A masked word whose token this rank holds.
  struct Target {
    Index row;  ///< row of the slab
    int word;
    double weight;
  };
  struct Tape;
  /// Puts the targets of this rank, and g of their rows, on the tape.
  void read(const Batch& batch, const double* u, Tape& tape);
  /// slab := the rows of the targets, 0 elsewhere.
  void scatter(const Tape& tape, const std::vector<double>& rows, double* slab) const;
  /// The rows of the targets out of a slab, [target][channel].
  std::vector<double> gather(const Tape& tape, const double* slab) const;
  /// Calls visit(first, count) for groups of targets.
  template <class Visit>
  void in_groups(const Tape& tape, Visit&& visit) const;
  /// The loss of all targets, summed over the ranks of the line. Calls visit(first, g, probabilities) for one
  /// group of targets after the other.
  template <class Visit>
  Evaluation guess(Tape& tape, Visit&& visit) const;
  /// The word matrix W and the bias b among the values of `p`, which are parameters or a direction of them.
  Eigen::Map<const Matrix> matrix_of(const ParameterVector& p) const;
  Eigen::Map<const Eigen::RowVectorXd> bias_of(const ParameterVector& p) const;

  const Parameters& parameters_;
  const SlabContext& context_;
  Loss loss_;
  Index matrix_, bias_;  // offsets of W and b
  RowStack stack_;
};

/// z [row][word] := the logits of rows x [row][channel] of the last state, for a model with a word head. Not
/// collective.
void word_logits(const Parameters& parameters, int rows, const double* x, double* z);

}  // namespace fluxformer
