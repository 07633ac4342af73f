#pragma once

// Where hidden tokens come from, and which account of it agrees with what happens when a token is taken away:
//
//   raw, effective       attention of a layer and the part of it that acts, absolute values averaged over heads
//   norm_based, rollout, flow     attribution_baselines.hpp, attention_flow.hpp
//   contributions        Hidden Token Attribution at the end of a layer (contributions.hpp)
//
// The score of a token is the mean over the tokens that the readout uses: all, the class token, or the last. Its rank
// correlation with the effects of blanking tokens (blank_out.hpp) is taken sample by sample, for every layer. Control:
// how far the blanked token moves, alone, and as a factor of every score. Source: Brunner et al., arXiv 1908.04211,
// section 5; specification of identifiability, section 5.

#include <array>
#include <cstddef>
#include <vector>

#include "analysis/derivatives/input_jacobian.hpp"
#include "analysis/identifiability/contributions.hpp"
#include "analysis/model_probe.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::identifiability {

enum class Account : std::size_t { raw, effective, norm_based, rollout, flow, contributions };
inline constexpr std::size_t account_count = 6;
/// What an account is compared with: the change of the output, or the fall of the largest logit.
enum class Effect : std::size_t { output_change, winning_drop };
inline constexpr std::size_t effect_count = 2;

/// How much is computed.
struct AttributionPlan {
  derivatives::BlockNormPlan norms = {};
  int flow_outputs = 0;  ///< output tokens of each sample whose flow is computed, evenly spread; 0: no flow
  int columns = 16;      ///< tangents that are marched together
};

/// Means over samples; NaN where there are none.
struct Attributions {
  ContributionMeter contributions;
  /// [layer], by effect and account: rank correlations.
  std::array<std::array<std::vector<double>, account_count>, effect_count> agreement, agreement_times_moved;
  std::array<double, effect_count> agreement_moved{};  ///< of the control alone
  /// Of the first sample, n its real tokens.
  std::vector<double>
      map;  ///< [depth][input token][hidden token]: contributions, n given by the line, else 0
  std::vector<double> output_change;  ///< [token]: when it is blanked; NaN for padding
  /// Largest standard error of a squared norm over that norm, of any pair that counts; 0 for exact norms.
  double relative_error = 0;
};

/// The mean token of some samples, [feature], without padding and the first `leading` tokens of each (a class token);
/// empty for words. Collective over the ranks of the samples; the same on all.
std::vector<double> mean_token(const SampleSet& samples, int leading);

/// Of some samples, each whole on one rank. `blank`: what takes the place of a blanked token (not used for words). `probe` and `blanked` are two probes of the same parameters, whose batches are
/// those of the samples. Collective over the ranks of the samples; the same on all. Throws BadInput as ModelHeads does.
Attributions attributions(const SampleSet& samples, ModelProbe& probe, ModelProbe& blanked,
                          const std::vector<double>& blank, const AttributionPlan& plan);

}  // namespace fluxformer::identifiability
