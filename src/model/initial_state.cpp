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
#include "operators/sphere.hpp"

namespace fluxformer {
namespace {

/// Where a number of the state is, and what flows in there.
struct Place {
  std::size_t cell, token, sample, channel;
  double inflow;
};
using ValueAt = std::function<double(const Place& at)>;

/// Cosines along x; on a grid the product with the same mode along y.
ValueAt cosine(const InitialState& start, const TokenLine& line) {
  const double wave = std::numbers::pi * static_cast<double>(start.mode);
  return [=, scale = start.scale, nx = line.tokens_x(), ny = line.tokens_y()](const Place& at) {
    const auto columns = static_cast<std::size_t>(nx);
    const double x = static_cast<double>(at.token % columns) + 0.5,
                 y = static_cast<double>(at.token / columns) + 0.5;
    return scale * std::cos(wave * x / nx) * (ny > 1 ? std::cos(wave * y / ny) : 1.0);
  };
}

ValueAt value_of(const InitialState& start, const SlabContext& context) {
  const auto& line = *context.line;
  const auto width = static_cast<std::size_t>(context.width),
             samples = static_cast<std::size_t>(context.samples);
  const RandomStream random(start.seed, "start");
  const auto drawn = [=](const Place& at) {
    return random.item(at.cell * samples + at.sample).normal(at.token * width + at.channel);
  };
  const double scale = start.scale;
  if (start.kind == "zero") return [](const Place&) { return 0.0; };
  if (start.kind == "inflow") return [](const Place& at) { return at.inflow; };
  if (start.kind == "noise") return [=](const Place& at) { return at.inflow + scale * drawn(at); };
  if (start.kind == "sphere") return drawn;
  if (start.kind == "cosine") return cosine(start, line);
  if (start.kind == "equiangular")
    return [=, points = equiangular_points(line.tokens(), context.width, start.gamma)](const Place& at) {
      return points[at.token * width + at.channel];
    };
  if (start.kind == "quantiles")
    return [=, n = line.tokens()](const Place& at) {
      const double position = static_cast<double>(at.token) + 0.5;
      return scale * boost::math::quantile(boost::math::normal(), position / n);
    };
  throw BadInput("start.state = " + start.kind +
                 " is not known: zero, inflow, noise, sphere, equiangular, cosine or quantiles");
}

}  // namespace

std::vector<double> equiangular_points(int n, int width, double gamma) {
  if (n > width)
    throw BadInput("start.state = equiangular: " + std::to_string(n) +
                   " tokens need model.width >= " + std::to_string(n));
  if (gamma * (n - 1) < -1)
    throw BadInput("start.gamma = " + std::to_string(gamma) + ": " + std::to_string(n) +
                   " vectors cannot be further apart than -1/(n-1)");
  // The rows of a Cholesky factor of the matrix of inner products.
  const auto d = static_cast<std::size_t>(width);
  std::vector<double> x(static_cast<std::size_t>(n) * d, 0.0);
  for (Index i = 0; i < n; ++i) {
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
  const std::size_t one =
      static_cast<std::size_t>(data.tokens_x() * data.tokens_y()) * static_cast<std::size_t>(data.features());
  std::vector<double> input(one * indices.size());
  for (std::size_t b = 0; b < indices.size(); ++b) data.tokens(indices[b], input.data() + b * one);
  embed(parameters, context, input.data(), slab);
}

void fill_with_noise(const std::vector<std::size_t>& indices, std::uint64_t seed, const SlabContext& context,
                     double* slab) {
  const RandomStream noise(seed, "inflow");
  const auto& line = *context.line;
  const auto width = static_cast<std::size_t>(context.width);
  for (int local = 0; local < line.block().count(); ++local)
    for (std::size_t b = 0; b < indices.size(); ++b) {
      const auto stream = noise.item(indices[b]);
      const std::size_t token = static_cast<std::size_t>(line.global_index(line.rank(), local));
      for (std::size_t j = 0; j < width; ++j)
        slab[(static_cast<std::size_t>(local) * indices.size() + b) * width + j] =
            stream.normal(token * width + j);
    }
}

void set_initial_state(const InitialState& start, const Mesh& mesh, const SlabContext& context,
                       const std::vector<double>& inflow_slab, Vec u) {
  const auto value = value_of(start, context);
  const auto& line = *context.line;
  const std::size_t slab = context.size(), width = static_cast<std::size_t>(context.width);
  const std::size_t samples = static_cast<std::size_t>(context.samples);
  const WriteArray state(u);
  for (int i = 0; i < mesh.cells(); ++i) {
    double* const cell = state.values + static_cast<std::size_t>(i) * slab;
    const auto depth = static_cast<std::size_t>(mesh.first_cell() + i);
    for (std::size_t j = 0; j < slab; ++j) {
      const std::size_t row = j / width;
      const auto token =
          static_cast<std::size_t>(line.global_index(line.rank(), static_cast<int>(row / samples)));
      cell[j] = value({depth, token, row % samples, j % width, inflow_slab[j]});
    }
    if (start.kind == "sphere") project_to_sphere(cell, context.rows(), context.width);
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
