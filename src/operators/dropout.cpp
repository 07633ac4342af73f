#include "operators/dropout.hpp"

namespace fluxformer {

void Dropout::apply(const SlabContext& context, std::uint64_t site, double* slab) const {
  if (!active()) return;
  const auto& line = *context.line;
  const Index width = context.width;
  // What is kept is divided by 1 - rate, so that the mean over masks is the number itself.
  const double kept = 1 / (1 - rate_);
  const auto threshold = static_cast<std::uint32_t>(rate_ * 4294967296.0);
  std::vector<std::uint32_t> bits(width);
  const Index blocks = (width + 3) / 4;  // four numbers of 32 bits from each block
  for (int sample = 0; sample < context.samples; ++sample) {
    const auto stream = random_.item(keys_[sample]).item(site);
    for (int local = 0; local < line.block().count(); ++local) {
      // Keyed by the global token: the same mask on any number of ranks.
      const Index token = line.global_index(line.rank(), local);
      double* const row = slab + (Index{local} * context.samples + sample) * width;
      stream.bits(token * blocks, bits);
      // A number is dropped if its bits, as a fraction of 2^32, are below the rate.
      for (Index k = 0; k < width; ++k) row[k] *= bits[k] < threshold ? 0.0 : kept;
    }
  }
}

template <class T>
void DroppedTerm<T>::mask(double* values) const {
  // Layers l = 1, 2, ... have the sites 4 l + which; the embedding has 0.
  context_.dropout->apply(context_, 4 * layer_ + which_, values);
}

template <class T>
const double* DroppedTerm<T>::masked(const double* w, std::vector<double>& memory) const {
  if (!active()) return w;
  memory.assign(w, w + context_.size());
  mask(memory.data());
  return memory.data();
}

template <class T>
template <class Add>
void DroppedTerm<T>::add_masked(Sum sum, Add&& add) {
  if (!active()) return add(sum);
  branch_.assign(context_.size(), 0.0);
  add(add_to(branch_.data(), sum.scale));
  mask(branch_.data());
  for (Index j = 0; j < std::ssize(branch_); ++j) sum.out[j] = sum.base[j] + branch_[j];
}

template <class T>
void DroppedTerm<T>::apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape* tape) {
  add_masked(out, [&](Sum branch) { term_.apply(theta, u, branch, tape); });
}

template <class T>
void DroppedTerm<T>::push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot,
                          Point at, Sum out, TermTape* tape) {
  add_masked(out, [&](Sum branch) { term_.push(theta, theta_dot, at, branch, tape); });
}

template <class T>
void DroppedTerm<T>::pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
                          const LayerWeights<double>* gradient, TermTape* tape) {
  term_.pull(theta, u, masked(w, branch_), u_bar, gradient, tape);
}

template <class T>
void DroppedTerm<T>::pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot,
                                Point at, Cotangent w, Sum u_bar_dot,
                                const LayerWeights<double>& gradient_dot, TermTape* tape) {
  const Cotangent seed{masked(w.w, branch_), masked(w.w_dot, branch_dot_)};
  term_.pull_along(theta, theta_dot, at, seed, u_bar_dot, gradient_dot, tape);
}

template class DroppedTerm<float>;
template class DroppedTerm<double>;

}  // namespace fluxformer
