// A training step through stages of depth, on all ranks:
//
//   mpiexec -n 2 build/tests/fluxformer_stages [rounds | memory]
//
// beside one-rank runs of a P-th of the depth that all ranks make at the same time, and one of the whole
// depth on one rank while the others sleep. The share of the ideal is (m + P - 1) / m times the time of the
// former over that of the stages. `memory`: what each stage of 48 cells keeps after a step.

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/session.hpp"
#include "tests/benchmark/timed_steps.hpp"

namespace {

using namespace fluxformer;
using bench::median, bench::seconds;

double megabytes_of_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1e-3 * static_cast<double>(usage.ru_maxrss);
}

struct Network {
  const char* name;
  bench::Size size;  ///< of a micro-batch
};

/// Memory of a model of 48 cells with 8 micro-batches of 8 samples.
void memory() {
  const int ranks = mpi::size(MPI_COMM_WORLD);
  const bool root = mpi::is_root(MPI_COMM_WORLD);
  const bench::Size size{.layers = 48, .batch = 64};
  bench::TrainingCase staged(MPI_COMM_WORLD, size, Precision::float32, bench::Over::depth, 8);
  seconds(&staged, 1);
  std::vector<double> all(3 * static_cast<std::size_t>(ranks));
  const double mine[3] = {staged.parameter_megabytes(), staged.kept_megabytes(), megabytes_of_process()};
  MPI_Gather(mine, 3, MPI_DOUBLE, all.data(), 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (std::size_t stage = 0; root && 3 * stage < all.size(); ++stage)
    std::printf(
        "stage %zu of %d: values, gradient, variables and moments %6.1f MB, activations %6.1f MB, process "
        "%6.1f MB\n",
        stage, ranks, 5 * all[3 * stage], all[3 * stage + 1], all[3 * stage + 2]);
}

}  // namespace

int main(int argc, char** argv) {
  Session session(argc, argv);
  const int ranks = mpi::size(MPI_COMM_WORLD);
  const bool root = mpi::is_root(MPI_COMM_WORLD);
  if (argc > 1 && std::string(argv[1]) == "memory") {
    memory();
    return 0;
  }
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  constexpr int micro_batches = 8;
  const Network networks[] = {
      {"small", {.batch = 32}},
      {"large", {.layers = 12, .columns = 16, .rows = 16, .batch = 8, .width = 128, .heads = 8, .ffn = 512}}};
  for (const auto& network : networks)
    for (const auto precision : {Precision::float32, Precision::float64}) {
      auto size = network.size;
      size.batch *= micro_batches;
      auto part = size;
      part.layers /= ranks;
      const auto over = bench::Over::depth;
      bench::TrainingCase staged(MPI_COMM_WORLD, size, precision, over, micro_batches),
          whole(MPI_COMM_SELF, size, precision, over, micro_batches),
          share(MPI_COMM_SELF, part, precision, over, micro_batches);
      auto* const alone = root ? &whole : nullptr;
      seconds(&staged, 1), seconds(alone, 1), seconds(&share, 1);
      std::vector<double> one, all, apart, ideal;
      for (int k = 0; k < rounds; ++k) {
        one.push_back(seconds(alone, 1));
        all.push_back(seconds(&staged, 1));
        apart.push_back(seconds(&share, 1));
        ideal.push_back(apart.back() * (micro_batches + ranks - 1) / micro_batches / all.back());
      }
      if (root)
        std::printf(
            "%s %-7s one rank %7.1f ms   %d stages %7.1f ms   apart %7.1f ms   share of the ideal %.3f\n",
            network.name, precision == Precision::float32 ? "float" : "double", 1e3 * median(one), ranks,
            1e3 * median(all), 1e3 * median(apart), median(ideal));
    }
  return 0;
}
