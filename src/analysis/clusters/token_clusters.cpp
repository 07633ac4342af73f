#include "analysis/clusters/token_clusters.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/accumulator.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "analysis/clusters/joined.hpp"
#include "analysis/dense_matrices.hpp"
#include "analysis/state_examples.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"

namespace fluxformer::clusters {
namespace {

/// The rows of a matrix divided by their lengths, without those no longer than `zero`; what is not finite stays so.
RowMatrix directions(const RowMatrix& u, double zero) {
  RowMatrix x(u.rows(), u.cols());
  Index kept = 0;
  for (Index t = 0; t < u.rows(); ++t)
    if (const double length = u.row(t).norm(); !(length <= zero)) x.row(kept++) = u.row(t) / length;
  return x.topRows(kept);
}

/// Mean and covariance of all tokens of a depth.
struct Moments {
  Eigen::RowVectorXd mean;
  /// The root of the covariance, symmetric and so continuous in it; empty if it is not asked for.
  Eigen::MatrixXd root;
};

/// log N_2 of unit vectors with these products, for each beta; NaN for none.
void put_log_numbers(const RowMatrix& products, const std::vector<double>& betas, double* to) {
  const auto n = static_cast<double>(products.rows());
  for (std::size_t k = 0; k < betas.size(); ++k)
    to[k] = std::log(n * n / (betas[k] * (products.array() - 1)).exp().sum());
}

/// Numbers of a sample in the table, [depth][what][centring][beta or delta].
class Columns {
 public:
  Columns(const TokenClusterSettings& settings, int depths)
      : betas_(std::ssize(settings.betas)), deltas_(std::ssize(settings.deltas)), depths_(depths) {}
  enum What : Index { tokens, normal, permuted };
  Index count() const { return depths_ * per_depth(); }
  /// Place of log N_2 for the first beta.
  Index number(Index depth, What what, Index centring) const {
    return depth * per_depth() + (what * centrings + centring) * betas_;
  }
  /// Place of the components for the first delta; that of the compact shares comes behind those of all centrings.
  Index components(Index depth, Index centring) const {
    return depth * per_depth() + 3 * centrings * betas_ + centring * deltas_;
  }
  Index compact(Index depth, Index centring) const {
    return components(depth, centring) + centrings * deltas_;
  }

 private:
  Index per_depth() const { return 3 * centrings * betas_ + 2 * centrings * deltas_; }
  Index betas_, deltas_, depths_;
};

/// The second pass: what needs the mean and the covariance of each depth.
class Meter {
  Columns columns_;

 public:
  SampleTable table;
  Sums sums;

  Meter(const SampleSet& samples, ModelProbe& probe, const TokenClusterSettings& settings,
        const std::vector<Moments>& moments)
      : columns_(settings, probe.depths()),
        table(samples.size(), columns_.count()),
        sums(probe.depths() * centrings * (probe.spec().width + 4)),
        settings_(settings),
        moments_(moments),
        depths_(probe.depths()),
        width_(probe.spec().width),
        most_(samples.line().tokens()) {}

  const Columns& columns() const { return columns_; }

  void add(Index depth, Index place, const RowMatrix& u) {
    double* const row = table.row(place);
    for (Index centring = 0; centring < centrings; ++centring) {
      const RowMatrix moved = centring == 0 ? u : RowMatrix(u.rowwise() - moments_[depth].mean);
      const RowMatrix x = directions(moved, zero(depth, centring)), products = x * x.transpose();
      put_log_numbers(products, settings_.betas, row + columns_.number(depth, Columns::tokens, centring));
      put_components(products, row + columns_.components(depth, centring),
                     row + columns_.compact(depth, centring));
      add_sums(depth, centring, x, static_cast<double>(u.rows() - x.rows()));
      if (!settings_.nulls) continue;
      put_null(depth, centring, Columns::normal, normal_tokens(depth, place, centring, u.rows()), row);
      put_null(depth, centring, Columns::permuted, permuted_tokens(depth, place, moved), row);
    }
  }

  /// Sums of a depth: of the directions, their squares by samples, numbers of tokens, their squares, and those left out.
  const double* total_of(Index depth, Index centring) const {
    return sums.total().data() + (depth * centrings + centring) * (width_ + 4);
  }

 private:
  /// Tokens that are all alike are centred up to round-off: what is left has no direction.
  double zero(Index depth, Index centring) const {
    return centring == 0 ? 0 : 1e-13 * moments_[depth].mean.norm();
  }
  void put_components(const RowMatrix& products, double* number, double* compact) const {
    for (std::size_t k = 0; k < settings_.deltas.size(); ++k) {
      const auto found =
          components_of({products.data(), products.data() + products.size()}, settings_.deltas[k]);
      number[k] = static_cast<double>(found.number);
      compact[k] = found.compact_share;
    }
  }
  void add_sums(Index depth, Index centring, const RowMatrix& x, double left_out) {
    double* const s = sums.local() + (depth * centrings + centring) * (width_ + 4);
    const Eigen::RowVectorXd sum = x.colwise().sum();
    const auto n = static_cast<double>(x.rows());
    for (Index c = 0; c < width_; ++c) s[c] += sum[c];
    s[width_] += sum.squaredNorm();
    s[width_ + 1] += n;
    s[width_ + 2] += n * n;
    s[width_ + 3] += left_out;
  }
  void put_null(Index depth, Index centring, Columns::What what, const RowMatrix& u, double* row) const {
    const RowMatrix x = directions(u, zero(depth, centring));
    put_log_numbers(x * x.transpose(), settings_.betas, row + columns_.number(depth, what, centring));
  }
  RowMatrix normal_tokens(Index depth, Index place, Index centring, Index count) const {
    const auto stream = RandomStream(settings_.seed, "normal tokens").item(place).item(depth);
    RowMatrix z(count, width_);
    for (Index j = 0; j < z.size(); ++j) z.data()[j] = stream.normal(j);
    RowMatrix u = z * moments_[depth].root;
    if (centring == 0) u.rowwise() += moments_[depth].mean;
    return u;
  }
  RowMatrix permuted_tokens(Index depth, Index place, const RowMatrix& u) const {
    RowMatrix found(u.rows(), width_);
    for (Index t = 0; t < u.rows(); ++t) {
      const auto order =
          shuffled(width_, settings_.seed, "permuted channels", (place * depths_ + depth) * most_ + t);
      for (Index c = 0; c < width_; ++c) found(t, c) = u(t, order[c]);
    }
    return found;
  }

  const TokenClusterSettings& settings_;
  const std::vector<Moments>& moments_;
  Index depths_, width_, most_;
};

/// Calls look(depth, place, tokens) for the real tokens of each sample at each row of the probe, and reduces the sums.
template <class Look, class... Sum>
void look_at_tokens(const SampleSet& samples, ModelProbe& probe, Look&& look, Sum&... sums) {
  std::vector<double> u;
  const auto visit = [&](const Batch& batch) {
    probe.embed(batch, u);
    probe.forward(u, Keep::nothing, [&](int row, const double* state) {
      for_each_sample(batch, [&](Index b, Index place) {
        look(row, place, RowMatrix(sample_of(probe.counted(), state, static_cast<int>(b))));
      });
    });
  };
  accumulate(samples, visit, sums...);
}

std::vector<Moments> moments_of(const SampleSet& samples, ModelProbe& probe, bool roots) {
  const Index d = probe.spec().width, size = 1 + d + d * d;
  Sums sums(probe.depths() * size);
  look_at_tokens(
      samples, probe,
      [&](Index depth, Index, const RowMatrix& u) {
        double* const s = sums.local() + depth * size;
        s[0] += static_cast<double>(u.rows());
        Eigen::Map<Eigen::RowVectorXd>(s + 1, d) += u.colwise().sum();
        Eigen::Map<RowMatrix>(s + 1 + d, d, d) += u.transpose() * u;
      },
      sums);
  std::vector<Moments> found;
  for (Index depth = 0; depth < probe.depths(); ++depth) {
    const double* const s = sums.total().data() + depth * size;
    Moments one{.mean = Eigen::Map<const Eigen::RowVectorXd>(s + 1, d) / s[0], .root = {}};
    if (roots) {
      const Eigen::MatrixXd covariance =
          Eigen::Map<const RowMatrix>(s + 1 + d, d, d) / s[0] - one.mean.transpose() * one.mean;
      const auto eigen = symmetric_eigen(covariance);
      // Eigenvalues of round-off are those of directions in which nothing varies.
      const double zero = static_cast<double>(d) * 1e-15 * eigen.values.cwiseAbs().maxCoeff();
      const Eigen::VectorXd roots_of =
          (eigen.values.array() > zero).select(eigen.values.cwiseMax(0).cwiseSqrt(), 0.0);
      one.root = eigen.vectors * roots_of.asDiagonal() * eigen.vectors.transpose();
    }
    found.push_back(std::move(one));
  }
  return found;
}

/// log N_2 of the samples at each depth, for one beta and centring.
class LogNumbers {
 public:
  LogNumbers(const Meter& meter, Index samples, Index depths, Index centring, Index beta)
      : meter_(meter), samples_(samples), depths_(depths), centring_(centring), beta_(beta) {}

  /// log N_2 at the last depth less that at the depth of the least, found on the other half. `chosen`: samples of each half.
  double escape(const std::vector<std::size_t> (&chosen)[2]) const {
    double sum = 0;
    for (const int half : {0, 1}) {
      Index least = 0;
      for (Index depth = 1; depth < depths_; ++depth)
        if (mean(chosen[half], depth) < mean(chosen[half], least)) least = depth;
      sum += mean(chosen[1 - half], depths_ - 1) - mean(chosen[1 - half], least);
    }
    return sum / 2;
  }
  Index samples() const { return samples_; }

 private:
  double mean(const std::vector<std::size_t>& chosen, Index depth) const {
    const auto& columns = meter_.columns();
    const Index at = columns.number(depth, Columns::tokens, centring_) + beta_;
    double sum = 0;
    for (const std::size_t sample : chosen) sum += meter_.table.numbers()[sample * columns.count() + at];
    return sum / static_cast<double>(chosen.size());
  }
  const Meter& meter_;
  Index samples_, depths_, centring_, beta_;
};

/// Escape and its standard deviation over bootstraps; NaN for a single sample.
std::pair<double, double> escape_of(const LogNumbers& numbers, std::uint64_t seed) {
  std::vector<std::size_t> halves[2];
  for (Index sample = 0; sample < numbers.samples(); ++sample) halves[sample % 2].push_back(sample);
  if (halves[1].empty()) return {std::nan(""), std::nan("")};
  constexpr int resamples = 200;
  const RandomStream random(seed, "bootstrap of samples");
  double sum = 0, squares = 0;
  for (int k = 0; k < resamples; ++k) {
    std::vector<std::size_t> drawn[2];
    for (const int half : {0, 1}) {
      const auto stream = random.item(k).item(half);
      for (std::size_t j = 0; j < halves[half].size(); ++j)
        drawn[half].push_back(halves[half][stream.below(j, halves[half].size())]);
    }
    const double one = numbers.escape(drawn);
    sum += one, squares += one * one;
  }
  const double mean = sum / resamples;
  return {numbers.escape(halves), std::sqrt(std::max(0.0, squares / resamples - mean * mean))};
}

/// Means over samples of `count` numbers from a place on; the exponentials of those of logarithms.
void append_means(const SampleTable& table, Index at, Index count, bool logarithms, std::vector<double>& to) {
  for (Index k = at; k < at + count; ++k) to.push_back(logarithms ? std::exp(table.mean(k)) : table.mean(k));
}

void append_cosines(const double* s, Index width, TokenClusters& to) {
  // sum over pairs within samples = sum_s |sum_t x|^2 - n; over all pairs the same of everything
  const double of_samples = s[width], n = s[width + 1], squares = s[width + 2];
  const double all = Eigen::Map<const Eigen::VectorXd>(s, width).squaredNorm();
  // Whole numbers: without pairs the denominators are 0 exactly.
  to.cosine_within.push_back(squares > n ? (of_samples - n) / (squares - n) : missing_value);
  to.cosine_between.push_back(n * n > squares ? (all - of_samples) / (n * n - squares) : missing_value);
}

}  // namespace

Components components_of(std::span<const double> products, double delta) {
  const auto n = static_cast<Index>(std::llround(std::sqrt(static_cast<double>(products.size()))));
  // |x - y|^2 = 2 - 2 <x, y> <= 4 sin^2(angle / 2)
  const auto within = [&](Index i, Index j, double angle) {
    const double half = std::sin(angle / 2);
    return angle >= std::numbers::pi || 2 - 2 * products[i * n + j] <= 4 * half * half;
  };
  const auto component = components(n, [&](Index i, Index j) { return within(i, j, delta); });
  Components found;
  for (const Index own : component) found.number = std::max(found.number, own + 1);
  std::vector<bool> wide(found.number, false);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < i; ++j)
      if (component[i] == component[j] && !within(i, j, 3 * delta)) wide[component[i]] = true;
  for (const Index own : component) found.compact_share += wide[own] ? 0 : 1 / static_cast<double>(n);
  return found;
}

TokenClusters measure_token_clusters(const SampleSet& samples, ModelProbe& probe,
                                     const TokenClusterSettings& settings) {
  need_whole_line(samples.line(), "clusters of tokens");
  const auto moments = moments_of(samples, probe, settings.nulls);
  Meter meter(samples, probe, settings, moments);
  look_at_tokens(
      samples, probe, [&](Index depth, Index place, const RowMatrix& u) { meter.add(depth, place, u); },
      meter.table, meter.sums);
  TokenClusters found;
  const auto& columns = meter.columns();
  const Index betas = std::ssize(settings.betas), deltas = std::ssize(settings.deltas);
  const Index depths = probe.depths(), width = probe.spec().width;
  for (Index depth = 0; depth < depths; ++depth) {
    for (Index centring = 0; centring < centrings; ++centring) {
      const auto numbers = [&](Columns::What what, std::vector<double>& to) {
        append_means(meter.table, columns.number(depth, what, centring), betas, true, to);
      };
      numbers(Columns::tokens, found.number_2);
      if (settings.nulls) numbers(Columns::normal, found.number_2_normal);
      if (settings.nulls) numbers(Columns::permuted, found.number_2_permuted);
      append_means(meter.table, columns.components(depth, centring), deltas, false, found.components);
      append_means(meter.table, columns.compact(depth, centring), deltas, false, found.compact_share);
      append_cosines(meter.total_of(depth, centring), width, found);
      found.left_out.push_back(meter.total_of(depth, centring)[width + 3]);
    }
  }
  for (Index centring = 0; centring < centrings; ++centring)
    for (Index beta = 0; beta < betas; ++beta) {
      const LogNumbers numbers(meter, samples.size(), depths, centring, beta);
      const auto [escape, error] = escape_of(numbers, settings.seed);
      found.escape.push_back(escape);
      found.escape_error.push_back(error);
    }
  for (const double beta : settings.betas) {
    // E 1/N_2 = 1/n + (1 - 1/n) lambda_0 for each sample
    const double mean = kernel_eigenvalue(static_cast<int>(width), beta, 0);
    double sum = 0;
    for (const std::size_t member : samples.members()) {
      const auto n = static_cast<double>(samples.data().length(member));
      sum -= std::log(1 / n + (1 - 1 / n) * mean);
    }
    found.number_2_uniform.push_back(std::exp(sum / static_cast<double>(samples.size())));
  }
  return found;
}

}  // namespace fluxformer::clusters
