#include "analysis/identifiability/contributions.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {
namespace {

// A column of c is NaN as a whole: its diagonal tells.
bool counts(const Matrix& c, Index j) {
  return !std::isnan(c(j, j));
}

void need_places(const Matrix& c, const TokenLattice& lattice) {
  if (c.rows() > Index{lattice.leading} + Index{lattice.rows} * lattice.columns)
    throw BadInput("a sample has more tokens than the lattice has places");
}

int distance_of(const TokenLattice& lattice, Index i, Index j) {
  return token_distance(lattice, i, j);
}

Index positive(int number, const char* what) {
  if (number < 1) throw BadInput(std::string("contributions of tokens need at least one ") + what);
  return number;
}

/// Interpolates linearly between the sorted numbers.
double quantile(const std::vector<double>& sorted, double share) {
  // The quantile q lies at place q (n - 1) of the n sorted numbers, counted from 0.
  const double place = share * (sorted.size() - 1);
  const auto below = static_cast<Index>(place);
  const auto above = std::min<Index>(below + 1, std::ssize(sorted) - 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

}  // namespace

Matrix contributions_of_norms(const Matrix& norms) {
  if ((norms.array() < 0).any()) throw BadInput("the norm of a block of the Jacobian is negative");
  Matrix c = norms;
  for (Index j = 0; j < c.cols(); ++j) {
    // c_ij = |du_j/dx_i| / sum_k |du_j/dx_k|; NaN for a hidden token that depends on no input
    const double sum = c.col(j).sum();
    c.col(j) = sum > 0 && std::isfinite(sum) ? (c.col(j) / sum).eval()
                                             : Eigen::VectorXd::Constant(c.rows(), missing_value);
  }
  return c;
}

int token_distance(const TokenLattice& lattice, int i, int j) {
  const int a = i - lattice.leading, b = j - lattice.leading;
  if (a < 0 || b < 0) return -1;
  // |row - row'| + |column - column'| on the lattice, whose places run row by row
  return std::abs(a / lattice.columns - b / lattice.columns) +
         std::abs(a % lattice.columns - b % lattice.columns);
}

std::size_t distance_group(int distance) {
  // The last distance of each group but the open one: a distance is in the first group that reaches so far.
  constexpr std::array<int, distance_groups - 1> last{0, 1, 2, 3, 5, 10};
  return std::lower_bound(last.begin(), last.end(), distance) - last.begin();
}

ContributionByDistance by_distance(const Matrix& c, const TokenLattice& lattice) {
  need_places(c, lattice);
  ContributionByDistance found;
  for (Index j = 0; j < c.cols(); ++j) {
    if (!counts(c, j)) continue;
    for (Index i = 0; i < c.rows(); ++i)
      if (const int distance = distance_of(lattice, i, j); distance >= 0) {
        // Sum of c_ij over the pairs at each distance, and their number
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
  std::vector<double> list(c.cols(), missing_value), at(lattice.rows + lattice.columns);
  for (Index j = lattice.leading; j < c.cols(); ++j) {
    if (!counts(c, j)) continue;
    // at[r]: sum of c_ij over the tokens i at the distance r from j
    std::fill(at.begin(), at.end(), 0.0);
    double all = 0;
    for (Index i = lattice.leading; i < c.rows(); ++i) {
      at[distance_of(lattice, i, j)] += c(i, j);
      all += c(i, j);
    }
    // The smallest r with at[0] + ... + at[r] >= all/2
    std::size_t r = 0;
    for (double sum = at[0]; sum < half * all; sum += at[r]) ++r;
    if (all > 0) list[j] = r;
  }
  return list;
}

std::vector<double> own_is_largest(const Matrix& c) {
  std::vector<double> list;
  for (Index j = 0; j < c.cols(); ++j) {
    // With k tokens that contribute most, the own one among them, the credit is 1/k.
    const double most = c.col(j).maxCoeff();
    const double ties = (c.col(j).array() == most).count();
    list.push_back(!counts(c, j) ? missing_value : c(j, j) == most ? 1 / ties : 0);
  }
  return list;
}

ContributionAccumulator::ContributionAccumulator(int samples, int depths, int tokens)
    : samples_(positive(samples, "sample")),
      depths_(positive(depths, "depth")),
      tokens_(positive(tokens, "token")),
      sums_(depths_ * columns),
      shares_(samples_, depths_ * tokens_) {}

void ContributionAccumulator::add(int place, int depth, const Matrix& c, const TokenLattice& lattice) {
  const Index n = c.cols();
  if (n > tokens_ || c.rows() != c.cols())
    throw BadInput("the contributions of a sample are not square or too many");
  const auto groups = by_distance(c, lattice);
  const auto halves = half_distances(c, lattice), first = own_is_largest(c);
  double* const s = sums_.local() + depth * columns;
  double* const share = shares_.row(place) + depth * tokens_;
  // Padding and columns of NaN do not count.
  std::fill_n(share, tokens_, missing_value);
  for (Index j = 0; j < n; ++j) {
    if (!counts(c, j)) continue;
    // c_jj: what a hidden token owes to its own input token
    share[j] = c(j, j);
    s[counted] += 1;
    s[own] += share[j];
    s[largest] += first[j];
    if (!std::isnan(halves[j])) s[half] += halves[j], s[placed] += 1;
  }
  // by_group() divides these sums by tokens, by_pair() by pairs.
  for (std::size_t g = 0; g < distance_groups; ++g) {
    s[sums_of_groups + g] += groups.sum[g];
    s[sums_of_groups + distance_groups + g] += groups.pairs[g];
  }
}

void ContributionAccumulator::reduce(MPI_Comm comm) {
  sums_.reduce(comm);
  shares_.reduce(comm);
}

std::vector<double> ContributionAccumulator::column(std::size_t which) const {
  std::vector<double> list;
  for (Index depth = 0; depth < depths_; ++depth) list.push_back(sums_.total()[depth * columns + which]);
  return list;
}

std::vector<double> ContributionAccumulator::mean(std::size_t which, std::size_t over) const {
  auto list = column(which);
  const auto number = column(over);
  for (Index depth = 0; depth < depths_; ++depth) list[depth] /= number[depth];
  return list;
}

std::vector<double> ContributionAccumulator::own_share() const {
  return mean(own, counted);
}

std::vector<double> ContributionAccumulator::own_largest() const {
  return mean(largest, counted);
}

std::vector<double> ContributionAccumulator::half_distance() const {
  return mean(half, placed);
}

std::vector<Quartiles> ContributionAccumulator::own_quartiles() const {
  std::vector<Quartiles> list;
  for (Index depth = 0; depth < depths_; ++depth) {
    std::vector<double> shares;
    for (Index sample = 0; sample < samples_; ++sample)
      for (Index j = 0; j < tokens_; ++j)
        // c_jj of all samples and tokens at this depth, without padding and columns of NaN
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

std::vector<DistanceProfile> ContributionAccumulator::by_group() const {
  std::vector<DistanceProfile> list(depths_);
  for (std::size_t g = 0; g < distance_groups; ++g) {
    // Sum of c_ij in the group over the number of hidden tokens j on the lattice
    const auto means = mean(sums_of_groups + g, placed);
    for (Index depth = 0; depth < depths_; ++depth) list[depth][g] = means[depth];
  }
  return list;
}

std::vector<DistanceProfile> ContributionAccumulator::by_pair() const {
  std::vector<DistanceProfile> list(depths_);
  for (std::size_t g = 0; g < distance_groups; ++g) {
    // Sum of c_ij in the group over its number of pairs (i, j)
    const auto means = mean(sums_of_groups + g, sums_of_groups + distance_groups + g);
    for (Index depth = 0; depth < depths_; ++depth) list[depth][g] = means[depth];
  }
  return list;
}

}  // namespace fluxformer::identifiability
