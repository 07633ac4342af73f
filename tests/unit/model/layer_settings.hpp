#pragma once

// Every way a layer can be composed, as small problems.

#include <string>
#include <vector>

#include "tests/support/reference_model.hpp"
#include "tests/support/small_problem.hpp"

namespace fluxformer::test {

struct Setting {
  Norm norm;
  SubLayerOrder order;
  bool residual;
  SubLayerIntegrator subflow;
  bool
      knots;  ///< parameters between two knots, own halves, transport, and one kappa and nu per channel; else one set per layer
};

inline std::string name_of(const Setting& s) {
  return to_word(s.norm) + "_" + to_word(s.order) + (s.residual ? "_residual_" : "_bare_") +
         to_word(s.subflow) + (s.knots ? "_knots" : "_layers");
}

inline std::vector<Setting> every_setting() {
  std::vector<Setting> all;
  for (const auto norm : {Norm::pre, Norm::post, Norm::sphere, Norm::none})
    for (const auto order : {SubLayerOrder::sequential, SubLayerOrder::parallel, SubLayerOrder::macaron})
      for (const bool residual : {true, false})
        for (const auto subflow : {SubLayerIntegrator::euler, SubLayerIntegrator::midpoint})
          for (const bool knots : {false, true})
            if (norm != Norm::sphere || order != SubLayerOrder::macaron || residual)  // else refused
              all.push_back({norm, order, residual, subflow, knots});
  return all;
}

inline ProblemSpec problem_of(const Setting& s) {
  ProblemSpec spec;
  spec.model = small_model(3);
  auto& m = spec.model;
  m.norm = s.norm;
  m.attention.layer_norm = s.norm == Norm::pre;
  m.order = s.order;
  m.residual = s.residual;
  m.subflow = s.subflow;
  if (s.knots) {
    m.variation = DepthVariation::linear;
    m.knots = 2;
    m.kappa_per_channel = true;
    m.transport = m.nu_per_channel = true;
    m.own_halves = s.order == SubLayerOrder::macaron;
  }
  spec.mesh = {.cells = 3, .tokens_x = 3, .tokens_y = 2, .samples = 2};
  spec.kappa = 0.2;
  spec.nu = 0.15;
  spec.alpha = 0.8;
  spec.rho = 1.3;
  return spec;
}

inline constexpr DepthPoint at{2, 1.3};  // layer 2; between the knots
inline constexpr double h = 1;           // required by post and residual off

inline naive::Tokens tokens_of(const ProblemSpec& spec) {
  return {spec.mesh.tokens_x, spec.mesh.tokens_y, spec.mesh.samples, spec.model.width, false, spec.mask};
}

}  // namespace fluxformer::test
