// The heads that are taken out of a model are the ones it computes with.

#include "analysis/identifiability/model_heads.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::test {
namespace {

using namespace identifiability;

struct Probed {
  explicit Probed(ModelSpec model, int cells) : parameters(random_parameters({.model = model, .kappa = 0})) {
    probe = std::make_unique<ModelProbe>(on_cells(parameters, cells), line, 2, Precision::float64);
  }
  Batch batch() const {
    return {.input = random_vector(static_cast<std::size_t>(2 * 7 * probe->spec().features), 5),
            .length = {7, 4},
            .label = {0, 1},
            .weight = {0.5, 0.5},
            .key = {0, 1}};
  }
  TokenLine line = TokenLine::even(MPI_COMM_SELF, 7, 1);
  Parameters parameters;
  std::unique_ptr<ModelProbe> probe;
};

ModelSpec model_of(Norm norm, SubLayerOrder order, ModelKind kind) {
  ModelSpec model = small_model(2);
  model.norm = norm;
  model.attention.layer_norm = norm == Norm::pre;
  model.order = order;
  model.kind = kind;
  if (kind == ModelKind::pde) {
    model.variation = DepthVariation::linear;
    model.knots = 3;
  }
  model.features = 3;
  model.tokens = 7;
  model.classes = 4;
  return model;
}

// Products of some ten factors: round-off.
TEST(ModelHeads, weights_are_the_softmax_of_queries_and_keys) {
  for (const SubLayerOrder order : {SubLayerOrder::sequential, SubLayerOrder::macaron})
    for (const Norm norm : {Norm::pre, Norm::post, Norm::none}) {
      if (norm == Norm::post && order == SubLayerOrder::macaron) continue;
      const bool whole = norm == Norm::post;
      Probed one(model_of(norm, order, whole ? ModelKind::transformer : ModelKind::pde), whole ? 2 : 4);
      ModelHeads heads(*one.probe);
      heads.show(one.batch());
      for (int l = 1; l <= heads.layers(); ++l) {
        heads.select(l);
        for (int sample = 0; sample < 2; ++sample)
          for (const auto& head : heads.of_sample(sample)) {
            ASSERT_EQ(head.tokens(), sample == 0 ? 7 : 4);
            Matrix expected =
                (head.queries * head.keys.transpose() / std::sqrt(head.keys.cols())).array().exp();
            for (Eigen::Index i = 0; i < expected.rows(); ++i) expected.row(i) /= expected.row(i).sum();
            EXPECT_LT((head.weights - expected).cwiseAbs().maxCoeff(), 1e-14);
          }
      }
    }
}

// With rho = kappa = 0, norm = none or pre and one cell per layer, u_1 = u_0 + h (sum of heads + alpha b_O).
TEST(ModelHeads, outputs_add_up_to_what_attention_adds_to_the_state) {
  for (const Norm norm : {Norm::pre, Norm::none}) {
    Probed one(model_of(norm, SubLayerOrder::sequential, ModelKind::pde), 4);
    one.parameters.values[one.parameters.layout.rho()] = 0;
    one.parameters.values[one.parameters.layout.alpha()] = 0.7;
    one.probe = std::make_unique<ModelProbe>(on_cells(one.parameters, 4), one.line, 2, Precision::float64);
    std::vector<double> u;
    std::vector<std::vector<double>> states;
    const auto batch = one.batch();
    one.probe->embed(batch, u);
    one.probe->forward(u, Keep::nothing, [&](int, const double* s) { states.emplace_back(s, s + u.size()); });
    ModelHeads heads(*one.probe);
    heads.show(batch);
    DepthWeights<double> weights(one.parameters);
    for (int l = 1; l <= 2; ++l) {
      heads.select(l);
      const int row = one.probe->entry_of_layer(l);
      const auto w = weights.at(one.probe->point(row));
      for (int sample = 0; sample < 2; ++sample) {
        const auto before = sample_of(one.probe->counted(), states[row].data(), sample),
                   after = sample_of(one.probe->counted(), states[static_cast<std::size_t>(row) + 1].data(),
                                     sample);
        Matrix sum = Matrix::Zero(before.rows(), before.cols());
        for (const auto& head : heads.of_sample(sample)) sum += head.weights * head.values * head.output;
        sum.rowwise() += 0.7 * Eigen::Map<const Eigen::RowVectorXd>(w.attention.b_o, before.cols());
        EXPECT_LT((before + 0.5 * sum - after).cwiseAbs().maxCoeff(), 1e-14);
      }
    }
  }
}

TEST(ModelHeads, refuse_attention_that_is_not_a_softmax_of_products) {
  for (const auto normalisation : {Normalisation::linear, Normalisation::sinkhorn}) {
    auto model = model_of(Norm::pre, SubLayerOrder::sequential, ModelKind::transformer);
    model.attention.normalisation = normalisation;
    Probed one(model, 2);
    EXPECT_THROW(ModelHeads(*one.probe), BadInput);
  }
  auto model = model_of(Norm::pre, SubLayerOrder::sequential, ModelKind::transformer);
  model.attention.kernel = Kernel::l2;
  Probed one(model, 2);
  EXPECT_THROW(ModelHeads(*one.probe), BadInput);
}

}  // namespace
}  // namespace fluxformer::test
