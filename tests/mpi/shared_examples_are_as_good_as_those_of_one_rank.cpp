// The data of attention paths, shared by any number of ranks, give the numbers of one rank that holds all of
// them: energy, slope, virial, predictions, overlaps, and the minimum of the action.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/paths/data_term.hpp"
#include "analysis/paths/path_action.hpp"
#include "base/error.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/reached.hpp"
#include "tests/unit/analysis/paths/random_paths.hpp"

namespace fluxformer::paths::shared_examples_are_as_good_as_those_of_one_rank {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using fluxformer::test::rank_in;
using fluxformer::test::reached;
using fluxformer::test::size_of;

const MPI_Comm world = MPI_COMM_WORLD;
constexpr double variance = 1.3, temperature = 0.05;
// Both sides are sums of the same numbers in another order, of condition numbers up to some 1e3: K/T.
constexpr double round_off = 1e-11;

double distance(const MatrixXd& a, const MatrixXd& b) {
  return (a - b).norm() / b.norm();
}

/// This rank's rows.
PathExamples part_of(const PathExamples& all, const ExampleShare& share) {
  const auto held = share.examples(static_cast<int>(all.targets.size()));
  PathExamples mine{RowMatrix(static_cast<Eigen::Index>(held.size()), all.inputs.cols()), all.targets};
  for (std::size_t row = 0; row < held.size(); ++row)
    mine.inputs.row(static_cast<Eigen::Index>(row)) = all.inputs.row(held[row]);
  return mine;
}

/// A task on one rank and shared by all, from the same data.
struct Both {
  int paths;
  PathExamples all;
  ExampleShare share;
  PathExamples mine;
  PathKernels kernels;
  LocalData local;
  SharedData shared;
  MatrixXd u;
  Both(int examples, int paths_, int dimension, int block)
      : paths(paths_),
        all(random_examples(examples, paths, dimension, 3)),
        share{.rank = rank_in(world), .ranks = size_of(world), .block = block},
        mine(part_of(all, share)),
        kernels(all.inputs, paths, variance),
        local(kernels, all.targets),
        shared(world, mine, share, paths, variance),
        u(random_covariance(paths, 5)) {}
};

/// Blocks that do not divide the examples, whole ones, one for all, more ranks than examples, fewer
/// dimensions than ranks.
void for_sizes(const std::function<void(const Both&)>& test) {
  for (const auto& [examples, paths, dimension, block] : {std::array{37, 4, 5, 3},
                                                          {40, 3, 7, 5},
                                                          {130, 6, 2, 64},
                                                          {3, 4, 9, 1},
                                                          {2, 1, 1, 1},
                                                          {23, 2, 30, 64}}) {
    SCOPED_TRACE(testing::Message() << examples << " examples, " << paths << " paths, blocks of " << block);
    test(Both(examples, paths, dimension, block));
  }
}

TEST(SharedData, have_the_energy_and_slope_of_one_rank) {
  double error = 0;
  for_sizes([&](const Both& both) {
    const auto one = both.local.energy_and_slope(both.u, temperature),
               many = both.shared.energy_and_slope(both.u, temperature);
    error = std::max({error, std::abs(many.value - one.value) / std::abs(one.value),
                      std::abs(both.shared.energy(both.u, temperature) - one.value) / std::abs(one.value),
                      distance(many.slope, one.slope)});
    EXPECT_LT(error, round_off);
    EXPECT_EQ(many.slope, many.slope.transpose());
  });
  reached("energy and slope of shared examples", error);
}

TEST(SharedData, have_the_virials_of_one_rank) {
  const auto network = uneven_network();
  const Both both(41, network.paths(), 5, 4);
  const auto order = random_order(network, 7);
  const auto one = virials(PathAction(network, both.local, temperature), order),
             many = virials(PathAction(network, both.shared, temperature), order);
  ASSERT_EQ(many.size(), one.size());
  for (std::size_t k = 0; k < one.size(); ++k)
    EXPECT_NEAR(many[k], one[k], round_off * std::abs(one[k])) << k;
}

TEST(SharedData, predict_what_one_rank_predicts) {
  double error = 0;
  for_sizes([&](const Both& both) {
    const auto dimension = static_cast<int>(both.all.inputs.cols()) / both.paths;
    const auto few = random_examples(5, both.paths, dimension, 11),
               more = random_examples(67, both.paths, dimension, 13);
    const auto mine_of_few = part_of(few, both.share), mine_of_more = part_of(more, both.share);
    const auto one = both.local.predict(both.u, temperature, {&few, &more}),
               many = both.shared.predict(both.u, temperature, {&mine_of_few, &mine_of_more});
    ASSERT_EQ(many.size(), 2U);
    for (std::size_t k = 0; k < 2; ++k)
      error = std::max({error, distance(many[k].mean, one[k].mean),
                        (many[k].variance - one[k].variance).norm() /
                            own_kernel(k == 0 ? few.inputs : more.inputs, both.u, variance).norm()});
    EXPECT_LT(error, round_off);
  });
  reached("predictions of shared examples", error);
}

TEST(SharedData, have_the_overlaps_of_one_rank) {
  for_sizes([](const Both& both) {
    const auto one = both.local.overlaps(both.u), many = both.shared.overlaps(both.u);
    EXPECT_NEAR(many.squaredNorm(), 1, 1e-12);
    // Eigenvectors are known up to round-off over the distance of their eigenvalues, those of 0 not at all.
    const auto leading =
        std::min<Eigen::Index>(one.size(), std::min<Eigen::Index>(4, both.all.inputs.cols()));
    EXPECT_LT((many - one).head(leading).cwiseAbs().maxCoeff(), 1e-9);
  });
}

TEST(SharedData, are_infinite_on_all_ranks_where_the_kernel_is_not_positive) {
  const Both both(37, 4, 5, 3);
  for (const MatrixXd& u : {MatrixXd(-both.u), MatrixXd(NAN * both.u)}) {
    EXPECT_EQ(both.shared.energy(u, temperature), INFINITY);
    const auto many = both.shared.energy_and_slope(u, temperature);
    EXPECT_EQ(many.value, INFINITY);
    EXPECT_EQ(many.slope.size(), 0);
    EXPECT_THROW(both.shared.predict(u, temperature, {&both.mine}), NumericalFailure);
  }
}

TEST(SharedData, take_the_order_parameters_of_the_first_rank) {
  const Both both(37, 4, 5, 3);
  const MatrixXd u = both.u * (1 + rank_in(world));
  EXPECT_LT(distance(both.shared.energy_and_slope(u, temperature).slope,
                     both.local.energy_and_slope(both.u, temperature).slope),
            round_off);
}

TEST(SharedData, refuse_what_is_not_their_share_on_all_ranks) {
  const Both both(37, 4, 5, 3);
  auto cut = both.mine;
  if (rank_in(world) == size_of(world) - 1)
    cut.inputs.conservativeResize(cut.inputs.rows() - 1, cut.inputs.cols());
  EXPECT_THROW(SharedData(world, cut, both.share, 4), BadInput);
}

TEST(SharedData, have_the_minimum_of_one_rank_and_all_ranks_the_same) {
  const auto network = network_of_width({2, 2}, 10);
  const Both both(33, 4, 8, 4);
  const auto one = saddle_point(PathAction(network, both.local, temperature)),
             many = saddle_point(PathAction(network, both.shared, temperature));
  // The last Newton step leaves the gradient's round-off, times condition numbers of the Hessian of some
  // hundreds.
  const double error = distance(many.order.u.front(), one.order.u.front());
  EXPECT_LT(error, 1e-9);
  reached("U_1 of shared examples at the minimum", error);
  EXPECT_NEAR(many.action, one.action, 1e-11 * std::abs(one.action));
  auto first = many.order.u.front();
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_DOUBLE, 0, world);
  EXPECT_LT(distance(many.order.u.front(), first), 1e-15);
}

}  // namespace
}  // namespace fluxformer::paths::shared_examples_are_as_good_as_those_of_one_rank
