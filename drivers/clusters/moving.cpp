#include "drivers/clusters/moving.hpp"

#include <span>
#include <utility>

#include "base/mpi.hpp"
#include "drivers/common/run_frame.hpp"

namespace fluxformer {
namespace {

// Steps between two calls. A step after another one needs one evaluation less, of 7, than a first one.
constexpr int steps_at_once = 16;

// Items of a checkpoint.
constexpr io::RealItem time_of_flow{"time", 0}, step_of_flow{"step", 0},
    seconds_of_rates{"evaluation_seconds", 0};
constexpr io::WholeItem count_of_rates{"evaluations", 0};
constexpr io::NumbersItem numbers_of_flow{"moving"};

}  // namespace

void Moving::begin(const State& at, io::FlatPart part, Flow::Rate rate) {
  part_ = std::move(part);
  earlier_ = at.evaluations;
  seconds_ = at.seconds;
  flow_ = std::make_unique<Flow>(
      comm_, at.numbers,
      [this, rate = std::move(rate)](std::span<const double> numbers, std::span<double> to) {
        const Stopwatch watch;
        rate(numbers, to);
        seconds_ += watch.seconds();
      },
      tolerance_, at.clock);
}

bool Moving::run(double time, const Flow::GoOn& go_on) {
  int steps = 0;
  return flow_->advance(time, [&](std::span<const double> numbers) {
    return ++steps < steps_at_once && (!go_on || go_on(numbers));
  });
}

bool Moving::advance(double time) {
  return run(time);
}

void Moving::save(io::CheckpointWriter& file) const {
  const auto at = flow_->state();
  file.put(numbers_of_flow, part_, at.data());
  file.put(time_of_flow, flow_->clock().time);
  file.put(step_of_flow, flow_->clock().step);
  file.put(count_of_rates, evaluations());
  double seconds = seconds_;
  broadcast_numbers({&seconds, 1}, 0, comm_);  // clocks differ
  file.put(seconds_of_rates, seconds);
}

Moving::State Moving::load(const io::CheckpointReader& file, const io::FlatPart& part) {
  State at{.numbers = std::vector<double>(part.count()),
           .clock = {file.real(time_of_flow), file.real(step_of_flow)},
           .evaluations = file.integer(count_of_rates),
           .seconds = file.real(seconds_of_rates)};
  file.part(numbers_of_flow, part, at.numbers.data());
  return at;
}

io::FlatPart part_of(Index size, Index first, Index count) {
  io::FlatPart part{.size = size, .pieces = {}};
  if (count > 0) part.add({first, count, 0});
  return part;
}

}  // namespace fluxformer
