#include "analysis/clusters/soft_numbers.hpp"

#include <array>
#include <cmath>

#include "base/mpi.hpp"

namespace fluxformer::clusters {

SoftNumbers soft_numbers(const AttendedTokens& tokens, double weight, double beta, double value,
                         MPI_Comm comm) {
  std::array<double, 3> all{};  // w z, w log(z / W), w Z |dx/dt|^2
  for (std::size_t i = 0; i < tokens.z.size(); ++i) {
    const double w = tokens.weights[i], z = tokens.z[i];
    all[0] += w * z;
    all[1] += w * std::log(z / weight);
    all[2] += w * tokens.gain[i];
  }
  sum_over_ranks(all, comm);
  const double pairs = weight * weight;
  return {.number_2 = pairs / all[0],
          .number_1 = std::exp(-all[1] / weight),
          .energy = all[0] / (2 * beta * pairs),
          .dissipation = all[2] / (value * pairs)};
}

}  // namespace fluxformer::clusters
