#pragma once

// The network and the problem timed by the benchmarks.

#include <cmath>
#include <memory>
#include <vector>

#include "base/vector_arrays.hpp"
#include "model/depth_model.hpp"
#include "model/equation.hpp"
#include "model/initialise.hpp"
#include "solvers/evolve/field_operator.hpp"

namespace fluxformer::bench {

struct Size {
  int layers = 6, columns = 7, rows = 7, batch = 32, width = 64, heads = 4, ffn = 256;
  int ranks_depth = 0, ranks_token = 0;
  int groups = 0;  ///< of keys and values; 0: one for each head
  bool gated = false, causal = false;

  /// Flops of one right-hand side: projections, network, logits and mixing of the pairs that are seen.
  double flops() const {
    const double n = columns * rows, d = width, keys = groups > 0 ? d * groups / heads : d;
    const double pairs = causal ? n * (n + 1) / 2 : n * n;
    return layers *
           (2 * batch * n * (2 * d * (d + keys) + (gated ? 3 : 2) * d * ffn) + 4 * batch * pairs * d);
  }
};

inline ModelSpec model_spec(const Size& size) {
  ModelSpec model;
  model.layers = model.knots = size.layers;
  model.width = size.width;
  model.ffn = size.ffn;
  model.attention.heads = size.heads;
  model.attention.groups = size.groups;
  model.gated = size.gated;
  model.causal = size.causal;
  return model;
}

/// The right-hand side of equation (1) with scheme `shift` on the ranks of a communicator.
class RightHandSide {
 public:
  RightHandSide(MPI_Comm comm, const Size& size, Precision precision)
      : mesh_(comm, {.cells = size.layers,
                     .tokens_x = size.columns,
                     .tokens_y = size.rows,
                     .samples = size.batch,
                     .width = size.width,
                     .ranks_depth = size.ranks_depth,
                     .ranks_token = size.ranks_token,
                     .periodic = false}),
        context_{&mesh_.token_line(), size.batch, size.width, {}},
        parameters_(model_spec(size)) {
    initialise_standard(parameters_, 1, 0, 1, 1);
    model_ = make_depth_model(parameters_, context_, precision);
    std::vector<DepthPoint> points;
    for (int cell = 1; cell <= size.layers; ++cell)
      points.push_back(DepthCells{size.layers, size.layers}.entry(cell));
    model_->prepare(points);
    equation_ = std::make_unique<Equation>(
        *model_, EquationSpec{{size.layers, size.layers}, 1.0, 0.0, DepthScheme::shift});
    field_ = std::make_unique<FieldOperator>(mesh_, *equation_);
    u_ = mesh_.create_vector();
    f_ = mesh_.create_vector();
    const WriteArray to(u_);
    for (std::size_t j = 0; j < mesh_.slab_size() * static_cast<std::size_t>(mesh_.cells()); ++j)
      to.values[j] = std::sin(static_cast<double>(j));
  }

  void evaluate() { field_->apply(equation_->all(), u_, f_); }

 private:
  Mesh mesh_;
  SlabContext context_;
  Parameters parameters_;
  std::unique_ptr<DepthModel> model_;
  std::unique_ptr<Equation> equation_;
  std::unique_ptr<FieldOperator> field_;
  VecHandle u_, f_;
};

}  // namespace fluxformer::bench
