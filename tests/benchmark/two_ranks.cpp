// Parallel efficiency on the available ranks, relative to the same number of simultaneous one-rank runs with
// an equal share of the depth cells (cores that share memory slow each other down, which is not the program's
// fault):
//
//   mpiexec -n 2 build/tests/fluxformer_two_ranks
//
// efficiency = time of the simultaneous shares / time of the split run, medians of alternating repetitions.

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/session.hpp"
#include "tests/benchmark/network.hpp"

namespace {

using namespace fluxformer;

/// Wall time of one evaluation, the slowest rank's.
double seconds(bench::RightHandSide& rhs, int evaluations) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int k = 0; k < evaluations; ++k) rhs.evaluate();
  double time = (MPI_Wtime() - start) / evaluations;
  MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return time;
}

double median(std::vector<double> list) {
  std::nth_element(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2), list.end());
  return list[list.size() / 2];
}

void report(const char* what, bench::Size whole, Precision precision, int ranks, bool root) {
  auto share = whole;
  share.layers /= ranks;
  share.ranks_depth = share.ranks_token = 1;
  bench::RightHandSide split(MPI_COMM_WORLD, whole, precision), alone(MPI_COMM_SELF, share, precision);
  std::vector<double> together, apart;
  seconds(split, 2), seconds(alone, 2);
  for (int k = 0; k < 15; ++k) {
    together.push_back(seconds(split, 3));
    apart.push_back(seconds(alone, 3));
  }
  if (root)
    std::printf("%-28s %8.2f ms split %8.2f ms shares   efficiency %.2f\n", what, 1e3 * median(together),
                1e3 * median(apart), median(apart) / median(together));
}

}  // namespace

int main(int argc, char** argv) {
  Session session(argc, argv);
  int ranks = 1, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // 8 x 8 tokens, so that two ranks can hold equal halves.
  bench::Size size{.layers = 6 * ranks, .columns = 8, .rows = 8, .batch = 16};
  for (const auto precision : {Precision::float64, Precision::float32}) {
    const bool is_double = precision == Precision::float64;
    size.ranks_depth = ranks, size.ranks_token = 1;
    report(is_double ? "depth, double" : "depth, float", size, precision, ranks, rank == 0);
    size.ranks_depth = 1, size.ranks_token = ranks;
    report(is_double ? "tokens, double" : "tokens, float", size, precision, ranks, rank == 0);
  }
  return 0;
}
