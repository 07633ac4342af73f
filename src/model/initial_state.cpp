#include "model/initial_state.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <functional>
#include <numbers>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/random.hpp"
#include "base/vector_arrays.hpp"
#include "model/embedding.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

/// The indices of an entry of the state, and the inflow of its token and channel.
struct StateEntry {
  Index cell, token, sample, channel;
  double inflow;
};
using ValueAt = std::function<double(const StateEntry& at)>;

/// Cosines along x; on a grid the product with the same mode along y.
ValueAt cosine(const InitialState& start, const TokenLine& line) {
  const double wave = std::numbers::pi * start.mode;
  return [=, scale = start.scale, nx = line.tokens_x(), ny = line.tokens_y()](const StateEntry& at) {
    const Index columns = nx;
    const double x = (at.token % columns) + 0.5, y = (at.token / columns) + 0.5;
    // cos(mode pi (x + 1/2) / n): zero flux at both ends
    return scale * std::cos(wave * x / nx) * (ny > 1 ? std::cos(wave * y / ny) : 1.0);
  };
}

/// Random unit vectors, [vector][channel], uniform on the sphere.
std::vector<double> random_directions(Index count, Index width, std::uint64_t seed) {
  const RandomStream random(seed, "groups");
  std::vector<double> x(count * width);
  for (Index j = 0; j < count * width; ++j) x[j] = random.normal(j);
  project_to_sphere(x.data(), count, width);
  return x;
}

ValueAt value_of(const InitialState& start, const SlabContext& context) {
  const auto& line = *context.line;
  const Index width = context.width, samples = context.samples;
  const RandomStream random(start.seed, "start");
  // Keyed by (cell, sample) and (token, channel): the same numbers on any number of ranks.
  const auto drawn = [=](const StateEntry& at) {
    return random.item(at.cell * samples + at.sample).normal(at.token * width + at.channel);
  };
  const double scale = start.scale;
  if (start.kind == "zero") return [](const StateEntry&) { return 0.0; };
  if (start.kind == "inflow") return [](const StateEntry& at) { return at.inflow; };
  if (start.kind == "noise") return [=](const StateEntry& at) { return at.inflow + scale * drawn(at); };
  // Normal numbers have no preferred direction: projected to the sphere they are uniform on it.
  if (start.kind == "sphere") return drawn;
  if (start.kind == "clustered_sphere") {
    const Index groups = std::min<Index>(start.groups, line.tokens());
    return [=, directions = random_directions(groups, width, start.seed)](const StateEntry& at) {
      return directions[at.token % groups * width + at.channel] + scale * drawn(at);
    };
  }
  if (start.kind == "cosine") return cosine(start, line);
  if (start.kind == "equiangular")
    return [=, points = equiangular_points(line.tokens(), context.width, start.gamma)](const StateEntry& at) {
      return points[at.token * width + at.channel];
    };
  if (start.kind == "quantiles")
    return [=, n = line.tokens()](const StateEntry& at) {
      // scale Phi^-1((x + 1/2) / n): each of the n tokens stands for an equal share of the normal law
      const double position = at.token + 0.5;
      return scale * boost::math::quantile(boost::math::normal(), position / n);
    };
  throw BadInput(
      "start.state = " + start.kind +
      " is not known: zero, inflow, noise, sphere, clustered_sphere, equiangular, cosine or quantiles");
}

}  // namespace

std::vector<double> equiangular_points(int n, int width, double gamma) {
  if (n > width)
    throw BadInput("start.state = equiangular: " + std::to_string(n) +
                   " tokens need model.width >= " + std::to_string(n));
  // The matrix of inner products, (1 - gamma) I + gamma 1 1^T, has the eigenvalue 1 + (n - 1) gamma >= 0.
  if (gamma * (n - 1) < -1)
    throw BadInput("start.gamma = " + std::to_string(gamma) + ": " + std::to_string(n) +
                   " vectors cannot be further apart than -1/(n-1)");
  // The rows of a Cholesky factor of the matrix of inner products.
  const Index d = width;
  std::vector<double> x(Index{n} * d, 0.0);
  for (Index i = 0; i < n; ++i) {
    // x_i . x_j = gamma for j < i determines x_ij, and |x_i| = 1 determines x_ii:
    //   x_ij = (gamma - sum_{k<j} x_ik x_jk) / x_jj,   x_ii^2 = 1 - sum_{j<i} x_ij^2
    // At gamma = -1/(n - 1) and at 1 the vectors are dependent: some x_ii are 0 up to round-off.
    double left = 1;
    for (Index j = 0; j < i; ++j) {
      double dot = gamma;
      for (Index k = 0; k < j; ++k) dot -= x[i * d + k] * x[j * d + k];
      x[i * d + j] = x[j * d + j] > 0 ? dot / x[j * d + j] : 0.0;
      left -= x[i * d + j] * x[i * d + j];
    }
    x[i * d + i] = std::sqrt(std::max(0.0, left));
  }
  return x;
}

void fill_with_samples(const data::Dataset& data, const std::vector<std::size_t>& indices,
                       const Parameters& parameters, const SlabContext& context, double* slab) {
  const std::size_t one = Index{data.tokens_x() * data.tokens_y()} * data.features();
  std::vector<double> input(one * indices.size());
  for (Index b = 0; b < std::ssize(indices); ++b) data.tokens(indices[b], input.data() + b * one);
  embed(parameters, context, input.data(), slab);
}

void fill_with_noise(const std::vector<std::size_t>& indices, std::uint64_t seed, const SlabContext& context,
                     double* slab) {
  const RandomStream noise(seed, "inflow");
  const auto& line = *context.line;
  const Index width = context.width;
  for (int local = 0; local < line.block().count(); ++local)
    for (Index b = 0; b < std::ssize(indices); ++b) {
      const auto stream = noise.item(indices[b]);
      const Index token = line.global_index(line.rank(), local);
      for (Index j = 0; j < width; ++j)
        slab[(local * std::ssize(indices) + b) * width + j] = stream.normal(token * width + j);
    }
}

void set_initial_state(const InitialState& start, const Mesh& mesh, const SlabContext& context,
                       const std::vector<double>& inflow_slab, Vec u) {
  const auto value = value_of(start, context);
  const auto& line = *context.line;
  const Index slab = context.size(), width = context.width;
  const Index samples = context.samples;
  const WriteArray state(u);
  for (int i = 0; i < mesh.cells(); ++i) {
    double* const cell = state.values + Index{i} * slab;
    const Index depth = mesh.first_cell() + i;
    for (Index j = 0; j < slab; ++j) {
      const Index row = j / width;
      const auto token = line.global_index(line.rank(), row / samples);
      cell[j] = value({depth, token, row % samples, j % width, inflow_slab[j]});
    }
    if (start.kind == "sphere" || start.kind == "clustered_sphere")
      project_to_sphere(cell, context.rows(), context.width);
  }
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Rows> rows(state.values, mesh.cells() * context.rows(), context.width);
  const bool fine = !start.no_zero_vectors || rows.rowwise().squaredNorm().minCoeff() > 0;
  agree(mesh.comm(), fine,
        "start.state = " + start.kind +
            ": depth.norm = sphere cannot project a zero vector; start from the inflow, from noise or from "
            "points on the sphere");
}

}  // namespace fluxformer
