#include "model/slab/slab_terms.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/error.hpp"

namespace fluxformer {
namespace {

ReactionSettings reaction_of(const ModelSpec& spec, bool first_half) {
  return {spec.ffn, spec.activation, spec.norm == Norm::pre, first_half};
}

}  // namespace

KappaRange::KappaRange(const Parameters& parameters)
    : least(std::numeric_limits<double>::infinity()), largest(0) {
  for (int knot = parameters.layout.first_knot(); knot <= parameters.layout.last_knot(); ++knot)
    for (const double kappa : parameters.view("layers/" + std::to_string(knot + 1) + "/kappa")) {
      if (!(kappa >= 0)) throw BadInput("equation.kappa = " + std::to_string(kappa) + ": must be >= 0");
      least = std::min(least, kappa);
      largest = std::max(largest, kappa);
    }
}

template <class T>
SlabTerms<T>::SlabTerms(const ModelSpec& spec, const SlabContext& context, const int& layer,
                        Operands operands)
    : spec_(spec),
      context_(context),
      layer_(layer),
      attention_(context, spec.attention, operands),
      reaction_(context, reaction_of(spec, false), operands),
      first_reaction_(context, reaction_of(spec, true), operands) {
  if (!context.mask.causal) diffusion_ = std::make_unique<TokenDiffusion<T>>(context);
}

template <class T>
SlabTerm<T>* SlabTerms<T>::dropped(SlabTerm<T>& term, Index which) {
  if (context_.dropout == nullptr) return &term;
  // Numbers of the masks within a layer: 0 attention, 1 reaction, 2 the first half of macaron.
  auto& place = dropped_[which];
  if (place == nullptr) place = std::make_unique<DroppedTerm<T>>(term, context_, layer_, which);
  return place.get();
}

template <class T>
SlabTerm<T>* SlabTerms<T>::term(FieldTermKind part) {
  switch (part) {
    case FieldTermKind::diffusion:
      return diffusion_.get();
    case FieldTermKind::attention:
      return dropped(attention_, 0);
    case FieldTermKind::reaction:
      return dropped(reaction_, 1);
  }
  throw std::logic_error("unknown part of the field");
}

template <class T>
std::vector<SubLayer<T>> SlabTerms<T>::compose(double largest_kappa) {
  if (largest_kappa > 0 && diffusion_ == nullptr)
    throw BadInput(
        "attention.causal = on needs equation.kappa = 0: diffusion would carry information from later to "
        "earlier tokens");
  const bool post = spec_.norm == Norm::post, sphere = spec_.norm == Norm::sphere;
  const auto after = [&](After norm) { return post ? norm : sphere ? After::sphere : After::nothing; };
  // The lines of G in docs/model.md, section 2, with `mixing` = kappa Lap u + alpha A(u). The normalisation
  // after a sub-layer, N, is the identity for the norms pre and none; without residual the first u, v or w of
  // each line is missing.
  std::vector<SlabTerm<T>*> mixing;
  if (largest_kappa > 0) mixing.push_back(diffusion_.get());
  mixing.push_back(term(FieldTermKind::attention));
  switch (spec_.order) {
    case SubLayerOrder::sequential:
      // v = N(u + h (kappa Lap u + alpha A(u))),  G = N(v + h rho R(v))
      return {{mixing, 1.0, after(After::attention_norm)},
              {{term(FieldTermKind::reaction)}, 1.0, after(After::reaction_norm)}};
    case SubLayerOrder::parallel:
      // G = N(u + h (kappa Lap u + alpha A(u) + rho R(u)))
      mixing.push_back(term(FieldTermKind::reaction));
      return {{mixing, 1.0, after(After::attention_norm)}};
    case SubLayerOrder::macaron:
      // v = N(u + h/2 rho R(u)),  w = N(v + h (kappa Lap v + alpha A(v))),  G = N(w + h/2 rho R(w))
      return {{{dropped(first_reaction_, 2)}, 0.5, after(After::half_norm)},
              {mixing, 1.0, after(After::attention_norm)},
              {{term(FieldTermKind::reaction)}, 0.5, after(After::reaction_norm)}};
  }
  throw std::logic_error("unknown order of sub-layers");
}

template class SlabTerms<float>;
template class SlabTerms<double>;

}  // namespace fluxformer
