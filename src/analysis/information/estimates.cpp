#include "analysis/information/estimates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "analysis/accumulator.hpp"
#include "analysis/information/binning.hpp"
#include "analysis/information/gaussian_information.hpp"
#include "analysis/information/information_variables.hpp"
#include "analysis/information/kde_bounds.hpp"
#include "analysis/information/ksg.hpp"
#include "analysis/information/principal_components.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"

namespace fluxformer::information {
namespace {

/// In the order of variables::estimates().
using Estimates = std::vector<double>;

double& named(Estimates& all, const std::string& name) {
  const auto& list = variables::estimates();
  const auto at = std::ranges::find(list, name, &io::Variable::name);
  if (at == list.end()) throw std::logic_error("no estimate " + name);
  return all[at - list.begin()];
}

/// Root mean square deviation of a component from its mean.
double deviation(const Points& t) {
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
double size_of(const Points& t) {
  double sum = 0;
  for (std::size_t j = 0; j < t.count * t.components; ++j) sum += t.data[j] * t.data[j];
  return std::sqrt(sum / static_cast<double>(t.count * t.components));
}

/// I(T_m; T_m + sigma Z) with random noise.
double noisy_ksg(const Points& t, double sigma, std::size_t k, const RandomStream& draw) {
  std::vector<double> noisy(t.data, t.data + t.count * t.components);
  for (std::size_t j = 0; j < noisy.size(); ++j) noisy[j] += sigma * draw.normal(j);
  return ksg_information(t, {noisy.data(), t.count, t.components}, k);
}

void put(Estimates& all, const std::string& name, const Information& found) {
  named(all, name) = found.value;
  if (found.lower) named(all, name + "_lower") = *found.lower;
  if (found.upper) named(all, name + "_upper") = *found.upper;
}

}  // namespace

std::vector<double> estimate(int part, const Points& states, std::span<const int> labels,
                             const EstimatorSettings& settings, const RandomStream& draw) {
  Estimates all(variables::estimates().size(), 0.0);
  const double spread = deviation(states), sigma = settings.noise * spread;
  const bool varies = spread > 1e-12 * size_of(states);  // more than round-off
  const auto both = [&](const std::string& name, const auto& find) {
    if (!varies) {
      named(all, "input_" + name) = named(all, "label_" + name) = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    const InformationPlane plane = find();
    put(all, "input_" + name, plane.input);
    put(all, "label_" + name, plane.label);
  };
  const auto projected = [&] { return principal_components(states, settings.components); };
  if (part == 0) {
    both("binning", [&] { return binned_information(projected().points(), labels, {settings.bins, {}}); });
    named(all, "sigma") = sigma;
  } else if (part == 1) {
    both("kde", [&] { return kde_information(states, labels, sigma); });
  } else if (part == 2) {
    both("ksg", [&] {
      const auto kept = projected();
      double variance = 0;
      for (const double one : kept.variance) variance += one;
      named(all, "kept_variance") = variance / kept.total_variance;
      InformationPlane plane;
      plane.input.value = noisy_ksg(kept.points(), sigma, settings.neighbours, draw);
      plane.label.value = ksg_information(kept.points(), labels, settings.neighbours);
      return plane;
    });
  } else {
    both("gaussian", [&] { return gaussian_information(states, labels, sigma); });
  }
  return all;
}

std::vector<double> states_by_depth(const SampleSet& samples, ModelProbe& probe, int token) {
  const auto width = static_cast<std::size_t>(probe.spec().width);
  Sums all(static_cast<std::size_t>(probe.depths()) * samples.size() * width);
  std::vector<double> u;
  const auto look = [&](const Batch& batch) {
    probe.embed(batch, u);
    probe.forward(u, Keep::nothing, [&](int row, const double* state) {
      for_each_sample(batch, [&](std::size_t b, std::size_t place) {
        const auto tokens = sample_of(probe.counted(), state, static_cast<int>(b));
        Eigen::Map<Eigen::RowVectorXd> t(
            all.local() + (static_cast<std::size_t>(row) * samples.size() + place) * width,
            static_cast<Eigen::Index>(width));
        if (token < 0)
          t = tokens.colwise().mean();
        else
          t = tokens.row(token);
      });
    });
  };
  accumulate(samples, look, all);
  return all.total();
}

std::vector<std::vector<double>> estimates_by_depth(MPI_Comm comm, const std::vector<double>& states,
                                                    std::span<const int> labels, std::size_t width,
                                                    const EstimatorSettings& settings,
                                                    const RandomStream& draws) {
  const auto depths = states.size() / (labels.size() * width);
  // Depths and parts of the estimators are distributed over the ranks.
  const std::size_t count = variables::estimates().size();
  std::vector<double> found(count * depths, 0.0);
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  collectively(comm, [&] {
    for (std::size_t task = static_cast<std::size_t>(rank); task < depths * estimator_parts;
         task += static_cast<std::size_t>(ranks)) {
      const auto depth = task / estimator_parts;
      const auto part = static_cast<int>((task + depth) % estimator_parts);  // even ranks meet odd parts too
      const Points t{states.data() + depth * labels.size() * width, labels.size(), width};
      const auto numbers = estimate(part, t, labels, settings, draws.item(depth));
      for (std::size_t k = 0; k < count; ++k) found[k * depths + depth] += numbers[k];
    }
  });
  sum_over_ranks(found, comm);
  std::vector<std::vector<double>> list;
  for (std::size_t k = 0; k < count; ++k)
    list.emplace_back(found.begin() + static_cast<std::ptrdiff_t>(k * depths),
                      found.begin() + static_cast<std::ptrdiff_t>((k + 1) * depths));
  return list;
}

}  // namespace fluxformer::information
