#pragma once

// The cross entropy of a word head at the words that have to be guessed, summed with the weights of
// Batch::targets (chosen by model/tasks/word_targets.hpp):
//
//   z = W g + b,   g = N(act(T x + t)) or x,   x = N_f(u) at the token of a target
//
// where W is the word table or a matrix of its own. Every rank treats the targets whose tokens it holds; logits
// are formed for a few of them at a time, never for all.

#include <memory>
#include <vector>

#include "model/row_stack.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer {

/// The task of a model with a word head. `parameters` and `context` are borrowed. Throws BadInput without a
/// word head, and for a loss other than cross entropy. Unless `precision` is float64, loss and gradient take the
/// products with W, and the probabilities, in float; products with the Hessian are in double.
std::unique_ptr<Task> make_word_task(const Parameters& parameters, const SlabContext& context,
                                     const Loss& loss, Precision precision);

/// The stack from rows x of the last state to the rows g in front of the word matrix. `parameters` is borrowed. Throws
/// BadInput without a word head.
RowStack word_stack(const Parameters& parameters);
/// The path of the word matrix W.
const char* word_matrix_path(const ModelSpec& spec);

/// Logits of rows of the last state, for a model with a word head. Not collective.
class WordLogits {
 public:
  /// `parameters` is borrowed. Unless `precision` is float64, products with W are in float, with a copy of W. Throws
  /// BadInput without a word head.
  WordLogits(const Parameters& parameters, Precision precision);
  /// z [row][word] := the logits of rows x [row][channel].
  void operator()(int rows, const double* x, double* z) const;

 private:
  const Parameters& parameters_;
  RowStack stack_;
  std::vector<float> single_;  // W; empty: products are in double
};

}  // namespace fluxformer
