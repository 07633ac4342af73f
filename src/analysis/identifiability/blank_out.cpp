#include "analysis/identifiability/blank_out.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/state_examples.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {
namespace {

double distance(const double* a, const double* b, int count) {
  double sum = 0;
  for (int c = 0; c < count; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return std::sqrt(sum);
}

}  // namespace

BlankOut::BlankOut(ModelProbe& probe, std::vector<double> mean_token)
    : probe_(probe), mean_token_(std::move(mean_token)) {
  need_whole_line(*probe.counted().line, "blanked tokens");
}

const double* BlankOut::at(const std::vector<double>& slab, int token, int slot) const {
  const auto& context = probe_.counted();
  return slab.data() + token * static_cast<std::ptrdiff_t>(context.row()) +
         static_cast<std::ptrdiff_t>(slot) * context.width;
}

void BlankOut::run(std::span<const double> input, int length, int first, int count) {
  const auto slots = static_cast<std::size_t>(probe_.counted().samples);
  batch_.input.clear();
  for (std::size_t slot = 0; slot < slots; ++slot)
    batch_.input.insert(batch_.input.end(), input.begin(), input.end());
  batch_.length.assign(slots, length);
  batch_.weight.assign(slots, 1.0);
  batch_.label.assign(slots, 0);
  batch_.key.assign(slots, 0);
  if (first >= 0 && !words())
    for (int slot = 0; slot < count; ++slot)
      std::ranges::copy(mean_token_, batch_.input.begin() + slot * static_cast<std::ptrdiff_t>(input.size()) +
                                         (first + slot) * static_cast<std::ptrdiff_t>(mean_token_.size()));
  probe_.embed(batch_, u_);
  embedded_ = u_;
  if (first >= 0 && words()) take_out(length, first, count);
  logits_ = probe_.forward(u_);
}

void BlankOut::take_out(int length, int first, int count) {
  for (int slot = 0; slot < count; ++slot) batch_.length[slot] = length - 1;
  probe_.embed(batch_, u_);  // for the lengths
  const int width = probe_.counted().width;
  for (int slot = 0; slot < count; ++slot)
    for (int token = 0; token + 1 < length; ++token)
      std::copy_n(at(embedded_, token < first + slot ? token : token + 1, slot), width,
                  u_.data() + (at(u_, token, slot) - u_.data()));
}

double BlankOut::change(int slot, int blank, int length) const {
  if (const int classes = probe_.spec().classes; classes > 0)
    return distance(logits_.data() + slot * classes, whole_logits_.data(), classes);
  const int width = probe_.counted().width;
  double sum = 0;
  for (int token = 0; token < length; ++token) {
    if (token == blank) continue;
    const int now = words() && token > blank ? token - 1 : token;
    const double moved = distance(at(u_, now, slot), whole_.data() + token * width, width);
    sum += moved * moved;
  }
  return std::sqrt(sum);
}

TokenEffects BlankOut::effects(std::span<const double> input, int length) {
  const auto n = static_cast<std::size_t>(length);
  TokenEffects found{std::vector(n, missing_value), std::vector(n, missing_value),
                     std::vector(n, missing_value)};
  if (length < 2) return found;
  const auto& spec = probe_.spec();
  const int width = probe_.counted().width, slots = probe_.counted().samples;
  run(input, length, -1, 0);
  whole_.clear();
  whole_input_.clear();
  for (int token = 0; token < length; ++token) {
    whole_.insert(whole_.end(), at(u_, token, 0), at(u_, token, 0) + width);
    whole_input_.insert(whole_input_.end(), at(embedded_, token, 0), at(embedded_, token, 0) + width);
  }
  whole_logits_.assign(logits_.begin(), logits_.begin() + spec.classes);
  const auto winner = std::ranges::max_element(whole_logits_) - whole_logits_.begin();
  const std::vector<double> nothing(static_cast<std::size_t>(width), 0.0);

  const bool keeps_first = spec.class_token || (spec.classes > 0 && spec.pooling == Pooling::first);
  for (int first = keeps_first ? 1 : 0; first < length; first += slots) {
    const int count = std::min(slots, length - first);
    run(input, length, first, count);
    for (int slot = 0; slot < count; ++slot) {
      const int token = first + slot;
      const auto i = static_cast<std::size_t>(token);
      found.output_change[i] = change(slot, token, length);
      if (spec.classes > 0)
        found.winning_drop[i] = whole_logits_[winner] - logits_[slot * spec.classes + winner];
      found.moved[i] = distance(whole_input_.data() + token * width,
                                words() ? nothing.data() : at(embedded_, token, slot), width);
    }
  }
  return found;
}

}  // namespace fluxformer::identifiability
