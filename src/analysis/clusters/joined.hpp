#pragma once

// Connected components.

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

}  // namespace fluxformer::clusters
