#include "base/phases.hpp"

#include <petscsys.h>

#include <chrono>

namespace fluxformer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array event_names = {"FluxGhosts",   "FluxRing",      "FluxReduction",
                                    "FluxPipeline", "FluxOutput",    "FluxAttention",
                                    "FluxReaction", "FluxTokenDiff", "FluxTokenTrans"};
constexpr std::size_t first_piece = phase_names.size() - 1;  // compute is no event
static_assert(event_names.size() == first_piece + 4);

struct Ledger {
  WorkCounts counts;
  Phase now = Phase::compute;
  Clock::time_point since = Clock::now();
  std::array<PetscLogEvent, event_names.size()> events{};
  bool events_registered = false;

  /// Ends the present phase, which is charged for the time up to now, and begins `next`.
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

bool logs_events() {
  return ledger().events_registered && PetscFinalizeCalled == PETSC_FALSE;
}

std::size_t event_of(Phase phase) {
  // Phases begin with compute, which has no event.
  return static_cast<std::size_t>(phase) - 1;
}

std::size_t event_of(Piece piece) {
  return first_piece + static_cast<std::size_t>(piece);
}

// PETSc's codes are dropped: a log is no reason to stop, and destructors do not throw.
void begin_event(std::size_t index) {
  if (logs_events())
    static_cast<void>(PetscLogEventBegin(ledger().events[index], nullptr, nullptr, nullptr, nullptr));
}

void end_event(std::size_t index) {
  if (logs_events())
    static_cast<void>(PetscLogEventEnd(ledger().events[index], nullptr, nullptr, nullptr, nullptr));
}

}  // namespace

int register_log_events() {
  PetscClassId owner = 0;
  PetscErrorCode code = PetscClassIdRegister("fluxformer", &owner);
  for (std::size_t i = 0; i < event_names.size() && code == 0; ++i)
    code = PetscLogEventRegister(event_names[i], owner, &ledger().events[i]);
  ledger().events_registered = code == 0;
  return code;
}

InPhase::InPhase(Phase phase)
    : around_(ledger().now), mine_(around_ == Phase::output ? Phase::output : phase) {
  // Output stays output, whatever it calls: it is counted as a whole.
  ledger().enter(mine_);
  if (mine_ != Phase::compute) begin_event(event_of(mine_));
}

InPhase::~InPhase() {
  if (mine_ != Phase::compute) end_event(event_of(mine_));
  ledger().enter(around_);
}

InPiece::InPiece(Piece piece) : piece_(piece) {
  begin_event(event_of(piece_));
}

InPiece::~InPiece() {
  end_event(event_of(piece_));
}

void count_message(std::size_t bytes) {
  auto& count = ledger().counts.at(ledger().now);
  ++count.messages;
  count.bytes += bytes;
}

void count_flops(double flops) {
  ledger().counts.flops += flops;
  static_cast<void>(PetscLogFlops(flops));
}

WorkCounts work_counts() {
  // The present phase is charged for its time so far and goes on.
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
