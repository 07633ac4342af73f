#include "analysis/identifiability/attribution.hpp"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "analysis/accumulator.hpp"
#include "analysis/identifiability/attention_flow.hpp"
#include "analysis/identifiability/attribution_baselines.hpp"
#include "analysis/identifiability/blank_out.hpp"
#include "analysis/identifiability/effective_attention.hpp"
#include "analysis/identifiability/model_heads.hpp"
#include "analysis/identifiability/rank_correlation.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {
namespace {

/// The tokens that the readout of a model uses, of n.
std::vector<int> output_tokens(const ModelSpec& spec, int n) {
  if (spec.classes > 0 && spec.pooling == Pooling::first) return {0};
  if (spec.classes > 0 && spec.pooling == Pooling::last) return {n - 1};
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// `count` of them, evenly spread.
std::vector<int> some_of(const std::vector<int>& tokens, int count) {
  const auto size = static_cast<int>(tokens.size());
  std::vector<int> some;
  some.reserve(std::min(count, size));
  for (int k = 0; k < std::min(count, size); ++k) some.push_back(tokens[k * size / std::min(count, size)]);
  return some;
}

/// Means of rank correlations: [effect][account, moved][layer], with and without the factor.
class AgreementSums : public Accumulator {
 public:
  explicit AgreementSums(std::size_t layers)
      : Accumulator(2 * 2 * effect_count * (account_count + 1) * layers), layers_(layers) {}

  void add(std::size_t effect, std::size_t account, std::size_t layer, bool factor, double correlation) {
    if (std::isnan(correlation)) return;
    double* const at = local() + 2 * place(effect, account, layer, factor);
    at[0] += correlation;
    at[1] += 1;
  }
  double mean(std::size_t effect, std::size_t account, std::size_t layer, bool factor) const {
    const double* const at = total().data() + 2 * place(effect, account, layer, factor);
    return at[1] > 0 ? at[0] / at[1] : missing_value;
  }

 private:
  std::size_t place(std::size_t effect, std::size_t account, std::size_t layer, bool factor) const {
    return ((effect * (account_count + 1) + account) * layers_ + layer) * 2 + (factor ? 1 : 0);
  }
  std::size_t layers_;
};

/// The numbers of tokens that have an effect (all but a class token), without the others.
std::vector<double> with_effect(std::span<const double> numbers, const TokenEffects& effects) {
  std::vector<double> some;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!std::isnan(effects.output_change[i])) some.push_back(numbers[i]);
  return some;
}

/// What one sample is measured with.
class Attributor {
 public:
  Attributor(const SampleSet& samples, ModelProbe& probe, ModelProbe& blanked,
             const std::vector<double>& blank, const AttributionPlan& plan)
      : probe_(probe),
        plan_(plan),
        heads_(probe),
        blank_out_(blanked, blank),
        jacobian_(probe.parameters(), *probe.counted().line, probe.cells(), plan.columns),
        lattice_(lattice_of(samples.line(), probe.spec())),
        tokens_(static_cast<std::size_t>(samples.line().tokens())),
        contributions(static_cast<int>(samples.size()), probe.depths(), samples.line().tokens()),
        agreement(static_cast<std::size_t>(probe.spec().layers)),
        first(static_cast<std::size_t>(probe.depths()) * tokens_ * tokens_ + tokens_) {}

  void add(const Batch& batch);

 private:
  /// A class token stands before the others, which then lie on a line.
  static TokenLattice lattice_of(const TokenLine& line, const ModelSpec& spec) {
    const int leading = spec.class_token ? 1 : 0;
    return {.rows = line.tokens_y(), .columns = line.tokens_x() - leading, .leading = leading};
  }
  /// Heads of the cells at which layers begin, and attention of all cells.
  struct OneSample {
    std::vector<LayerHeads> heads = {};
    std::vector<Matrix> attention = {};
  };
  void add_sample(const Batch& batch, std::size_t b, std::size_t place, const OneSample& of,
                  const std::vector<double>& u);
  void compare(const std::vector<Matrix>& accounts, std::size_t layer, const std::vector<int>& outputs,
               const TokenEffects& effects);

  ModelProbe& probe_;
  const AttributionPlan& plan_;
  ModelHeads heads_;
  BlankOut blank_out_;
  derivatives::InputJacobian jacobian_;
  TokenLattice lattice_;
  std::size_t tokens_;
  int cells_per_layer_ = probe_.cells() / probe_.spec().layers;

 public:
  ContributionMeter contributions;
  AgreementSums agreement;
  Sums first;  ///< of the first sample: map and output change
  double relative_error = 0;
};

void Attributor::add(const Batch& batch) {
  heads_.show(batch);
  std::vector<OneSample> all(batch.weight.size());
  for (int cell = 0; cell < probe_.cells(); ++cell) {
    heads_.select_cell(cell);
    for_each_sample(batch, [&](std::size_t b, std::size_t) {
      auto heads = heads_.of_sample(static_cast<int>(b));
      all[b].attention.push_back(raw_attention(heads));
      if (cell % cells_per_layer_ == 0) all[b].heads.push_back(std::move(heads));
    });
  }
  std::vector<double> u;
  probe_.embed(batch, u);
  for_each_sample(batch, [&](std::size_t b, std::size_t place) { add_sample(batch, b, place, all[b], u); });
}

void Attributor::add_sample(const Batch& batch, std::size_t b, std::size_t place, const OneSample& of,
                            const std::vector<double>& u) {
  const auto& heads = of.heads;
  const int n = heads.front().front().tokens();
  const auto count = static_cast<std::size_t>(n);
  const std::size_t per_sample = batch.input.size() / batch.weight.size();
  const auto effects = blank_out_.effects({batch.input.data() + b * per_sample, per_sample}, n);

  RowMatrix u_0 = RowMatrix::Zero(static_cast<Eigen::Index>(tokens_), probe_.spec().width);
  u_0.topRows(n) = sample_of(probe_.counted(), u.data(), static_cast<int>(b));
  const auto norms = jacobian_.norms(u_0.data(), n, plan_.norms, batch.key[b]);
  std::vector<Matrix> c;
  for (std::size_t row = 0; row < norms.size(); ++row) {
    c.push_back(contributions_of_norms(norms[row].norms));
    contributions.add(static_cast<int>(place), static_cast<int>(row), c.back(), lattice_);
    if (norms[row].standard_error.size() > 0)
      relative_error =
          std::max(relative_error,
                   norms[row].standard_error.cwiseQuotient(norms[row].squares.cwiseMax(1e-300)).maxCoeff());
    if (place == 0)
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < count; ++j)
          first.local()[(row * tokens_ + i) * tokens_ + j] =
              c.back()(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j));
  }
  if (place == 0)
    for (std::size_t i = 0; i < tokens_; ++i)
      first.local()[norms.size() * tokens_ * tokens_ + i] =
          i < count ? effects.output_change[i] : missing_value;

  const auto outputs = output_tokens(probe_.spec(), n);
  const auto rolled = rollout(of.attention, probe_.step());
  for (std::size_t l = 0; l < heads.size(); ++l) {
    Matrix effective = Matrix::Zero(n, n), flow;
    for (const auto& head : heads[l])
      effective +=
          effective_attention(head, EffectivePart::linear).cwiseAbs() / static_cast<double>(heads[l].size());
    const auto first_cell = l * static_cast<std::size_t>(cells_per_layer_),
               end = first_cell + static_cast<std::size_t>(cells_per_layer_);
    if (plan_.flow_outputs > 0)
      flow = flow_shares(attention_flow({of.attention.begin(), of.attention.begin() + end},
                                        some_of(outputs, plan_.flow_outputs), probe_.step()));
    compare({of.attention[first_cell], effective, norm_based_attention(heads[l]), rolled[end - 1], flow,
             c[end].transpose()},
            l, outputs, effects);
  }
}

void Attributor::compare(const std::vector<Matrix>& accounts, std::size_t layer,
                         const std::vector<int>& outputs, const TokenEffects& effects) {
  const auto moved = with_effect(effects.moved, effects);
  const std::array<std::vector<double>, effect_count> effect = {with_effect(effects.output_change, effects),
                                                                with_effect(effects.winning_drop, effects)};
  for (std::size_t e = 0; e < effect_count; ++e) {
    if (effect[e].size() < 2 || std::isnan(effect[e].front())) continue;
    if (layer == 0) agreement.add(e, account_count, 0, false, spearman(moved, effect[e]));
    for (std::size_t a = 0; a < accounts.size(); ++a) {
      if (accounts[a].size() == 0) continue;
      std::vector<int> rows = outputs;
      if (a == static_cast<std::size_t>(Account::flow)) {
        rows.resize(accounts[a].rows());  // its rows are those of the chosen tokens
        std::iota(rows.begin(), rows.end(), 0);
      }
      auto scores = with_effect(scores_of_inputs(accounts[a], rows), effects);
      agreement.add(e, a, layer, false, spearman(scores, effect[e]));
      for (std::size_t i = 0; i < scores.size(); ++i) scores[i] *= moved[i];
      agreement.add(e, a, layer, true, spearman(scores, effect[e]));
    }
  }
}

}  // namespace

std::vector<double> mean_token(const SampleSet& samples, int leading) {
  const auto features = static_cast<std::size_t>(samples.data().features());
  Sums sums(features + 1);
  accumulate(
      samples,
      [&](const Batch& batch) {
        const std::size_t per_sample = batch.input.size() / batch.weight.size();
        for_each_sample(batch, [&](std::size_t b, std::size_t) {
          const auto tokens = per_sample == 0 ? 0 : samples.data().length(samples.member(batch.key[b]));
          for (auto t = static_cast<std::size_t>(leading); t < static_cast<std::size_t>(tokens); ++t) {
            for (std::size_t k = 0; k < features; ++k)
              sums.local()[k] += batch.input[b * per_sample + t * features + k];
            sums.local()[features] += 1;
          }
        });
      },
      sums);
  std::vector<double> mean(sums.total().begin(), sums.total().end() - 1);
  for (double& one : mean) one /= sums.total().back();
  return mean;
}

Attributions attributions(const SampleSet& samples, ModelProbe& probe, ModelProbe& blanked,
                          const std::vector<double>& blank, const AttributionPlan& plan) {
  Attributor one(samples, probe, blanked, blank, plan);
  accumulate(
      samples, [&](const Batch& batch) { one.add(batch); }, one.contributions, one.agreement, one.first);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &one.relative_error, 1, MPI_DOUBLE, MPI_MAX, samples.comm()));
  const auto layers = static_cast<std::size_t>(probe.spec().layers),
             n = static_cast<std::size_t>(samples.line().tokens());
  Attributions found{one.contributions, {}, {}, {}, {}, {}, one.relative_error};
  const auto& first = one.first.total();
  found.map.assign(first.begin(), first.end() - n);
  found.output_change.assign(first.end() - n, first.end());
  for (std::size_t e = 0; e < effect_count; ++e) {
    found.agreement_moved[e] = one.agreement.mean(e, account_count, 0, false);
    for (std::size_t a = 0; a < account_count; ++a)
      for (std::size_t l = 0; l < layers; ++l) {
        found.agreement[e][a].push_back(one.agreement.mean(e, a, l, false));
        found.agreement_times_moved[e][a].push_back(one.agreement.mean(e, a, l, true));
      }
  }
  return found;
}

}  // namespace fluxformer::identifiability
