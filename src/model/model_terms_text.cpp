// How the model's terms are written: coefficients, sub-layers and the place of normalisation.

#include <string_view>

#include "model/model_terms.hpp"

namespace fluxformer {
namespace {

constexpr std::string_view laplacian_text = "Lap: Laplacian over tokens";
constexpr std::string_view reaction_text = "R: feed-forward network";

std::string_view attention_text(const ModelSpec& spec) {
  return spec.attention.normalisation == Normalisation::linear
             ? "A: self-attention over the tokens, linear (no soft-max)"
             : "A: self-attention over the tokens";
}

std::string kappa_text(const EquationCoefficients& of) {
  const auto least = value_text("kappa", of.least_kappa), largest = value_text("kappa", of.largest_kappa);
  return least == largest ? least : least + " .. " + largest.substr(std::string("kappa = ").size());
}

/// What normalises the input of attention and reaction (pre) or the state after each sub-layer; "": nothing.
std::string_view normalisation_text(Norm norm) {
  switch (norm) {
    case Norm::pre:
    case Norm::post:
      return "N: LayerNorm over channels";
    case Norm::sphere:
      return "P: projection to the unit sphere";
    case Norm::none:
      break;
  }
  return "";
}

/// The argument of attention and reaction: "N(u)" where they normalise it, else "u".
std::string inside(const ModelSpec& spec, const std::string& u) {
  return spec.norm == Norm::pre ? "N(" + u + ")" : u;
}

/// "alpha A(N(u))", with the token diffusion before it, if there is any.
std::string mixing(const ModelSpec& spec, bool diffusion, const std::string& u) {
  return (diffusion ? "kappa Lap " + u + " + " : "") + "alpha A(" + inside(spec, u) + ")";
}

std::string reaction(const ModelSpec& spec, const std::string& u) {
  return "rho R(" + inside(spec, u) + ")";
}

/// One sub-layer: "v = u + h (one + other)", normalised afterwards where the model does.
std::string sub_layer(const ModelSpec& spec, const std::string& to, const std::string& from,
                      const std::string& step, const std::string& flow) {
  const bool several = flow.find(" + ") != std::string::npos;
  const std::string change = step + " " + (several ? "(" + flow + ")" : flow);
  const std::string sum = spec.residual ? from + " + " + change : change;
  const bool post = spec.norm == Norm::post, sphere = spec.norm == Norm::sphere;
  return to + " = " + (post ? "N(" + sum + ")" : sphere ? "P(" + sum + ")" : sum);
}

std::string layer_map_text(const ModelSpec& spec, bool diffusion) {
  std::string text = "G(u; h): ";
  switch (spec.order) {
    case SubLayerOrder::sequential:
      text += sub_layer(spec, "v", "u", "h", mixing(spec, diffusion, "u")) + ", " +
              sub_layer(spec, "G", "v", "h", reaction(spec, "v"));
      break;
    case SubLayerOrder::parallel:
      text += sub_layer(spec, "G", "u", "h", mixing(spec, diffusion, "u") + " + " + reaction(spec, "u"));
      break;
    case SubLayerOrder::macaron:
      text += sub_layer(spec, "v", "u", "h/2", reaction(spec, "u")) + ", " +
              sub_layer(spec, "w", "v", "h", mixing(spec, diffusion, "v")) + ", " +
              sub_layer(spec, "G", "w", "h/2", reaction(spec, "w"));
      break;
  }
  return text + (spec.subflow == SubLayerIntegrator::midpoint ? ", each by the midpoint rule" : "");
}

/// "alpha A_i(N(u_i))"; on the sphere projected to the tangent space.
TermText field_text(const ModelSpec& spec, const std::string& factor, const std::string& name, double value,
                    std::string_view meaning) {
  const bool sphere = spec.norm == Norm::sphere;
  const std::string part = factor + " " + name + "_i(" + inside(spec, "u_i") + ")";
  TermText text{sphere ? "P_i " + part : part, {value_text(factor, value)}};
  text.definitions.emplace_back(meaning);
  if (sphere) text.definitions.emplace_back("P_i: projection to the tangent space of the sphere at u_i");
  if (spec.norm == Norm::pre) text.definitions.emplace_back(normalisation_text(spec.norm));
  return text;
}

}  // namespace

TermText LayerTerm::text() const {
  const auto& spec = model_.spec();
  const auto of = model_.coefficients();
  const bool diffusion = of.largest_kappa > 0;
  TermText text{"(c/h)(G_i(u_{i-1}; h/c) - u_i)",
                {value_text("c", speed_), value_text("h", depth_.spacing())},
                {layer_map_text(spec, diffusion)}};
  if (diffusion) {
    text.values.push_back(kappa_text(of));
    text.definitions.emplace_back(laplacian_text);
  }
  text.values.push_back(value_text("alpha", of.alpha));
  text.values.push_back(value_text("rho", of.rho));
  for (const auto line : {attention_text(spec), reaction_text}) text.definitions.emplace_back(line);
  const auto normalisation = normalisation_text(spec.norm);
  if (!normalisation.empty()) text.definitions.emplace_back(normalisation);
  return text;
}

TermText TokenDiffusionTerm::text() const {
  TermText text{"kappa Lap u_i", {kappa_text(model_.coefficients())}};
  text.definitions.emplace_back(laplacian_text);
  return text;
}

TermText AttentionTerm::text() const {
  return field_text(model_.spec(), "alpha", "A", model_.coefficients().alpha, attention_text(model_.spec()));
}

TermText ReactionTerm::text() const {
  return field_text(model_.spec(), "rho", "R", model_.coefficients().rho, reaction_text);
}

}  // namespace fluxformer
