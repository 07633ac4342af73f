#pragma once

// A small model with embedding and head, a batch for it, and the gradient of its loss by any march.

#include <memory>
#include <string>

#include "model/gradient_evaluator.hpp"
#include "solvers/adjoint/adjoint_march.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::test {

/// Two layers' depth in four cells, parameters between three knots.
inline ProblemSpec adjoint_pde() {
  ProblemSpec spec;
  spec.model = small_model(2);
  spec.model.knots = 3;
  spec.model.variation = DepthVariation::linear;
  spec.model.kappa_per_channel = true;
  spec.mesh = {.cells = 4, .tokens_x = 3, .tokens_y = 2, .samples = 2};
  spec.speed = 1.3;
  spec.kappa = 0.1;
  spec.alpha = 0.9;
  spec.rho = 1.1;
  spec.weight_scale = 0.7;  // so that Newton's method converges on long steps
  return spec;
}

/// The same on cells of unequal length.
inline ProblemSpec adjoint_pde_on_unequal_cells() {
  auto spec = adjoint_pde();
  spec.edges = {0, 0.3, 0.75, 1.35, 2};
  return spec;
}

/// A Transformer: one cell per layer.
inline ProblemSpec adjoint_transformer(int layers) {
  ProblemSpec spec;
  spec.model = small_model(layers);
  spec.model.norm_eps = layer_norm_eps;  // with which Newton's method converges over these long steps
  spec.mesh = {.cells = layers, .tokens_x = 3, .tokens_y = 2, .samples = 2};
  return spec;
}

inline AdjointSettings adjoint_by(const std::string& method, int every = 0, bool on_disk = false) {
  AdjointSettings settings;
  settings.method = method;
  settings.every = every;
  settings.on_disk = on_disk;
  return settings;
}

/// The depth loss weight/2 |u_i|^2 at some rows, on all tokens of this rank.
class SquaredNorm final : public DepthLoss {
 public:
  SquaredNorm(std::size_t size, std::vector<int> rows, double weight)
      : size_(size), rows_(std::move(rows)), weight_(weight) {}
  void begin(const Batch&) override {}
  bool looks_at(int row) const override { return std::find(rows_.begin(), rows_.end(), row) != rows_.end(); }
  double add(int row, const Batch&, const double* u, double* u_bar, std::span<double>) override {
    const double weight = weight_ / (1 + row);
    double value = 0;
    for (std::size_t j = 0; j < size_; ++j) {
      value += weight / 2 * u[j] * u[j];
      if (u_bar != nullptr) u_bar[j] += weight * u[j];
    }
    return value;
  }

 private:
  std::size_t size_;
  std::vector<int> rows_;
  double weight_;
};

/// Changes states at three depths: a source is added at row 1, every third number is replaced at row 2 and at
/// the last row. As a depth loss of value 0 it multiplies adjoints with the transpose.
class ChangedStates final : public DepthLoss {
 public:
  explicit ChangedStates(std::size_t size) : values_(random_vector(size, 41)) {}
  void edit(int row, double* u) const {
    for (std::size_t j = 0; j < values_.size(); ++j) {
      if (row == 1) u[j] += values_[j];
      if (looks_at(row) && j % 3 == 0) u[j] = values_[j] / row;
    }
  }
  void begin(const Batch&) override {}
  bool looks_at(int row) const override { return row == 2 || row == 4; }
  double add(int, const Batch&, const double*, double* u_bar, std::span<double>) override {
    for (std::size_t j = 0; u_bar != nullptr && j < values_.size(); j += 3) u_bar[j] = 0;
    return 0;
  }

 private:
  Whole values_;
};

class AdjointCase {
 public:
  AdjointCase(MPI_Comm comm, ProblemSpec spec) : problem(comm, with_ends(spec)), speed_(spec.speed) {
    const auto samples = static_cast<std::size_t>(spec.mesh.samples);
    const auto tokens = static_cast<std::size_t>(problem.mesh.token_line().tokens());
    batch.input = random_vector(samples * tokens * 3, 21);
    for (std::size_t b = 0; b < samples; ++b) {
      batch.label.push_back(static_cast<int>(b % 3));
      batch.weight.push_back(1.0 / (1.0 + static_cast<double>(b)));
    }
  }

  std::unique_ptr<AdjointMarch> march(const AdjointSettings& settings) {
    auto made = std::make_unique<AdjointMarch>(*problem.model, problem.depth, speed_, settings);
    if (edit) made->set_edit(edit);
    return made;
  }
  std::unique_ptr<GradientEvaluator> evaluator(DepthMarch& march) {
    auto made = std::make_unique<GradientEvaluator>(problem.parameters, problem.context, march,
                                                    Loss{LossKind::cross_entropy, 0.1});
    if (depth_loss) made->add_depth_loss(*depth_loss);
    return made;
  }
  Whole gradient(DepthMarch& march) {
    Whole all(problem.parameters.values.size(), 7.0);
    evaluator(march)->gradient(batch, all);
    return all;
  }
  Whole gradient(const AdjointSettings& settings) { return gradient(*march(settings)); }
  /// From now on marches change their states, but for those made elsewhere.
  void change_states() {
    auto changed = std::make_unique<ChangedStates>(problem.context.size());
    edit = [&by = *changed](int row, double* u) { by.edit(row, u); };
    depth_loss = std::move(changed);
  }
  /// This rank's loss at the parameters moved by step * direction.
  double loss(GradientEvaluator& evaluator, double step, const Whole& direction) {
    auto& values = problem.parameters.values;
    const auto before = values;
    values = plus(before, step, direction);
    problem.model->refresh();
    const auto result = evaluator.evaluate(batch);
    values = before;
    problem.model->refresh();
    return result.loss + result.depth_loss;
  }

  Problem problem;
  Batch batch;
  std::unique_ptr<DepthLoss> depth_loss;
  RowEdit edit;

 private:
  static ProblemSpec with_ends(ProblemSpec spec) {
    spec.model.features = 3;
    spec.model.tokens = spec.mesh.tokens_x * spec.mesh.tokens_y;
    spec.model.classes = 3;
    return spec;
  }
  double speed_;
};

/// Central differences of order 4, f'(0) from f(+-h) and f(+-2h).
template <class F>
double slope(const F& f, double h) {
  return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
}

}  // namespace fluxformer::test
