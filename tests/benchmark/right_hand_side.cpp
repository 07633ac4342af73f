// One right-hand side of equation (1) over all layers, and what the machine could do: matrix products of the same shapes and
// a large one. Batch 32, 49 tokens, width 64, 4 heads, 6 layers, ffn 256 unless said otherwise.
// compare_with_pytorch.py runs this beside PyTorch and prints the ratios.

#include <benchmark/benchmark.h>

#include <Eigen/Core>

#include "base/session.hpp"
#include "model/equation.hpp"
#include "model/initialise.hpp"
#include "operators/blas.hpp"
#include "solvers/field_operator.hpp"

namespace {

using namespace fluxformer;

constexpr int batch = 32, columns = 7, rows = 7, width = 64, heads = 4, layers = 6, ffn = 256;
constexpr double flops_per_layer =
    2.0 * batch * columns * rows * (4.0 * width * width + 2.0 * width * ffn) +  // projections and network
    4.0 * batch * (columns * rows) * (columns * rows) * width;                  // logits and mixing

ModelSpec network() {
  ModelSpec spec;
  spec.layers = spec.knots = layers;
  spec.width = width;
  spec.ffn = ffn;
  spec.attention.heads = heads;
  return spec;
}

void right_hand_side(benchmark::State& state, Precision precision) {
  const Mesh mesh(MPI_COMM_SELF, {.cells = layers, .tokens_x = columns, .tokens_y = rows, .samples = batch, .width = width,
                                  .ranks_depth = 0, .ranks_token = 0, .periodic = false});
  const SlabContext context{&mesh.token_line(), batch, width, {}};
  Parameters parameters(network());
  initialise_standard(parameters, 1, 0, 1, 1);
  const auto model = make_depth_model(parameters, context, precision);
  std::vector<DepthPoint> points;
  for (int cell = 1; cell <= layers; ++cell) points.push_back(cell_entry(cell, layers, layers));
  model->prepare(points);
  const Equation equation(*model, {{layers, layers}, 1.0, 0.0, DepthScheme::shift});
  FieldOperator field(mesh, equation);
  const auto u = mesh.create_vector(), f = mesh.create_vector();
  double* values = nullptr;
  VecGetArray(u, &values);
  for (std::size_t j = 0; j < mesh.slab_size() * layers; ++j) values[j] = std::sin(static_cast<double>(j));
  VecRestoreArray(u, &values);
  for (auto _ : state) field.apply(equation.all(), u, f);
  state.counters["GFLOP/s"] = benchmark::Counter(layers * flops_per_layer * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(right_hand_side, double, Precision::dbl)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(right_hand_side, float, Precision::single)->Unit(benchmark::kMillisecond);

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
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate);
}
void shapes(benchmark::internal::Benchmark* b) {
  b->Args({768, 768, 768})->Args({196, 192, 64})->Args({196, 64, 64})->Args({196, 256, 64})->Args({196, 64, 256});
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
