#include "model/gradient_evaluator.hpp"

#include <algorithm>

namespace fluxformer {

/// Reports the pieces of the gradient, from the last block to the first; all blocks contribute to alpha and
/// rho.
class GradientEvaluator::Pieces {
 public:
  Pieces(const GradientEvaluator& of, const GradientReady& ready)
      : of_(of),
        layout_(of.parameters_.layout),
        ready_(ready),
        range_(of.pass_.march().range()),
        done_(layout_.block_offset(layout_.last_knot() + 1)),
        reached_(range_.last + 1) {}

  /// Reports all that is complete when the backward march has reached `row`.
  void reach(int row) {
    while (reached_ > row) {
      --reached_;
      if (reached_ == range_.last) {
        report(done_, layout_.alpha());  // final norm and head
      } else {
        const Index first = std::min(done_, of_.first_complete(reached_));
        report(first, done_);
        done_ = first;
      }
      // Every cell adds to the gradients of alpha and rho: the first cell completes them.
      if (reached_ == range_.first - 1) report(layout_.alpha(), layout_.size());
    }
  }
  /// Reports all that is left, after the embedding.
  void finish() {
    reach(range_.first - 1);
    report(0, done_);
    done_ = 0;
  }

 private:
  void report(Index first, Index end) const {
    if (ready_ && first < end) ready_(first, end - first);
  }
  const GradientEvaluator& of_;
  const ParameterLayout& layout_;
  const GradientReady& ready_;
  DepthRange range_;
  Index done_;
  int reached_;
};

GradientEvaluator::GradientEvaluator(const Parameters& parameters, SlabContext& context, DepthMarch& march,
                                     const Loss& loss)
    : parameters_(parameters),
      pass_(parameters, context, march, &loss),
      u_(context.size()),
      u_bar_(context.size()) {}

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
  pass_.begin(batch, ModelPass::Mode::evaluation);
  pass_.embed(batch, u_.data());
  const bool depth_losses = terms == LossTerms::all;
  // Rows between two stages count once: the upper stage shows the row that its cells start from.
  const auto range = pass_.march().range();
  double depth_loss = 0;
  const auto look = [&](int row, const double* u) {
    const bool of_next = row == range.last && !has_loss();
    if (depth_losses && !of_next) depth_loss += add_depth_losses(row, batch, u, nullptr, {});
  };
  if (depth_losses) begin_depth_losses(batch);
  pass_.forward(u_.data(), Keep::nothing, look);
  Evaluation result;
  if (has_loss()) result = pass_.value(batch, u_.data());
  result.depth_loss = depth_loss;
  return result;
}

Index GradientEvaluator::first_complete(int row) const {
  const auto& layout = parameters_.layout;
  if (row < pass_.march().range().first) return layout.layers_begin();
  // Cells up to `row` still add to the knots that they read, the last of which is the upper one at the exit
  // of that cell. The blocks of later knots are complete.
  const auto& depth = pass_.march().depth();
  const auto last = knots_at(parameters_.spec, depth.exit(row)).upper;
  return layout.block_offset(last + 1);
}

void GradientEvaluator::forward(const Batch& batch) {
  pass_.begin(batch, ModelPass::Mode::training);
  pass_.embed(batch, u_.data());
  pass_.forward(u_.data(), Keep::activations, {});
}

Evaluation GradientEvaluator::backward(const Batch& batch, std::span<double> gradient,
                                       const GradientReady& ready) {
  Pieces pieces(*this, ready);
  const int last = pass_.march().range().last;
  Evaluation result;
  try {
    pass_.begin(batch, ModelPass::Mode::training);
    begin_depth_losses(batch);
    // u_bar_M = d(L + D)/du_M, then u_bar_{i-1} = (dG_i/du)^T u_bar_i + dD/du_{i-1} down through the cells,
    // and the embedding at the end; D is the sum of the depth losses.
    if (has_loss()) {
      result = pass_.pull_task(batch, u_.data(), u_bar_.data(), gradient, Task::KeepFor::nothing);
      pieces.reach(last);
      result.depth_loss += add_depth_losses(last, batch, u_.data(), u_bar_.data(), gradient);
    }
    pass_.march().backward(u_bar_.data(), gradient, [&](int row, const double* u, double* u_bar) {
      result.depth_loss += add_depth_losses(row, batch, u, u_bar, gradient);
      pieces.reach(row);
    });
    pass_.pull_embedding(batch, u_bar_.data(), gradient, Task::KeepFor::nothing);
    pieces.finish();
  } catch (const std::runtime_error&) {
    pieces.finish();
    throw;
  } catch (const std::logic_error&) {
    pieces.finish();
    throw;
  }
  return result;
}

void GradientEvaluator::report_all(const GradientReady& ready) const {
  Pieces(*this, ready).finish();
}

Evaluation GradientEvaluator::gradient(const Batch& batch, std::span<double> gradient,
                                       const GradientReady& ready) {
  std::fill(gradient.begin(), gradient.end(), 0.0);
  try {
    forward(batch);
  } catch (const std::runtime_error&) {
    report_all(ready);
    throw;
  } catch (const std::logic_error&) {
    report_all(ready);
    throw;
  }
  return backward(batch, gradient, ready);
}

}  // namespace fluxformer
