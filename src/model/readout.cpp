#include "model/readout.hpp"

#include "model/pooling.hpp"

namespace fluxformer {

RowStack final_norm_stack(const Parameters& parameters) {
  RowStack stack(parameters, parameters.spec.width);
  if (parameters.spec.has_final_norm()) stack.add(norm_stage(parameters.spec, "final_norm/"));
  return stack;
}

Readout::Readout(const Parameters& parameters, const SlabContext& context)
    : context_(context),
      pooling_(parameters.spec.pooling),
      norm_(final_norm_stack(parameters)),
      head_(parameters, parameters.spec.width),
      rows_(norm_.empty() ? 0 : context.size()),
      pooled_bar_(context.row()) {
  if (parameters.spec.classes == 0) return;
  head_.add(parameters.spec.head_transform, "head");
  head_.add(dense_stage(parameters.layout, "head/W", "head/b"));
}

std::span<double> Readout::of_head(std::span<double> gradient) const {
  return context_.line->rank() == 0 ? gradient : std::span<double>{};
}

void Readout::logits(const double* u, double* logits, ReadoutTape& tape) {
  if (head_.empty()) return;
  if (!norm_.empty()) {
    norm_.forward(context_.rows(), u, rows_.data(), tape.norm);
    u = rows_.data();
  }
  pool(pooling_, context_, u, pooled_);
  head_.forward(context_.samples, pooled_.data(), logits, tape.head);
}

template <class Back>
void Readout::unpool(double* u_bar, Back&& back) {
  spread(pooling_, context_, pooled_bar_, norm_.empty() ? u_bar : rows_.data());
  if (!norm_.empty()) back(rows_.data(), u_bar);
}

void Readout::adjoint(const double* logits_bar, double* u_bar, std::span<double> gradient,
                      ReadoutTape& tape) {
  head_.adjoint(logits_bar, pooled_bar_.data(), of_head(gradient), tape.head);
  unpool(u_bar, [&](const double* from, double* to) { norm_.adjoint(from, to, gradient, tape.norm); });
}

void Readout::pull(const double* logits_bar, double* u_bar, std::span<double> gradient,
                   const ReadoutTape& tape) {
  head_.pull(logits_bar, pooled_bar_.data(), of_head(gradient), tape.head);
  unpool(u_bar, [&](const double* from, double* to) { norm_.pull(from, to, gradient, tape.norm); });
}

void Readout::tangent(const Parameters& direction, const double* u_dot, double* logits_dot,
                      ReadoutTape& tape) {
  if (!norm_.empty()) {
    norm_.tangent(direction, u_dot, rows_.data(), tape.norm);
    u_dot = rows_.data();
  }
  pool(pooling_, context_, u_dot, pooled_);
  head_.tangent(direction, pooled_.data(), logits_dot, tape.head);
}

void Readout::adjoint_tangent(const Parameters& direction, const double* logits_bar_dot, double* u_bar_dot,
                              std::span<double> gradient_dot, ReadoutTape& tape) {
  head_.adjoint_tangent(direction, logits_bar_dot, pooled_bar_.data(), of_head(gradient_dot), tape.head);
  unpool(u_bar_dot, [&](const double* from, double* to) {
    norm_.adjoint_tangent(direction, from, to, gradient_dot, tape.norm);
  });
}

}  // namespace fluxformer
