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
const double* DroppedTerm<T>::masked(const double* w) {
  branch_.assign(w, w + context_.size());
  mask(branch_.data());
  return branch_.data();
}

template <class T>
double* DroppedTerm<T>::fresh_branch() {
  branch_.assign(context_.size(), 0.0);
  return branch_.data();
}

template <class T>
void DroppedTerm<T>::add_rhs(const LayerWeights<const T>& weights, const double* u, double scale,
                             double* out) {
  if (!active()) return term_.add_rhs(weights, u, scale, out);
  // out += D scale A(u), with the mask D
  double* const value = fresh_branch();
  term_.add_rhs(weights, u, scale, value);
  mask(value);
  for (Index j = 0; j < std::ssize(branch_); ++j) out[j] += value[j];
}

template <class T>
void DroppedTerm<T>::add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v,
                                 double scale, double* out) {
  if (!active()) return term_.add_tangent(weights, u, v, scale, out);
  // out += D scale J v
  double* const value = fresh_branch();
  term_.add_tangent(weights, u, v, scale, value);
  mask(value);
  for (Index j = 0; j < std::ssize(branch_); ++j) out[j] += value[j];
}

template <class T>
void DroppedTerm<T>::add_adjoint(const LayerWeights<const T>& weights, const double* u, const double* w,
                                 double scale, double* u_bar, const LayerWeights<double>* gradient) {
  // u_bar += scale J^T D w, and the gradient likewise
  term_.add_adjoint(weights, u, active() ? masked(w) : w, scale, u_bar, gradient);
}

template <class T>
void DroppedTerm<T>::set_rhs_keeping(const LayerWeights<const T>& weights, const double* u, double scale,
                                     const double* base, double* out, TermTape& kept) {
  if (!active()) return keeping_.set_rhs_keeping(weights, u, scale, base, out, kept);
  // out = base + D scale A(u): the activations kept are those of A.
  double* const value = fresh_branch();
  keeping_.set_rhs_keeping(weights, u, scale, value, value, kept);
  mask(value);
  for (Index j = 0; j < std::ssize(branch_); ++j) out[j] = base[j] + value[j];
}

template <class T>
void DroppedTerm<T>::set_tangent_kept(const LayerWeights<const T>& weights, const double* u, const double* v,
                                      double scale, const double* base, double* out, TermTape& kept) {
  if (!active()) return keeping_.set_tangent_kept(weights, u, v, scale, base, out, kept);
  double* const value = fresh_branch();
  keeping_.set_tangent_kept(weights, u, v, scale, value, value, kept);
  mask(value);
  for (Index j = 0; j < std::ssize(branch_); ++j) out[j] = base[j] + value[j];
}

template <class T>
void DroppedTerm<T>::set_adjoint_kept(const LayerWeights<const T>& weights, const double* u, const double* w,
                                      double scale, const double* base, double* u_bar,
                                      const LayerWeights<double>* gradient, TermTape& kept) {
  keeping_.set_adjoint_kept(weights, u, active() ? masked(w) : w, scale, base, u_bar, gradient, kept);
}

template class DroppedTerm<float>;
template class DroppedTerm<double>;

}  // namespace fluxformer
