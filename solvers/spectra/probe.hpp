#pragma once

// Random vectors for estimates of spectra: the same on any number of ranks.

#include <petscvec.h>

#include "base/random.hpp"

namespace fluxformer::spectra {

/// Distribution of the entries: -1 or 1 with equal probability (Rademacher), or standard normal. Both have
/// E[v v^T] = 1, hence E[v^T H v] = trace H.
enum class Probe { rademacher, gaussian };

/// Entry i (global index) is number i of `stream`. Every rank fills its own rows.
void fill_probe(Vec v, Probe kind, const RandomStream& stream);

}  // namespace fluxformer::spectra
