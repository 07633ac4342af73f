#include "model/second_order/loss_hessian.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fluxformer {

/// One batch: its input, and what embedding, cells and task keep; u_{i-1} and its tangent for each cell i.
struct LossHessian::BatchTape {
  Batch batch;
  EmbeddingTape embedding;
  std::vector<std::unique_ptr<Tape>> cells;
  std::vector<std::vector<double>> states, directions;
  std::unique_ptr<TaskTape> task;
};

LossHessian::LossHessian(const Parameters& parameters, SlabContext& context, DepthCells depth, double speed,
                         const Loss& loss)
    : parameters_(parameters),
      context_(context),
      depth_(depth),
      step_(depth.spacing() / speed),
      model_(make_depth_model(parameters, context, Precision::float64)),
      embedding_(parameters, context),
      task_(make_task(parameters, context, loss)),
      slab_(context.size()),
      other_slab_(context.size()) {
  require_marchable(parameters.spec, depth, speed);
  if (context.dropout != nullptr) throw BadInput("Hessian products are not defined for dropout");
  (void)model_->make_tape(Order::second);  // refuses a model without second derivatives here
  std::vector<DepthPoint> points;
  for (int cell = 1; cell <= depth.cells; ++cell) points.push_back(point(cell));
  model_->prepare(points);
}

LossHessian::~LossHessian() = default;

void LossHessian::restart() {
  used_ = 0;
  model_->refresh();
}

double* LossHessian::state(std::vector<std::vector<double>>& slabs, Index row) {
  // That of the last row is not kept.
  return row < std::ssize(slabs) ? slabs[row].data() : slab_.data();
}

Evaluation LossHessian::linearise(const Batch& batch, std::span<double> gradient) {
  if (used_ == std::ssize(tapes_)) tapes_.push_back(std::make_unique<BatchTape>());
  BatchTape& tape = *tapes_[used_++];
  tape.batch = batch;
  while (std::ssize(tape.cells) < depth_.cells) {
    tape.cells.push_back(model_->make_tape(Order::second));
    tape.states.emplace_back(context_.size());
    tape.directions.emplace_back(context_.size());
  }
  if (tape.task == nullptr) tape.task = task_->make_tape();
  context_.mask.length = batch.length;
  // u_i = G_i(u_{i-1})
  embedding_.forward(batch.input.data(), state(tape.states, 0), tape.embedding);
  for (int i = 1; i <= depth_.cells; ++i)
    model_->map(point(i), step_, state(tape.states, i - 1), state(tape.states, i), tape.cells[i - 1].get());
  // w_M = dL/du_M; the gradient gets the share of the readout.
  const auto result =
      task_->gradient(batch, slab_.data(), other_slab_.data(), gradient, *tape.task, Task::KeepFor::products);
  slab_.swap(other_slab_);
  // w_{i-1} = (dG_i/du)^T w_i from w_M = dL/du_M
  for (int i = depth_.cells; i >= 1; --i) {
    model_->pull(point(i), step_, state(tape.states, i - 1), slab_.data(), other_slab_.data(), gradient,
                 tape.cells[i - 1].get(), Order::second);
    slab_.swap(other_slab_);
  }
  // gradient += (du_0/dtheta)^T w_0
  embedding_.adjoint(batch.input.data(), slab_.data(), gradient, tape.embedding);
  return result;
}

void LossHessian::multiply(Curvature part, std::span<const double> direction, std::span<double> product) {
  // H theta_dot is a sum over batches, as the loss is.
  std::fill(product.begin(), product.end(), 0.0);
  for (Index k = 0; k < used_; ++k) multiply(part, {parameters_.layout, direction}, *tapes_[k], product);
}

void LossHessian::multiply(Curvature part, const ParameterVector& direction, BatchTape& tape,
                           std::span<double> product) {
  const auto& batch = tape.batch;
  context_.mask.length = batch.length;
  // u_dot_0 = (du_0/dtheta) theta_dot: the input itself does not move.
  embedding_.tangent(direction, batch.input.data(), state(tape.directions, 0), tape.embedding);
  // u_dot_i = (dG_i/du) u_dot_{i-1} + (dG_i/dtheta) theta_dot
  for (int i = 1; i <= depth_.cells; ++i)
    model_->push(point(i), step_, {state(tape.states, i - 1), state(tape.directions, i - 1)},
                 direction.values, state(tape.directions, i), tape.cells[i - 1].get());
  // w_dot_M from u_dot_M and theta_dot: the curvature of the loss behind the readout
  task_->product(part, batch, direction, slab_.data(), other_slab_.data(), product, *tape.task);
  slab_.swap(other_slab_);
  pull(part, direction, tape, product);
}

void LossHessian::pull(Curvature part, const ParameterVector& direction, BatchTape& tape,
                       std::span<double> product) {
  // H:    w_dot_{i-1} = d/de (dG_i/du)^T w_i,  product += d/de (dG_i/dtheta)^T w_i
  //       along (u_dot_{i-1}, theta_dot, w_dot_i)
  // H_o:  w_dot_{i-1} = (dG_i/du)^T w_dot_i,   product += (dG_i/dtheta)^T w_dot_i
  for (int i = depth_.cells; i >= 1; --i) {
    const Point at{state(tape.states, i - 1), state(tape.directions, i - 1)};
    Tape& kept = *tape.cells[i - 1];
    if (part == Curvature::hessian)
      model_->pull_along(point(i), step_, at, slab_.data(), direction.values, other_slab_.data(), product,
                         kept);
    else
      model_->pull(point(i), step_, at.u, slab_.data(), other_slab_.data(), product, &kept, Order::first);
    slab_.swap(other_slab_);
  }
  const double* const input = tape.batch.input.data();
  if (part == Curvature::hessian)
    embedding_.adjoint_tangent(direction, input, slab_.data(), product, tape.embedding);
  else
    embedding_.pull(input, slab_.data(), product, tape.embedding);
}

void LossHessian::for_output_gradients(std::span<double> row, const std::function<void()>& visit) {
  const int outputs = task_->outputs();
  for (Index k = 0; k < used_; ++k) {
    BatchTape& tape = *tapes_[k];
    context_.mask.length = tape.batch.length;
    for (Index b = 0; b < std::ssize(tape.batch.label); ++b)
      for (int c = 0; c < outputs && tape.batch.weight[b] > 0; ++c) {
        // row = J^T b_c, a column of A with H_o = A A^T
        std::fill(row.begin(), row.end(), 0.0);
        task_->pull_output(tape.batch, b, c, slab_.data(), row, *tape.task);
        pull(Curvature::gauss_newton, parameters_, tape, row);
        visit();
      }
  }
}

std::size_t LossHessian::kept_bytes() const {
  Index bytes = 0;
  for (const auto& tape : tapes_) {
    for (const auto& cell : tape->cells) bytes += cell->bytes();
    for (const auto& slab : tape->states) bytes += 2 * slab.size() * sizeof(double);  // and its direction
  }
  return bytes;
}

}  // namespace fluxformer
