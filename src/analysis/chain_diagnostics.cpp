#include "analysis/chain_diagnostics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer {
namespace {

Chains halves(const Chains& chains) {
  Chains split;
  split.reserve(2 * chains.size());
  for (const auto& chain : chains) {
    const Index half = std::ssize(chain) / 2;
    split.emplace_back(chain.begin(), chain.begin() + half);
    split.emplace_back(chain.end() - half, chain.end());
  }
  return split;
}

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / std::ssize(x);
}

/// sum_t (x_t - mean) (x_{t+lag} - mean)
double products(const std::vector<double>& x, double mean, Index lag) {
  double sum = 0;
  for (Index t = 0; t + lag < std::ssize(x); ++t) sum += (x[t] - mean) * (x[t + lag] - mean);
  return sum;
}

/// Means and variances of chains of n draws.
struct Variances {
  std::vector<double> means;
  double within = 0;  ///< W, mean of the chains' variances
  double all = 0;     ///< variance of the distribution: (n - 1)/n W + variance of the means
};

Variances variances_of(const Chains& chains) {
  Variances found;
  const double n = std::ssize(chains.front()), m = std::ssize(chains);
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
  const Index n = std::ssize(split.front());
  const double count = n * std::ssize(split);
  // rho_lag = 1 - (W - covariance at this lag) / variance of the distribution, all with the denominator n.
  const auto correlation = [&](Index lag) {
    double covariance = 0;
    for (Index k = 0; k < std::ssize(split); ++k)
      covariance += products(split[k], found.means[k], lag) / count;
    const double within = found.within * (n - 1) / n;  // the chains' variances are over n - 1
    return 1 - (within - covariance) / found.all;
  };
  // Geyer: sums of two successive autocorrelations are positive and decrease; the first that is not ends the
  // sum.
  double sum = 0, before = std::numeric_limits<double>::infinity();
  for (Index lag = 0; lag + 1 < n; lag += 2) {
    const double pair = (lag == 0 ? 1 : correlation(lag)) + correlation(lag + 1);
    if (pair <= 0) break;
    before = std::min(before, pair);
    sum += before;
  }
  const double time = std::max(2 * sum - 1, 1 / std::log10(count));
  return count / time;
}

}  // namespace fluxformer
