#include "model/rows/row_stack.hpp"

#include <algorithm>
#include <utility>

namespace fluxformer {
namespace {

std::size_t size_of(int rows, int width) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
}

}  // namespace

void RowStack::add(std::unique_ptr<RowStage> stage) {
  if (stage == nullptr) return;
  out_ = stage->out();
  stages_.push_back(std::move(stage));
}

void RowStack::add(const HeadTransform& transform, const std::string& group) {
  if (!transform.present) return;
  add(dense_stage(parameters_.layout, group + "/transform_W", group + "/transform_b"));
  add(activation_stage(transform.activation, out_));
  if (transform.norm) add(norm_stage(parameters_.spec, group + "/norm_"));
}

void RowStack::forward(int rows, const double* x, double* y, RowTape& tape) const {
  tape.rows = rows;
  tape.stages.resize(stages_.size());
  if (empty()) {
    std::copy_n(x, size_of(rows, in_), y);
    return;
  }
  tape.stages[0].x.assign(x, x + size_of(rows, in_));
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    double* to = y;
    if (k + 1 < stages_.size()) {
      tape.stages[k + 1].x.resize(size_of(rows, stages_[k]->out()));
      to = tape.stages[k + 1].x.data();
    }
    stages_[k]->forward(parameters_, rows, tape.stages[k].x.data(), to);
  }
}

template <class Visit>
void RowStack::backward(int rows, const double* y_bar, double* x_bar, Visit&& visit) const {
  if (empty()) {
    std::copy_n(y_bar, size_of(rows, in_), x_bar);
    return;
  }
  std::vector<double> from, to;
  for (std::size_t k = stages_.size(); k-- > 0;) {
    if (k > 0) to.resize(size_of(rows, stages_[k]->in()));
    visit(k, from.empty() ? y_bar : from.data(), k > 0 ? to.data() : x_bar);
    from.swap(to);
  }
}

void RowStack::adjoint(const double* y_bar, double* x_bar, std::span<double> gradient, RowTape& tape) const {
  backward(tape.rows, y_bar, x_bar, [&](std::size_t k, const double* from, double* to) {
    auto& kept = tape.stages[k];
    kept.y_bar.assign(from, from + size_of(tape.rows, stages_[k]->out()));
    stages_[k]->adjoint(parameters_, tape.rows, kept.x.data(), from, to, gradient);
  });
}

void RowStack::pull(const double* y_bar, double* x_bar, std::span<double> gradient,
                    const RowTape& tape) const {
  backward(tape.rows, y_bar, x_bar, [&](std::size_t k, const double* from, double* to) {
    stages_[k]->adjoint(parameters_, tape.rows, tape.stages[k].x.data(), from, to, gradient);
  });
}

void RowStack::tangent(const Parameters& direction, const double* x_dot, double* y_dot, RowTape& tape) const {
  const int rows = tape.rows;
  if (empty()) {
    std::copy_n(x_dot, size_of(rows, in_), y_dot);
    return;
  }
  tape.stages[0].x_dot.assign(x_dot, x_dot + size_of(rows, in_));
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    double* to = y_dot;
    if (k + 1 < stages_.size()) {
      tape.stages[k + 1].x_dot.resize(size_of(rows, stages_[k]->out()));
      to = tape.stages[k + 1].x_dot.data();
    }
    const auto& kept = tape.stages[k];
    stages_[k]->tangent(parameters_, direction, rows, {kept.x.data(), kept.x_dot.data()}, to);
  }
}

void RowStack::adjoint_tangent(const Parameters& direction, const double* y_bar_dot, double* x_bar_dot,
                               std::span<double> gradient_dot, const RowTape& tape) const {
  backward(tape.rows, y_bar_dot, x_bar_dot, [&](std::size_t k, const double* from, double* to) {
    const auto& kept = tape.stages[k];
    stages_[k]->adjoint_tangent(parameters_, direction, tape.rows, {kept.x.data(), kept.x_dot.data()},
                                kept.y_bar.data(), from, to, gradient_dot);
  });
}

}  // namespace fluxformer
