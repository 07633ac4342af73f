#include "analysis/identifiability/contributions.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::Index;

bool counts(const Matrix& c, Index j) {
  return !std::isnan(c(j, j));
}

void need_places(const Matrix& c, const TokenLattice& lattice) {
  if (c.rows() > Index{lattice.leading} + Index{lattice.rows} * lattice.columns)
    throw BadInput("a sample has more tokens than the lattice has places");
}

int distance_of(const TokenLattice& lattice, Index i, Index j) {
  return token_distance(lattice, static_cast<int>(i), static_cast<int>(j));
}

std::size_t positive(int number, const char* what) {
  if (number < 1) throw BadInput(std::string("contributions of tokens need at least one ") + what);
  return static_cast<std::size_t>(number);
}

/// Interpolates linearly between the sorted numbers.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Matrix contributions_of_norms(const Matrix& norms) {
  if ((norms.array() < 0).any()) throw BadInput("the norm of a block of the Jacobian is negative");
  Matrix c = norms;
  for (Index j = 0; j < c.cols(); ++j) {
    const double sum = c.col(j).sum();
    c.col(j) = sum > 0 && std::isfinite(sum) ? (c.col(j) / sum).eval()
                                             : Eigen::VectorXd::Constant(c.rows(), missing_value);
  }
  return c;
}

Matrix contributions_of_squares(const Matrix& squares) {
  if ((squares.array() < 0).any()) throw BadInput("a squared norm of a block of the Jacobian is negative");
  return contributions_of_norms(squares.cwiseSqrt());
}

int token_distance(const TokenLattice& lattice, int i, int j) {
  const int a = i - lattice.leading, b = j - lattice.leading;
  if (a < 0 || b < 0) return -1;
  return std::abs(a / lattice.columns - b / lattice.columns) +
         std::abs(a % lattice.columns - b % lattice.columns);
}

std::size_t distance_group(int distance) {
  constexpr std::array<int, distance_groups - 1> last{0, 1, 2, 3, 5, 10};
  return static_cast<std::size_t>(std::lower_bound(last.begin(), last.end(), distance) - last.begin());
}

ContributionByDistance by_distance(const Matrix& c, const TokenLattice& lattice) {
  need_places(c, lattice);
  ContributionByDistance found;
  for (Index j = 0; j < c.cols(); ++j) {
    if (!counts(c, j)) continue;
    for (Index i = 0; i < c.rows(); ++i)
      if (const int distance = distance_of(lattice, i, j); distance >= 0) {
        found.sum[distance_group(distance)] += c(i, j);
        found.pairs[distance_group(distance)] += 1;
      }
  }
  return found;
}

std::vector<double> half_distances(const Matrix& c, const TokenLattice& lattice) {
  need_places(c, lattice);
  // Sums that are 1/2 in exact numbers must not miss it.
  constexpr double half = 0.5 - 1e-12;
  const auto farthest = static_cast<std::size_t>(lattice.rows + lattice.columns);
  std::vector<double> list(static_cast<std::size_t>(c.cols()), missing_value), at(farthest);
  for (Index j = lattice.leading; j < c.cols(); ++j) {
    if (!counts(c, j)) continue;
    std::fill(at.begin(), at.end(), 0.0);
    double all = 0;
    for (Index i = lattice.leading; i < c.rows(); ++i) {
      at[distance_of(lattice, i, j)] += c(i, j);
      all += c(i, j);
    }
    std::size_t r = 0;
    for (double sum = at[0]; sum < half * all; sum += at[r]) ++r;
    if (all > 0) list[j] = static_cast<double>(r);
  }
  return list;
}

std::vector<double> own_is_largest(const Matrix& c) {
  std::vector<double> list;
  for (Index j = 0; j < c.cols(); ++j) {
    const double most = c.col(j).maxCoeff();
    const auto ties = static_cast<double>((c.col(j).array() == most).count());
    list.push_back(!counts(c, j) ? missing_value : c(j, j) == most ? 1 / ties : 0);
  }
  return list;
}

ContributionMeter::ContributionMeter(int samples, int depths, int tokens)
    : samples_(positive(samples, "sample")),
      depths_(positive(depths, "depth")),
      tokens_(positive(tokens, "token")),
      sums_(depths_ * columns),
      shares_(samples_, depths_ * tokens_) {}

void ContributionMeter::add(int place, int depth, const Matrix& c, const TokenLattice& lattice) {
  const auto n = static_cast<std::size_t>(c.cols()), at = static_cast<std::size_t>(depth);
  if (n > tokens_ || c.rows() != c.cols())
    throw BadInput("the contributions of a sample are not square or too many");
  const auto groups = by_distance(c, lattice);
  const auto halves = half_distances(c, lattice), first = own_is_largest(c);
  double* const s = sums_.local() + at * columns;
  double* const share = shares_.row(static_cast<std::size_t>(place)) + at * tokens_;
  std::fill_n(share, tokens_, missing_value);
  for (std::size_t j = 0; j < n; ++j) {
    const auto column = static_cast<Index>(j);
    if (!counts(c, column)) continue;
    share[j] = c(column, column);
    s[counted] += 1;
    s[own] += share[j];
    s[largest] += first[j];
    if (!std::isnan(halves[j])) s[half] += halves[j], s[placed] += 1;
  }
  for (std::size_t g = 0; g < distance_groups; ++g) {
    s[sums_of_groups + g] += groups.sum[g];
    s[sums_of_groups + distance_groups + g] += groups.pairs[g];
  }
}

void ContributionMeter::reduce(MPI_Comm comm) {
  sums_.reduce(comm);
  shares_.reduce(comm);
}

std::vector<double> ContributionMeter::column(std::size_t which) const {
  std::vector<double> list;
  for (std::size_t depth = 0; depth < depths_; ++depth)
    list.push_back(sums_.total()[depth * columns + which]);
  return list;
}

std::vector<double> ContributionMeter::mean(std::size_t which, std::size_t over) const {
  auto list = column(which);
  const auto number = column(over);
  for (std::size_t depth = 0; depth < depths_; ++depth) list[depth] /= number[depth];
  return list;
}

std::vector<double> ContributionMeter::own_share() const {
  return mean(own, counted);
}

std::vector<double> ContributionMeter::own_largest() const {
  return mean(largest, counted);
}

std::vector<double> ContributionMeter::half_distance() const {
  return mean(half, placed);
}

std::vector<Quartiles> ContributionMeter::own_quartiles() const {
  std::vector<Quartiles> list;
  for (std::size_t depth = 0; depth < depths_; ++depth) {
    std::vector<double> shares;
    for (std::size_t sample = 0; sample < samples_; ++sample)
      for (std::size_t j = 0; j < tokens_; ++j)
        if (const double share = shares_.numbers()[(sample * depths_ + depth) * tokens_ + j];
            !std::isnan(share))
          shares.push_back(share);
    std::sort(shares.begin(), shares.end());
    list.push_back(shares.empty()
                       ? Quartiles{missing_value, missing_value, missing_value}
                       : Quartiles{quantile(shares, 0.25), quantile(shares, 0.5), quantile(shares, 0.75)});
  }
  return list;
}

std::vector<DistanceProfile> ContributionMeter::by_group() const {
  std::vector<DistanceProfile> list(depths_);
  for (std::size_t g = 0; g < distance_groups; ++g) {
    const auto means = mean(sums_of_groups + g, placed);
    for (std::size_t depth = 0; depth < depths_; ++depth) list[depth][g] = means[depth];
  }
  return list;
}

std::vector<DistanceProfile> ContributionMeter::by_pair() const {
  std::vector<DistanceProfile> list(depths_);
  for (std::size_t g = 0; g < distance_groups; ++g) {
    const auto means = mean(sums_of_groups + g, sums_of_groups + distance_groups + g);
    for (std::size_t depth = 0; depth < depths_; ++depth) list[depth][g] = means[depth];
  }
  return list;
}

}  // namespace fluxformer::identifiability
