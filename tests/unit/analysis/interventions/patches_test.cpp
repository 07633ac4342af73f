// Patches against what they must be: runs that are marches, gradients, slopes, closed forms.

#include "analysis/interventions/patches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/identifiability/attribution_baselines.hpp"
#include "analysis/identifiability/model_heads.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/interventions/patch_case.hpp"

namespace fluxformer::interventions {
namespace {

/// The site numbers own + t (put - own).
SiteNumbers towards(const SiteNumbers& own, const SiteNumbers& put, double t) {
  SiteNumbers at;
  at.add(1 - t, own);
  at.add(t, put);
  return at;
}

TEST(Patches, own_values_change_no_bit) {
  for (const auto& model : patched_models()) {
    PatchCase test = model.patched();
    for (const auto site : all_sites)
      for (const double effect : test.exact(site, test.own.at))
        EXPECT_EQ(effect, 0) << model.name << site_word(site);
  }
}

TEST(Patches, whole_face_of_a_donor_is_the_run_of_the_donor_bit_for_bit) {
  for (const auto& model : patched_models()) {
    PatchCase test = model.patched();
    const double own = test.patches.value(test.own, test.question),
                 donor = test.patches.value(test.donor, test.question);
    for (int face = 0; face <= test.extents().cells; ++face)
      EXPECT_EQ(test.patches.exact_face(face, test.own, test.donor.at.faces[face], test.question),
                donor - own)
          << model.name << face;
  }
}

TEST(Patches, runs_through_opened_cells_are_marches_bit_for_bit) {
  for (const auto& model : patched_models()) {
    PatchCase test = model.patched();
    Patches faces(test.parameters, test.line, 1, Precision::float64, SiteScope::faces);
    const auto marched = faces.run(test.sample(0));
    for (int face = 0; face <= test.extents().cells; ++face)
      EXPECT_TRUE(marched.at.faces[face] == test.own.at.faces[face]) << model.name << face;
  }
}

TEST(Patches, one_adjoint_is_the_gradient_at_each_face) {
  for (const auto& model : patched_models()) {
    PatchCase test = model.patched();
    Patches faces(test.parameters, test.line, 1, Precision::float64, SiteScope::faces);
    const auto marched = faces.cotangents(test.own, test.question);
    const auto opened = test.patches.cotangents(test.own, test.question);
    // Sums of some hundred products in another order.
    for (int face = 0; face <= test.extents().cells; ++face)
      EXPECT_LT((marched.faces[face] - opened.faces[face]).norm(), 1e-12 * marched.faces[face].norm())
          << model.name << face;
  }
}

double distance(const std::vector<double>& one, const std::vector<double>& other) {
  double sum = 0;
  for (std::size_t k = 0; k < one.size(); ++k) sum += std::pow(one[k] - other[k], 2);
  return std::sqrt(sum);
}

// E(t) - t <J', D> = O(t^2): halving t divides it by 4. Steps are large enough for round-off to be far below.
TEST(Patches, first_order_leaves_a_remainder_of_second_order_at_all_sites) {
  for (const auto& model : patched_models()) {
    PatchCase test = model.patched();
    const auto cotangents = test.patches.cotangents(test.own, test.question);
    for (const auto site : all_sites) {
      const auto remainder = [&](double t) {
        const auto put = towards(test.own.at, test.donor.at, t);
        return distance(test.exact(site, put),
                        first_order(test.extents(), site, cotangents, test.own.at, put));
      };
      const double coarse = remainder(0x1p-6), fine = remainder(0x1p-9);
      // Where nothing follows that is not linear the remainder is round-off.
      if (coarse < 1e-13) continue;
      EXPECT_NEAR(std::log2(coarse / fine) / 3, 2, 0.2) << model.name << " " << site_word(site);
    }
  }
}

// The same for the effects with the soft-max computed again, whose remainder is that of what follows it.
TEST(Patches, recomputed_softmax_leaves_a_remainder_of_second_order) {
  for (const auto& model : patched_models()) {
    PatchCase test = model.patched();
    const auto cotangents = test.patches.cotangents(test.own, test.question);
    for (const auto site : {Site::query, Site::key}) {
      const auto remainder = [&](double t) {
        const auto put = towards(test.own.at, test.donor.at, t);
        return distance(test.exact(site, put), test.patches.softmax(site, test.own, put, cotangents));
      };
      EXPECT_NEAR(std::log2(remainder(0x1p-6) / remainder(0x1p-9)) / 3, 2, 0.2)
          << model.name << site_word(site);
    }
  }
}

TEST(Patches, recomputed_softmax_is_exact_where_all_behind_it_is_linear) {
  // A PDE model of one cell without reaction and norms.
  PatchCase test(test::probe_parameters(
      {.norm = Norm::none, .kind = ModelKind::pde, .rho = 0, .layers = 1, .cells = 1}));
  const auto cotangents = test.patches.cotangents(test.own, test.question);
  const auto error = [&](Site site, const std::vector<double>& account) {
    const auto exact = test.exact(site, test.donor.at);
    const double size = distance(exact, std::vector<double>(exact.size(), 0.0));
    EXPECT_GT(size, 1e-3) << site_word(site);
    return distance(exact, account) / size;
  };
  // Differences of J, which is of order 1.
  for (const auto site : {Site::query, Site::key})
    EXPECT_LT(error(site, test.patches.softmax(site, test.own, test.donor.at, cotangents)), 1e-12);
  for (const auto site : {Site::value, Site::head, Site::attention})
    EXPECT_LT(error(site, first_order(test.extents(), site, cotangents, test.own.at, test.donor.at)), 1e-12);
}

TEST(Patches, heads_add_up_to_what_attention_adds) {
  for (const auto& model : patched_models()) {
    PatchCase test = model.patched();
    OpenCells cells(test.parameters, test.patches.one().context(), test.patches.one().depth(),
                    test.patches.one().model().coefficients());
    const Index c = test.extents().channels;
    for (int cell = 0; cell < test.extents().cells; ++cell) {
      const auto& at = test.own.at.cells[cell];
      RowMatrix sum = RowMatrix::Zero(test.extents().tokens, test.extents().width);
      for (int head = 0; head < test.extents().heads; ++head)
        sum += cells.added_by_head(cell, head, at.heads.middleCols(head * c, c));
      // The rest is the bias of W_O, the same for all tokens.
      const RowMatrix rest = at.attention - sum;
      EXPECT_LT((rest.rowwise() - rest.row(0)).norm(), 1e-12 * at.attention.norm()) << model.name;
    }
  }
}

TEST(Patches, zeroed_values_change_attention_by_the_norm_of_weighted_values) {
  const test::ProbeSpec spec;
  test::ProbeCase probe(spec, 1);
  PatchCase test(test::probe_parameters(spec));
  identifiability::ModelHeads heads(probe.probe);
  heads.show(test.sample(0));
  for (int cell = 0; cell < 2; ++cell) {
    heads.select_cell(cell);
    const RowMatrix expected = identifiability::norm_based_attention(heads.of_sample(0));
    EXPECT_LT((test.patches.zeroing(cell, test.own) - expected).norm(), 1e-12 * expected.norm());
  }
}

TEST(Patches, causal_patches_change_no_earlier_state_and_padding_has_no_effect) {
  auto spec = test::probe_parameters({}).spec;
  spec.causal = true;
  spec.pooling = Pooling::first;
  {
    // The classifier reads token 0: what comes later does not reach it.
    PatchCase test(
        test::random_parameters({.model = spec, .mask = {.length = {}, .causal = true, .weight = {}}}));
    for (const auto site : all_sites) {
      const auto effects = test.exact(site, test.donor.at);
      for (std::size_t k = 0; k < effects.size(); ++k)
        if (k % 12 > 0) {
          EXPECT_EQ(effects[k], 0) << site_word(site) << k;
        }
    }
    EXPECT_NE(test.exact(Site::face, test.donor.at)[0], 0);
  }
  PatchCase test(test::probe_parameters({}));
  test.length = 7;
  test.own = test.patches.run(test.sample(0));
  test.donor = test.patches.run(test.sample(4));
  for (const auto site : all_sites) {
    const auto effects = test.exact(site, test.donor.at);
    for (std::size_t k = 0; k < effects.size(); ++k)
      if (k % 12 >= 7) {
        EXPECT_EQ(effects[k], 0) << site_word(site) << k;
      }
    EXPECT_NE(effects[0], 0) << site_word(site);
  }
}

/// Numbers of one head of one cell in which query 0 sees two keys with logits l and 0, and o_bar . v is 1 and 0.
struct TwoKeys {
  TwoKeys() : test(test::probe_parameters({.layers = 1, .cells = 1, .tokens_x = 2, .tokens_y = 1}), 2, 1) {}
  CellNumbers at(double logit) const {
    const Index c = test.extents().channels, all = c * test.extents().heads;
    CellNumbers numbers;
    for (auto* const one : {&numbers.queries, &numbers.keys, &numbers.values, &numbers.heads})
      one->setZero(2, all);
    numbers.queries(0, 0) = std::sqrt(static_cast<double>(c));
    numbers.keys(0, 0) = logit;
    numbers.values(0, 0) = 1;
    return numbers;
  }
  double effect(double from, double to) {
    CellNumbers cotangents = at(0);
    cotangents.heads(0, 0) = 1;
    OpenCells cells(test.parameters, test.patches.one().context(), test.patches.one().depth(),
                    test.patches.one().model().coefficients());
    test.patches.one().show(2);
    return cells.softmax_effects(0, Site::key, at(from), at(to), cotangents).front();
  }
  PatchCase test;
};

// p' - p of p = 1 / (1 + exp(-l)). First order says p (1 - p) 20 = 9.08e-4 for l = -10 to 10.
TEST(Patches, recomputed_softmax_sees_through_saturation) {
  TwoKeys keys;
  const auto logistic = [](double l) { return 1 / (1 + std::exp(-l)); };
  EXPECT_NEAR(keys.effect(-10, 10), 0.999909, 1e-6);
  EXPECT_NEAR(keys.effect(-10, 10), logistic(10) - logistic(-10), 1e-14);
  const double p = logistic(-10), first = p * (1 - p) * 20, second = first + p * (1 - p) * (1 - 2 * p) * 200;
  EXPECT_NEAR(first, 9.08e-4, 1e-6);
  EXPECT_NEAR(second, 9.99e-3, 1e-5);
}

TEST(Patches, recomputed_softmax_keeps_its_digits_at_extreme_logits) {
  TwoKeys keys;
  EXPECT_EQ(keys.effect(-2000, 2000), 1);
  EXPECT_EQ(keys.effect(2000, -2000), -1);
  // p and p' near 1: the difference is exp(-30) - exp(-40) to its own digits.
  EXPECT_NEAR(keys.effect(30, 40) / (std::exp(-30.0) - std::exp(-40.0)), 1, 1e-12);
  EXPECT_EQ(keys.effect(5, 5), 0);
}

TEST(Patches, sites_that_a_model_does_not_have_are_refused_by_name) {
  auto spec = test::probe_parameters({}).spec;
  spec.attention.kernel = Kernel::l2;
  PatchCase test(test::random_parameters({.model = spec}));
  EXPECT_NO_THROW(test.exact(Site::attention, test.donor.at));
  for (const auto site : {Site::head, Site::query, Site::key, Site::value}) {
    try {
      test.patches.require(site);
      FAIL() << site_word(site);
    } catch (const BadInput& e) {
      EXPECT_NE(std::string(e.what()).find(site_word(site)), std::string::npos);
    }
  }
  spec.subflow = SubLayerIntegrator::midpoint;
  const auto parameters = test::random_parameters({.model = spec});
  EXPECT_THROW(Patches(parameters, test.line, 1, Precision::float64, SiteScope::cells), BadInput);
  EXPECT_NO_THROW(Patches(parameters, test.line, 1, Precision::float64, SiteScope::faces));
}

// Two marches, one behind the other, are the march of a model on two depth stages.
TEST(Patches, effects_do_not_change_where_depth_is_divided_into_stages) {
  PatchCase test(test::probe_parameters({.layers = 3, .cells = 3}));
  RunSlab slab(test.parameters, test.line, 1, Precision::float64);
  slab.show(12);
  const auto first = layer_maps(slab.model(), slab.depth(), {1, 1}),
             second = layer_maps(slab.model(), slab.depth(), {2, 3});
  std::vector<double> u(slab.size());
  slab.put(test.donor.at.faces[0], 0, u);
  first->forward(u.data(), Keep::nothing, {});
  second->forward(u.data(), Keep::nothing, {});
  EXPECT_EQ(slab.goal().value(test.question, u.data()).front() - test.patches.value(test.own, test.question),
            test.patches.exact_face(0, test.own, test.donor.at.faces[0], test.question));
}

}  // namespace
}  // namespace fluxformer::interventions
