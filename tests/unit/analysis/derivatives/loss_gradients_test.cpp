// Gradients by depth: by hand, against differences, and invariances.

#include "analysis/derivatives/loss_gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/derivatives/layer_jacobians.hpp"
#include "model/depth_model.hpp"
#include "model/gradient_evaluator.hpp"
#include "model/tasks/task.hpp"
#include "tests/support/listed_samples.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::derivatives {
namespace {

using test::ProbeCase;
using test::ProbeSpec;
using test::random_vector;

constexpr double gradient_measures_rounding = 1e-13;  // sums of some hundred numbers of order 1

/// A Transformer, and a PDE model without normalisation on finer cells.
std::vector<ProbeSpec> models() {
  return {{}, {.norm = Norm::none, .kind = ModelKind::pde, .kappa = 0.2, .cells = 6}};
}

/// d loss / d logits of each sample.
std::vector<double> logits_bar(const ModelProbe& probe, const Batch& batch,
                               const std::vector<double>& logits) {
  std::vector<double> bar(logits.size());
  const auto classes = static_cast<std::size_t>(probe.spec().classes);
  for (std::size_t b = 0; b < batch.label.size(); ++b)
    loss_of({}, logits.data() + b * classes, probe.spec().classes, batch.label[b],
            batch.weight[b] == 0 ? 0 : 1, bar.data() + b * classes);
  return bar;
}

/// The accumulator's result for these samples, and the gradient of the sum of their losses.
struct Found {
  GradientResult measures;
  std::vector<double> parameters;
};
Found found(ProbeCase& model, const std::vector<long>& keys) {
  const auto batch = model.batch(keys);
  std::vector<double> u, u_bar;
  Found out;
  out.parameters.resize(model.probe.parameters().values.size());
  model.probe.embed(batch, u);
  const auto bar = logits_bar(model.probe, batch, model.probe.forward(u, Keep::activations));
  GradientAccumulator meter(model.probe.depths(), model.probe.counted());
  model.probe.adjoint(bar, u_bar, out.parameters, [&](int i, const double* at) { meter.add(i, at); });
  meter.reduce(MPI_COMM_SELF);
  out.measures = meter.result();
  return out;
}

TEST(GradientResult, of_two_samples_by_hand) {
  const auto line = TokenLine::even(MPI_COMM_SELF, 2, 1);
  const SlabContext context{&line, 2, 1, {{2, 1}, false, {}}, nullptr};
  GradientAccumulator meter(3, context);
  const std::vector<double> rows[3] = {{3, 12, 4, NAN}, {0, 1, 0, NAN}, {1, 1, 0, NAN}};
  for (int i = 2; i >= 0; --i) meter.add(i, rows[i].data());
  meter.reduce(MPI_COMM_SELF);
  const auto m = meter.result();
  EXPECT_EQ(m.samples, 2);
  EXPECT_NEAR(m.norm[0], 13 / std::sqrt(2), gradient_measures_rounding);  // sqrt((5^2 + 12^2) / 2)
  EXPECT_NEAR(m.ratio[0], 13, gradient_measures_rounding);
  EXPECT_NEAR(m.ratio[1], std::sqrt(0.5), gradient_measures_rounding);
  EXPECT_EQ(m.ratio[2], 1);
  EXPECT_NEAR(m.disparity, 13, gradient_measures_rounding);
}

TEST(GradientResult, at_the_embedding_are_those_of_central_differences) {
  for (const auto& spec : models()) {
    ProbeCase model(spec, 1);
    const auto batch = model.batch({1});
    std::vector<double> u;
    model.probe.embed(batch, u);
    const auto loss = [&](std::vector<double> from) {
      const auto& z = model.probe.forward(from);
      return loss_of({}, z.data(), model.probe.spec().classes, batch.label[0], 1, nullptr);
    };
    constexpr double step = 1e-5;
    double sum = 0;
    for (std::size_t j = 0; j < u.size(); ++j) {
      auto up = u, down = u;
      up[j] += step, down[j] -= step;
      sum += std::pow((loss(up) - loss(down)) / (2 * step), 2);
    }
    // step^2 from the third derivative, 1e-16 / step from round-off
    EXPECT_NEAR(found(model, {1}).measures.norm[0] / std::sqrt(sum), 1, 1e-8);
  }
}

TEST(GradientResult, of_a_batch_are_those_of_its_samples_together) {
  for (const auto& spec : models()) {
    ProbeCase three(spec, 3), four(spec, 4);
    const auto whole = found(four, {0, 1, 2, 3});
    const auto part = found(three, {3, 1}), rest = found(three, {0, 2});  // with a filler each
    for (std::size_t i = 0; i < whole.measures.norm.size(); ++i) {
      const double a = part.measures.norm[i], b = rest.measures.norm[i], all = whole.measures.norm[i];
      EXPECT_NEAR((2 * a * a + 2 * b * b) / (4 * all * all), 1, 1e-12);
    }
    EXPECT_EQ(part.measures.samples, 2);
  }
}

TEST(GradientResult, do_not_see_padding) {
  // Nine tokens, alone on a line and followed by three tokens of padding.
  ModelSpec spec = test::small_model(2);
  spec.norm = Norm::none;
  spec.attention.layer_norm = false;
  spec.features = 3;
  spec.classes = 4;
  const auto parameters = test::random_parameters({.model = spec, .kappa = 0.2});
  const auto features = random_vector(9 * 3, 5);
  const auto numbers = [&](int tokens) {
    const auto line = TokenLine::even(MPI_COMM_SELF, tokens, 1);
    ModelProbe probe(test::on_cells(parameters, 4), line, 1, Precision::float64);
    Batch batch{features, {9}, {2}, {1}};
    batch.input.resize(static_cast<std::size_t>(tokens) * 3, 7);
    std::vector<double> u, u_bar, gradient(parameters.values.size());
    probe.embed(batch, u);
    const auto bar = logits_bar(probe, batch, probe.forward(u, Keep::activations));
    GradientAccumulator meter(probe.depths(), probe.counted());
    probe.adjoint(bar, u_bar, gradient, [&](int i, const double* at) { meter.add(i, at); });
    meter.reduce(MPI_COMM_SELF);
    auto all = meter.result().norm;
    for (const auto& group : group_norms(parameters.layout, gradient)) all.push_back(group.norm);
    return all;
  };
  EXPECT_LT(test::relative_difference(numbers(12), numbers(9)), 1e-12);
}

TEST(GradientResult, of_groups_are_the_norm_of_all_their_arrays) {
  ModelSpec spec = test::small_model(2);
  spec.features = 3;
  spec.classes = 4;
  const ParameterLayout layout(spec);
  std::vector<double> gradient(layout.size(), 0.0);
  const auto set = [&](const char* path, double value) { gradient[layout.at(path).offset] = value; };
  set("embedding/W", 3), set("embedding/b", -4), set("layers/2/W_Q", 1), set("layers/2/kappa", 2);
  set("layers/2/b_2", 2), set("head/b", -7);
  const auto groups = group_norms(layout, gradient);
  std::vector<std::string> names;
  std::vector<double> norms;
  Index count = 0;
  for (const auto& g : groups) {
    names.push_back(g.group), norms.push_back(g.norm);
    count += g.parameters;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"embedding", "layers/1", "layers/2", "final_norm", "head",
                                             "equation"}));
  EXPECT_EQ(norms, (std::vector<double>{5, 0, 3, 0, 7, 0}));
  EXPECT_EQ(count, layout.size());
}

TEST(ProbeJacobian, is_the_derivative_of_the_march_and_its_transpose) {
  for (const auto& spec : models()) {
    ProbeCase model(spec, 3);
    auto& probe = model.probe;
    std::vector<double> u;
    probe.embed(model.batch({0, 1, 2}), u);
    const auto start = u;
    ProbeJacobian jacobian(probe);
    probe.forward(u, Keep::nothing, [&](int row, const double* state) { jacobian.keep(row, state); });
    const auto v = random_vector(u.size(), 21), w = random_vector(u.size(), 22);
    const int last = probe.cells();
    std::vector<double> tangent(u.size()), back(u.size()), half(u.size()), halves(u.size());
    jacobian.derivative(0, last)(v.data(), tangent.data());
    jacobian.transposed(0, last)(w.data(), back.data());
    EXPECT_NEAR(test::dot(tangent, w) / test::dot(v, back), 1, 1e-11);

    constexpr double step = 1e-5;
    auto up = test::plus(start, step, v), down = test::plus(start, -step, v);
    probe.forward(up), probe.forward(down);
    auto difference = test::plus(up, -1, down);
    for (double& x : difference) x /= 2 * step;
    EXPECT_LT(test::relative_difference(tangent, difference), 1e-7);  // step^2 |v|^2 from third derivatives

    // In two parts, and within one object.
    jacobian.derivative(0, 1)(v.data(), half.data());
    jacobian.derivative(1, last)(half.data(), halves.data());
    EXPECT_EQ(halves, tangent);
  }
}

TEST(ProbeJacobian, takes_the_gradient_from_depth_to_depth) {
  for (const auto& spec : models()) {
    ProbeCase model(spec, 2);
    auto& probe = model.probe;
    const auto batch = model.batch({0, 1});
    std::vector<double> u, u_bar;
    probe.embed(batch, u);
    ProbeJacobian jacobian(probe);
    const auto bar =
        logits_bar(probe, batch, probe.forward(u, Keep::activations, [&](int row, const double* state) {
          jacobian.keep(row, state);
        }));
    std::vector<std::vector<double>> rows(static_cast<std::size_t>(probe.depths()));
    probe.adjoint(bar, u_bar, {}, [&](int i, const double* at) { rows[i].assign(at, at + u.size()); });
    std::vector<double> back(u.size());
    for (int i = 0; i < probe.cells(); ++i) {
      jacobian.transposed(i, probe.cells())(rows.back().data(), back.data());
      EXPECT_LT(test::relative_difference(back, rows[i]), 1e-12);
    }
  }
}

}  // namespace
}  // namespace fluxformer::derivatives

// Gradients of the mean loss over a sample set, and layer Jacobians in known cases.

namespace fluxformer::derivatives {
namespace {

using namespace test;

struct Measured {
  explicit Measured(const ProbeSpec& spec)
      : data(random_samples(5, 12, 1, 3, 4, 1)),
        line(token_line(MPI_COMM_SELF, data)),
        samples(MPI_COMM_SELF, line, data, all_of(data), 5),
        probe(probe_parameters(spec), line, 5, Precision::float64) {}

  ListedSamples data;
  TokenLine line;
  SampleSet samples;
  ModelProbe probe;
};

TEST(LossGradients, are_those_of_the_evaluator_that_trains) {
  Measured m({.tokens_x = 12, .tokens_y = 1});
  const auto found = loss_gradients(m.samples, m.probe);

  SlabContext context{&m.line, 5, m.probe.spec().width};
  const auto model = make_depth_model(m.probe.parameters(), context, Precision::float64);
  Backpropagation march(*model, {2, 2}, 1);
  GradientEvaluator evaluator(m.probe.parameters(), context, march, {});
  std::vector<double> gradient(found.parameters.size());
  m.samples.for_batches(
      [&](const Batch& batch) { EXPECT_NEAR(evaluator.gradient(batch, gradient).loss, found.loss, 1e-13); });
  EXPECT_LT(relative_difference(found.parameters, gradient), 1e-12);
}

TEST(LossGradients, by_layer_are_some_of_those_by_row) {
  Measured m({.kind = ModelKind::pde, .cells = 6, .tokens_x = 12, .tokens_y = 1});
  const auto found = loss_gradients(m.samples, m.probe);
  ASSERT_EQ(found.by_row.norm.size(), 7u);
  ASSERT_EQ(found.by_layer.norm.size(), 3u);
  for (std::size_t l = 0; l < 3; ++l) EXPECT_EQ(found.by_layer.norm[l], found.by_row.norm[3 * l]);
}

TEST(LossGradients, of_each_sample_are_those_of_the_sample_alone_in_the_order_of_the_samples) {
  Measured m({.kind = ModelKind::pde, .cells = 6, .tokens_x = 12, .tokens_y = 1});
  const std::vector<std::size_t> order{3, 0, 4};
  const auto found = loss_gradients(m.samples.with(order, 5), m.probe);
  ASSERT_EQ(found.norm_by_sample.size(), 3u * 3);
  ASSERT_EQ(found.size_by_sample.size(), 3u * 3);
  ASSERT_EQ(found.size.size(), 7u);
  std::vector<double> squares(3, 0.0);
  for (std::size_t place = 0; place < 3; ++place) {
    const auto sample = m.samples.with({order[place]}, 5);
    const auto alone = loss_gradients(sample, m.probe);
    const auto real = static_cast<std::size_t>(m.data.length(order[place]));
    std::vector<double> u, state_norm;
    sample.for_batches([&](const Batch& batch) {
      m.probe.embed(batch, u);
      m.probe.forward(u, Keep::nothing, [&](int, const double* state) {
        double square = 0;  // [token][sample][channel], this sample in the first slot
        for (std::size_t token = 0; token < real; ++token)
          for (std::size_t j = 0; j < static_cast<std::size_t>(m.probe.spec().width); ++j)
            square += std::pow(state[token * m.probe.counted().row() + j], 2);
        state_norm.push_back(std::sqrt(square));
      });
    });
    for (std::size_t l = 0; l < 3; ++l) {
      const double norm = found.norm_by_sample[place * 3 + l], size = found.size_by_sample[place * 3 + l];
      EXPECT_NEAR(norm / alone.by_layer.norm[l], 1, 1e-12);
      EXPECT_NEAR(size / (norm * state_norm[3 * l]), 1, 1e-12);
      squares[l] += size * size / 3;
    }
  }
  for (std::size_t l = 0; l < 3; ++l) {
    EXPECT_NEAR(found.size[3 * l] / std::sqrt(squares[l]), 1, 1e-12);
    double mean = 0;
    for (std::size_t place = 0; place < 3; ++place)
      mean += std::pow(found.norm_by_sample[place * 3 + l], 2) / 3;
    EXPECT_NEAR(found.by_layer.norm[l] / std::sqrt(mean), 1, 1e-12);
  }
}

TEST(LossGradients, have_a_size_that_does_not_depend_on_the_scale_of_the_state) {
  // No layer does anything and the head undoes the scale: the same model in other units.
  const ProbeSpec nothing{.norm = Norm::none, .alpha = 0, .rho = 0, .tokens_x = 12, .tokens_y = 1};
  Measured one(nothing);
  auto scaled = one.probe.parameters();
  for (const auto& view : scaled.layout.views())
    for (double& number : scaled.view(view.path()))
      number *= view.group == "embedding" ? 8 : view.path() == "head/W" ? 1.0 / 8 : 1;
  ModelProbe other(scaled, one.line, 5, Precision::float64);
  const auto plain = loss_gradients(one.samples, one.probe), large = loss_gradients(one.samples, other);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(large.by_row.norm[i] * 8 / plain.by_row.norm[i], 1, 1e-12);
    EXPECT_NEAR(large.size[i] / plain.size[i], 1, 1e-12);
  }
}

TEST(LayerJacobians, of_layers_that_do_nothing_are_the_identity) {
  const ProbeSpec nothing{.norm = Norm::none,
                          .kind = ModelKind::pde,
                          .alpha = 0,
                          .rho = 0,
                          .cells = 4,
                          .tokens_x = 12,
                          .tokens_y = 1};
  Measured m(nothing);
  auto parameters = m.probe.parameters();
  parameters.spec.cells = 4;
  const auto found = layer_jacobians(m.samples, parameters, {.steps = 3, .exponents = 2, .sweeps = 1});
  ASSERT_EQ(found.largest.size(), 2u);
  for (std::size_t l = 0; l < 2; ++l) {
    EXPECT_NEAR(found.largest[l], 1, 1e-12);
    EXPECT_NEAR(found.smallest[l], 1, 1e-12);
    EXPECT_LT(found.largest_error[l], 1e-12);
  }
  ASSERT_EQ(found.lyapunov.size(), 2u);
  for (const double exponent : found.lyapunov) EXPECT_NEAR(exponent, 0, 1e-12);
  ASSERT_EQ(found.lyapunov_error.size(), 2u);
  for (const double error : found.lyapunov_error) EXPECT_NEAR(error, 0, 1e-12);
  EXPECT_EQ(found.lyapunov_sweeps, 1);
}

}  // namespace
}  // namespace fluxformer::derivatives
