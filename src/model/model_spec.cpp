#include "model/model_spec.hpp"

#include <array>
#include <utility>

#include "base/error.hpp"

namespace fluxformer {
namespace {

template <class E>
struct Words;
template <class E, std::size_t n>
using WordList = std::array<std::pair<E, const char*>, n>;

template <>
struct Words<ModelKind> {
  static constexpr WordList<ModelKind, 2> list{
      {{ModelKind::transformer, "transformer"}, {ModelKind::pde, "pde"}}};
};
template <>
struct Words<DepthVariation> {
  static constexpr WordList<DepthVariation, 2> list{
      {{DepthVariation::constant, "constant"}, {DepthVariation::linear, "linear"}}};
};
template <>
struct Words<Norm> {
  static constexpr WordList<Norm, 4> list{
      {{Norm::pre, "pre"}, {Norm::post, "post"}, {Norm::sphere, "sphere"}, {Norm::none, "none"}}};
};
template <>
struct Words<SubLayerOrder> {
  static constexpr WordList<SubLayerOrder, 3> list{{{SubLayerOrder::sequential, "sequential"},
                                                    {SubLayerOrder::parallel, "parallel"},
                                                    {SubLayerOrder::macaron, "macaron"}}};
};
template <>
struct Words<SubLayerIntegrator> {
  static constexpr WordList<SubLayerIntegrator, 2> list{
      {{SubLayerIntegrator::euler, "euler"}, {SubLayerIntegrator::midpoint, "midpoint"}}};
};
template <>
struct Words<DepthScheme> {
  static constexpr WordList<DepthScheme, 3> list{
      {{DepthScheme::shift, "shift"}, {DepthScheme::upwind, "upwind"}, {DepthScheme::upwind2, "upwind2"}}};
};
template <>
struct Words<Activation> {
  static constexpr WordList<Activation, 3> list{
      {{Activation::gelu_erf, "gelu_erf"}, {Activation::gelu_tanh, "gelu_tanh"}, {Activation::relu, "relu"}}};
};
template <>
struct Words<Kernel> {
  static constexpr WordList<Kernel, 2> list{{{Kernel::dot, "dot"}, {Kernel::l2, "l2"}}};
};
template <>
struct Words<Normalisation> {
  static constexpr WordList<Normalisation, 3> list{{{Normalisation::softmax, "softmax"},
                                                    {Normalisation::sinkhorn, "sinkhorn"},
                                                    {Normalisation::linear, "linear"}}};
};

template <>
struct Words<Pooling> {
  static constexpr WordList<Pooling, 4> list{{{Pooling::mean, "mean"},
                                              {Pooling::first, "first"},
                                              {Pooling::last, "last"},
                                              {Pooling::front, "front"}}};
};
template <>
struct Words<HeadActivation> {
  static constexpr WordList<HeadActivation, 5> list{{{HeadActivation::none, "none"},
                                                     {HeadActivation::tanh, "tanh"},
                                                     {HeadActivation::relu, "relu"},
                                                     {HeadActivation::gelu_erf, "gelu_erf"},
                                                     {HeadActivation::gelu_tanh, "gelu_tanh"}}};
};

void require(bool ok, const std::string& why) {
  if (!ok) throw BadInput(why);
}

}  // namespace

template <class E>
std::string to_word(E value) {
  for (const auto& [known, word] : Words<E>::list)
    if (known == value) return word;
  return "?";
}

template <class E>
E from_word(const std::string& word) {
  std::string allowed;
  for (const auto& [value, known] : Words<E>::list) {
    if (word == known) return value;
    allowed += (allowed.empty() ? "" : ", ") + std::string(known);
  }
  throw BadInput("'" + word + "' is not one of: " + allowed);
}

template std::string to_word(ModelKind);
template std::string to_word(DepthVariation);
template std::string to_word(Norm);
template std::string to_word(SubLayerOrder);
template std::string to_word(SubLayerIntegrator);
template std::string to_word(DepthScheme);
template std::string to_word(Activation);
template std::string to_word(Kernel);
template std::string to_word(Normalisation);
template std::string to_word(Pooling);
template std::string to_word(HeadActivation);
template ModelKind from_word(const std::string&);
template DepthVariation from_word(const std::string&);
template Norm from_word(const std::string&);
template SubLayerOrder from_word(const std::string&);
template SubLayerIntegrator from_word(const std::string&);
template DepthScheme from_word(const std::string&);
template Activation from_word(const std::string&);
template Kernel from_word(const std::string&);
template Normalisation from_word(const std::string&);
template Pooling from_word(const std::string&);
template HeadActivation from_word(const std::string&);

void ModelSpec::validate() const {
  require(attention.heads >= 1 && width % attention.heads == 0,
          "attention.heads = " + std::to_string(attention.heads) +
              ": must divide model.width = " + std::to_string(width));
  require(variation == DepthVariation::linear || knots == layers,
          "model.knots = " + std::to_string(knots) + ": constant weights have one set per layer, " +
              std::to_string(layers) + " (mesh.layers)");
  require(attention.layer_norm == (norm == Norm::pre),
          "depth.norm: LayerNorm stands inside attention for norm = pre and only then");
  require(residual || norm != Norm::sphere || order != SubLayerOrder::macaron,
          "depth.residual = off is not defined for depth.norm = sphere with depth.order = macaron");
  require(features == 0 || vocabulary == 0, "tokens are either numbers or words, not both");
  require(norm_eps > 0, "the eps of LayerNorm must be greater than 0");
  require(segments == 0 || vocabulary > 0, "segments belong to tokens that are words");
  require(class_tokens == 0 || features > 0, "a class token belongs to tokens that are numbers");
  require(tokens == 0 || tokens >= class_tokens, std::to_string(class_tokens) +
                                                     " class tokens need as many positions, and there are " +
                                                     std::to_string(tokens));
  require(pooling != Pooling::front || (class_tokens > 0 && !head_transform.present),
          "pooling = front needs class tokens, and has no dense map in front of the classifier");
  require(
      pad_word < 0 || pad_word < vocabulary,
      "pad_word = " + std::to_string(pad_word) + ": the model has " + std::to_string(vocabulary) + " words");
  require(!word_head.present || vocabulary > 0, "a word head belongs to tokens that are words");
  require(!own_halves || order == SubLayerOrder::macaron, "depth.halves = own needs depth.order = macaron");
}

}  // namespace fluxformer
