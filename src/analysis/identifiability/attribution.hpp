#pragma once

// Where hidden tokens come from, and which account of it agrees with what happens when a token is taken away:
//
//   raw, effective              attention of a layer and the part of it that acts, |.| averaged over heads
//   norm_based, rollout, flow   attribution_baselines.hpp
//   contributions               Hidden Token Attribution at the end of a layer (contributions.hpp)
//
// The score of a token is the mean over the tokens that the readout uses: all, the class token, or the last.
// Its rank correlation with the effects of blanking tokens is taken sample by sample, for every layer.
// Control: how far the blanked token moves, alone, and as a factor of every score. Source: Brunner et al.,
// arXiv 1908.04211, section 5; docs/model.md, sections 10.7 and 10.8.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "analysis/derivatives/input_jacobian.hpp"
#include "analysis/identifiability/contributions.hpp"
#include "analysis/model_probe.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::identifiability {

/// Spearman's ranks: 1 for the smallest value, the mean of the places (mid-rank) for equal ones, so that the
/// result does not depend on the order in which they come. Throws BadInput for NaN. Source: Kendall and
/// Gibbons, "Rank Correlation Methods".
std::vector<double> mid_ranks(std::span<const double> values);

/// The numbers, of which those are made equal that round-off alone tells apart: a number becomes the smallest
/// of its group if it exceeds that by no more than 1e-12 of the largest magnitude. NaN and infinite numbers
/// are kept. The order then does not depend on how sums were added up, and so not on the number of MPI ranks.
std::vector<double> with_ties(std::vector<double> values);

/// Spearman's rank correlation, the Pearson correlation of the mid-ranks, in [-1, 1]. NaN where one side is
/// constant, or has fewer than two values. Throws BadInput for different sizes or NaN.
double spearman(std::span<const double> x, std::span<const double> y);

/// Effects of blanking one token, by token of one sample; NaN for the class token, and in a sample of one
/// token.
struct TokenEffects {
  std::vector<double> output_change;  ///< |z' - z|
  std::vector<double> winning_drop;   ///< fall of the largest logit; NaN without classes
  /// |W_E (f_i - blank)| of the features f_i; for words |x_i| of the embedded token
  std::vector<double> moved;
};

/// Effect of each token of a sample on a model's output: the token is taken away and the model runs again.
/// This is the reference against which attributions are judged.
///
///     words     the token is masked as padding: taken out with its position embedding, so that those
///               behind it move up (they keep their positions in the embedding)
///     features  the token becomes the mean token of the data: a hole in a lattice is undefined under
///               token diffusion
///
/// The output z is the logits of the classes; for a model without classes the last states of the other
/// tokens. Not collective.
class BlankOut {
 public:
  /// `probe` is borrowed: its batches hold that many variants of the sample. `mean_token`: mean token of the
  /// data, [feature]; not used for words.
  BlankOut(ModelProbe& probe, std::vector<double> mean_token);

  /// The effects of blanking each token. `input`: [token][feature] of a sample, of which the first `length`
  /// tokens are real.
  TokenEffects effects(std::span<const double> input, int length);

 private:
  /// Sets up the variants without tokens first .. first + count - 1 in slots 0 .. count - 1 and runs them;
  /// first = -1 stands for the whole sample.
  void run(std::span<const double> input, int length, int first, int count);
  /// u := the embedded batch without the token that each slot leaves out.
  void take_out(int length, int first, int count);
  /// How far a token moves that is blanked; before positions are added, so that equal tokens move equally.
  double moved(std::span<const double> input, int token) const;
  /// |z' - z| of a slot whose token `blank` is away.
  double change(int slot, int blank, int length) const;

  bool words() const { return probe_.spec().vocabulary > 0; }
  /// The channels of a token of a slot in the slab.
  const double* at(const std::vector<double>& slab, int token, int slot) const;

  ModelProbe& probe_;
  std::vector<double> mean_token_;
  Batch batch_;
  std::vector<double> u_, embedded_, logits_;               ///< the last run
  std::vector<double> whole_, whole_input_, whole_logits_;  ///< the whole sample, [token][channel]
};

/// The accounts of where a hidden token comes from.
enum class Account : std::size_t { raw, effective, norm_based, rollout, flow, contributions };
inline constexpr std::size_t account_count = 6;
/// Effects that an account is compared with: the change of the output, or the fall of the largest logit.
enum class Effect : std::size_t { output_change, winning_drop };
inline constexpr std::size_t effect_count = 2;

/// Options of contributions and flow.
struct AttributionPlan {
  derivatives::BlockNormPlan norms = {};
  int flow_outputs = 0;  ///< output tokens of each sample whose flow is computed, evenly spread; 0: no flow
  int columns = 16;      ///< tangents that are marched together
};

/// Means over samples; NaN where there are none.
struct Attributions {
  ContributionAccumulator contributions;
  /// [layer], by effect and account: rank correlations.
  std::array<std::array<std::vector<double>, account_count>, effect_count> agreement, agreement_times_moved;
  std::array<double, effect_count> agreement_moved{};  ///< rank correlation of the control alone
  /// Contributions of the first sample, [depth][input token][hidden token] over the whole line; 0 for
  /// padding.
  std::vector<double> map;
  /// [token] of the first sample: change of the output when it is blanked; NaN for padding.
  std::vector<double> output_change;
  /// Largest standard error of a squared norm over that norm, of any pair that counts; 0 for exact norms.
  double relative_error = 0;
};

/// The mean token of some samples, [feature], without padding and the first `leading` tokens of each (a class
/// token); empty for words. Collective over the ranks of the samples; the same on all.
std::vector<double> mean_token(const SampleSet& samples, int leading);

/// Measures some samples, each whole on one rank. `blank`: what takes the place of a blanked token (not used
/// for words). `probe` and `blanked` are two probes of the same parameters, whose batches are those of the
/// samples. Collective over the ranks of the samples; the same on all. Throws BadInput as ModelHeads does.
Attributions attributions(const SampleSet& samples, ModelProbe& probe, ModelProbe& blanked,
                          const std::vector<double>& blank, const AttributionPlan& plan);

}  // namespace fluxformer::identifiability
