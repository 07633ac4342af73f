#pragma once

// A small model behind a ModelProbe, with batches whose samples are identified by their keys.

#include <cmath>
#include <utility>
#include <vector>

#include "analysis/model_probe.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::test {

struct ProbeSpec {
  Norm norm = Norm::pre;
  ModelKind kind = ModelKind::transformer;
  double kappa = 0, alpha = 1, rho = 1;
  int layers = 2, cells = 2;
  int tokens_x = 4, tokens_y = 3;
  int features = 3, vocabulary = 0, classes = 4;
};

inline Parameters probe_parameters(const ProbeSpec& spec) {
  ModelSpec model = small_model(spec.layers);
  model.norm = spec.norm;
  model.attention.layer_norm = spec.norm == Norm::pre;
  model.kind = spec.kind;
  if (spec.kind == ModelKind::pde) model.variation = DepthVariation::linear;
  model.features = spec.vocabulary > 0 ? 0 : spec.features;
  model.vocabulary = spec.vocabulary;
  model.tokens = spec.tokens_x * spec.tokens_y;
  model.classes = spec.classes;
  model.cells = spec.cells;
  return random_parameters({.model = model, .kappa = spec.kappa, .alpha = spec.alpha, .rho = spec.rho});
}

struct ProbeCase {
  /// `samples`: slots in a batch.
  ProbeCase(const ProbeSpec& spec, int samples) : ProbeCase(spec, samples, probe_parameters(spec)) {}
  ProbeCase(const ProbeSpec& spec, int samples, Parameters parameters)
      : tokens(spec.tokens_x * spec.tokens_y),
        line(TokenLine::even(MPI_COMM_SELF, spec.tokens_x, spec.tokens_y)),
        probe(std::move(parameters), line, samples, Precision::float64) {}
  ProbeCase(const ProbeCase&) = delete;
  ProbeCase& operator=(const ProbeCase&) = delete;

  /// The samples of these keys, of 12, 9, 6, 3, 12, ... real tokens, or all of full length; remaining slots
  /// are fillers.
  Batch batch(const std::vector<long>& keys, bool full = false) const {
    Batch out;
    for (int place = 0; place < probe.counted().samples; ++place) {
      const auto at = static_cast<std::size_t>(place);
      const bool filler = at >= keys.size();
      const long key = filler ? keys.front() : keys[at];
      const auto count = static_cast<std::size_t>(tokens * probe.spec().input_size());
      auto x = random_vector(count, static_cast<unsigned>(key) + 1);
      if (const int words = probe.spec().vocabulary; words > 0)
        for (double& word : x)
          word = 2 + std::fmod(std::floor(std::abs(word) * 1000), words - 2);  // no <unk>
      out.input.insert(out.input.end(), x.begin(), x.end());
      out.length.push_back(full ? tokens : tokens - static_cast<int>(3 * key % tokens));
      out.label.push_back(probe.spec().classes > 0 ? static_cast<int>(key) % probe.spec().classes : 0);
      out.weight.push_back(filler ? 0 : 1.0 / static_cast<double>(keys.size()));
      out.key.push_back(key);
    }
    return out;
  }

  int tokens;
  TokenLine line;
  ModelProbe probe;
};

}  // namespace fluxformer::test
