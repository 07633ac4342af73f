#pragma once

// Patches of small models of all orders of sub-layers and norms, and two of their samples.

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "analysis/interventions/patches.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::interventions {

/// A model on twelve tokens, two samples of it, and patches of all sites.
struct PatchCase {
  explicit PatchCase(Parameters model, int tokens_x = 4, int tokens_y = 3, long donor_key = 4)
      : parameters(std::move(model)),
        line(TokenLine::even(MPI_COMM_SELF, tokens_x, tokens_y)),
        patches(parameters, line, 5, Precision::float64, SiteScope::cells),
        own(patches.run(sample(0))),
        donor(patches.run(sample(donor_key))) {}
  PatchCase(const PatchCase&) = delete;
  PatchCase& operator=(const PatchCase&) = delete;

  Batch sample(long key) const {
    Batch batch;
    const auto size = static_cast<std::size_t>(line.tokens() * parameters.spec.input_size());
    batch.input = test::random_vector(size, static_cast<unsigned>(key) + 1);
    if (const int words = parameters.spec.vocabulary; words > 0)
      for (double& word : batch.input) word = std::fmod(std::floor(std::abs(word) * 1000), words);
    batch.length = {length};
    batch.label = {0};
    batch.weight = {1};
    batch.key = {key};
    return batch;
  }
  const SiteExtents& extents() const { return patches.extents(); }
  std::vector<double> exact(Site site, const SiteNumbers& put) {
    std::vector<Index> places(extents().places(site));
    std::iota(places.begin(), places.end(), 0);
    return patches.exact(site, own, put, question, places);
  }

  Parameters parameters;
  TokenLine line;
  int length = 12;
  Question question = {.kind = GoalKind::logits, .a = 1, .b = 2};
  Patches patches;
  Run own, donor;
};

struct NamedModel {
  const char* name;
  Parameters parameters;
  /// Rotary positions need tokens in a row.
  PatchCase patched() const {
    return parameters.spec.attention.rotary.channels > 0 ? PatchCase(parameters, 12, 1)
                                                         : PatchCase(parameters);
  }
};

/// Models of all orders of sub-layers and norms that have heads.
inline std::vector<NamedModel> patched_models() {
  std::vector<NamedModel> all;
  const auto transformer = [] { return test::probe_parameters({}); };
  all.push_back({"pre", transformer()});
  all.push_back({"pde", test::probe_parameters(
                            {.norm = Norm::none, .kind = ModelKind::pde, .kappa = 0.1, .cells = 4})});
  all.push_back({"post", test::probe_parameters({.norm = Norm::post})});
  for (const auto order : {SubLayerOrder::parallel, SubLayerOrder::macaron}) {
    auto spec = transformer().spec;
    spec.order = order;
    all.push_back({order == SubLayerOrder::parallel ? "parallel" : "macaron",
                   test::random_parameters({.model = spec})});
  }
  auto decoder = test::small_language_model(2);
  decoder.vocabulary = 11;
  decoder.classes = 4;
  decoder.cells = 2;
  all.push_back({"decoder", test::random_parameters({.model = decoder})});
  return all;
}

}  // namespace fluxformer::interventions
