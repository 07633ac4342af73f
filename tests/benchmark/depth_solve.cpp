// The depth solve with its gradient: 24 steps of the classical Runge-Kutta method through the PDE model of
// the small network, and back by TSAdjoint. compare_with_pytorch.py compares it with back-propagation through
// the same loop.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "solvers/adjoint/adjoint_march.hpp"
#include "tests/benchmark/network.hpp"

namespace {

using namespace fluxformer;

void depth_solve(benchmark::State& state, Precision precision, bool tapes) {
  constexpr int cells = 24;
  const bench::Size size;
  auto spec = bench::model_spec(size);
  spec.variation = DepthVariation::linear;
  Parameters parameters(spec);
  initialise_standard(parameters, 1, 0, 1, 1);
  const auto line = TokenLine::even(MPI_COMM_SELF, size.columns, size.rows);
  const SlabContext context{&line, size.batch, size.width, {}};
  const auto model = make_depth_model(parameters, context, precision);
  AdjointMarch march(*model, {size.layers, cells}, 1, {.method = "4", .tapes = tapes});
  std::vector<double> start(context.size()), u, gradient(parameters.values.size());
  for (std::size_t j = 0; j < start.size(); ++j) start[j] = std::sin(static_cast<double>(j));
  const auto solve = [&] {
    u = start;
    std::fill(gradient.begin(), gradient.end(), 0.0);
    march.forward(u.data(), Keep::activations, {});
    march.backward(u.data(), gradient, {});
  };
  solve();  // the first one allocates
  for (auto _ : state) solve();
  // Four stages of a step, each evaluated once and its adjoint twice that.
  state.counters["GFLOP/s"] = benchmark::Counter(3e-9 * 4 * cells / size.layers * size.flops(),
                                                 benchmark::Counter::kIsIterationInvariantRate);
  state.counters["kept MB"] = 1e-6 * static_cast<double>(march.kept_bytes());
}
BENCHMARK_CAPTURE(depth_solve, double, Precision::float64, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(depth_solve, float, Precision::float32, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(depth_solve, double_tapes, Precision::float64, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(depth_solve, float_tapes, Precision::float32, true)->Unit(benchmark::kMillisecond);

/// One head of 64 over a line of 4096 tokens, projections included.
template <class T>
void long_line(benchmark::State& state) {
  constexpr int tokens = 4096, width = 64;
  auto spec = bench::model_spec({.layers = 1, .width = width, .heads = 1, .ffn = 64});
  Parameters parameters(spec);
  initialise_standard(parameters, 1, 0, 1, 1);
  const auto line = TokenLine::even(MPI_COMM_SELF, tokens, 1);
  const SlabContext context{&line, 1, width, {}};
  DepthWeights<T> weights(parameters);
  AttentionSettings settings;
  settings.heads = 1;
  settings.layer_norm = false;
  Attention<T> attention(context, settings);
  std::vector<double> u(context.size()), out(context.size());
  for (std::size_t j = 0; j < u.size(); ++j) u[j] = std::sin(static_cast<double>(j));
  for (auto _ : state) attention.apply(weights.at({1, 0}), u.data(), add_to(out.data()), nullptr);
  const double n = tokens, d = width;
  state.counters["GFLOP/s"] = benchmark::Counter(1e-9 * (8 * n * d * d + 4 * n * n * d),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(long_line<double>)->Name("long_line/double")->Unit(benchmark::kMillisecond);
BENCHMARK(long_line<float>)->Name("long_line/float")->Unit(benchmark::kMillisecond);

}  // namespace
