// Accounts of faces by second order and along a line, against runs of the model and exact cases.

#include "analysis/interventions/face_accounts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "base/error.hpp"
#include "tests/unit/analysis/interventions/patch_case.hpp"

namespace fluxformer::interventions {
namespace {

// E_i(t) - t <lambda, D_i> - t^2/2 D_i^T H D_i = O(t^3), and without the last term O(t^2).
TEST(FaceAccounts, second_order_leaves_a_remainder_of_third_order) {
  for (const auto& model : patched_models()) {
    PatchCase test = model.patched();
    FaceAccounts accounts(test.patches.many());
    const auto cotangents = test.patches.cotangents(test.own, test.question);
    for (int face = 0; face <= test.extents().cells; ++face) {
      const auto& own = test.own.at.faces[face];
      const auto remainders = [&](double t) {
        SiteNumbers put = test.own.at;
        put.faces[face] = own + t * (test.donor.at.faces[face] - own);
        std::vector<Index> places;
        for (int token = 0; token < 12; ++token)
          places.push_back(test.extents().place(Site::face, face, 0, token));
        test.patches.many().show(12);
        const auto curved = accounts.curvature(face, test.question, own, put.faces[face]);
        const auto exact = test.patches.exact(Site::face, test.own, put, test.question, places);
        const auto first = first_order(test.extents(), Site::face, cotangents, test.own.at, put);
        double of_first = 0, of_second = 0;
        for (int k = 0; k < 12; ++k) {
          const double linear = first[places[k]];
          of_first += std::pow(exact[k] - linear, 2);
          of_second += std::pow(exact[k] - linear - curved(k, k) / 2, 2);
        }
        return std::pair(std::sqrt(of_first), std::sqrt(of_second));
      };
      const auto coarse = remainders(0x1p-6), fine = remainders(0x1p-8);
      if (coarse.first < 1e-13) continue;  // J is linear in this face
      EXPECT_NEAR(std::log2(coarse.first / fine.first) / 2, 2, 0.2) << model.name << face;
      EXPECT_NEAR(std::log2(coarse.second / fine.second) / 2, 3, 0.2) << model.name << face;
    }
  }
}

TEST(FaceAccounts, pairs_of_tokens_are_symmetric_and_those_of_a_part_are_rows_of_all) {
  for (const auto& model : patched_models()) {
    PatchCase test = model.patched();
    FaceAccounts accounts(test.patches.many());
    test.patches.many().show(12);
    const auto &own = test.own.at.faces[1], &put = test.donor.at.faces[1];
    const RowMatrix all = accounts.curvature(1, test.question, own, put);
    // Second derivatives in another order of summation.
    EXPECT_LT((all - all.transpose()).norm(), 1e-12 * all.norm()) << model.name;
    const RowMatrix part = accounts.curvature(1, test.question, own, put, {7, 3});
    EXPECT_LT((part.row(3) - all.row(3)).norm() + (part.row(7) - all.row(7)).norm(), 1e-13 * all.norm());
    EXPECT_TRUE(std::isnan(part(0, 0)));
    EXPECT_THROW(accounts.curvature(1, test.question, own, put, {12}), std::invalid_argument);
  }
}

TEST(FaceAccounts, first_order_is_exact_at_the_last_face_without_a_norm) {
  PatchCase test(test::probe_parameters({.norm = Norm::none, .kind = ModelKind::pde, .cells = 4}));
  const int last = test.extents().cells;
  const auto cotangents = test.patches.cotangents(test.own, test.question);
  const auto first = first_order(test.extents(), Site::face, cotangents, test.own.at, test.donor.at);
  std::vector<Index> places;
  double sum = 0;
  for (int token = 0; token < 12; ++token) {
    places.push_back(test.extents().place(Site::face, last, 0, token));
    sum += first[places.back()];
  }
  const auto exact = test.patches.exact(Site::face, test.own, test.donor.at, test.question, places);
  for (int token = 0; token < 12; ++token) EXPECT_NEAR(exact[token], first[places[token]], 1e-12) << token;
  // One node is complete.
  FaceAccounts accounts(test.patches.one());
  test.patches.one().show(12);
  const auto one = accounts.fixed(last, test.question, test.own.at.faces[last], test.donor.at.faces[last], 1);
  EXPECT_LT(one.gap, 1e-12);
  EXPECT_NEAR(std::accumulate(one.effects.begin(), one.effects.end(), 0.0), sum, 1e-12);
}

TEST(FaceAccounts, integrated_effects_add_up_to_the_whole_to_the_tolerance) {
  for (const auto& model : patched_models()) {
    PatchCase test = model.patched();
    FaceAccounts accounts(test.patches.many());
    test.patches.many().show(12);
    for (const int face : {0, 1}) {
      const auto &own = test.own.at.faces[face], &put = test.donor.at.faces[face];
      const double whole = test.patches.exact_face(face, test.own, put, test.question);
      const auto found = accounts.integrated(face, test.question, own, put, 1e-10);
      EXPECT_LT(found.estimate, 1e-10 * std::max(1.0, std::abs(whole))) << model.name << face;
      // The estimate bounds the error of the coarser rule; sums of some hundred numbers beside it.
      EXPECT_LT(found.gap, 1e-10 * std::max(1.0, std::abs(whole))) << model.name << face;
      EXPECT_NEAR(std::accumulate(found.effects.begin(), found.effects.end(), 0.0), whole, 1e-9);
      // A fixed rule leaves a gap where a norm has poles near the line; without norms it converges at once.
      if (model.parameters.spec.norm != Norm::none) continue;
      const auto fixed = accounts.fixed(face, test.question, own, put, 64);
      for (std::size_t k = 0; k < 12; ++k)
        EXPECT_NEAR(fixed.effects[k], found.effects[k], 1e-8) << model.name;
    }
  }
}

// A change orthogonal to the gradient: first order sees nothing, although the effect is there.
TEST(FaceAccounts, first_order_misses_what_cancels) {
  PatchCase test(test::probe_parameters({}));
  const auto cotangents = test.patches.cotangents(test.own, test.question);
  SiteNumbers put = test.donor.at;
  const auto lambda = cotangents.faces[1].row(4);
  Eigen::RowVectorXd change = test.donor.at.faces[1].row(4) - test.own.at.faces[1].row(4);
  change -= change.dot(lambda) / lambda.squaredNorm() * lambda;
  put.faces[1].row(4) = test.own.at.faces[1].row(4) + change;
  const auto place = test.extents().place(Site::face, 1, 0, 4);
  const double first = first_order(test.extents(), Site::face, cotangents, test.own.at, put)[place];
  const double exact = test.patches.exact(Site::face, test.own, put, test.question, {{place}}).front();
  EXPECT_LT(std::abs(first), 1e-14);
  EXPECT_GT(std::abs(exact), 1e-4);
}

/// A march that is not known to have second derivatives.
class OtherMarch final : public DepthMarch {
 public:
  OtherMarch(DepthModel& of, const DepthCells& cells, DepthRange part) : march_(of, cells, 1, part) {}
  DepthModel& model() const override { return march_.model(); }
  const DepthCells& depth() const override { return march_.depth(); }
  DepthRange range() const override { return march_.range(); }
  void forward(double* u, Keep keep, const RowVisitor& row) override { march_.forward(u, keep, row); }
  void backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) override {
    march_.backward(u_bar, gradient, row);
  }
  std::size_t kept_bytes() const override { return march_.kept_bytes(); }

 private:
  Backpropagation march_;
};

TEST(FaceAccounts, other_marches_have_no_second_order) {
  const auto parameters = test::probe_parameters({});
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 4, 3);
  RunSlab slab(parameters, line, 1, Precision::float64,
               [](DepthModel& model, const DepthCells& depth, DepthRange cells) {
                 return std::make_unique<OtherMarch>(model, depth, cells);
               });
  slab.show(12);
  const RowMatrix state = RowMatrix::Ones(12, parameters.spec.width);
  FaceAccounts accounts(slab);
  EXPECT_THROW(accounts.curvature(0, {.a = 0, .b = 1}, state, 2 * state), BadInput);
  EXPECT_NO_THROW(accounts.integrated(0, {.a = 0, .b = 1}, state, 2 * state, 1e-3));
}

}  // namespace
}  // namespace fluxformer::interventions
