// The cost of a product with the Hessian and with the Gauss-Newton matrix of a whole classifier against its
// gradient, in double: medians of alternating rounds of processor time.
//
//   fluxformer_hessian_product_cost [rounds]
//
// Batch 32, 49 tokens, width 64, 4 heads, 6 layers, ffn 256. Products of matrices: 2 and 4/3 times as many.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/session.hpp"
#include "base/statistics.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "model/gradient_evaluator.hpp"
#include "model/loss_hessian.hpp"
#include "operators/kernels/blas.hpp"
#include "tests/benchmark/network.hpp"

namespace {

using namespace fluxformer;

Batch batch_of(const ModelSpec& spec, int samples, int tokens) {
  Batch batch;
  const auto count = static_cast<std::size_t>(samples);
  batch.input.resize(count * static_cast<std::size_t>(tokens * spec.features));
  for (std::size_t j = 0; j < batch.input.size(); ++j) batch.input[j] = std::sin(static_cast<double>(j));
  for (int b = 0; b < samples; ++b) batch.label.push_back(b % spec.classes);
  batch.weight.assign(count, 1.0 / samples);
  return batch;
}

template <class Work>
double milliseconds_of(Work&& work) {
  const auto begin = std::clock();
  work();
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

void compare(int rounds) {
  const bench::Size size;
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, size.columns, size.rows);
  SlabContext context{&line, size.batch, size.width, {}};
  ModelSpec spec = bench::model_spec(size);
  spec.features = 16;
  spec.tokens = line.tokens();
  spec.classes = 10;
  Parameters parameters(spec);
  initialise_standard(parameters, 1, 0, 1, 1);
  const auto model = make_depth_model(parameters, context, Precision::float64);
  Backpropagation march(*model, {size.layers, size.layers}, 1);
  GradientEvaluator evaluator(parameters, context, march, {});
  LossHessian hessian(parameters, context, march.depth(), 1, {});
  const Batch batch = batch_of(spec, size.batch, line.tokens());
  std::vector<double> gradient(parameters.values.size(), 0.0), product(gradient.size());
  hessian.linearise(batch, gradient);
  const std::vector<double> direction(gradient.size(), 1e-3);

  std::vector<double> gradients, whole, newton, whole_ratio, newton_ratio;
  for (int round = 0; round < rounds; ++round) {
    gradients.push_back(milliseconds_of([&] { evaluator.gradient(batch, gradient); }));
    whole.push_back(milliseconds_of([&] { hessian.multiply(Curvature::hessian, direction, product); }));
    newton.push_back(milliseconds_of([&] { hessian.multiply(Curvature::gauss_newton, direction, product); }));
    whole_ratio.push_back(whole.back() / gradients.back());
    newton_ratio.push_back(newton.back() / gradients.back());
  }
  std::printf(
      "gradient %.1f ms; H v %.1f ms, median ratio %.2f; H_o v %.1f ms, %.2f; tapes %.0f MB, gradient %.0f "
      "MB\n",
      median(gradients), median(whole), median(whole_ratio), median(newton), median(newton_ratio),
      static_cast<double>(hessian.kept_bytes()) / 1e6, static_cast<double>(march.kept_bytes()) / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  Session session(argc, argv);
  std::printf("%s\n", blas_description().c_str());
  compare(argc > 1 ? std::max(1, std::atoi(argv[1])) : 41);
  return 0;
}
