#pragma once

// Wall times of training steps while the other ranks work on their own, with this one, or sleep.

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/benchmark/training_case.hpp"

namespace fluxformer::bench {

/// Waits without using the processor, unlike MPI_Barrier.
inline void wait_for_all() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

/// Seconds of a step of `mine` (null: this rank sleeps) on the slowest rank. Collective over all.
inline double seconds(TrainingCase* mine, int steps) {
  wait_for_all();
  MPI_Barrier(MPI_COMM_WORLD);
  double time = 0;
  if (mine != nullptr) {
    const double start = MPI_Wtime();
    for (int k = 0; k < steps; ++k) mine->step();
    time = (MPI_Wtime() - start) / steps;
  }
  wait_for_all();
  MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return time;
}

inline double median(std::vector<double> list) {
  std::nth_element(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2), list.end());
  return list[list.size() / 2];
}

}  // namespace fluxformer::bench
