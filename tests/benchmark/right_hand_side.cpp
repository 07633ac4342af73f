// One right-hand side of equation (1) over all layers, with the machine's peak for comparison: matrix
// products of the same shapes and a large one. Batch 32, 49 tokens, width 64, 4 heads, 6 layers, ffn 256. A
// march through models of the shapes of BERT-base and SmolLM-135M (wide_march.hpp). compare_with_pytorch.py
// compares them with PyTorch.
//
//   fluxformer_benchmark --write bert|decoder FOLDER    writes such a march in float and its weights

#include <benchmark/benchmark.h>

#include <Eigen/Core>

#include <string_view>

#include "base/session.hpp"
#include "operators/kernels/blas.hpp"
#include "tests/benchmark/network.hpp"
#include "tests/benchmark/wide_march.hpp"

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

enum class Shape { bert, decoder };

std::unique_ptr<bench::WideMarch> make_march(Shape shape, Precision precision) {
  return shape == Shape::bert
             ? std::make_unique<bench::WideMarch>(bench::bert_size(), bench::bert_spec(), precision)
             : std::make_unique<bench::WideMarch>(bench::decoder_size(), bench::decoder_spec(), precision);
}

void march(benchmark::State& state, Shape shape, Precision precision) {
  const auto layers = make_march(shape, precision);
  for (auto _ : state) layers->run();
  const auto size = shape == Shape::bert ? bench::bert_size() : bench::decoder_size();
  state.counters["GFLOP/s"] =
      benchmark::Counter(size.flops() * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}
void bert_base(benchmark::State& state, Precision precision) {
  march(state, Shape::bert, precision);
}
void decoder(benchmark::State& state, Precision precision) {
  march(state, Shape::decoder, precision);
}
BENCHMARK_CAPTURE(bert_base, double, Precision::float64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bert_base, float, Precision::float32)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decoder, double, Precision::float64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decoder, float, Precision::float32)->Unit(benchmark::kMillisecond);

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
  if (argc == 4 && std::string_view(argv[1]) == "--write") {
    const auto shape = std::string_view(argv[2]) == "bert" ? Shape::bert : Shape::decoder;
    make_march(shape, Precision::float32)->write(argv[3]);
    return 0;
  }
  benchmark::AddCustomContext("blas", blas_description());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
