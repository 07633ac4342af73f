#include "model/slab/slab_tape.hpp"

#include <algorithm>

namespace fluxformer {

template <class T>
void SlabTape<T>::hold(std::span<SlabTerm<T>* const> terms, SubLayer& sub_layer) {
  const auto same = [](const Part& part, const SlabTerm<T>* term) { return part.term == term; };
  if (std::ranges::equal(sub_layer.parts, terms, same)) return;
  sub_layer.parts.clear();
  for (auto* const term : terms) {
    auto* const keeping = dynamic_cast<KeepsActivations<T>*>(term);
    sub_layer.parts.push_back({term, keeping, keeping != nullptr ? keeping->make_activations() : nullptr});
  }
}

template <class T>
std::size_t SlabTape<T>::bytes() const {
  std::size_t total = 0;
  for (const auto& sub : sub_layers_) {
    total += (sub.input.capacity() + sub.sum.capacity()) * sizeof(double);
    for (const auto& part : sub.parts) total += part.kept != nullptr ? part.kept->bytes() : 0;
  }
  return total;
}

template class SlabTape<float>;
template class SlabTape<double>;

}  // namespace fluxformer
