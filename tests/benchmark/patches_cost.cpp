// The cost of all effects by first order of one pair of samples, at all faces, heads, queries, keys and values,
// against the gradient of one sample, in double: medians of alternating rounds of processor time, and the memory.
//
//   fluxformer_patches_cost [rounds]
//
// A Transformer of 12 layers, width 768, 12 heads, ffn 3072, on 128 tokens.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "analysis/interventions/patches.hpp"
#include "base/session.hpp"
#include "base/statistics.hpp"
#include "model/gradient_evaluator.hpp"
#include "model/initialise.hpp"
#include "operators/kernels/blas.hpp"
#include "tests/benchmark/network.hpp"

namespace {

using namespace fluxformer;
using namespace fluxformer::interventions;

ModelSpec network() {
  ModelSpec spec = bench::model_spec(
      {.layers = 12, .columns = 16, .rows = 8, .batch = 1, .width = 768, .heads = 12, .ffn = 3072});
  spec.features = 16;
  spec.tokens = 128;
  spec.classes = 10;
  spec.cells = spec.layers;
  return spec;
}

Batch sample_of(const ModelSpec& spec, double phase) {
  Batch batch;
  batch.input.resize(static_cast<std::size_t>(spec.tokens * spec.features));
  for (std::size_t j = 0; j < batch.input.size(); ++j)
    batch.input[j] = std::sin(static_cast<double>(j) + phase);
  batch.label = {0};
  batch.weight = {1};
  return batch;
}

template <class Work>
double milliseconds_of(Work&& work) {
  const auto begin = std::clock();
  work();
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

void compare(int rounds) {
  const ModelSpec spec = network();
  Parameters parameters(spec);
  initialise_standard(parameters, 1, 0, 1, 1);
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 16, 8);
  SlabContext context{&line, 1, spec.width, {}};
  const auto model = make_depth_model(parameters, context, Precision::float64);
  Backpropagation march(*model, spec.depth(), 1);
  GradientEvaluator evaluator(parameters, context, march, {});
  Patches patches(parameters, line, 1, Precision::float64, SiteScope::cells);
  const Batch clean = sample_of(spec, 0), donor = sample_of(spec, 1);
  const Question question{.kind = GoalKind::logits, .a = 0, .b = 1};
  std::vector<double> gradient(parameters.values.size()), gradients, runs, adjoints, effects, ratios;
  double sum = 0;
  for (int round = 0; round < rounds; ++round) {
    gradients.push_back(milliseconds_of([&] { evaluator.gradient(clean, gradient); }));
    Run own, put;
    SiteNumbers cotangents;
    runs.push_back(milliseconds_of([&] { own = patches.run(clean), put = patches.run(donor); }));
    adjoints.push_back(milliseconds_of([&] { cotangents = patches.cotangents(own, question); }));
    effects.push_back(milliseconds_of([&] {
      for (const auto site : all_sites)
        for (const double effect : first_order(patches.extents(), site, cotangents, own.at, put.at))
          sum += effect;
    }));
    ratios.push_back((runs.back() + adjoints.back() + effects.back()) / gradients.back());
  }
  std::printf(
      "all effects by first order: %.2f gradients (gradient %.0f ms, two runs %.0f, adjoint %.0f, effects "
      "%.0f)\n",
      median(ratios), median(gradients), median(runs), median(adjoints), median(effects));
  std::printf(
      "memory: gradient %.0f MB of activations and %.0f MB of its own, sites and cotangents %.0f MB "
      "(check %g)\n",
      static_cast<double>(march.kept_bytes()) / 1e6,
      static_cast<double>(gradient.size() * sizeof(double)) / 1e6,
      Patches::bytes(patches.extents(), SiteScope::cells) / 1e6, sum);
}

}  // namespace

int main(int argc, char** argv) {
  Session session(argc, argv);
  std::printf("%s\n", blas_description().c_str());
  compare(argc > 1 ? std::max(1, std::atoi(argv[1])) : 5);
  return 0;
}
