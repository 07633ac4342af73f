#include "analysis/identifiability/nearest_tokens.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer::identifiability {
namespace {

/// |x - y|^2. The order of the sum depends on d alone, not on where the rows lie in memory.
double squared_distance(const double* x, const double* y, Index d) {
  // Eight partial sums, sum_l over k = l, l + 8, ..., which the compiler can keep in vector registers without
  // changing the order in which numbers are added; the rest goes to the first.
  constexpr Index lanes = 8;
  std::array<double, lanes> sum{};
  Index k = 0;
  for (; k + lanes <= d; k += lanes)
    for (Index l = 0; l < lanes; ++l) {
      const double difference = x[k + l] - y[k + l];
      sum[l] += difference * difference;
    }
  for (; k < d; ++k) sum[0] += (x[k] - y[k]) * (x[k] - y[k]);
  return std::accumulate(sum.begin(), sum.end(), 0.0);
}

/// |x|^2, as squared_distance sums it.
Eigen::VectorXd squared_lengths(const Matrix& rows) {
  const Eigen::VectorXd origin = Eigen::VectorXd::Zero(rows.cols());
  Eigen::VectorXd squares(rows.rows());
  for (Index i = 0; i < rows.rows(); ++i)
    // |x - 0|^2 rather than a norm: equal rows have equal lengths, bit by bit.
    squares[i] = squared_distance(rows.row(i).data(), origin.data(), rows.cols());
  return squares;
}

bool same_rows(const Matrix& m, Index i, Index j) {
  return std::equal(m.row(i).data(), m.row(i).data() + m.cols(), m.row(j).data());
}

/// For each row how many rows equal it, itself included. Rows are compared only where their lengths agree.
std::vector<int> copies_of_rows(const Matrix& m, const Eigen::VectorXd& squares) {
  std::vector<int> copies(m.rows(), 1);
  for (Index i = 0; i < m.rows(); ++i)
    for (Index j = 0; j < i; ++j)
      if (squares[i] == squares[j] && same_rows(m, i, j)) ++copies[i], ++copies[j];
  return copies;
}

/// The tokens with the smallest distance to state i; `near` holds |e_j|^2 - 2 g_i.e_j up to round-off.
class Candidates {
 public:
  Candidates(const Matrix& g, const Matrix& e, const Eigen::VectorXd& g2, const Eigen::VectorXd& e2)
      : g_(g), e_(e), g2_(g2), largest_(e2.maxCoeff()) {}

  void find(Index i, const double* near, std::vector<Index>& nearest) const {
    // Each of two entries of `near` is wrong by up to d eps (|g|^2 + |e|^2), and each of the two squared
    // differences that decide by up to twice as much: 6 d eps together, rounded up to 8 (d + 4) eps.
    const double round_off =
        8 * (g_.cols() + 4) * std::numeric_limits<double>::epsilon() * (g2_[i] + largest_);
    const double least = *std::min_element(near, near + e_.rows());
    double best = std::numeric_limits<double>::infinity();
    nearest.clear();
    for (Index j = 0; j < e_.rows(); ++j) {
      // Only candidates within round-off of the least are compared by their differences.
      if (near[j] > least + round_off) continue;
      const double square = squared_distance(g_.row(i).data(), e_.row(j).data(), g_.cols());
      if (square < best) nearest.clear(), best = square;
      if (square == best) nearest.push_back(j);
    }
  }

 private:
  const Matrix& g_;
  const Matrix& e_;
  const Eigen::VectorXd& g2_;
  double largest_;
};

}  // namespace

NearestTokens nearest_tokens(const Matrix& states, const Matrix& descriptions, TokenDistance distance) {
  const Index n = states.rows();
  if (n == 0 || descriptions.rows() != n || descriptions.cols() != states.cols())
    throw BadInput("states and descriptions of tokens must be matrices of one shape with at least one row");
  if (!descriptions.allFinite()) throw BadInput("the descriptions of tokens must be finite");

  const bool angle = distance == TokenDistance::cosine;
  const Matrix g = angle ? unit_rows(states) : states, e = angle ? unit_rows(descriptions) : descriptions;
  const Eigen::VectorXd g2 = squared_lengths(g), e2 = squared_lengths(e);
  const auto copies = copies_of_rows(descriptions, squared_lengths(descriptions));
  Matrix near(n, n);
  // near_ij = |e_j|^2 - 2 g_i.e_j = |g_i - e_j|^2 - |g_i|^2 orders the tokens j as |g_i - e_j| does.
  near.noalias() = -2 * g * e.transpose();
  near.rowwise() += e2.transpose();
  const bool zeros = angle && e2.minCoeff() == 0;

  NearestTokens found;
  found.credit.resize(n);
  found.chance = 1.0 / n;
  const Candidates candidates(g, e, g2, e2);
  std::vector<Index> nearest;
  for (Index i = 0; i < n; ++i) {
    if (copies[i] > 1) ++found.identical;
    if (!states.row(i).allFinite()) {
      found.credit[i] = found.rate = found.rate_of_words = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    // By angle a state of length 0 is as far from every token: all n are tied.
    if (angle && g2[i] == 0) {
      nearest.resize(n);
      std::iota(nearest.begin(), nearest.end(), Index{0});
    } else {
      if (zeros)  // |g - 0| is 1, but orthogonal vectors have the distance sqrt 2
        for (Index j = 0; j < n; ++j)
          if (e2[j] == 0) near(i, j) = 1;
      candidates.find(i, near.row(i).data(), nearest);
    }
    // The credit of a tie is what a guess among k is worth.
    const double share = 1.0 / nearest.size();
    if (nearest.size() > 1) ++found.tied;
    const auto own = std::find(nearest.begin(), nearest.end(), i) != nearest.end();
    found.credit[i] = own ? share : 0;
    found.rate += found.credit[i];
    // For rate_of_words any tied token with the same description counts as found, too.
    const auto same = [&](Index j) { return same_rows(descriptions, i, j); };
    if (own) found.rate_of_words += share * std::count_if(nearest.begin(), nearest.end(), same);
  }
  found.rate /= n;
  found.rate_of_words /= n;
  return found;
}

Matrix unit_rows(const Matrix& rows) {
  const Eigen::VectorXd squares = squared_lengths(rows);
  Matrix unit = rows;
  for (Index i = 0; i < rows.rows(); ++i)
    if (squares[i] != 0) unit.row(i) /= std::sqrt(squares[i]);
  return unit;
}

Matrix row_norms(const Matrix& rows) {
  return squared_lengths(rows).cwiseSqrt();
}

Matrix shuffled_rows(const Matrix& rows, std::uint64_t seed, std::uint64_t sample) {
  const auto order = shuffled(rows.rows(), seed, "shuffled tokens", sample);
  Matrix result(rows.rows(), rows.cols());
  for (Index i = 0; i < rows.rows(); ++i) result.row(i) = rows.row(order[i]);
  return result;
}

double smallest_distance(const Matrix& states) {
  double least = std::numeric_limits<double>::infinity();
  for (Index i = 0; i < states.rows(); ++i)
    for (Index j = 0; j < i; ++j)
      least = std::min(least, squared_distance(states.row(i).data(), states.row(j).data(), states.cols()));
  // min_{i != j} |u_i - u_j| / sqrt(mean |u_i|^2); 0 also where all states are 0
  const double scale = squared_lengths(states).mean();
  return least == 0 ? 0 : std::sqrt(least / scale);
}

void RateSums::add(const NearestTokens& found) {
  double* const s = local();
  const double n = found.credit.size();
  s[0] += 1;
  s[1] += n;
  s[2] += n * found.rate;
  s[3] += n * found.rate_of_words;
  s[4] += found.tied;
  s[5] += found.identical;
}

}  // namespace fluxformer::identifiability
