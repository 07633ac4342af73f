// One right-hand side of equation (1) over all layers, with the machine's peak for comparison: matrix
// products of the same shapes and a large one. Batch 32, 49 tokens, width 64, 4 heads, 6 layers, ffn 256. A
// march through a model of BERT-base's shape: 8 samples of 128 tokens, width 768, 12 heads, 12 layers, ffn
// 3072, post-norm. compare_with_pytorch.py compares both with PyTorch.

#include <benchmark/benchmark.h>

#include <Eigen/Core>

#include "base/session.hpp"
#include "model/depth_march.hpp"
#include "operators/kernels/blas.hpp"
#include "tests/benchmark/network.hpp"

namespace {

using namespace fluxformer;

void right_hand_side(benchmark::State& state, Precision precision) {
  const bench::Size size;
  bench::RightHandSide rhs(MPI_COMM_SELF, size, precision);
  for (auto _ : state) rhs.evaluate();
  state.counters["GFLOP/s"] =
      benchmark::Counter(size.flops() * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(right_hand_side, double, Precision::float64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(right_hand_side, float, Precision::float32)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(right_hand_side, mixed, Precision::mixed)->Unit(benchmark::kMillisecond);

/// All layers of BERT-base, one after the other, on one slab.
template <Precision precision>
void march(benchmark::State& state) {
  const bench::Size size{
      .layers = 12, .columns = 128, .rows = 1, .batch = 8, .width = 768, .heads = 12, .ffn = 3072};
  auto spec = bench::model_spec(size);
  spec.norm = Norm::post;
  spec.norm_eps = 1e-12;
  spec.attention.layer_norm = false;
  Parameters parameters(spec);
  initialise_standard(parameters, 1, 0, 1, 1);
  const auto line = TokenLine::even(MPI_COMM_SELF, size.columns, size.rows, 1, 1);
  const SlabContext context{&line, size.batch, size.width, {}};
  const auto model = make_depth_model(parameters, context, precision);
  Backpropagation layers(*model, {size.layers, size.layers}, 1);
  std::vector<double> u(context.size());
  for (std::size_t j = 0; j < u.size(); ++j) u[j] = std::sin(static_cast<double>(j));
  for (auto _ : state) layers.forward(u.data(), Keep::nothing, {});
  state.counters["GFLOP/s"] =
      benchmark::Counter(size.flops() * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(march<Precision::float64>)->Name("bert_base/double")->Unit(benchmark::kMillisecond);
BENCHMARK(march<Precision::float32>)->Name("bert_base/float")->Unit(benchmark::kMillisecond);

/// c(m x n) = a(m x k) b(n x k)^T, row-major: what a linear layer does.
template <class T>
void product(benchmark::State& state) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto m = state.range(0), n = state.range(1), k = state.range(2);
  const Matrix a = Matrix::Random(m, k), b = Matrix::Random(n, k);
  Matrix c(m, n);
  for (auto _ : state) {
    c.noalias() = a * b.transpose();
    benchmark::DoNotOptimize(c.data());
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(m * n * k),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
void shapes(benchmark::internal::Benchmark* b) {
  b->Args({768, 768, 768})
      ->Args({196, 192, 64})
      ->Args({196, 64, 64})
      ->Args({196, 256, 64})
      ->Args({196, 64, 256});
  b->Unit(benchmark::kMicrosecond);
}
BENCHMARK(product<double>)->Apply(shapes);
BENCHMARK(product<float>)->Apply(shapes);

}  // namespace

int main(int argc, char** argv) {
  Session session(argc, argv);
  benchmark::AddCustomContext("blas", blas_description());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
