#pragma once

// The tape of one application of the layer map: of each sub-layer its input, the sum before normalisation,
// and the activations of its terms.

#include <memory>
#include <span>
#include <vector>

#include "model/depth_model.hpp"

namespace fluxformer {

/// Filled by SlabModel::map_keeping.
template <class T>
class SlabTape final : public Tape {
 public:
  /// One term of a sub-layer and what it keeps.
  struct Part {
    SlabTerm<T>* term;
    KeepsActivations<T>* keeping;  ///< the same term; null: it keeps nothing
    std::unique_ptr<TermTape> kept;
  };
  /// One line of G in docs/model.md section 2.
  struct SubLayer {
    std::vector<double> input;  ///< empty for the first sub-layer: the caller has its input
    std::vector<double> sum;    ///< before normalisation, if any
    std::vector<Part> parts;    ///< one per term, in their order
  };

  /// Makes room for `count` sub-layers.
  void resize(std::size_t count) { sub_layers_.resize(count); }
  SubLayer& operator[](std::size_t index) { return sub_layers_[index]; }
  /// Makes room for the activations of these terms, reusing that of an earlier call with the same terms.
  static void hold(std::span<SlabTerm<T>* const> terms, SubLayer& sub_layer);

  std::size_t bytes() const override;

 private:
  std::vector<SubLayer> sub_layers_;
};

extern template class SlabTape<float>;
extern template class SlabTape<double>;

}  // namespace fluxformer
