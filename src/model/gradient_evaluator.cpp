#include "model/gradient_evaluator.hpp"

#include <algorithm>

namespace fluxformer {
namespace {

constexpr std::uint64_t embedding_site = 0;  // of dropout; layers have the others

}  // namespace

GradientEvaluator::GradientEvaluator(const Parameters& parameters, SlabContext& context, DepthMarch& march,
                                     const Loss& loss)
    : parameters_(parameters),
      context_(context),
      march_(march),
      embedding_(parameters, context),
      task_(make_task(parameters, context, loss)),
      tape_(task_->make_tape()),
      u_(context.size()),
      u_bar_(context.size()) {}

void GradientEvaluator::embed_batch(const Batch& batch, bool training) {
  context_.mask.length = batch.length;
  embedding_.forward(batch.input.data(), u_.data(), embedded_);
  if (dropout_ == nullptr) return;
  dropout_->set_keys(training ? batch.key : std::vector<long>{});
  dropout_->apply(context_, embedding_site, u_.data());
}

void GradientEvaluator::begin_depth_losses(const Batch& batch) {
  for (auto* term : depth_losses_) term->begin(batch);
}

double GradientEvaluator::add_depth_losses(int row, const Batch& batch, const double* u, double* u_bar,
                                           std::span<double> gradient) {
  double value = 0;
  for (auto* term : depth_losses_)
    if (term->looks_at(row)) value += term->add(row, batch, u, u_bar, gradient);
  return value;
}

Evaluation GradientEvaluator::evaluate(const Batch& batch, LossTerms terms) {
  embed_batch(batch, false);
  const bool depth_losses = terms == LossTerms::all;
  double depth_loss = 0;
  const auto look = [&](int row, const double* u) {
    if (depth_losses) depth_loss += add_depth_losses(row, batch, u, nullptr, {});
  };
  if (depth_losses) begin_depth_losses(batch);
  look(0, u_.data());
  march_.forward(u_.data(), Keep::nothing, look);
  auto result = task_->value(batch, u_.data(), *tape_);
  result.depth_loss = depth_loss;
  return result;
}

std::size_t GradientEvaluator::first_complete(int row) const {
  const auto& layout = parameters_.layout;
  if (row == 0) return layout.block_offset(0);
  // The last knot that cells 1 .. row use, at their exits and in between.
  const auto depth = march_.depth();
  const auto last = knots_at(parameters_.spec, cell_exit(row, depth.layers, depth.cells)).upper;
  return layout.block_offset(last + 1);
}

Evaluation GradientEvaluator::gradient(const Batch& batch, std::span<double> gradient,
                                       const GradientReady& ready) {
  std::fill(gradient.begin(), gradient.end(), 0.0);
  const auto& layout = parameters_.layout;
  const int cells = march_.depth().cells;
  const auto tell = [&](std::size_t first, std::size_t end) {
    if (ready && first < end) ready(first, end - first);
  };
  // Blocks become complete from the last to the first; all of them contribute to alpha and rho.
  const std::size_t coefficients = layout.alpha();
  std::size_t done = layout.block_offset(parameters_.spec.knots);
  int reached = cells + 1;
  /// Reports all that is complete when the backward march has reached `row`; -1: after the embedding.
  const auto reach = [&](int row) {
    while (reached > row) {
      --reached;
      if (reached == cells) {
        tell(done, coefficients);  // final norm and head
      } else if (reached >= 0) {
        const std::size_t first = std::min(done, first_complete(reached));
        tell(first, done);
        done = first;
      } else {
        tell(0, done);
      }
      if (reached == 0) tell(coefficients, layout.size());
    }
  };

  Evaluation result;
  try {
    embed_batch(batch, true);
    begin_depth_losses(batch);
    march_.forward(u_.data(), Keep::activations, {});
    result = task_->gradient(batch, u_.data(), u_bar_.data(), gradient, *tape_, Task::Keeps::nothing);
    reach(cells);
    result.depth_loss += add_depth_losses(cells, batch, u_.data(), u_bar_.data(), gradient);
    march_.backward(u_bar_.data(), gradient, [&](int row, const double* u, double* u_bar) {
      result.depth_loss += add_depth_losses(row, batch, u, u_bar, gradient);
      reach(row);
    });
    if (dropout_ != nullptr) dropout_->apply(context_, embedding_site, u_bar_.data());
    embedding_.pull(batch.input.data(), u_bar_.data(), gradient, embedded_);
    reach(-1);
  } catch (...) {
    reach(-1);
    throw;
  }
  return result;
}

}  // namespace fluxformer
