#include "base/phases.hpp"

#include <chrono>

namespace fluxformer {
namespace {

using Clock = std::chrono::steady_clock;

struct Ledger {
  WorkCounts counts;
  Phase now = Phase::compute;
  Clock::time_point since = Clock::now();

  /// Time up to here belongs to the phase at hand; from here on to `next`.
  void enter(Phase next) {
    const auto time = Clock::now();
    counts.at(now).seconds += std::chrono::duration<double>(time - since).count();
    since = time;
    now = next;
  }
};

Ledger& ledger() {
  static Ledger one;
  return one;
}

}  // namespace

InPhase::InPhase(Phase phase) : around_(ledger().now) {
  ledger().enter(around_ == Phase::output ? Phase::output : phase);
}

InPhase::~InPhase() {
  ledger().enter(around_);
}

void count_message(std::size_t bytes) {
  auto& count = ledger().counts.at(ledger().now);
  ++count.messages;
  count.bytes += bytes;
}

void count_flops(double flops) {
  ledger().counts.flops += flops;
}

WorkCounts work_counts() {
  ledger().enter(ledger().now);
  return ledger().counts;
}

double WorkCounts::seconds() const {
  double sum = 0;
  for (const auto& phase : phases) sum += phase.seconds;
  return sum;
}

void reset_work_counts() {
  ledger().enter(ledger().now);
  ledger().counts = {};
}

}  // namespace fluxformer
