#include "model/second_order/loss_hessian.hpp"

#include <algorithm>

namespace fluxformer {

/// One batch: its input, and what every cell and the readout keep.
struct LossHessian::BatchTape {
  Batch batch;
  std::vector<double> logits;
  std::vector<CellTape> cells;
  EmbeddingTape embedding;
  ReadoutTape readout;
};

LossHessian::LossHessian(const Parameters& parameters, SlabContext& context, DepthCells depth, double speed,
                         const Loss& loss)
    : parameters_(parameters),
      context_(context),
      depth_(depth),
      step_(depth.spacing() / speed),
      loss_(loss),
      direction_(parameters.spec),
      map_(parameters, direction_, context),
      embedding_(parameters, context),
      readout_(parameters, context),
      slab_(context.size()),
      other_slab_(context.size()) {
  require_marchable(parameters.spec, depth, speed);
  std::vector<DepthPoint> points;
  for (int cell = 1; cell <= depth.cells; ++cell) points.push_back(point(cell));
  map_.prepare(points);
}

LossHessian::~LossHessian() = default;

void LossHessian::restart() {
  used_ = 0;
  map_.refresh();
}

Evaluation LossHessian::linearise(const Batch& batch, std::span<double> gradient) {
  if (used_ == tapes_.size()) tapes_.push_back(std::make_unique<BatchTape>());
  BatchTape& tape = *tapes_[used_++];
  tape.batch = batch;
  tape.cells.resize(static_cast<std::size_t>(depth_.cells));
  const int classes = parameters_.spec.classes;
  const auto count = static_cast<std::size_t>(classes);
  tape.logits.resize(static_cast<std::size_t>(context_.samples) * count);
  logits_bar_.resize(tape.logits.size());

  context_.mask.length = batch.length;
  embedding_.forward(batch.input.data(), slab_.data(), tape.embedding);
  for (int cell = 1; cell <= depth_.cells; ++cell) {
    map_.forward(point(cell), step_, slab_.data(), other_slab_.data(),
                 tape.cells[static_cast<std::size_t>(cell - 1)]);
    slab_.swap(other_slab_);
  }
  readout_.logits(slab_.data(), tape.logits.data(), tape.readout);

  Evaluation result;
  for (std::size_t b = 0; b < batch.label.size(); ++b) {
    const double loss = loss_of(loss_, tape.logits.data() + b * count, classes, batch.label[b],
                                batch.weight[b], logits_bar_.data() + b * count);
    if (batch.weight[b] != 0) result.loss += batch.weight[b] * loss;
  }
  result.correct = correct_share(batch, tape.logits, classes);

  readout_.adjoint(logits_bar_.data(), slab_.data(), gradient, tape.readout);
  for (int cell = depth_.cells; cell >= 1; --cell) {
    map_.backward(point(cell), slab_.data(), other_slab_.data(), gradient,
                  tape.cells[static_cast<std::size_t>(cell - 1)]);
    slab_.swap(other_slab_);
  }
  embedding_.adjoint(batch.input.data(), slab_.data(), gradient, tape.embedding);
  return result;
}

void LossHessian::multiply(Curvature part, std::span<const double> direction, std::span<double> product) {
  std::copy(direction.begin(), direction.end(), direction_.values.begin());
  map_.refresh_direction();
  std::fill(product.begin(), product.end(), 0.0);
  for (std::size_t k = 0; k < used_; ++k) multiply(part, *tapes_[k], product);
}

void LossHessian::multiply(Curvature part, BatchTape& tape, std::span<double> product) {
  const auto& batch = tape.batch;
  context_.mask.length = batch.length;
  embedding_.tangent(direction_, batch.input.data(), slab_.data(), tape.embedding);
  for (int cell = 1; cell <= depth_.cells; ++cell) {
    map_.tangent(point(cell), slab_.data(), other_slab_.data(),
                 tape.cells[static_cast<std::size_t>(cell - 1)]);
    slab_.swap(other_slab_);
  }
  logits_dot_.resize(tape.logits.size());
  readout_.tangent(direction_, slab_.data(), logits_dot_.data(), tape.readout);

  const int classes = parameters_.spec.classes;
  const auto count = static_cast<std::size_t>(classes);
  logits_bar_.assign(tape.logits.size(), 0.0);
  for (std::size_t b = 0; b < batch.label.size(); ++b)
    if (batch.weight[b] != 0)
      loss_curvature(loss_, tape.logits.data() + b * count, classes, batch.weight[b],
                     logits_dot_.data() + b * count, logits_bar_.data() + b * count);
  pull(part, tape, product);
}

void LossHessian::pull(Curvature part, BatchTape& tape, std::span<double> product) {
  if (part == Curvature::hessian)
    readout_.adjoint_tangent(direction_, logits_bar_.data(), slab_.data(), product, tape.readout);
  else
    readout_.pull(logits_bar_.data(), slab_.data(), product, tape.readout);
  for (int cell = depth_.cells; cell >= 1; --cell) {
    auto& kept = tape.cells[static_cast<std::size_t>(cell - 1)];
    if (part == Curvature::hessian)
      map_.backward_tangent(point(cell), slab_.data(), other_slab_.data(), product, kept);
    else
      map_.gauss_newton(point(cell), slab_.data(), other_slab_.data(), product, kept);
    slab_.swap(other_slab_);
  }
  const double* const input = tape.batch.input.data();
  if (part == Curvature::hessian)
    embedding_.adjoint_tangent(direction_, input, slab_.data(), product, tape.embedding);
  else
    embedding_.pull(input, slab_.data(), product, tape.embedding);
}

void LossHessian::for_output_gradients(std::span<double> row, const std::function<void()>& visit) {
  const int classes = parameters_.spec.classes;
  const auto count = static_cast<std::size_t>(classes);
  for (std::size_t k = 0; k < used_; ++k) {
    BatchTape& tape = *tapes_[k];
    context_.mask.length = tape.batch.length;
    for (std::size_t b = 0; b < tape.batch.label.size(); ++b)
      for (int c = 0; c < classes && tape.batch.weight[b] > 0; ++c) {
        logits_bar_.assign(tape.logits.size(), 0.0);
        loss_curvature_factor(loss_, tape.logits.data() + b * count, classes, tape.batch.weight[b], c,
                              logits_bar_.data() + b * count);
        std::fill(row.begin(), row.end(), 0.0);
        pull(Curvature::gauss_newton, tape, row);
        visit();
      }
  }
}

std::size_t LossHessian::kept_bytes() const {
  std::size_t bytes = 0;
  for (const auto& tape : tapes_)
    for (const auto& cell : tape->cells) bytes += cell.bytes();
  return bytes;
}

}  // namespace fluxformer
