#include "model/loss_hessian.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/error.hpp"
#include "model/depth_march.hpp"
#include "model/model_pass.hpp"

namespace fluxformer {

/// One batch, with a pass of its own.
struct LossHessian::BatchTape {
  explicit BatchTape(LossHessian& of)
      : march(*of.model_, of.depth_, of.speed_), pass(of.parameters_, of.context_, march, &of.loss_) {}
  Batch batch;
  Backpropagation march;
  ModelPass pass;
};

LossHessian::LossHessian(const Parameters& parameters, SlabContext& context, const DepthCells& depth,
                         double speed, const Loss& loss)
    : parameters_(parameters),
      context_(context),
      depth_(depth),
      speed_(speed),
      loss_(loss),
      model_(make_depth_model(parameters, context, Precision::float64)),
      slab_(context.size()),
      other_slab_(context.size()) {
  require_marchable(parameters.spec, depth, speed);
  if (context.dropout != nullptr)
    throw std::invalid_argument("products with the Hessian are without dropout");
  (void)model_->make_tape(Order::second);  // refuses a model without second derivatives here
  (void)make_task(parameters, context, loss, Precision::float64);
}

LossHessian::~LossHessian() = default;

void LossHessian::restart() {
  used_ = 0;
  model_->refresh();
}

Evaluation LossHessian::linearise(const Batch& batch, std::span<double> gradient) {
  if (used_ == std::ssize(tapes_)) tapes_.push_back(std::make_unique<BatchTape>(*this));
  BatchTape& tape = *tapes_[used_++];
  auto& pass = tape.pass;
  tape.batch = batch;
  pass.begin(batch, ModelPass::Mode::evaluation);
  pass.embed(batch, slab_.data());
  pass.forward(slab_.data(), Keep::second_derivatives, {});
  // w_M = dL/du_M, w_{i-1} = (dG_i/du)^T w_i
  const auto result =
      pass.pull_task(batch, slab_.data(), other_slab_.data(), gradient, Task::KeepFor::products);
  tape.march.backward(other_slab_.data(), gradient, {});
  // gradient += (du_0/dtheta)^T w_0
  pass.pull_embedding(batch, other_slab_.data(), gradient, Task::KeepFor::products);
  return result;
}

void LossHessian::multiply(Curvature part, std::span<const double> direction, std::span<double> product) {
  // H theta_dot is a sum over batches, as the loss is.
  std::fill(product.begin(), product.end(), 0.0);
  for (Index k = 0; k < used_; ++k) multiply(part, {parameters_.layout, direction}, *tapes_[k], product);
}

void LossHessian::multiply(Curvature part, const ParameterVector& direction, BatchTape& tape,
                           std::span<double> product) {
  auto& pass = tape.pass;
  pass.begin(tape.batch, ModelPass::Mode::evaluation);
  pass.push_embedding(tape.batch, direction, slab_.data());
  tape.march.push(slab_.data(), direction.values, {});
  // w_dot_M from u_dot_M and theta_dot: the curvature of the loss behind the readout
  pass.push_task(part, tape.batch, direction, slab_.data(), other_slab_.data(), product);
  slab_.swap(other_slab_);
  if (part == Curvature::gauss_newton) return pull(tape, product);
  tape.march.pull_along(slab_.data(), direction.values, product, {});
  pass.pull_embedding_along(tape.batch, direction, slab_.data(), product);
}

void LossHessian::pull(BatchTape& tape, std::span<double> product) {
  tape.march.pull(slab_.data(), product, {});
  tape.pass.pull_embedding(tape.batch, slab_.data(), product, Task::KeepFor::nothing);
}

void LossHessian::for_output_gradients(std::span<double> row, const std::function<void()>& visit) {
  for (Index k = 0; k < used_; ++k) {
    BatchTape& tape = *tapes_[k];
    auto& pass = tape.pass;
    pass.begin(tape.batch, ModelPass::Mode::evaluation);
    for (Index b = 0; b < std::ssize(tape.batch.label); ++b)
      for (int c = 0; c < pass.outputs() && tape.batch.weight[b] > 0; ++c) {
        // row = J^T b_c, a column of A with H_o = A A^T
        std::fill(row.begin(), row.end(), 0.0);
        pass.pull_output(tape.batch, b, c, slab_.data(), row);
        pull(tape, row);
        visit();
      }
  }
}

std::size_t LossHessian::kept_bytes() const {
  Index bytes = 0;
  for (const auto& tape : tapes_) bytes += tape->march.kept_bytes();
  return bytes;
}

}  // namespace fluxformer
