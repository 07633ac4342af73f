// The probe gives access to the model itself: its logits, its attention, and the derivatives of its map.

#include "analysis/model_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "model/depth_model.hpp"
#include "model/gradient_evaluator.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::test {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct Seen {
  std::vector<std::vector<double>> states;
  std::vector<double> logits;
};

Seen look(ModelProbe& probe, std::vector<double> u, Keep keep = Keep::nothing) {
  Seen seen;
  seen.logits = probe.forward(u, keep, [&](int row, const double* state) {
    EXPECT_EQ(row, static_cast<int>(seen.states.size()));
    seen.states.emplace_back(state, state + u.size());
  });
  EXPECT_EQ(seen.states.back(), u);
  return seen;
}

class Probes : public ::testing::Test {
 protected:
  ProbeCase c{{.norm = Norm::pre, .kind = ModelKind::pde, .kappa = 0.1, .layers = 2, .cells = 4}, 3};
  Batch batch = c.batch({3, 5});
};

TEST_F(Probes, classify_as_the_evaluator_of_training_does) {
  std::vector<double> u;
  c.probe.embed(batch, u);
  const auto seen = look(c.probe, u);
  ASSERT_EQ(seen.states.size(), 5U);
  EXPECT_EQ(seen.states.front(), u);

  SlabContext context{&c.line, 3, c.probe.spec().width, {}, nullptr};
  const auto model = make_depth_model(c.probe.parameters(), context, Precision::float64);
  Backpropagation march(*model, {2, 4}, 1);
  GradientEvaluator evaluator(c.probe.parameters(), context, march, {});
  evaluator.evaluate(batch);
  EXPECT_EQ(seen.logits, evaluator.logits());
}

TEST_F(Probes, leave_fillers_out_of_what_is_counted) {
  std::vector<double> u;
  c.probe.embed(batch, u);
  EXPECT_EQ(c.probe.counted().mask.length, (std::vector<int>{batch.length[0], batch.length[1], 0}));
}

TEST_F(Probes, go_back_by_the_transpose_of_what_they_go_forward_by) {
  std::vector<double> u;
  c.probe.embed(batch, u);
  const auto seen = look(c.probe, u, Keep::activations);
  const auto v = random_vector(u.size(), 11);
  const auto logits_bar = random_vector(seen.logits.size(), 12);
  std::vector<double> u_bar, rows(5, 0.0);
  // Tangents through all cells; at each depth the same product with the cotangent there.
  std::vector<std::vector<double>> tangents{v};
  for (int row = 0; row < 4; ++row) {
    tangents.emplace_back(u.size());
    c.probe.tangent(row, seen.states[row].data(), tangents[tangents.size() - 2].data(),
                    tangents.back().data());
  }
  c.probe.adjoint(logits_bar, u_bar, {}, [&](int row, const double* bar) {
    const std::vector<double> here(bar, bar + u.size());
    rows[row] = dot(here, tangents[row]);
  });
  for (const double one : rows) EXPECT_NEAR(one, rows[0], 1e-12 * std::abs(rows[0]) + 1e-13);  // round-off
  // Central differences: error h^2 and round-off / h.
  const double h = 1e-5;
  auto plus = u, minus = u;
  for (std::size_t j = 0; j < u.size(); ++j) plus[j] += h * v[j], minus[j] -= h * v[j];
  const double slope =
      (dot(look(c.probe, plus).logits, logits_bar) - dot(look(c.probe, minus).logits, logits_bar)) / (2 * h);
  EXPECT_NEAR(rows[0], slope, 1e-8 * (1 + std::abs(slope)));
  // The adjoint does not consume what the march stored.
  std::vector<double> again;
  c.probe.adjoint(logits_bar, again);
  EXPECT_EQ(again, u_bar);
}

TEST_F(Probes, change_no_bit_where_a_state_is_replaced_by_itself) {
  std::vector<double> u;
  c.probe.embed(batch, u);
  const auto seen = look(c.probe, u);
  c.probe.set_edit([&](int row, double* state) { std::ranges::copy(seen.states[row], state); });
  std::vector<double> again;
  c.probe.embed(batch, again);
  EXPECT_EQ(again, u);
  const auto patched = look(c.probe, again);
  EXPECT_EQ(patched.states, seen.states);
  EXPECT_EQ(patched.logits, seen.logits);
}

TEST_F(Probes, run_on_from_the_states_that_are_put_in) {
  std::vector<double> u, other;
  c.probe.embed(c.batch({7, 9}), other);  // of the same lengths
  const auto donor = look(c.probe, other);
  c.probe.embed(batch, u);
  const auto seen = look(c.probe, u);
  for (int at = 0; at <= 4; ++at) {
    c.probe.set_edit([&](int row, double* state) {
      if (row == at) std::ranges::copy(donor.states[row], state);
    });
    auto start = u;
    c.probe.embed(batch, start);
    // Kept activations are those of the patched run.
    for (const auto keep : {Keep::nothing, Keep::activations}) {
      const auto patched = look(c.probe, start, keep);
      for (int row = 0; row < at; ++row) EXPECT_EQ(patched.states[row], seen.states[row]) << row;
      for (int row = at; row <= 4; ++row) EXPECT_EQ(patched.states[row], donor.states[row]) << row;
      EXPECT_EQ(patched.logits, donor.logits);
    }
  }
  c.probe.set_edit({});
  EXPECT_EQ(look(c.probe, u).logits, seen.logits);
}

TEST_F(Probes, give_the_first_order_effect_of_a_source_by_the_adjoint_at_its_row) {
  std::vector<double> u, u_bar;
  c.probe.embed(batch, u);
  const auto seen = look(c.probe, u, Keep::activations);
  const auto delta = random_vector(u.size(), 31), logits_bar = random_vector(seen.logits.size(), 32);
  std::vector<double> effect(5);
  c.probe.adjoint(logits_bar, u_bar, {}, [&](int row, const double* bar) {
    effect[row] = std::inner_product(delta.begin(), delta.end(), bar, 0.0);
  });
  const double h = 1e-5;  // central differences: error h^2 and round-off / h
  for (int at = 1; at <= 4; ++at) {
    const auto goal = [&](double step) {
      c.probe.set_edit([&](int row, double* state) {
        for (std::size_t j = 0; row == at && j < u.size(); ++j) state[j] += step * delta[j];
      });
      return dot(look(c.probe, u).logits, logits_bar);
    };
    const double slope = (goal(h) - goal(-h)) / (2 * h);
    EXPECT_NEAR(effect[at], slope, 1e-8 * (1 + std::abs(slope))) << at;
  }
}

TEST_F(Probes, go_back_through_replaced_states_by_the_transpose_of_the_replacement) {
  std::vector<double> u, u_bar;
  c.probe.embed(batch, u);
  const auto put = random_vector(u.size(), 41), v = random_vector(u.size(), 42);
  // Every second number of row 2 is replaced.
  c.probe.set_edit([&](int row, double* state) {
    for (std::size_t j = 0; row == 2 && j < u.size(); j += 2) state[j] = put[j];
  });
  const auto seen = look(c.probe, u, Keep::activations);
  const auto logits_bar = random_vector(seen.logits.size(), 43);
  c.probe.adjoint(logits_bar, u_bar, {}, [&](int row, double* bar) {
    for (std::size_t j = 0; row == 2 && j < u.size(); j += 2) bar[j] = 0;
  });
  // Central differences of order 4: error h^4 and round-off / h.
  const double h = 1e-5;
  const auto goal = [&](double step) {
    auto moved = u;
    for (std::size_t j = 0; j < u.size(); ++j) moved[j] += step * v[j];
    return dot(look(c.probe, moved).logits, logits_bar);
  };
  const double slope = (8 * (goal(h) - goal(-h)) - (goal(2 * h) - goal(-2 * h))) / (12 * h);
  EXPECT_NEAR(dot(u_bar, v), slope, 1e-9 * (1 + std::abs(slope)));
}

TEST_F(Probes, transpose_each_cell) {
  std::vector<double> u;
  c.probe.embed(batch, u);
  const auto v = random_vector(u.size(), 21), w = random_vector(u.size(), 22);
  std::vector<double> jv(u.size()), jtw(u.size());
  c.probe.tangent(1, u.data(), v.data(), jv.data());
  c.probe.transposed(1, u.data(), w.data(), jtw.data());
  EXPECT_NEAR(dot(jv, w), dot(v, jtw), 1e-12 * std::abs(dot(jv, w)) + 1e-13);
}

TEST_F(Probes, show_the_attention_of_the_cell_that_follows) {
  std::vector<double> u, k, of_first;
  c.probe.embed(batch, u);
  const auto seen = look(c.probe, u);
  EXPECT_EQ(c.probe.entry_of_layer(2), 2);
  c.probe.attention(2, seen.states[2].data(), k);
  const auto tokens = static_cast<std::size_t>(c.tokens);
  ASSERT_EQ(k.size(), 3 * static_cast<std::size_t>(c.probe.spec().attention.heads) * tokens * tokens);
  const double sum = std::accumulate(k.begin(), k.begin() + static_cast<std::ptrdiff_t>(tokens), 0.0);
  EXPECT_NEAR(sum, 1, 1e-14 * c.tokens);
  // Two layers on four cells: the cell after row 2 begins at s = 1, and the weights are linear between s = 0
  // and 1.
  std::vector<double> expected(k.size());
  c.probe.attention(2, seen.states[2].data(), k);
  SlabContext context{&c.line, 3, c.probe.spec().width, {batch.length, false, {}}, nullptr};
  const auto model = make_depth_model(c.probe.parameters(), context, Precision::float64);
  model->attention({2, 1.0}, 0.5, seen.states[2].data(), nullptr, expected.data());
  EXPECT_EQ(k, expected);
  c.probe.attention(1, seen.states[2].data(), of_first);
  EXPECT_NE(k, of_first);
}

TEST(ProbesThatDoNotFit, are_refused) {
  const ProbeCase odd({.kind = ModelKind::pde, .layers = 2, .cells = 3}, 1);
  EXPECT_THROW(odd.probe.entry_of_layer(2), BadInput);
}

}  // namespace
}  // namespace fluxformer::test
