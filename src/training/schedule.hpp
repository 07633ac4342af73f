#pragma once

// The learning rate, step by step: a linear warm-up to the peak, then
//
//   constant   peak
//   cosine     last + (peak - last) (1 + cos(pi p)) / 2,  p = completed share of the steps after the warm-up
//   steps      peak * factor^k,  k = number of the given shares of all steps that are completed
//
// Source of the cosine: Loshchilov and Hutter, arXiv 1608.03983.

#include <string>
#include <vector>

namespace fluxformer {

enum class Decay { constant, cosine, steps };

/// The learning rate of each step: the keys train.rate, .warm_up, .schedule, .last_rate and .epochs, as
/// numbers of steps.
struct Schedule {
  double peak = 1e-3;
  long warm_up = 0;  ///< number of steps of the warm-up
  long steps = 1;    ///< number of steps of the whole training
  Decay decay = Decay::cosine;
  double last = 0;                       ///< rate at the end, for Decay::cosine
  double factor = 0.1;                   ///< factor of Decay::steps
  std::vector<double> at = {0.5, 0.75};  ///< shares of all steps, for Decay::steps

  /// The learning rate of step 0, 1, ....
  double rate(long step) const;
};

/// The decay named by "constant", "cosine" or "steps"; throws BadInput for another word.
Decay decay_named(const std::string& word);

}  // namespace fluxformer
