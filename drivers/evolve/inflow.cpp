#include "drivers/evolve/inflow.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/vector_arrays.hpp"
#include "drivers/common/data_options.hpp"
#include "model/embedding.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

/// n unit vectors whose pairwise inner products are gamma, as columns of a Cholesky factor; row x has at most
/// x + 1 entries, so n <= width is needed.
std::vector<double> equiangular(int n, int width, double gamma) {
  if (n > width)
    throw BadInput("start.state = equiangular: " + std::to_string(n) +
                   " tokens need model.width >= " + std::to_string(n));
  if (gamma * (n - 1) < -1)
    throw BadInput("start.gamma = " + std::to_string(gamma) + ": " + std::to_string(n) +
                   " vectors cannot be further apart than -1/(n-1)");
  const auto d = static_cast<std::size_t>(width);
  std::vector<double> x(static_cast<std::size_t>(n) * d, 0.0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    double left = 1;
    for (std::size_t j = 0; j < i; ++j) {
      double dot = gamma;
      for (std::size_t k = 0; k < j; ++k) dot -= x[i * d + k] * x[j * d + k];
      x[i * d + j] = x[j * d + j] > 0 ? dot / x[j * d + j] : 0.0;
      left -= x[i * d + j] * x[i * d + j];
    }
    x[i * d + i] = std::sqrt(std::max(0.0, left));
  }
  return x;
}

}  // namespace

Inflow::Inflow(const Settings& settings, MPI_Comm comm)
    : source_(settings.word("inflow.source")),
      samples_(settings.count("inflow.samples")),
      first_(static_cast<std::size_t>(settings.integer("inflow.first"))),
      seed_(static_cast<std::uint64_t>(settings.integer("run.seed"))) {
  if (source_ == "data") {
    data_ = open_data(settings, settings.word("data.split"), stored_words(settings, comm), comm);
    if (first_ + static_cast<std::size_t>(samples_) > data_->size())
      throw BadInput(
          "inflow.first + inflow.samples = " + std::to_string(first_ + static_cast<std::size_t>(samples_)) +
          ": " + settings.word("data.set") + " has " + std::to_string(data_->size()) + " samples");
    if (data_->vocabulary() > 0 && settings.real("inflow.every") > 0)
      throw BadInput("inflow.every: texts of different lengths cannot follow each other through depth");
    tokens_x_ = data_->tokens_x();
    tokens_y_ = data_->tokens_y();
  }
  const auto choose = [&](const char* key, int& tokens) {
    const int asked = settings.count(key);
    if (data_ != nullptr && asked > 0 && asked != tokens)
      throw BadInput(std::string(key) + " = " + std::to_string(asked) + ": the data has " +
                     std::to_string(tokens) + "; leave the key out");
    if (data_ == nullptr) tokens = std::max(1, asked);
  };
  choose("mesh.tokens_x", tokens_x_);
  choose("mesh.tokens_y", tokens_y_);
}

InputShape Inflow::shape() const {
  if (data_ == nullptr) return {};
  return shape_of(*data_);
}

std::vector<int> Inflow::lengths() const {
  std::vector<int> list;
  if (data_ == nullptr || data_->vocabulary() == 0) return list;
  for (const auto index : indices(0)) list.push_back(data_->length(index));
  return list;
}

std::vector<std::size_t> Inflow::indices(long block) const {
  std::vector<std::size_t> list;
  for (int b = 0; b < samples_; ++b) {
    const std::size_t index = first_ + static_cast<std::size_t>(block) * static_cast<std::size_t>(samples_) +
                              static_cast<std::size_t>(b);
    list.push_back(data_ == nullptr ? index : index % data_->size());
  }
  return list;
}

void Inflow::fill(const Parameters& parameters, const SlabContext& context, long block, double* slab) const {
  const auto which = indices(block);
  if (data_ != nullptr) {
    const std::size_t one =
        static_cast<std::size_t>(tokens_x_ * tokens_y_) * static_cast<std::size_t>(data_->features());
    std::vector<double> input(one * which.size());
    for (std::size_t b = 0; b < which.size(); ++b) data_->tokens(which[b], input.data() + b * one);
    embed(parameters, context, input.data(), slab);
    return;
  }
  std::fill_n(slab, context.size(), 0.0);
  if (source_ == "none") return;
  const RandomStream noise(seed_, "inflow");
  const auto& line = *context.line;
  const auto width = static_cast<std::size_t>(context.width);
  for (int local = 0; local < line.block().count(); ++local)
    for (std::size_t b = 0; b < which.size(); ++b) {
      const auto stream = noise.item(which[b]);
      const std::size_t token = static_cast<std::size_t>(line.global_index(line.rank(), local));
      for (std::size_t j = 0; j < width; ++j)
        slab[(static_cast<std::size_t>(local) * which.size() + b) * width + j] =
            stream.normal(token * width + j);
    }
}

void set_start(const Settings& settings, const Mesh& mesh, const SlabContext& context,
               const std::vector<double>& inflow_slab, bool on_sphere, Vec u) {
  const std::string& kind = settings.word("start.state");
  const double scale = settings.real("start.scale");
  const auto& line = *context.line;
  const int n = line.tokens(), d = context.width;
  const std::vector<double> points =
      kind == "equiangular" ? equiangular(n, d, settings.real("start.gamma")) : std::vector<double>{};
  const RandomStream random(static_cast<std::uint64_t>(settings.integer("run.seed")), "start");
  const double wave = std::numbers::pi * static_cast<double>(settings.integer("start.mode"));
  const boost::math::normal law;
  const std::size_t slab = context.size(), width = static_cast<std::size_t>(d);
  const std::size_t samples = static_cast<std::size_t>(context.samples);

  const Writing state(u);
  for (int i = 0; i < mesh.cells(); ++i) {
    double* const cell = state.values + static_cast<std::size_t>(i) * slab;
    const auto level = static_cast<std::size_t>(mesh.first_cell() + i);
    for (std::size_t j = 0; j < slab; ++j) {
      const std::size_t channel = j % width, row = j / width;
      const std::size_t token =
          static_cast<std::size_t>(line.global_index(line.rank(), static_cast<int>(row / samples)));
      const std::size_t sample = row % samples;
      const auto drawn = [&] {
        return random.item(level * samples + sample).normal(token * width + channel);
      };
      const double position = static_cast<double>(token) + 0.5;
      if (kind == "inflow") cell[j] = inflow_slab[j];
      if (kind == "noise") cell[j] = inflow_slab[j] + scale * drawn();
      if (kind == "sphere") cell[j] = drawn();
      if (kind == "equiangular") cell[j] = points[token * width + channel];
      if (kind == "cosine") {
        // Along x; on a grid the product with the same mode along y.
        const auto columns = static_cast<std::size_t>(line.tokens_x());
        const double x = static_cast<double>(token % columns) + 0.5,
                     y = static_cast<double>(token / columns) + 0.5;
        cell[j] = scale * std::cos(wave * x / line.tokens_x()) *
                  (line.tokens_y() > 1 ? std::cos(wave * y / line.tokens_y()) : 1.0);
      }
      if (kind == "quantiles") cell[j] = scale * boost::math::quantile(law, position / n);
    }
    if (kind == "sphere") project_to_sphere(cell, context.rows(), d);
  }
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Rows> rows(state.values, mesh.cells() * context.rows(), d);
  const bool no_zero_vector = !on_sphere || rows.rowwise().squaredNorm().minCoeff() > 0;
  agree(mesh.comm(), no_zero_vector,
        "start.state = " + kind +
            ": depth.norm = sphere cannot project a zero vector; start from the inflow, from noise or from "
            "points on the sphere");
}

}  // namespace fluxformer
