// A training step of one global batch on all ranks, compared with the same on one rank:
//
//   mpiexec -n 2 build/tests/fluxformer_training_ranks
//
// speed-up = wall time on one rank / wall time on all, medians of alternating rounds. While one rank works
// the others sleep.

#include <cstdio>
#include <vector>

#include "base/session.hpp"
#include "tests/benchmark/timed_steps.hpp"

namespace {

using namespace fluxformer;
using bench::median, bench::seconds;

}  // namespace

int main(int argc, char** argv) {
  Session session(argc, argv);
  int ranks = 1, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const auto precision : {Precision::float32, Precision::float64}) {
    const bench::Size size{.batch = 64};
    const bench::Size part{.batch = size.batch / ranks};
    bench::TrainingCase shared(MPI_COMM_WORLD, size, precision), whole(MPI_COMM_SELF, size, precision);
    bench::TrainingCase share(MPI_COMM_SELF, part, precision);
    auto* const alone = rank == 0 ? &whole : nullptr;
    seconds(&shared, 2), seconds(alone, 2), seconds(&share, 2);
    std::vector<double> one, all, apart, ratio;
    for (int k = 0; k < 15; ++k) {
      one.push_back(seconds(alone, 5));
      all.push_back(seconds(&shared, 5));
      apart.push_back(seconds(&share, 5));
      ratio.push_back(one.back() / all.back());
    }
    if (rank == 0)
      std::printf("%-7s one rank %7.2f ms   %d ranks %7.2f ms   apart %7.2f ms   speed-up %.2f\n",
                  precision == Precision::float32 ? "float" : "double", 1e3 * median(one), ranks,
                  1e3 * median(all), 1e3 * median(apart), median(ratio));
  }
  return 0;
}
