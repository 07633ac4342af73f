#include "analysis/chain_diagnostics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/statistics.hpp"

namespace fluxformer {
namespace {

Chains halves(const Chains& chains) {
  Chains split;
  split.reserve(2 * chains.size());
  for (const auto& chain : chains) {
    const auto half = static_cast<std::ptrdiff_t>(chain.size() / 2);
    split.emplace_back(chain.begin(), chain.begin() + half);
    split.emplace_back(chain.end() - half, chain.end());
  }
  return split;
}

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

/// Sum of (x_t - mean) (x_{t+lag} - mean).
double products(const std::vector<double>& x, double mean, std::size_t lag) {
  double sum = 0;
  for (std::size_t t = 0; t + lag < x.size(); ++t) sum += (x[t] - mean) * (x[t + lag] - mean);
  return sum;
}

/// Of chains of n draws.
struct Variances {
  std::vector<double> means;
  double within = 0;  ///< mean of the chains' variances
  double all = 0;     ///< of the distribution: (n - 1)/n within + variance of the means
};

Variances variances_of(const Chains& chains) {
  Variances found;
  const auto n = static_cast<double>(chains.front().size()), m = static_cast<double>(chains.size());
  found.means.reserve(chains.size());
  for (const auto& chain : chains) {
    found.means.push_back(mean_of(chain));
    found.within += products(chain, found.means.back(), 0) / (n - 1) / m;
  }
  const double between = chains.size() > 1 ? products(found.means, mean_of(found.means), 0) / (m - 1) : 0;
  found.all = (n - 1) / n * found.within + between;
  return found;
}

bool too_few(const Chains& chains) {
  return chains.empty() || chains.front().size() < 4;
}

}  // namespace

double split_r_hat(const Chains& chains) {
  if (too_few(chains)) return missing_value;
  const auto found = variances_of(halves(chains));
  if (found.all == 0) return 1;
  return std::sqrt(found.all / found.within);
}

double effective_draws(const Chains& chains) {
  if (too_few(chains)) return missing_value;
  const auto split = halves(chains);
  const auto found = variances_of(split);
  if (!(found.all > 0)) return missing_value;
  const auto n = split.front().size();
  const auto count = static_cast<double>(n * split.size());
  const auto correlation = [&](std::size_t lag) {
    double covariance = 0;
    for (std::size_t k = 0; k < split.size(); ++k)
      covariance += products(split[k], found.means[k], lag) / static_cast<double>(n * split.size());
    // The denominator of the variance is n - 1, that of the covariances n.
    const double within = found.within * static_cast<double>(n - 1) / static_cast<double>(n);
    return 1 - (within - covariance) / found.all;
  };
  double sum = 0, before = std::numeric_limits<double>::infinity();
  for (std::size_t lag = 0; lag + 1 < n; lag += 2) {
    const double pair = (lag == 0 ? 1 : correlation(lag)) + correlation(lag + 1);
    if (pair <= 0) break;
    before = std::min(before, pair);
    sum += before;
  }
  const double time = std::max(2 * sum - 1, 1 / std::log10(count));
  return count / time;
}

}  // namespace fluxformer
