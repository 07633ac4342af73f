#include "model/initialise.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void fill(Parameters& parameters, const std::string& name, double value) {
  for (const auto& view : parameters.layout.views())
    if (view.name == name) std::fill_n(parameters.values.begin() + view.offset, view.size(), value);
}

void set_coefficients(Parameters& parameters, double kappa, double alpha, double rho) {
  fill(parameters, "kappa", kappa);
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

}  // namespace

void initialise_standard(Parameters& parameters, std::uint64_t seed, double kappa, double alpha, double rho) {
  std::fill(parameters.values.begin(), parameters.values.end(), 0.0);
  const RandomStream all(seed, "weights");
  for (const auto& view : parameters.layout.views()) {
    // Keyed by the place of the array in the whole model: a rank that holds a part of it draws the same.
    const auto stream = all.item(view.place);
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
    } else if (ends_with(view.name, "gain")) {
      // Gains are 1. Biases stay 0; the coefficients follow below.
      std::fill_n(w, view.size(), 1.0);
    }
  }
  set_coefficients(parameters, kappa, alpha, rho);
}

void initialise_scaled_identity(Parameters& parameters, double query_key, double value) {
  std::fill(parameters.values.begin(), parameters.values.end(), 0.0);
  for (const auto& view : parameters.layout.views())
    if (ends_with(view.name, "gain")) std::fill_n(parameters.values.begin() + view.offset, view.size(), 1.0);
  // Logits are query_key^2 x . y / sqrt(d_h) over the channels of a head: beta x . y for query_key =
  // sqrt(beta) d_h^(1/4) (docs/model.md, section 1).
  set_identity(parameters, "W_Q", query_key);
  set_identity(parameters, "W_K", query_key);
  set_identity(parameters, "W_V", value);
  set_identity(parameters, "W_O", 1.0);
  set_coefficients(parameters, 0.0, 1.0, 0.0);
}

void set_linear_reaction(Parameters& parameters, double rate) {
  const auto& spec = parameters.spec;
  if (spec.activation != Activation::relu || spec.ffn < 2 * spec.width)
    throw BadInput("a linear reaction needs model.activation = relu and model.ffn >= 2 model.width");
  const Index d = spec.width, f = spec.ffn;
  for (int knot = parameters.layout.first_knot(); knot <= parameters.layout.last_knot(); ++knot) {
    const auto group = "layers/" + std::to_string(knot + 1) + "/";
    const auto w_1 = parameters.view(group + "W_1"), w_2 = parameters.view(group + "W_2");
    std::fill(w_1.begin(), w_1.end(), 0.0);
    std::fill(w_2.begin(), w_2.end(), 0.0);
    // Hidden unit 2j is relu(x_j), unit 2j + 1 is relu(-x_j); rate times their difference is rate x_j.
    for (Index j = 0; j < d; ++j) {
      w_1[2 * j * d + j] = 1;
      w_1[(2 * j + 1) * d + j] = -1;
      w_2[j * f + 2 * j] = rate;
      w_2[j * f + 2 * j + 1] = -rate;
    }
  }
  parameters.values[parameters.layout.rho()] = 1;
}

}  // namespace fluxformer
