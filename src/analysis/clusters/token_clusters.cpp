#include "analysis/clusters/token_clusters.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <optional>

#include "analysis/accumulator.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "analysis/clusters/head_maps.hpp"
#include "analysis/clusters/joined.hpp"
#include "analysis/clusters/leaders.hpp"
#include "analysis/dense_matrices.hpp"
#include "analysis/state_examples.hpp"
#include "analysis/states/state_spectrum.hpp"
#include "base/mpi.hpp"
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
void put_log_numbers(const RowMatrix& products, std::span<const double> betas, double* to) {
  const auto n = static_cast<double>(products.rows());
  for (std::size_t k = 0; k < betas.size(); ++k)
    to[k] = std::log(n * n / (betas[k] * (products.array() - 1)).exp().sum());
}

/// The effective rank of unit vectors; NaN for none.
double rank_of(const RowMatrix& x) {
  return x.rows() == 0 ? std::nan("") : states::effective_rank_of(singular_values_of(x));
}

/// The sizes that tables depend on.
struct Sizes {
  Sizes(const TokenClusterSettings& settings, const ModelProbe& probe)
      : betas(std::ssize(settings.betas)),
        deltas(std::ssize(settings.deltas)),
        depths(probe.depths()),
        width(probe.spec().width),
        layers(probe.spec().layers),
        heads(probe.spec().attention.heads) {}
  Index betas, deltas, depths, width, layers, heads;
};

/// Numbers of a sample in the table: [depth][what][centring][beta or delta], then the energies [layer][beginning, end][head].
class Columns {
 public:
  explicit Columns(const Sizes& sizes) : sizes_(sizes) {}
  enum What : Index { tokens, normal, permuted };
  enum Single : Index { rank, rank_normal, leaders, leader_angle };
  Index count() const { return sizes_.depths * per_depth() + 2 * sizes_.layers * sizes_.heads; }
  /// Place of log N_2 for the first beta.
  Index number(Index depth, What what, Index centring) const {
    return depth * per_depth() + (what * centrings + centring) * sizes_.betas;
  }
  /// Place of the components for the first delta; that of the compact shares comes behind those of all centrings.
  Index components(Index depth, Index centring) const {
    return depth * per_depth() + 3 * centrings * sizes_.betas + centring * sizes_.deltas;
  }
  Index compact(Index depth, Index centring) const {
    return components(depth, centring) + centrings * sizes_.deltas;
  }
  Index single(Index depth, Single what, Index centring) const {
    return components(depth, 0) + centrings * (2 * sizes_.deltas + what) + centring;
  }
  /// Place of log E of the first head of layer 1 .. S, at its beginning (0) or end (1).
  Index energy(Index layer, Index end) const {
    return sizes_.depths * per_depth() + ((layer - 1) * 2 + end) * sizes_.heads;
  }

 private:
  Index per_depth() const { return centrings * (3 * sizes_.betas + 2 * sizes_.deltas + 4); }
  Sizes sizes_;
};

/// The rows at which layers 0 .. S end; -1 where no depth cell does.
std::vector<Index> ends_of_layers(const DepthCells& depth) {
  std::vector<Index> rows(depth.layers + 1, -1);
  for (int row = 0; row <= depth.cells; ++row)
    if (const double s = depth.depth(row); s == std::floor(s)) rows[static_cast<Index>(s)] = row;
  return rows;
}

/// One token of each sample at all depths, in a random order of the samples: the k-th gives its token k, by its number of tokens, so that those
/// of as many samples in a row as they have tokens stand at different places.
class Drawn {
  Sizes sizes_;

 public:
  SampleTable table;  // [sample][depth][channel]

  Drawn(const SampleSet& samples, const Sizes& sizes, std::uint64_t seed)
      : sizes_(sizes),
        table(samples.size(), sizes.depths * sizes.width),
        order_(shuffled(samples.size(), seed, "one token of each sample", 0)),
        place_of_(order_.size()) {
    for (std::size_t k = 0; k < order_.size(); ++k) place_of_[order_[k]] = static_cast<Index>(k);
  }
  void add(Index depth, Index place, const RowMatrix& u) {
    if (u.rows() == 0) return;
    double* const to = table.row(place) + depth * sizes_.width;
    Eigen::Map<Eigen::RowVectorXd>(to, sizes_.width) = u.row(place_of_[place] % u.rows());
  }
  /// The k-th sample.
  Index sample(Index k) const { return static_cast<Index>(order_[k]); }
  /// The tokens of a depth, in the random order.
  RowMatrix tokens(Index depth) const {
    RowMatrix found(std::ssize(order_), sizes_.width);
    for (Index k = 0; k < found.rows(); ++k) {
      const double* const from = table.numbers().data() + (sample(k) * sizes_.depths + depth) * sizes_.width;
      found.row(k) = Eigen::Map<const Eigen::RowVectorXd>(from, sizes_.width);
    }
    return found;
  }

 private:
  std::vector<std::size_t> order_;
  std::vector<Index> place_of_;
};

/// The length up to which a vector of this depth has no direction: tokens that are all alike are centred up to round-off.
double zero_of(const Moments& moments, Index centring) {
  return centring == 0 ? 0 : 1e-13 * moments.mean.norm();
}

/// The second pass: what needs the mean and the covariance of each depth.
class Meter {
  Sizes sizes_;
  Columns columns_;

 public:
  SampleTable table;
  Sums sums;
  std::optional<Drawn> drawn;  // for nulls

  Meter(const SampleSet& samples, ModelProbe& probe, const TokenClusterSettings& settings,
        const std::vector<Moments>& moments)
      : sizes_(settings, probe),
        columns_(sizes_),
        table(samples.size(), columns_.count()),
        sums(sizes_.depths * centrings * (sizes_.width + 4)),
        settings_(settings),
        moments_(moments),
        kernels_(probe.parameters()),
        ends_(ends_of_layers(probe.depth())),
        most_(samples.line().tokens()) {
    if (settings.nulls) drawn.emplace(samples, sizes_, settings.seed);
  }

  const Columns& columns() const { return columns_; }

  const std::vector<Index>& ends() const { return ends_; }

  void add(Index depth, Index place, const RowMatrix& u) {
    double* const row = table.row(place);
    for (Index centring = 0; centring < centrings; ++centring) {
      const RowMatrix moved = centring == 0 ? u : RowMatrix(u.rowwise() - moments_[depth].mean);
      const RowMatrix x = directions(moved, zero_of(moments_[depth], centring)), products = x * x.transpose();
      put_log_numbers(products, settings_.betas, row + columns_.number(depth, Columns::tokens, centring));
      put_components(products, row + columns_.components(depth, centring),
                     row + columns_.compact(depth, centring));
      put_leaders(depth, centring, products, row);
      row[columns_.single(depth, Columns::rank, centring)] = rank_of(x);
      add_sums(depth, centring, x, static_cast<double>(u.rows() - x.rows()));
      if (!settings_.nulls) continue;
      const RowMatrix normal = normal_tokens(depth, place, centring, u.rows());
      put_null(depth, centring, Columns::normal, normal, row);
      row[columns_.single(depth, Columns::rank_normal, centring)] =
          rank_of(directions(normal, zero_of(moments_[depth], centring)));
      put_null(depth, centring, Columns::permuted, permuted_tokens(depth, place, moved), row);
    }
    for (Index layer = 1; layer <= sizes_.layers; ++layer)
      for (const Index end : {0, 1})
        if (ends_[layer - 1 + end] == depth)
          kernels_.put_log_energies(static_cast<int>(layer), u, row + columns_.energy(layer, end));
    if (drawn) drawn->add(depth, place, u);
  }

  /// Sums of a depth: of the directions, their squares by samples, numbers of tokens, their squares, and those left out.
  const double* total_of(Index depth, Index centring) const {
    return sums.total().data() + (depth * centrings + centring) * (sizes_.width + 4);
  }

 private:
  void put_components(const RowMatrix& products, double* number, double* compact) const {
    for (std::size_t k = 0; k < settings_.deltas.size(); ++k) {
      const auto found =
          components_of({products.data(), products.data() + products.size()}, settings_.deltas[k]);
      number[k] = static_cast<double>(found.number);
      compact[k] = found.compact_share;
    }
  }
  void put_leaders(Index depth, Index centring, const RowMatrix& products, double* row) const {
    const auto found = leaders_by_products({products.data(), products.data() + products.size()},
                                           settings_.deltas[settings_.deltas.size() / 2]);
    row[columns_.single(depth, Columns::leaders, centring)] = static_cast<double>(found.leaders);
    row[columns_.single(depth, Columns::leader_angle, centring)] = found.angle;
  }
  void add_sums(Index depth, Index centring, const RowMatrix& x, double left_out) {
    double* const s = sums.local() + (depth * centrings + centring) * (sizes_.width + 4);
    const Eigen::RowVectorXd sum = x.colwise().sum();
    const auto n = static_cast<double>(x.rows());
    for (Index c = 0; c < sizes_.width; ++c) s[c] += sum[c];
    s[sizes_.width] += sum.squaredNorm();
    s[sizes_.width + 1] += n;
    s[sizes_.width + 2] += n * n;
    s[sizes_.width + 3] += left_out;
  }
  void put_null(Index depth, Index centring, Columns::What what, const RowMatrix& u, double* row) const {
    const RowMatrix x = directions(u, zero_of(moments_[depth], centring));
    put_log_numbers(x * x.transpose(), settings_.betas, row + columns_.number(depth, what, centring));
  }
  RowMatrix normal_tokens(Index depth, Index place, Index centring, Index count) const {
    const auto stream = RandomStream(settings_.seed, "normal tokens").item(place).item(depth);
    RowMatrix z(count, sizes_.width);
    for (Index j = 0; j < z.size(); ++j) z.data()[j] = stream.normal(j);
    RowMatrix u = z * moments_[depth].root;
    if (centring == 0) u.rowwise() += moments_[depth].mean;
    return u;
  }
  RowMatrix permuted_tokens(Index depth, Index place, const RowMatrix& u) const {
    RowMatrix found(u.rows(), sizes_.width);
    for (Index t = 0; t < u.rows(); ++t) {
      const auto order = shuffled(sizes_.width, settings_.seed, "permuted channels",
                                  (place * sizes_.depths + depth) * most_ + t);
      for (Index c = 0; c < sizes_.width; ++c) found(t, c) = u(t, order[c]);
    }
    return found;
  }

  const TokenClusterSettings& settings_;
  const std::vector<Moments>& moments_;
  HeadKernels kernels_;
  std::vector<Index> ends_;
  Index most_;
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
        Eigen::Map<Eigen::RowVectorXd>(s + 1, d) += u.colwise().sum().eval();
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

/// Means over sets of log N_2 of one token of each sample; the ranks share the sets.
void append_across(const SampleSet& samples, const Drawn& drawn, const std::vector<Moments>& moments,
                   std::span<const double> betas, std::vector<double>& to) {
  const Index count = samples.size(), columns = centrings * std::ssize(betas);
  SampleTable numbers(count, std::ssize(moments) * columns);
  for (Index depth = 0; depth < std::ssize(moments); ++depth) {
    const RowMatrix raw = drawn.tokens(depth);
    for (Index centring = 0; centring < centrings; ++centring) {
      const RowMatrix moved = centring == 0 ? raw : RowMatrix(raw.rowwise() - moments[depth].mean);
      for (Index k = mpi::rank(samples.comm()); k < count; k += mpi::size(samples.comm())) {
        const Index size = samples.data().length(samples.member(drawn.sample(k)));
        const auto found = log_number_across(moved, k, size, zero_of(moments[depth], centring), betas);
        std::ranges::copy(found, numbers.row(k) + depth * columns + centring * std::ssize(betas));
      }
    }
  }
  numbers.reduce(samples.comm());
  append_means(numbers, 0, std::ssize(moments) * columns, true, to);
}

/// The plateaus of all samples, at all rows.
void append_plateaus(const SampleSet& samples, const Meter& meter, const Sizes& sizes,
                     const DepthCells& depth, TokenClusters& to) {
  constexpr double compact_enough = 0.95, layers_enough = 3;
  std::vector<double> s(sizes.depths);
  for (int row = 0; row < sizes.depths; ++row) s[row] = depth.depth(row);
  const auto& columns = meter.columns();
  for (Index centring = 0; centring < centrings; ++centring)
    for (Index delta = 0; delta < sizes.deltas; ++delta) {
      double sum = 0, enough = 0;
      for (Index sample = 0; sample < samples.size(); ++sample) {
        const double* const row = meter.table.numbers().data() + sample * columns.count();
        const double tokens = samples.data().length(samples.member(sample));
        std::vector<double> number;
        std::vector<bool> counts;
        for (Index at = 0; at < sizes.depths; ++at) {
          number.push_back(row[columns.components(at, centring) + delta]);
          counts.push_back(number.back() >= 2 && number.back() <= tokens / 2 &&
                           row[columns.compact(at, centring) + delta] >= compact_enough);
        }
        const double longest = longest_plateau(s, number, counts);
        sum += longest;
        // Depths of cells have round-off.
        enough += longest >= layers_enough - 1e-9 ? 1 : 0;
      }
      to.plateau.push_back(sum / static_cast<double>(samples.size()));
      to.plateau_share.push_back(enough / static_cast<double>(samples.size()));
    }
}

void append_energies(const SampleSet& samples, const Meter& meter, const Sizes& sizes, TokenClusters& to) {
  const auto& columns = meter.columns();
  for (Index layer = 1; layer <= sizes.layers; ++layer)
    for (Index head = 0; head < sizes.heads; ++head) {
      const Index before = columns.energy(layer, 0) + head, after = columns.energy(layer, 1) + head;
      const bool measured = meter.ends()[layer - 1] >= 0 && meter.ends()[layer] >= 0;
      double falls = 0;
      for (Index sample = 0; sample < samples.size(); ++sample) {
        const double* const row = meter.table.numbers().data() + sample * columns.count();
        // Logarithms of some hundreds have round-off below 1e-12.
        falls += row[after] - row[before] < -1e-9 ? 1 : 0;
      }
      to.log_energy.push_back(measured ? meter.table.mean(before) : missing_value);
      to.energy_change.push_back(measured ? meter.table.mean(after) - meter.table.mean(before)
                                          : missing_value);
      to.energy_falls.push_back(measured ? falls / static_cast<double>(samples.size()) : missing_value);
    }
}

/// The numbers of each depth.
void append_depths(const Meter& meter, const Sizes& sizes, bool nulls, TokenClusters& to) {
  const auto& columns = meter.columns();
  for (Index depth = 0; depth < sizes.depths; ++depth)
    for (Index centring = 0; centring < centrings; ++centring) {
      const auto numbers = [&](Columns::What what, std::vector<double>& list) {
        append_means(meter.table, columns.number(depth, what, centring), sizes.betas, true, list);
      };
      const auto single = [&](Columns::Single what, std::vector<double>& list) {
        list.push_back(meter.table.mean(columns.single(depth, what, centring)));
      };
      numbers(Columns::tokens, to.number_2);
      if (nulls) numbers(Columns::normal, to.number_2_normal);
      if (nulls) numbers(Columns::permuted, to.number_2_permuted);
      append_means(meter.table, columns.components(depth, centring), sizes.deltas, false, to.components);
      append_means(meter.table, columns.compact(depth, centring), sizes.deltas, false, to.compact_share);
      single(Columns::rank, to.effective_rank);
      if (nulls) single(Columns::rank_normal, to.effective_rank_normal);
      single(Columns::leaders, to.leaders);
      single(Columns::leader_angle, to.leader_angle);
      append_cosines(meter.total_of(depth, centring), sizes.width, to);
      to.left_out.push_back(meter.total_of(depth, centring)[sizes.width + 3]);
    }
}

}  // namespace

Components components_of(std::span<const double> products, double delta) {
  const auto n = static_cast<Index>(std::llround(std::sqrt(static_cast<double>(products.size()))));
  // |x - y|^2 = 2 - 2 <x, y>
  const auto within = [&](Index i, Index j, double squared) {
    return 2 - 2 * products[i * n + j] <= squared;
  };
  const double near = squared_chord(delta), wide_from = squared_chord(3 * delta);
  const auto component = components(n, [&](Index i, Index j) { return within(i, j, near); });
  Components found;
  for (const Index own : component) found.number = std::max(found.number, own + 1);
  std::vector<bool> wide(found.number, false);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < i; ++j)
      if (component[i] == component[j] && !within(i, j, wide_from)) wide[component[i]] = true;
  for (const Index own : component) found.compact_share += wide[own] ? 0 : 1 / static_cast<double>(n);
  return found;
}

LeaderAngle leaders_by_products(std::span<const double> products, double radius) {
  const auto n = static_cast<Index>(std::llround(std::sqrt(static_cast<double>(products.size()))));
  if (n == 0 || !std::ranges::all_of(products, [](double p) { return std::isfinite(p); }))
    return {.leaders = 0, .angle = std::nan("")};
  const auto squared_chord_of = [&](Index i, Index j) { return std::max(0.0, 2 - 2 * products[i * n + j]); };
  const double within = squared_chord(radius);
  std::vector<Index> leaders;
  const auto of = first_leaders(
      n, 0, n, [&](Index i, Index leader) { return squared_chord_of(i, leaders[leader]) <= within; },
      [&](Index i) { leaders.push_back(i); });
  LeaderAngle found{.leaders = std::ssize(leaders), .angle = 0};
  for (Index i = 0; i < n; ++i) {
    if (leaders[of[i]] == i) continue;
    double nearest = within;
    for (const Index leader : leaders) nearest = std::min(nearest, squared_chord_of(i, leader));
    found.angle += 2 * std::asin(std::min(1.0, std::sqrt(nearest) / 2)) / static_cast<double>(n);
  }
  return found;
}

std::vector<double> log_number_across(const RowMatrix& tokens, Index first, Index size, double zero,
                                      std::span<const double> betas) {
  std::vector<double> found(betas.size(), std::nan(""));
  if (size > tokens.rows()) return found;
  RowMatrix u(size, tokens.cols());
  for (Index j = 0; j < size; ++j) u.row(j) = tokens.row((first + j) % tokens.rows());
  const RowMatrix x = directions(u, zero);
  put_log_numbers(x * x.transpose(), betas, found.data());
  return found;
}

double longest_plateau(std::span<const double> s, std::span<const double> number,
                       const std::vector<bool>& counts) {
  double longest = 0;
  std::size_t from = 0;
  for (std::size_t k = 0; k < s.size(); ++k) {
    if (!counts[k]) {
      from = k + 1;
      continue;
    }
    if (number[k] != number[from]) from = k;
    longest = std::max(longest, s[k] - s[from]);
  }
  return longest;
}

TokenClusters measure_token_clusters(const SampleSet& samples, ModelProbe& probe,
                                     const TokenClusterSettings& settings) {
  need_whole_line(samples.line(), "clusters of tokens");
  const auto moments = moments_of(samples, probe, settings.nulls);
  Meter meter(samples, probe, settings, moments);
  look_at_tokens(
      samples, probe, [&](Index depth, Index place, const RowMatrix& u) { meter.add(depth, place, u); },
      meter.table, meter.sums);
  if (meter.drawn) meter.drawn->table.reduce(samples.comm());
  const Sizes sizes(settings, probe);
  TokenClusters found;
  append_depths(meter, sizes, settings.nulls, found);
  if (meter.drawn) append_across(samples, *meter.drawn, moments, settings.betas, found.number_2_across);
  append_plateaus(samples, meter, sizes, probe.depth(), found);
  append_energies(samples, meter, sizes, found);
  for (Index centring = 0; centring < centrings; ++centring)
    for (Index beta = 0; beta < sizes.betas; ++beta) {
      const LogNumbers numbers(meter, samples.size(), sizes.depths, centring, beta);
      const auto [escape, error] = escape_of(numbers, settings.seed);
      found.escape.push_back(escape);
      found.escape_error.push_back(error);
    }
  for (const double beta : settings.betas) {
    // E 1/N_2 = 1/n + (1 - 1/n) lambda_0 for each sample
    const double mean = kernel_eigenvalue(static_cast<int>(sizes.width), beta, 0);
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
