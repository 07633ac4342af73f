#pragma once

// The terms of one layer and the order in which they act: docs/model.md section 2 as a list of sub-layers.

#include <array>
#include <memory>
#include <vector>

#include "base/index.hpp"
#include "model/depth_model.hpp"
#include "model/parameters.hpp"
#include "operators/attention/attention.hpp"
#include "operators/dropout.hpp"
#include "operators/reaction/reaction.hpp"
#include "operators/token_diffusion.hpp"

namespace fluxformer {

/// The normalisation after a sub-layer: the LayerNorm of attention, of the reaction or of the first half
/// step, or the projection to the sphere.
enum class After { nothing, attention_norm, reaction_norm, half_norm, sphere };

/// A sub-layer: v = normalise(residual * u + fraction * h * (sum of terms)(u)).
template <class T>
struct SubLayer {
  std::vector<SlabTerm<T>*> terms;
  double fraction;
  After after;
};

/// The terms of a model on one slab, which it owns, and their order.
template <class T>
class SlabTerms {
 public:
  /// `spec` and `context` are borrowed, as is `layer`, the number of the present layer (for dropout). Throws
  /// BadInput as the terms do.
  SlabTerms(const ModelSpec& spec, const SlabContext& context, const int& layer,
            Operands operands = Operands::exact);

  /// The sub-layers in their order; token diffusion takes part where `largest_kappa` is positive. Throws
  /// BadInput for token diffusion with a causal mask.
  std::vector<SubLayer<T>> compose(double largest_kappa);
  /// The term of this kind; null for token diffusion with a causal mask.
  SlabTerm<T>* term(FieldTermKind part);
  /// The token diffusion; null with a causal mask.
  TokenDiffusion<T>* diffusion() { return diffusion_.get(); }
  Attention<T>& attention() { return attention_; }

 private:
  /// The term under the dropout of the context, or the term itself without dropout.
  SlabTerm<T>* dropped(SlabTerm<T>& term, Index which);

  const ModelSpec& spec_;
  const SlabContext& context_;
  const int& layer_;
  std::unique_ptr<TokenDiffusion<T>> diffusion_;
  Attention<T> attention_;
  Reaction<T> reaction_, first_reaction_;
  std::array<std::unique_ptr<DroppedTerm<T>>, 3> dropped_;
};

/// The largest and smallest kappa of a model over knots and channels.
struct KappaRange {
  /// Throws BadInput for a negative kappa.
  explicit KappaRange(const Parameters& parameters);
  double least, largest;
};

extern template class SlabTerms<float>;
extern template class SlabTerms<double>;

}  // namespace fluxformer
