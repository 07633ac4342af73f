// The minimum of a function that all ranks compute: the first one decides, all get what it finds, and an
// error of it ends the search everywhere.

#include <gtest/gtest.h>
#include <petscsys.h>

#include <algorithm>

#include "base/error.hpp"
#include "solvers/saddle/minimise.hpp"
#include "tests/support/every_rank.hpp"

namespace fluxformer::saddle::a_minimum_is_found_together {
namespace {

using test::rank_in;
using test::size_of;

const MPI_Comm world = MPI_COMM_WORLD;

/// Rosenbrock's function of which every rank adds its share; those of ranks other than the first lose some
/// digits.
double shared_valley(const std::vector<double>& x, std::vector<double>& gradient) {
  const double share = 1.0 / size_of(world), a = 1 - x[0], b = x[1] - x[0] * x[0];
  double sums[] = {share * (a * a + 10 * b * b), share * (-2 * a - 40 * x[0] * b), share * 20 * b};
  MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_DOUBLE, MPI_SUM, world);
  const double lost = 1 + 1e-9 * rank_in(world);
  gradient = {lost * sums[1], lost * sums[2]};
  return lost * sums[0];
}

TEST(MinimiseTogether, finds_what_one_rank_finds_and_tells_all) {
  const auto found = minimise_together(world, shared_valley, {-1.2, 1}, {.tolerance = 1e-9});
  EXPECT_TRUE(found.converged);
  EXPECT_NEAR(found.x[0], 1, 1e-8);
  EXPECT_NEAR(found.x[1], 1, 1e-8);
  double numbers[] = {found.x[0],
                      found.x[1],
                      found.value,
                      found.gradient,
                      static_cast<double>(found.iterations),
                      static_cast<double>(found.evaluations)};
  double of_first[6];
  std::copy_n(numbers, 6, of_first);
  MPI_Bcast(of_first, 6, MPI_DOUBLE, 0, world);
  for (int k = 0; k < 6; ++k) EXPECT_EQ(numbers[k], of_first[k]) << k;
}

TEST(MinimiseTogether, throws_what_the_function_throws_on_all_ranks) {
  int calls = 0;
  const auto fails = [&](const std::vector<double>& x, std::vector<double>& gradient) {
    if (++calls == 5) throw NumericalFailure("the fifth call");
    return shared_valley(x, gradient);
  };
  EXPECT_THROW(minimise_together(world, fails, {-1.2, 1}, {}), NumericalFailure);
  MPI_Barrier(world);
}

TEST(MinimiseTogether, ends_everywhere_where_the_first_rank_fails_by_itself) {
  if (rank_in(world) == 0) check(PetscOptionsSetValue(nullptr, "-tao_type", "nonsense"));
  EXPECT_THROW(minimise_together(world, shared_valley, {-1.2, 1}, {}), Error);
  if (rank_in(world) == 0) check(PetscOptionsClearValue(nullptr, "-tao_type"));
  EXPECT_TRUE(minimise_together(world, shared_valley, {-1.2, 1}, {}).converged);
}

}  // namespace
}  // namespace fluxformer::saddle::a_minimum_is_found_together
