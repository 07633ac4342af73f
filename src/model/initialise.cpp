#include "model/initialise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer {
namespace {

void fill(Parameters& parameters, const std::string& name, double value) {
  for (const auto& view : parameters.layout.views())
    if (view.name == name) std::fill_n(parameters.values.begin() + view.offset, view.size(), value);
}

void set_coefficients(Parameters& parameters, double kappa, double alpha, double rho, double nu) {
  fill(parameters, "kappa", kappa);
  fill(parameters, "nu", nu);
  parameters.values[parameters.layout.alpha()] = alpha;
  parameters.values[parameters.layout.rho()] = rho;
}

/// The d x d matrix `name` of every knot := scale * I.
void set_identity(Parameters& parameters, const std::string& name, double scale) {
  const Index d = parameters.spec.width;
  for (const auto& view : parameters.layout.views()) {
    if (view.name != name) continue;
    double* const w = parameters.values.data() + view.offset;
    std::fill_n(w, view.size(), 0.0);
    for (Index j = 0; j < d; ++j) w[j * d + j] = scale;
  }
}

/// The number of layers (or knots) whose arrays all come before this one.
int layers_before(const ParameterView& view, const ModelSpec& spec) {
  if (view.group == "embedding") return 0;
  constexpr std::string_view layers = "layers/";
  return view.group.starts_with(layers) ? std::stoi(view.group.substr(layers.size())) - 1 : spec.knots;
}

}  // namespace

void initialise_standard(Parameters& parameters, std::uint64_t seed, double kappa, double alpha, double rho,
                         double nu) {
  std::fill(parameters.values.begin(), parameters.values.end(), 0.0);
  const RandomStream all(seed, "weights");
  for (const auto& view : parameters.layout.views()) {
    // Keyed by the place of the array in the whole model: a rank that holds a part of it draws the same. nu,
    // the last array of a layer, does not count: with transport and without the matrices are the same.
    const auto stream =
        all.item(view.place - (parameters.spec.transport ? layers_before(view, parameters.spec) : 0));
    double* const w = parameters.values.data() + view.offset;
    if (view.name == "position" || view.name == "segment" || view.name == "class_token") {
      // N(0, 0.02^2)
      for (Index j = 0, count = view.size(); j < count; ++j) w[j] = 0.02 * stream.normal(j);
    } else if (view.name == "words") {
      // N(0, 1/d): the mean square length of a word vector is 1.
      const double deviation = 1 / std::sqrt(view.shape[1]);
      for (Index j = 0, count = view.size(); j < count; ++j) w[j] = deviation * stream.normal(j);
    } else if (view.shape.size() == 2) {
      // U(-a, a), a = sqrt(6 / (rows + columns))
      const double bound = std::sqrt(6.0 / (view.shape[0] + view.shape[1]));
      for (Index j = 0, count = view.size(); j < count; ++j) w[j] = stream.uniform(j, -bound, bound);
    } else if (view.name.ends_with("gain")) {
      // Gains are 1. Biases stay 0; the coefficients follow below.
      std::fill_n(w, view.size(), 1.0);
    }
  }
  set_coefficients(parameters, kappa, alpha, rho, nu);
}

void initialise_scaled_identity(Parameters& parameters, double query_key, double value) {
  std::fill(parameters.values.begin(), parameters.values.end(), 0.0);
  for (const auto& view : parameters.layout.views())
    if (view.name.ends_with("gain")) std::fill_n(parameters.values.begin() + view.offset, view.size(), 1.0);
  // Logits are query_key^2 x . y / sqrt(d_h) over the channels of a head: beta x . y for query_key =
  // sqrt(beta) d_h^(1/4) (docs/model.md, section 1).
  set_identity(parameters, "W_Q", query_key);
  set_identity(parameters, "W_K", query_key);
  set_identity(parameters, "W_V", value);
  set_identity(parameters, "W_O", 1.0);
  set_coefficients(parameters, 0.0, 1.0, 0.0, 0.0);
}

namespace {

/// "embedding", "layers", ...: groups, with all layers as one.
std::string group_of(const ParameterView& view) {
  return view.group.substr(0, view.group.find('/'));
}

std::string size_text(const std::vector<int>& shape) {
  std::string text;
  for (const int extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text;
}

/// The fate of an array in a new model.
enum class Fate { kept, fresh, left };

/// Lists groups whose arrays all have one fate by their names, and else the arrays. An array of another size
/// than before is new; it is not listed among those left out, too.
class FateLists {
 public:
  void add(const ParameterView& view, Fate fate, const std::string& note = "") {
    if (view.group == "equation") return;
    auto& group = groups_[group_of(view)];
    group.arrays[static_cast<std::size_t>(fate)].insert(view.path() + note);
    group.by_array = group.by_array || !note.empty();
  }
  std::string text(Fate fate) const {
    std::string text;
    const auto append = [&](const std::string& name) { text += (text.empty() ? "" : ", ") + name; };
    for (const auto& [name, group] : groups_) {
      const auto& arrays = group.arrays[static_cast<std::size_t>(fate)];
      const auto fates = std::ranges::count_if(group.arrays, [](const auto& some) { return !some.empty(); });
      if (arrays.empty()) continue;
      if (fates == 1 && !group.by_array)
        append(name);
      else
        std::ranges::for_each(arrays, append);
    }
    return text.empty() ? "nothing" : text;
  }

 private:
  struct Group {
    std::array<std::set<std::string>, 3> arrays;  ///< by their fate
    bool by_array = false;                        ///< some array has a note
  };
  std::map<std::string, Group> groups_;
};

bool same(const ParameterLayout& a, const ParameterLayout& b, const ParameterView& view) {
  return a.has(view.path()) && b.has(view.path()) && a.at(view.path()).shape == b.at(view.path()).shape;
}

}  // namespace

AdaptedModel with_heads(const Parameters& from, int classes, const WordHead& word_head, std::uint64_t seed) {
  ModelSpec spec = from.spec;
  spec.final_norm = from.spec.has_final_norm();
  spec.classes = classes;
  if (classes == 0) spec.head_transform = {};
  if (word_head.present != spec.word_head.present) spec.word_head = word_head;
  AdaptedModel made{Parameters(spec, from.layout.share()), ""};
  auto& to = made.parameters;
  // All arrays are drawn first; those that are kept are then copied over them.
  initialise_standard(to, seed, 0, 1, 1);
  FateLists lists;
  bool changed = false;
  const ParameterLayout before(from.spec), after(spec);  // of the whole models
  for (const auto& view : after.views()) {
    const bool keep = same(before, after, view);
    changed = changed || !keep;
    const bool resized = !keep && before.has(view.path());
    lists.add(view, keep ? Fate::kept : Fate::fresh,
              resized ? " (" + size_text(view.shape) + " instead of " +
                            size_text(before.at(view.path()).shape) + ")"
                      : "");
    if (keep && to.layout.has(view.path()))
      std::ranges::copy(from.view(view.path()), to.view(view.path()).begin());
  }
  for (const auto& view : before.views()) {
    if (after.has(view.path())) continue;
    changed = true;
    lists.add(view, Fate::left);
  }
  if (changed)
    made.report = "kept: " + lists.text(Fate::kept) + "; new: " + lists.text(Fate::fresh) +
                  "; left out: " + lists.text(Fate::left);
  return made;
}

}  // namespace fluxformer
