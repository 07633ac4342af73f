#pragma once

// Things that belong together: connected components, and the followers of leaders.

#include <numeric>
#include <vector>

#include "base/index.hpp"

namespace fluxformer::clusters {

/// The component of each of n things, numbered from 0 in the order of their first ones; `joined(i, j)`, j < i, says whether two belong
/// together. Asks for all pairs. Not collective.
template <class Joined>
std::vector<Index> components(Index n, Joined&& joined) {
  std::vector<Index> root(n), number(n, -1), found(n);
  std::iota(root.begin(), root.end(), Index{0});
  const auto find = [&](Index i) {
    while (root[i] != i) i = root[i] = root[root[i]];
    return i;
  };
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < i; ++j)
      if (joined(i, j)) root[find(i)] = find(j);
  Index count = 0;
  for (Index i = 0; i < n; ++i) {
    Index& own = number[find(i)];
    if (own < 0) own = count++;
    found[i] = own;
  }
  return found;
}

/// The leader of each of n things, counted from 0: in order, a thing that is near none of the leaders before it becomes the next one. `leaders`:
/// how many there are already; ends once there are more than `most`, then without the things that were left. `near(i, leader)` says whether a
/// thing is near a leader; `lead(i)` is told that it becomes one. Cost: at most n times the number of leaders. Not collective.
template <class Near, class Lead>
std::vector<Index> first_leaders(Index n, Index leaders, Index most, Near&& near, Lead&& lead) {
  std::vector<Index> found;
  for (Index i = 0; i < n && leaders <= most; ++i) {
    Index leader = 0;
    while (leader < leaders && !near(i, leader)) ++leader;
    found.push_back(leader);
    if (leader < leaders) continue;
    lead(i);
    ++leaders;
  }
  return found;
}

}  // namespace fluxformer::clusters
