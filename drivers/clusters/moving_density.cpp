#include "drivers/clusters/moving_density.hpp"

#include <algorithm>

#include "base/mpi.hpp"

namespace fluxformer {
namespace {

// Error of a step: in the last coefficients steps make a noise that has to stay far below the size at which it is unresolved.
constexpr double tolerance_of_density = 1e-13;

}  // namespace

MovingDensity::MovingDensity(const Plan& plan, MPI_Comm comm)
    : Moving(comm, tolerance_of_density),
      waves_(plan.waves),
      density_(plan.coefficients, plan.beta, plan.normalisation) {}

MovingDensity::MovingDensity(const Plan& plan, double first_step, MPI_Comm comm) : MovingDensity(plan, comm) {
  State at{.clock = {0, first_step}};
  if (mpi::is_root(comm)) at.numbers = density_.wave(plan.waves, plan.amplitude);
  begin_with(at);
}

MovingDensity::MovingDensity(const Plan& plan, const io::CheckpointReader& file, MPI_Comm comm)
    : MovingDensity(plan, comm) {
  const Index all = 2 * Index{density_.waves()};
  begin_with(load(file, part_of(all, 0, mpi::is_root(comm) ? all : 0)));
}

void MovingDensity::begin_with(const State& at) {
  begin(at, part_of(2 * Index{density_.waves()}, 0, std::ssize(at.numbers)),
        [this](std::span<const double> state, std::span<double> rate) {
          if (!state.empty()) density_.rate(state, rate);
        });
  over_ = !resolved(at.numbers);
}

bool MovingDensity::resolved(std::span<const double> state) const {
  double so = !state.empty() && density_.resolved(state, waves_) ? 1 : 0;
  broadcast_numbers({&so, 1}, 0, comm());
  return so == 1;
}

bool MovingDensity::advance(double time) {
  const bool there = run(time, [this](std::span<const double> state) {
    over_ = !resolved(state);
    return !over_;
  });
  return there && !over_;
}

MovingDensity::Look MovingDensity::look(int modes, int bins) {
  std::vector<double> found(4 + modes + bins);
  if (const auto state = numbers(); !state.empty()) {
    const auto sums = density_.sums(state);
    found = {sums.number_2, sums.number_1, sums.energy, sums.dissipation};
    std::ranges::copy(density_.moments(state, modes), std::back_inserter(found));
    std::ranges::copy(density_.shares(state, bins), std::back_inserter(found));
  }
  broadcast_numbers(found, 0, comm());
  const auto shares = found.end() - bins;
  return {.sums = {.number_2 = found[0], .number_1 = found[1], .energy = found[2], .dissipation = found[3]},
          .moments = {found.begin() + 4, shares},
          .shares = {shares, found.end()}};
}

}  // namespace fluxformer
