#include "analysis/identifiability/identity_rates.hpp"

#include <mpi.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "analysis/accumulator.hpp"
#include "analysis/identifiability/token_map.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {
namespace {

constexpr double memory = 1024.0 * 1024.0 * 1024.0;

using Map = std::function<Matrix(const Matrix&)>;
using Change = std::function<Matrix(const Matrix&)>;

/// The samples of a set at some rows of the march.
std::vector<TokenExamples> examples_at(const SampleSet& samples, ModelProbe& probe, int first, int count) {
  std::vector<TokenExamples> at(count, {samples.size(), {}});
  // at[k] gets the states u(s) and the embedded tokens u(0) of each sample at row first + k.
  samples.for_batches([&](const Batch& batch) {
    std::vector<double> u;
    probe.embed(batch, u);
    const std::vector<double> embedded = u;
    probe.forward(u, Keep::nothing, [&](int row, const double* state) {
      if (row < first || row >= first + count) return;
      for_each_sample(batch, [&](Index b, Index place) {
        const int sample = b;
        at[row - first].samples.push_back({place, sample_of(probe.counted(), state, sample),
                                           sample_of(probe.counted(), embedded.data(), sample)});
      });
    });
  });
  return at;
}

/// A set of samples with states and descriptions changed.
TokenExamples changed(const TokenExamples& from, const Change& state, const Change& description) {
  TokenExamples to{from.count, {}};
  for (const auto& one : from.samples)
    to.samples.push_back({one.place, state(one.states), description(one.descriptions)});
  return to;
}

/// The samples at one depth, and the ranks they are spread over.
struct Split {
  TokenExamples training, validation, test;
  MPI_Comm comm;

  Split with(const Change& state, const Change& description) const {
    return {changed(training, state, description), changed(validation, state, description),
            changed(test, state, description), comm};
  }
};

RateSums rates_of(const TokenExamples& samples, const Map& g, TokenDistance distance, MPI_Comm comm) {
  RateSums sums;
  // Credits of the tokens of each sample, nearest to g(u) among the sample's own embedded tokens
  for (const auto& one : samples.samples) sums.add(nearest_tokens(g(one.states), one.descriptions, distance));
  sums.reduce(comm);
  return sums;
}

Matrix unchanged(const Matrix& rows) {
  return rows;
}

/// Moments of the training samples about their means.
RidgeSums moments_of(const Split& split, Index width, Index described) {
  Sums means(width + described + 1);
  for (const auto& one : split.training.samples) {
    Eigen::Map<Eigen::RowVectorXd> sums(means.local(), width + described + 1);
    // First the means over the training tokens of all ranks, from sums [u | x | number of tokens]: second
    // moments about the means lose no digits. Sums of rows have memory of their own at first: their order
    // depends on where they lie.
    sums.head(width) += one.states.colwise().sum().eval();
    sums.segment(width, described) += one.descriptions.colwise().sum().eval();
    sums[width + described] += one.states.rows();
  }
  means.reduce(split.comm);
  const Eigen::Map<const Eigen::RowVectorXd> sums(means.total().data(), width + described + 1);
  const double tokens = sums[width + described];
  RidgeSums moments(sums.head(width) / tokens, sums.segment(width, described) / tokens);
  for (const auto& one : split.training.samples) moments.add(one.states, one.descriptions);
  moments.reduce(split.comm);
  return moments;
}

/// The map with the highest rate on the validation samples.
Map best_linear(const Split& split, const RidgeSums& moments, TokenDistance distance,
                const std::vector<double>& lambdas) {
  Map best;
  double highest = -1;
  for (const auto& map : moments.solve(lambdas)) {
    // Among equal rates the first lambda of the list stays.
    const double rate = rates_of(split.validation, map, distance, split.comm).rate();
    if (rate > highest) highest = rate, best = map;
  }
  return best;
}

/// Fits and judges at one depth.
class DepthRates {
 public:
  DepthRates(const Split& split, Index width, const IdentityPlan& plan)
      : split_(split), width_(width), plan_(plan) {}

  // Each rate has its own g, fitted anew for every depth and distance (docs/model.md, 10.6).
  double identity(TokenDistance distance) const {
    return rates_of(split_.test, unchanged, distance, split_.comm).rate();
  }
  double linear(TokenDistance distance) const { return linear(split_, width_, distance); }
  double mlp(TokenDistance distance) const { return mlp(split_, distance); }
  double linear_angle() const { return linear(split_.with(unit_rows, unit_rows), width_, TokenDistance::l2); }
  double mlp_angle() const { return mlp(split_.with(unit_rows, unit_rows), TokenDistance::l2); }
  double linear_norm() const { return linear(split_.with(row_norms, unchanged), 1, TokenDistance::l2); }
  double shuffled() const {
    RateSums sums;
    // Embedded tokens in random order: the rate of states that know nothing of their token
    for (const auto& one : split_.test.samples)
      sums.add(nearest_tokens(one.states, shuffled_rows(one.descriptions, plan_.seed, one.place),
                              TokenDistance::cosine));
    sums.reduce(split_.comm);
    return sums.rate();
  }

 private:
  double linear(const Split& split, Index width, TokenDistance distance) const {
    if (!plan_.linear) return missing_value;
    const auto map = best_linear(split, moments_of(split, width, width_), distance, plan_.lambdas);
    return rates_of(split.test, map, distance, split.comm).rate();
  }
  double mlp(const Split& split, TokenDistance distance) const {
    if (!plan_.mlp) return missing_value;
    const auto trained =
        train_token_mlp(split.training, split.validation, distance, plan_.mlp_settings, split.comm);
    return rates_of(split.test, trained.map, distance, split.comm).rate();
  }

  const Split& split_;
  Index width_;
  const IdentityPlan& plan_;
};

double least_distance(const TokenExamples& samples, MPI_Comm comm) {
  double least = std::numeric_limits<double>::infinity();
  // The layers are not injective where two states of a sample are equal: min |u_i - u_j| / sqrt(mean |u_i|^2)
  for (const auto& one : samples.samples) least = std::min(least, smallest_distance(one.states));
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_DOUBLE, MPI_MIN, comm));
  return least;
}

/// Number of rows of the march that are looked at together.
int rows_together(const IdentitySamples& samples, const ModelProbe& probe) {
  // A row of the march keeps, of each sample held, a state and an embedding of n x d numbers of 8 bytes:
  // rows = 1 GiB / (8 * 2 n d * samples), at least one.
  const double numbers = 2.0 * probe.counted().line->tokens() * probe.spec().width;
  double held = 0;
  for (const auto* set : {&samples.training, &samples.validation, &samples.test})
    held += set->replica().largest_share(set->size());
  return std::clamp(static_cast<int>(memory / (8 * numbers * std::max(held, 1.0))), 1, probe.depths());
}

}  // namespace

IdentityRates identity_rates(const IdentitySamples& samples, ModelProbe& probe, const IdentityPlan& plan) {
  require_whole_samples(samples.test);
  const MPI_Comm comm = samples.test.comm();
  const int together = rows_together(samples, probe);
  IdentityRates found;
  for (int first = 0; first < probe.depths(); first += together) {
    const int count = std::min(together, probe.depths() - first);
    auto training = examples_at(samples.training, probe, first, count),
         validation = examples_at(samples.validation, probe, first, count),
         test = examples_at(samples.test, probe, first, count);
    for (Index k = 0; k < count; ++k) {
      // Maps are fitted on training, chosen by validation and judged on test samples, depth by depth.
      const Split split{std::move(training[k]), std::move(validation[k]), std::move(test[k]), comm};
      const DepthRates rates(split, probe.spec().width, plan);
      const auto put = [&](TokenGuess guess, double rate) {
        found.rate[static_cast<std::size_t>(guess)].push_back(rate);
      };
      put(TokenGuess::identity_cosine, rates.identity(TokenDistance::cosine));
      put(TokenGuess::identity_l2, rates.identity(TokenDistance::l2));
      put(TokenGuess::linear_cosine, rates.linear(TokenDistance::cosine));
      put(TokenGuess::linear_l2, rates.linear(TokenDistance::l2));
      put(TokenGuess::linear_angle, rates.linear_angle());
      put(TokenGuess::linear_norm, rates.linear_norm());
      put(TokenGuess::mlp_cosine, rates.mlp(TokenDistance::cosine));
      put(TokenGuess::mlp_l2, rates.mlp(TokenDistance::l2));
      put(TokenGuess::mlp_angle, rates.mlp_angle());
      put(TokenGuess::shuffled, rates.shuffled());
      found.smallest_distance.push_back(least_distance(split.test, comm));
      // These counts depend on the embedded tokens alone, and are the same at every depth.
      const auto counts = rates_of(split.test, unchanged, TokenDistance::l2, comm);
      found.chance = counts.chance();
      found.tokens = counts.mean_tokens();
      found.identical = counts.identical();
    }
  }
  return found;
}

}  // namespace fluxformer::identifiability
