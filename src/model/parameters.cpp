#include "model/parameters.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace fluxformer {

Index ParameterView::size() const {
  return std::accumulate(shape.begin(), shape.end(), Index{1},
                         [](Index n, int extent) { return n * extent; });
}

void ParameterLayout::add(bool held, const std::string& group, const std::string& name,
                          std::vector<int> shape) {
  ParameterView view{group, name, std::move(shape), size_, whole_.views, whole_.size};
  const Index size = view.size();
  // An array counts in the model whether this share holds it or not: `place` is the same on all ranks.
  ++whole_.views;
  whole_.size += size;
  if (!held) return;
  views_.push_back(std::move(view));
  size_ += size;
}

namespace {

/// The arrays of one layer, in the order of its block.
using Arrays = std::vector<std::pair<std::string, std::vector<int>>>;

void add_norm(const ModelSpec& spec, const std::string& prefix, Arrays& arrays) {
  arrays.push_back({prefix + "gain", {spec.width}});
  if (spec.norms_have_biases()) arrays.push_back({prefix + "bias", {spec.width}});
}

void add_reaction(const ModelSpec& spec, const std::string& prefix, const std::string& its_norm,
                  Arrays& arrays) {
  const int d = spec.width, f = spec.ffn;
  add_norm(spec, prefix + its_norm + "_", arrays);
  const auto add = [&](const char* name, std::vector<int> shape) {
    arrays.push_back({prefix + name, std::move(shape)});
  };
  const bool biases = spec.reaction_has_biases();
  if (spec.gated) add("W_G", {f, d});
  if (spec.gated && biases) add("b_G", {f});
  add("W_1", {f, d});
  if (biases) add("b_1", {f});
  add("W_2", {d, f});
  if (biases) add("b_2", {d});
}

Arrays arrays_of_layer(const ModelSpec& spec) {
  const int d = spec.width, queries = spec.query_width(), keys = spec.key_width();
  Arrays arrays;
  const auto add = [&](const char* name, std::vector<int> shape) {
    arrays.push_back({name, std::move(shape)});
  };
  add_norm(spec, "norm1_", arrays);
  add("W_Q", {queries, d});
  add("W_K", {keys, d});
  add("W_V", {keys, d});
  if (spec.qkv_have_biases()) {
    add("b_Q", {queries});
    add("b_K", {keys});
    add("b_V", {keys});
  }
  add("W_O", {d, queries});
  if (spec.output_has_bias()) add("b_O", {d});
  if (spec.attention.qk_norm) {
    add("q_gain", {spec.attention.channels(d)});
    add("k_gain", {spec.attention.channels(d)});
  }
  add_reaction(spec, "", "norm2", arrays);
  if (spec.own_halves) add_reaction(spec, "half_", "norm", arrays);
  add("kappa", {spec.kappa_per_channel ? d : 1});
  if (spec.transport) add("nu", {spec.nu_per_channel ? d : 1});
  return arrays;
}

double numbers_in(const std::vector<int>& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1.0, std::multiplies<>());
}

}  // namespace

ParameterLayout::ParameterLayout(const ModelSpec& spec, const ParameterShare& share)
    : kappa_per_channel_(spec.kappa_per_channel),
      nu_per_channel_(spec.nu_per_channel),
      norm_(spec.norm_settings()),
      share_(share) {
  if (share.last_knot < 0) share_.last_knot = spec.knots - 1;
  const int d = spec.width;
  bool held = share.embedding;
  const auto add = [&](const std::string& group, const std::string& name, std::vector<int> shape) {
    this->add(held, group, name, std::move(shape));
  };
  if (spec.features > 0) {
    add("embedding", "W", {d, spec.features});
    add("embedding", "b", {d});
  }
  if (spec.class_tokens == 1) add("embedding", "class_token", {d});
  if (spec.class_tokens > 1) add("embedding", "class_token", {spec.class_tokens, d});
  if (spec.vocabulary > 0) {
    // The table of words also belongs to the rank whose head guesses words by it.
    held = share.embedding || share.words ||
           (share.head && spec.word_head.present && !spec.word_head.own_matrix);
    add("embedding", "words", {spec.vocabulary, d});
    held = share.embedding;
  }
  if (spec.segments > 0) add("embedding", "segment", {spec.segments, d});
  if (spec.tokens > 0) add("embedding", "position", {spec.tokens, d});
  const auto norm = [&](const std::string& group, const std::string& prefix) {
    Arrays arrays;
    add_norm(spec, prefix, arrays);
    for (auto& [name, shape] : arrays) add(group, name, std::move(shape));
  };
  if (spec.embedding_norm) norm("embedding", "norm_");
  // One block per knot, all of the same layout.
  const auto arrays = arrays_of_layer(spec);
  Index norm_of_attention = 0;
  std::map<std::string, Index> places;
  for (const auto& [name, shape] : arrays) {
    places[name] = block_size_;
    block_size_ += static_cast<Index>(numbers_in(shape));
    if (name == "norm1_gain" || name == "norm1_bias") norm_of_attention = block_size_;
  }
  set_places(places, spec.own_halves);
  if (spec.first_norm || share_.first_knot > 0) norm_of_attention = 0;
  // A first layer without norm overlaps what is in front of it; a share with nothing there has room that belongs
  // to no array.
  layers_begin_ = size_ = std::max(size_, norm_of_attention);
  first_block_ = layers_begin_ - norm_of_attention;
  for (int knot = 1; knot <= spec.knots; ++knot) {
    held = knot - 1 >= share_.first_knot && knot - 1 <= share_.last_knot;
    const bool no_norm = knot == 1 && !spec.first_norm;
    for (const auto& [name, shape] : arrays)
      if (!no_norm || !name.starts_with("norm1_")) add("layers/" + std::to_string(knot), name, shape);
  }
  held = share.head;
  if (spec.has_final_norm()) norm("final_norm", "");
  const auto transform = [&](const std::string& group, const HeadTransform& which) {
    if (!which.present) return;
    add(group, "transform_W", {d, d});
    if (which.bias) add(group, "transform_b", {d});
    if (which.norm) norm(group, "norm_");
  };
  if (spec.classes > 0) {
    transform("head", spec.head_transform);
    add("head", "W", {spec.classes, spec.pooled_tokens() * d});
    if (spec.head_bias) add("head", "b", {spec.classes});
  }
  if (spec.word_head.present) {
    transform("word_head", spec.word_head.transform);
    if (spec.word_head.own_matrix) add("word_head", "W", {spec.vocabulary, d});
    if (spec.word_head.bias) add("word_head", "b", {spec.vocabulary});
  }
  // Every cell reads alpha and rho: they are in every share.
  alpha_ = size_;
  held = true;
  add("equation", "alpha", {1});
  add("equation", "rho", {1});
}

void ParameterLayout::set_places(const std::map<std::string, Index>& places, bool own_halves) {
  const auto place = [&](const std::string& name) {
    const auto found = places.find(name);
    return found != places.end() ? found->second : nowhere;
  };
  attention_ = {.gain = place("norm1_gain"),
                .bias = place("norm1_bias"),
                .w_qkv = place("W_Q"),  // W_Q, W_K and W_V follow one another
                .b_qkv = place("b_Q"),
                .w_o = place("W_O"),
                .b_o = place("b_O"),
                .q_gain = place("q_gain"),
                .k_gain = place("k_gain")};
  const auto reaction = [&](const std::string& prefix, const std::string& its_norm) {
    return ReactionPlaces{.gain = place(prefix + its_norm + "_gain"),
                          .bias = place(prefix + its_norm + "_bias"),
                          .w_g = place(prefix + "W_G"),
                          .b_g = place(prefix + "b_G"),
                          .w_1 = place(prefix + "W_1"),
                          .b_1 = place(prefix + "b_1"),
                          .w_2 = place(prefix + "W_2"),
                          .b_2 = place(prefix + "b_2")};
  };
  reaction_ = reaction("", "norm2");
  first_reaction_ = own_halves ? reaction("half_", "norm") : reaction_;
  kappa_ = place("kappa");
  nu_ = place("nu");
}

double parameter_count(const ModelSpec& spec, const ParameterShare& share) {
  const double d = spec.width;
  // The same arrays as in the constructor, counted in double.
  double block = 0;
  for (const auto& [name, shape] : arrays_of_layer(spec)) block += numbers_in(shape);
  const double norm = spec.norms_have_biases() ? 2 * d : d;
  const auto only = [](bool there, double count) { return there ? count : 0.0; };
  const double words = d * spec.vocabulary;
  const double embedding = only(spec.features > 0, d * spec.features + d) + d * spec.class_tokens + words +
                           d * spec.segments + d * spec.tokens + only(spec.embedding_norm, norm);
  const auto transform = [&](const HeadTransform& t) {
    return only(t.present, d * d + only(t.bias, d) + only(t.norm, norm));
  };
  const double head =
      only(spec.has_final_norm(), norm) +
      only(spec.classes > 0, spec.classes * (spec.pooled_tokens() * d + only(spec.head_bias, 1)) +
                                 transform(spec.head_transform)) +
      only(spec.word_head.present,
           spec.vocabulary * (only(spec.word_head.own_matrix, d) + only(spec.word_head.bias, 1)) +
               transform(spec.word_head.transform));
  const double knots =
      share.last_knot < 0 ? spec.knots - share.first_knot : share.last_knot + 1.0 - share.first_knot;
  const bool guesses_by_words =
      share.words || (share.head && spec.word_head.present && !spec.word_head.own_matrix);
  const double missing = only(!spec.first_norm && share.first_knot == 0, norm);
  return (share.embedding ? embedding : only(guesses_by_words, words)) + block * knots - missing +
         only(share.head, head) + 2;
}

namespace {

/// view.path() == path, without making it.
bool is_at(const ParameterView& view, const std::string& path) {
  const Index group = view.group.size();
  return path.size() == group + 1 + view.name.size() && path[group] == '/' && path.starts_with(view.group) &&
         path.ends_with(view.name);
}

}  // namespace

bool ParameterLayout::has(const std::string& path) const {
  return std::any_of(views_.begin(), views_.end(), [&](const auto& view) { return is_at(view, path); });
}

const ParameterView& ParameterLayout::at(const std::string& path) const {
  for (const auto& view : views_)
    if (is_at(view, path)) return view;
  throw std::out_of_range("no parameter " + path);
}

template <class P>
LayerWeights<P> ParameterLayout::layer(P* block, Coefficient<P>* coefficients,
                                       Coefficient<P>* alpha_rho) const {
  const auto array = [&](Index place) -> P* { return place != nowhere ? block + place : nullptr; };
  LayerWeights<P> w;
  w.attention = {.gain = array(attention_.gain),
                 .bias = array(attention_.bias),
                 .w_qkv = array(attention_.w_qkv),
                 .b_qkv = array(attention_.b_qkv),
                 .w_o = array(attention_.w_o),
                 .b_o = array(attention_.b_o),
                 .q_gain = array(attention_.q_gain),
                 .k_gain = array(attention_.k_gain),
                 .alpha = alpha_rho,
                 .norm = norm_};
  const auto reaction = [&](const ReactionPlaces& of) {
    return ReactionWeights<P>{.gain = array(of.gain),
                              .bias = array(of.bias),
                              .w_g = array(of.w_g),
                              .b_g = array(of.b_g),
                              .w_1 = array(of.w_1),
                              .b_1 = array(of.b_1),
                              .w_2 = array(of.w_2),
                              .b_2 = array(of.b_2),
                              .rho = alpha_rho + 1,
                              .norm = norm_};
  };
  w.reaction = reaction(reaction_);
  w.first_reaction = reaction(first_reaction_);
  w.diffusion = {coefficients + kappa_, kappa_per_channel_};
  if (nu_ != nowhere) w.transport = {coefficients + nu_, nu_per_channel_};
  return w;
}
template LayerWeights<double> ParameterLayout::layer(double*, double*, double*) const;
template LayerWeights<const double> ParameterLayout::layer(const double*, const double*, const double*) const;
template LayerWeights<const float> ParameterLayout::layer(const float*, const double*, const double*) const;

std::span<double> Parameters::view(const std::string& path) {
  const auto& v = layout.at(path);
  return std::span(values).subspan(v.offset, v.size());
}
std::span<const double> Parameters::view(const std::string& path) const {
  const auto& v = layout.at(path);
  return std::span(values).subspan(v.offset, v.size());
}

std::span<const double> ParameterVector::view(const std::string& path) const {
  const auto& v = layout.at(path);
  return values.subspan(v.offset, v.size());
}

}  // namespace fluxformer
