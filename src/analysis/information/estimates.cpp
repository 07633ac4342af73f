#include "analysis/information/estimates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "analysis/accumulator.hpp"
#include "analysis/dense_matrices.hpp"
#include "analysis/information/information.hpp"
#include "analysis/information/information_variables.hpp"
#include "analysis/information/ksg.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"

namespace fluxformer::information {

PrincipalComponents principal_components(const Points& states, Index m) {
  require_points("principal components", states);
  const Index count = states.count, d = states.components;
  if (m < 1 || m > states.components)
    throw BadInput("principal components: " + std::to_string(m) + " asked for; there can be 1 to " +
                   std::to_string(states.components));
  // Covariance of the channels, 1/N sum_i (t_i - mean)(t_i - mean)^T, d x d, and its eigenvectors
  RowMatrix centred = Eigen::Map<const RowMatrix>(states.data, count, d);
  centred.rowwise() -= centred.colwise().mean().eval();
  const Eigen::MatrixXd covariance = centred.transpose() * centred / count;
  const SymmetricEigen eigen = symmetric_eigen(covariance);
  if (!eigen.converged)
    throw NumericalFailure("principal components: the eigenvalues of the covariance do not converge");

  PrincipalComponents result;
  result.count = states.count;
  result.components = m;
  result.total_variance = covariance.trace();
  RowMatrix axes(m, d);
  for (Index j = 0; j < m; ++j) {
    const Index from_top = d - 1 - j;  // eigenvalues ascend
    Index largest = 0;
    eigen.vectors.col(from_top).cwiseAbs().maxCoeff(&largest);
    // An eigenvector has either sign: that is taken for which its entry of largest magnitude is positive.
    const double sign = eigen.vectors(largest, from_top) < 0 ? -1 : 1;
    axes.row(j) = sign * eigen.vectors.col(from_top).transpose();
    result.variance.push_back(std::max(0.0, eigen.values(from_top)));
  }
  // T_m: component j of sample i is (t_i - mean) . axis_j.
  const RowMatrix projected = centred * axes.transpose();
  result.projected.assign(projected.data(), projected.data() + projected.size());
  result.axes.assign(axes.data(), axes.data() + axes.size());
  return result;
}

namespace {

/// Estimates in the order of variables::estimates().
using Estimates = std::vector<double>;

double& named(Estimates& all, const std::string& name) {
  const auto& list = variables::estimates();
  const auto at = std::ranges::find(list, name, &io::Variable::name);
  if (at == list.end()) throw std::logic_error("no estimate " + name);
  return all[at - list.begin()];
}

/// Root mean square deviation of a component from its mean.
double deviation(const Points& t) {
  // sqrt(1/m sum_c 1/N sum_i (t_ic - mean_c)^2), the mean first: no difference of two large sums of squares.
  double sum = 0;
  for (Index c = 0; c < t.components; ++c) {
    double mean = 0, squares = 0;
    for (Index i = 0; i < t.count; ++i) mean += t.row(i)[c] / t.count;
    for (Index i = 0; i < t.count; ++i) squares += (t.row(i)[c] - mean) * (t.row(i)[c] - mean);
    sum += squares / t.count;
  }
  return std::sqrt(sum / t.components);
}

/// Root mean square of all numbers.
double size_of(const Points& t) {
  double sum = 0;
  for (Index j = 0; j < t.count * t.components; ++j) sum += t.data[j] * t.data[j];
  return std::sqrt(sum / (t.count * t.components));
}

/// I(T_m; T_m + sigma Z) with random noise Z.
double noisy_ksg(const Points& t, double sigma, Index k, const RandomStream& draw) {
  std::vector<double> noisy(t.data, t.end());
  for (std::size_t j = 0; j < noisy.size(); ++j) noisy[j] += sigma * draw.normal(j);
  return ksg_information(t, {noisy.data(), t.count, t.components}, k);
}

/// Stores an estimate and its bounds.
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
      // Share of the variance of all channels that the projection keeps
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
  const Index width = probe.spec().width, count = samples.size();
  Sums all(probe.depths() * count * width);
  std::vector<double> u;
  const auto look = [&](const Batch& batch) {
    probe.embed(batch, u);
    probe.forward(u, Keep::nothing, [&](int row, const double* state) {
      for_each_sample(batch, [&](Index b, Index place) {
        const auto tokens = sample_of(probe.counted(), state, b);
        // The place of this state in [depth][sample][channel], which the sum over ranks completes
        Eigen::Map<Eigen::RowVectorXd> t(all.local() + (row * count + place) * width, width);
        // The mean has memory of its own at first: the order of such sums depends on where they lie.
        if (token < 0)
          t = tokens.colwise().mean().eval();
        else
          t = tokens.row(token);
      });
    });
  };
  accumulate(samples, look, all);
  return all.total();
}

std::vector<std::vector<double>> estimates_by_depth(MPI_Comm comm, const std::vector<double>& states,
                                                    std::span<const int> labels, Index width,
                                                    const EstimatorSettings& settings,
                                                    const RandomStream& draws) {
  const Index samples = std::ssize(labels), depths = std::ssize(states) / (samples * width);
  // Depths and parts of the estimators are distributed over the ranks.
  const Index count = std::ssize(variables::estimates());
  std::vector<double> found(count * depths, 0.0);
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  collectively(comm, [&] {
    for (Index task = rank; task < depths * estimator_parts; task += ranks) {
      const Index depth = task / estimator_parts;
      const int part = (task + depth) % estimator_parts;  // so that even ranks meet odd parts, too
      const Points t{states.data() + depth * samples * width, samples, width};
      const auto numbers = estimate(part, t, labels, settings, draws.item(depth));
      for (Index k = 0; k < count; ++k) found[k * depths + depth] += numbers[k];
    }
  });
  sum_over_ranks(found, comm);
  std::vector<std::vector<double>> list;
  for (Index k = 0; k < count; ++k)
    list.emplace_back(found.begin() + k * depths, found.begin() + (k + 1) * depths);
  return list;
}

}  // namespace fluxformer::information
