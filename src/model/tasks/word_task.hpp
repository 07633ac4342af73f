#pragma once

// The cross entropy of a word head at the words that have to be guessed, summed with the weights of
// Batch::targets (chosen by model/tasks/word_targets.hpp):
//
//   z = W g + b,   g = N(act(T x + t)) or x,   x = N_f(u) at the token of a target
//
// where W is the word table or a matrix of its own. Every rank treats the targets whose tokens it holds; logits
// are formed for a few of them at a time, never for all.

#include <memory>

#include "model/tasks/task.hpp"

namespace fluxformer {

/// The task of a model with a word head. `parameters` and `context` are borrowed. Throws BadInput without a
/// word head, and for a loss other than cross entropy.
std::unique_ptr<Task> make_word_task(const Parameters& parameters, const SlabContext& context,
                                     const Loss& loss);

/// z [row][word] := the logits of rows x [row][channel] of the last state, for a model with a word head. Not
/// collective.
void word_logits(const Parameters& parameters, int rows, const double* x, double* z);

}  // namespace fluxformer
