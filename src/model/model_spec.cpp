#include "model/model_spec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
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
  static constexpr WordList<Activation, 4> list{{{Activation::gelu_erf, "gelu_erf"},
                                                 {Activation::gelu_tanh, "gelu_tanh"},
                                                 {Activation::relu, "relu"},
                                                 {Activation::silu, "silu"}}};
};
template <>
struct Words<NormMap> {
  static constexpr WordList<NormMap, 2> list{{{NormMap::layer, "layer"}, {NormMap::rms, "rms"}}};
};
template <>
struct Words<Biases> {
  static constexpr WordList<Biases, 5> list{{{Biases::all, "all"},
                                             {Biases::qkv, "qkv"},
                                             {Biases::attention, "attention"},
                                             {Biases::reaction, "reaction"},
                                             {Biases::none, "none"}}};
};
template <>
struct Words<RotaryLayout> {
  static constexpr WordList<RotaryLayout, 3> list{{{RotaryLayout::none, "none"},
                                                   {RotaryLayout::half, "half"},
                                                   {RotaryLayout::interleaved, "interleaved"}}};
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

void require_rotary(const ModelSpec& spec) {
  const auto& [layout, channels, scale] = spec.attention.rotary;
  if (layout == RotaryLayout::none) {
    require(spec.rotary.theta.empty() && spec.rotary.table.empty(),
            "rotary angles need attention.rotary = half or interleaved");
    return;
  }
  const int c = spec.attention.channels(spec.width);
  require(channels >= 2 && channels % 2 == 0 && channels <= c,
          "attention.rotary turns " + std::to_string(channels) + " of the " + std::to_string(c) +
              " channels of a head: their number must be even, at least 2 and at most that of the head");
  require(scale > 0 && std::isfinite(scale), "rotary_scale must be greater than 0");
  const auto pairs = channels / 2;
  const auto tables = std::ssize(spec.rotary.theta) / pairs;
  require(tables > 0 && tables * pairs == std::ssize(spec.rotary.theta) &&
              std::cmp_equal(spec.rotary.table.size(), spec.layers),
          "rotary positions need angles for each pair of channels, and a table for each layer");
  for (const int table : spec.rotary.table)
    require(table >= 0 && table < tables, "rotary/table = " + std::to_string(table) + ": there are " +
                                              std::to_string(tables) + " tables, counted from 0");
  for (const double theta : spec.rotary.theta)
    require(std::isfinite(theta), "rotary/theta holds numbers that are not finite");
  require(spec.features == 0,
          "attention.rotary: tokens of images have no order; it needs tokens that are words");
}

bool all_equal(const std::vector<int>& numbers) {
  return std::ranges::all_of(numbers, [&](int n) { return n == numbers.front(); });
}

void require_attention(const ModelSpec& spec) {
  const auto& attention = spec.attention;
  const auto heads = std::to_string(attention.heads);
  require(attention.heads >= 1 && (attention.head_width > 0 || spec.width % attention.heads == 0),
          "attention.heads = " + heads + ": must divide model.width = " + std::to_string(spec.width) +
              " unless attention.head_width is given");
  require(
      attention.key_groups() >= 1 && attention.heads % attention.key_groups() == 0,
      "attention.groups = " + std::to_string(attention.groups) + ": must divide attention.heads = " + heads);
  require(!attention.qk_norm || attention.kernel == Kernel::dot,
          "attention.qk_norm needs attention.kernel = dot");
  require_rotary(spec);
  require(spec.windows.empty() || std::cmp_equal(spec.windows.size(), spec.layers),
          "window: needs a number for each layer");
  for (const int window : spec.windows) require(window >= 0, "attention.window must be 0 or more");
  const bool windowed = std::ranges::any_of(spec.windows, [](int window) { return window > 0; });
  require(!windowed || attention.normalisation != Normalisation::sinkhorn,
          "attention.window cannot be used with attention.normalisation = sinkhorn");
  require(
      spec.variation == DepthVariation::constant || (all_equal(spec.windows) && all_equal(spec.rotary.table)),
      "depth.weights = linear: windows and rotary angles must be the same in all layers");
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
template std::string to_word(NormMap);
template std::string to_word(Biases);
template std::string to_word(RotaryLayout);
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
template NormMap from_word(const std::string&);
template Biases from_word(const std::string&);
template RotaryLayout from_word(const std::string&);
template Kernel from_word(const std::string&);
template Normalisation from_word(const std::string&);
template Pooling from_word(const std::string&);
template HeadActivation from_word(const std::string&);

void ModelSpec::validate() const {
  require_attention(*this);
  require(variation == DepthVariation::linear || knots == layers,
          "model.knots = " + std::to_string(knots) + ": constant weights have one set per layer, " +
              std::to_string(layers) + " (mesh.layers)");
  require(attention.layer_norm == (norm == Norm::pre),
          "depth.norm: LayerNorm stands inside attention for norm = pre and only then");
  require(residual || norm != Norm::sphere || order != SubLayerOrder::macaron,
          "depth.residual = off is not defined for depth.norm = sphere with depth.order = macaron");
  require(features == 0 || vocabulary == 0, "tokens are either numbers or words, not both");
  require(norm_eps > 0 || (norm_eps == 0 && norm_map == NormMap::rms),
          "the eps of LayerNorm must be greater than 0, that of RMSNorm 0 or more");
  require(norm_map == NormMap::layer || norm == Norm::pre || norm == Norm::post,
          "depth.norm_map = rms: norms are used with depth.norm = pre or post");
  require(first_norm ||
              (norm == Norm::pre && variation == DepthVariation::constant && order != SubLayerOrder::macaron),
          "first_norm = off needs depth.norm = pre, weights that are constant in each layer, and no macaron");
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
