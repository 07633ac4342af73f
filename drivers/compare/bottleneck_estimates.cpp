#include "drivers/compare/bottleneck_estimates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "analysis/information/binning.hpp"
#include "analysis/information/gaussian_information.hpp"
#include "analysis/information/kde_bounds.hpp"
#include "analysis/information/ksg.hpp"
#include "analysis/information/principal_components.hpp"

namespace fluxformer {
namespace {

using Estimates = std::array<double, estimate_count>;

double& named(Estimates& all, const std::string& name) {
  const auto* const at = std::ranges::find(estimate_names, name);
  if (at == estimate_names.end()) throw std::logic_error("no estimate " + name);
  return all[static_cast<std::size_t>(at - estimate_names.begin())];
}

/// Root mean square deviation of a component from its mean.
double deviation(const information::Points& t) {
  double sum = 0;
  for (std::size_t c = 0; c < t.components; ++c) {
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < t.count; ++i) mean += t.row(i)[c] / static_cast<double>(t.count);
    for (std::size_t i = 0; i < t.count; ++i) squares += (t.row(i)[c] - mean) * (t.row(i)[c] - mean);
    sum += squares / static_cast<double>(t.count);
  }
  return std::sqrt(sum / static_cast<double>(t.components));
}

/// Root mean square of all numbers.
double size_of(const information::Points& t) {
  double sum = 0;
  for (std::size_t j = 0; j < t.count * t.components; ++j) sum += t.data[j] * t.data[j];
  return std::sqrt(sum / static_cast<double>(t.count * t.components));
}

/// I(T_m; T_m + sigma Z), the noise drawn.
double noisy_ksg(const information::Points& t, double sigma, std::size_t k, const RandomStream& draw) {
  std::vector<double> noisy(t.data, t.data + t.count * t.components);
  for (std::size_t j = 0; j < noisy.size(); ++j) noisy[j] += sigma * draw.normal(j);
  return information::ksg_information(t, {noisy.data(), t.count, t.components}, k).value;
}

void put(Estimates& all, const std::string& name, const information::Information& found) {
  named(all, name) = found.value;
  if (found.lower && found.upper &&
      std::ranges::find(estimate_names, name + "_lower") != estimate_names.end()) {
    named(all, name + "_lower") = *found.lower;
    named(all, name + "_upper") = *found.upper;
  }
}

}  // namespace

std::array<double, estimate_count> estimate(int part, const information::Points& states,
                                            std::span<const int> labels, const EstimatorSettings& settings,
                                            const RandomStream& draw) {
  Estimates all{};
  const double spread = deviation(states), sigma = settings.noise * spread;
  const bool varies = spread > 1e-12 * size_of(states);  // more than round-off
  const auto both = [&](const std::string& name, const auto& find) {
    if (!varies) {
      named(all, "input_" + name) = named(all, "label_" + name) = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    const information::InformationPlane plane = find();
    put(all, "input_" + name, plane.input);
    put(all, "label_" + name, plane.label);
  };
  const auto projected = [&] { return information::principal_components(states, settings.components); };
  if (part == 0) {
    both("binning", [&] {
      return information::binned_information(projected().points(), labels, {settings.bins, {}});
    });
    named(all, "sigma") = sigma;
  } else if (part == 1) {
    both("kde", [&] { return information::kde_information(states, labels, sigma); });
  } else if (part == 2) {
    both("ksg", [&] {
      const auto kept = projected();
      double variance = 0;
      for (const double one : kept.variance) variance += one;
      named(all, "kept_variance") = variance / kept.total_variance;
      information::InformationPlane plane;
      plane.input.value = noisy_ksg(kept.points(), sigma, settings.neighbours, draw);
      plane.label = information::ksg_information(kept.points(), labels, settings.neighbours);
      return plane;
    });
  } else {
    both("gaussian", [&] { return information::gaussian_information(states, labels, sigma); });
  }
  return all;
}

}  // namespace fluxformer
