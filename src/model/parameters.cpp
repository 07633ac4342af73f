#include "model/parameters.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

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

ParameterLayout::ParameterLayout(const ModelSpec& spec, const ParameterShare& share)
    : own_halves_(spec.own_halves),
      kappa_per_channel_(spec.kappa_per_channel),
      norm_eps_(spec.norm_eps),
      share_(share) {
  if (share.last_knot < 0) share_.last_knot = spec.knots - 1;
  const int d = spec.width, f = spec.ffn;
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
    add(group, prefix + "gain", {d});
    add(group, prefix + "bias", {d});
  };
  if (spec.embedding_norm) norm("embedding", "norm_");
  // One block per knot, all of the same layout.
  first_block_ = size_;
  first_block_view_ = views_.size();
  const auto reaction = [&](const std::string& group, const std::string& prefix,
                            const std::string& its_norm) {
    norm(group, prefix + its_norm + "_");
    add(group, prefix + "W_1", {f, d});
    add(group, prefix + "b_1", {f});
    add(group, prefix + "W_2", {d, f});
    add(group, prefix + "b_2", {d});
  };
  for (int knot = 1; knot <= spec.knots; ++knot) {
    const std::string group = "layers/" + std::to_string(knot);
    held = knot - 1 >= share_.first_knot && knot - 1 <= share_.last_knot;
    const Index before = whole_.size;
    norm(group, "norm1_");
    for (const char* name : {"W_Q", "W_K", "W_V"}) add(group, name, {d, d});
    for (const char* name : {"b_Q", "b_K", "b_V"}) add(group, name, {d});
    add(group, "W_O", {d, d});
    add(group, "b_O", {d});
    reaction(group, "", "norm2");
    if (own_halves_) reaction(group, "half_", "norm");
    add(group, "kappa", {kappa_per_channel_ ? d : 1});
    block_size_ = whole_.size - before;
  }
  held = share.head;
  if (spec.has_final_norm()) norm("final_norm", "");
  const auto transform = [&](const std::string& group, const HeadTransform& which) {
    if (!which.present) return;
    add(group, "transform_W", {d, d});
    add(group, "transform_b", {d});
    if (which.norm) norm(group, "norm_");
  };
  if (spec.classes > 0) {
    transform("head", spec.head_transform);
    add("head", "W", {spec.classes, spec.pooled_tokens() * d});
    add("head", "b", {spec.classes});
  }
  if (spec.word_head.present) {
    transform("word_head", spec.word_head.transform);
    if (spec.word_head.own_matrix) add("word_head", "W", {spec.vocabulary, d});
    add("word_head", "b", {spec.vocabulary});
  }
  // Every cell reads alpha and rho: they are in every share.
  alpha_ = size_;
  held = true;
  add("equation", "alpha", {1});
  add("equation", "rho", {1});
}

double parameter_count(const ModelSpec& spec, const ParameterShare& share) {
  const double d = spec.width, f = spec.ffn;
  // The same arrays as in the constructor, counted in double.
  // The reaction has gain and bias of a LayerNorm, W_1, b_1, W_2 and b_2.
  const double reaction = 2 * d + f * d + f + d * f + d;
  // Four matrices of d x d with their biases, W_Q, W_K, W_V and W_O; their LayerNorm, the reaction, kappa.
  const double block =
      2 * d + 4 * (d * d + d) + reaction * (spec.own_halves ? 2 : 1) + (spec.kappa_per_channel ? d : 1);
  const auto only = [](bool there, double count) { return there ? count : 0.0; };
  const double words = d * spec.vocabulary;
  const double embedding = only(spec.features > 0, d * spec.features + d) + d * spec.class_tokens + words +
                           d * spec.segments + d * spec.tokens + only(spec.embedding_norm, 2 * d);
  const auto transform = [&](const HeadTransform& t) {
    return only(t.present, d * d + d + only(t.norm, 2 * d));
  };
  const double head =
      only(spec.has_final_norm(), 2 * d) +
      only(spec.classes > 0, spec.classes * (spec.pooled_tokens() * d + 1) + transform(spec.head_transform)) +
      only(spec.word_head.present,
           spec.vocabulary * (only(spec.word_head.own_matrix, d) + 1) + transform(spec.word_head.transform));
  const double knots =
      share.last_knot < 0 ? spec.knots - share.first_knot : share.last_knot + 1.0 - share.first_knot;
  const bool guesses_by_words =
      share.words || (share.head && spec.word_head.present && !spec.word_head.own_matrix);
  return (share.embedding ? embedding : only(guesses_by_words, words)) + block * knots +
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
  // The views of the first block, in the order the constructor laid them out.
  Index next = first_block_view_;
  const auto offset = [&] { return views_[next++].offset - first_block_; };
  const auto take = [&] { return block + offset(); };
  LayerWeights<P> w;
  w.attention.gain = take();
  w.attention.bias = take();
  w.attention.eps = norm_eps_;
  w.attention.w_qkv = take();  // W_Q, W_K and W_V follow one another
  next += 2;
  w.attention.b_qkv = take();
  next += 2;
  w.attention.w_o = take();
  w.attention.b_o = take();
  w.attention.alpha = alpha_rho;
  const auto reaction = [&](ReactionWeights<P>& r) {
    r.gain = take();
    r.bias = take();
    r.eps = norm_eps_;
    r.w_1 = take();
    r.b_1 = take();
    r.w_2 = take();
    r.b_2 = take();
    r.rho = alpha_rho + 1;
  };
  reaction(w.reaction);
  if (own_halves_)
    reaction(w.first_reaction);
  else
    w.first_reaction = w.reaction;
  w.diffusion.kappa = coefficients + offset();
  w.diffusion.per_channel = kappa_per_channel_;
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
