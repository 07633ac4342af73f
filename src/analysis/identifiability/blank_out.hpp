#pragma once

// What a model's output owes to each token: the token is taken away and the model runs again. The reference against
// which attributions are judged.
//
//   words     the token is masked as padding: taken out with its position embedding, so that those behind it move up
//             (they keep their positions in the embedding)
//   features  the token becomes the mean token of the data: a hole in a lattice is undefined under token diffusion
//
// The output z is the logits of the classes; for a model without classes the last states of the other tokens.

#include <span>
#include <vector>

#include "analysis/model_probe.hpp"

namespace fluxformer::identifiability {

/// By token of one sample; NaN for the class token, and in a sample of one token.
struct TokenEffects {
  std::vector<double> output_change;  ///< |z' - z|
  std::vector<double> winning_drop;   ///< fall of the largest logit; NaN without classes
  std::vector<double> moved;          ///< |x_i - blank| of the embedded token; for words |x_i|
};

/// Of one sample at a time. Not collective.
class BlankOut {
 public:
  /// `probe` is borrowed: its batches hold that many variants of the sample. `mean_token`: of the data, [feature]; for
  /// words not used.
  BlankOut(ModelProbe& probe, std::vector<double> mean_token);

  /// `input`: [token][feature] of a sample, of which the first `length` tokens are real.
  TokenEffects effects(std::span<const double> input, int length);

 private:
  /// Sets up the variants without tokens first .. first + count - 1 in slots 0 .. count - 1 and runs them;
  /// first = -1 stands for the whole sample.
  void run(std::span<const double> input, int length, int first, int count);
  /// u := the embedded batch without the token that each slot leaves out.
  void take_out(int length, int first, int count);
  /// |z' - z| of a slot whose token `blank` is away.
  double change(int slot, int blank, int length) const;

  bool words() const { return probe_.spec().vocabulary > 0; }
  /// Of a token of a slot in the slab.
  const double* at(const std::vector<double>& slab, int token, int slot) const;

  ModelProbe& probe_;
  std::vector<double> mean_token_;
  Batch batch_;
  std::vector<double> u_, embedded_, logits_;               // of the last run
  std::vector<double> whole_, whole_input_, whole_logits_;  // of the whole sample, [token][channel]
};

}  // namespace fluxformer::identifiability
