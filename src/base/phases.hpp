#pragma once

// What this rank does: time, messages and bytes by phase, and the arithmetic of its products. Always on, at
// the cost of reading the clock twice a phase; the scaling studies report it. Phases and pieces are PETSc
// log events too, for -log_view. One thread per rank.

#include <array>
#include <cstddef>
#include <cstdint>

namespace fluxformer {

/// Kind of work that a rank does or waits for.
enum class Phase { compute, ghosts, ring, reduction, pipeline, output };
/// Names of the phases, in their order.
inline constexpr std::array phase_names = {"compute", "ghosts", "ring", "reduction", "pipeline", "output"};

/// Time, messages and bytes of one phase since the counts were last reset. Messages are those that this rank
/// sends; a collective call counts as one, with the bytes of its buffer.
struct PhaseCount {
  double seconds = 0;
  std::uint64_t messages = 0, bytes = 0;
};
/// Counts of this rank; the difference of two is what ran in between.
struct WorkCounts {
  std::array<PhaseCount, phase_names.size()> phases{};
  double flops = 0;  ///< see count_flops
  /// Time of all phases together.
  double seconds() const;
  PhaseCount& at(Phase phase) { return phases[static_cast<std::size_t>(phase)]; }
  const PhaseCount& at(Phase phase) const { return phases[static_cast<std::size_t>(phase)]; }
};

/// RAII scope: charges time and messages to `phase` instead of the enclosing one. Within output everything
/// stays output (ranks agree when they write). Outside of all scopes: compute.
class InPhase {
 public:
  /// Enters `phase` and opens its PETSc log event; scopes nest.
  explicit InPhase(Phase phase);
  ~InPhase();
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  Phase around_, mine_;
};

/// Pieces of the computation that -log_view shows beside the phases. Times of what runs inside are included.
enum class Piece { attention, reaction, token_diffusion, token_transport };

/// RAII scope: the log event of a piece. Changes no count here.
class InPiece {
 public:
  /// Opens the log event of `piece`; scopes of different pieces nest.
  explicit InPiece(Piece piece);
  ~InPiece();
  InPiece(const InPiece&) = delete;
  InPiece& operator=(const InPiece&) = delete;

 private:
  Piece piece_;
};

/// Registers the log events and returns PETSc's error code (errors stand above this header). Session calls it
/// once PETSc is up, so that all ranks number the events alike. Before that the scopes above open no events.
int register_log_events();

/// Counts a message of so many bytes in the present phase.
void count_message(std::size_t bytes);

/// Counts additions and multiplications. Callers pass those of the matrix products of a layer and of
/// attention, and no others: forward 8 d^2 + 4 d f per row and 4 d per pair of tokens, twice that backwards.
/// PETSc's log counts them, too.
void count_flops(double flops);

/// Counts since the last reset; all time belongs to some phase.
WorkCounts work_counts();
/// Sets all counts to zero.
void reset_work_counts();

}  // namespace fluxformer
