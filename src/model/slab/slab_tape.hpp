#pragma once

// What one application of the layer map leaves on its tape: per sub-layer its input, the sum that is
// normalised afterwards, and what each of its terms keeps.

#include <memory>
#include <span>
#include <vector>

#include "model/depth_model.hpp"

namespace fluxformer {

template <class T>
class SlabTape final : public Tape {
 public:
  struct Part {
    SlabTerm<T>* term;
    KeepsActivations<T>* keeping;  ///< the term again; null: it keeps nothing
    std::unique_ptr<Activations> kept;
  };
  struct SubLayer {
    std::vector<double> input;  ///< but for the first sub-layer, whose input is the caller's
    std::vector<double> sum;    ///< before normalisation, if any
    std::vector<Part> parts;    ///< one per term, in their order
  };

  /// Makes room for `count` sub-layers.
  void resize(std::size_t count) { sub_layers_.resize(count); }
  SubLayer& operator[](std::size_t index) { return sub_layers_[index]; }
  /// Makes room for what these terms keep; what is there for the same terms is used again.
  static void hold(std::span<SlabTerm<T>* const> terms, SubLayer& sub_layer);

  std::size_t bytes() const override;

 private:
  std::vector<SubLayer> sub_layers_;
};

extern template class SlabTape<float>;
extern template class SlabTape<double>;

}  // namespace fluxformer
