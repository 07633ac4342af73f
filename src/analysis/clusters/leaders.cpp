#include "analysis/clusters/leaders.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <span>
#include <stdexcept>

#include "analysis/clusters/joined.hpp"
#include "base/mpi.hpp"
#include "base/statistics.hpp"

namespace fluxformer::clusters {
namespace {

double squared_distance(const double* x, const double* y, int dimension) {
  double sum = 0;
  for (int k = 0; k < dimension; ++k) sum += (x[k] - y[k]) * (x[k] - y[k]);
  return sum;
}

/// Finds the leaders of this rank's tokens, and adds those that are new; ends with more than `most`.
void lead(const Tokens& tokens, double within, Index most, Leaders& found) {
  const int d = tokens.dimension;
  auto& leaders = found.tokens;
  found.of = first_leaders(
      tokens.count(), leaders.count(), most,
      [&](Index i, Index leader) { return squared_distance(tokens[i], leaders[leader], d) <= within; },
      [&](Index i) { leaders.x.insert(leaders.x.end(), tokens[i], tokens[i] + d); });
}

/// The component of each leader, joined where they are at most `angle` apart.
std::vector<Index> components_of_leaders(const Tokens& leaders, double angle) {
  const double within = squared_chord(angle);
  return components(leaders.count(), [&](Index i, Index j) {
    return squared_distance(leaders[i], leaders[j], leaders.dimension) <= within;
  });
}

Index count_of(const std::vector<Index>& component) {
  return component.empty() ? 0 : *std::ranges::max_element(component) + 1;
}

/// Adds how many tokens the components have, and how many of them are compact.
void put_shares(const Tokens& tokens, const Leaders& leaders, const std::vector<Index>& component,
                double delta, SphereClusters& to, MPI_Comm comm) {
  std::vector<Index> first(to.fewest);
  for (Index leader = std::ssize(component) - 1; leader >= 0; --leader) first[component[leader]] = leader;
  std::vector<double> count(to.fewest, 0.0), farthest(to.fewest, 0.0);
  for (Index i = 0; i < tokens.count(); ++i) {
    const Index own = component[leaders.of[i]];
    count[own] += 1;
    farthest[own] =
        std::max(farthest[own], squared_distance(tokens[i], leaders.tokens[first[own]], tokens.dimension));
  }
  sum_over_ranks(count, comm);
  largest_over_ranks(farthest, comm);
  double all = 0;
  for (const double one : count) all += one;
  const double compact = squared_chord(1.5 * delta);
  for (Index k = 0; k < to.fewest; ++k) {
    to.masses.push_back(count[k] / all);
    if (farthest[k] <= compact) to.compact_share += count[k] / all;
  }
  std::ranges::sort(to.masses, std::greater<>());
}

}  // namespace

double squared_chord(double angle) {
  if (angle >= std::numbers::pi) return std::numeric_limits<double>::infinity();
  const double half = std::sin(angle / 2);
  return 4 * half * half;
}

double width_of_kernel(double beta) {
  return std::min(1.0, 0.3 / std::sqrt(beta));
}

double known_count(Index bound) {
  return bound > 0 ? static_cast<double>(bound) : missing_value;
}

Leaders leaders_of(const Tokens& tokens, double radius, Index most, MPI_Comm comm) {
  Leaders found;
  found.tokens.dimension = tokens.dimension;
  const double within = squared_chord(radius);
  for (int rank = 0; rank < mpi::size(comm) && !found.cloud; ++rank) {
    const auto before = found.tokens.x.size();
    if (rank == mpi::rank(comm)) lead(tokens, within, most, found);
    auto numbers = static_cast<double>(found.tokens.x.size());
    broadcast_numbers({&numbers, 1}, rank, comm);
    found.tokens.x.resize(static_cast<std::size_t>(numbers));
    broadcast_numbers(std::span(found.tokens.x).subspan(before), rank, comm);
    found.cloud = found.tokens.count() > most;
  }
  return found;
}

SphereClusters clusters_on_sphere(const Tokens& tokens, double delta, Index leaders, MPI_Comm comm) {
  if (!(delta > 0 && delta < std::numbers::pi))
    throw std::invalid_argument("clusters: delta must be in (0, pi)");
  SphereClusters found;
  const auto coarse = leaders_of(tokens, delta, leaders, comm);
  if (coarse.cloud) return found;
  const auto component = components_of_leaders(coarse.tokens, 3 * delta);
  found.fewest = count_of(component);
  put_shares(tokens, coarse, component, delta, found, comm);
  const auto fine = leaders_of(tokens, delta / 3, leaders, comm);
  if (!fine.cloud) found.most = count_of(components_of_leaders(fine.tokens, delta));
  return found;
}

}  // namespace fluxformer::clusters
