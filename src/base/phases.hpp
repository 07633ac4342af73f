#pragma once

// What this rank does: time, messages and bytes by phase of the work, and the arithmetic of its products.
// Counting costs two looks at the clock a phase and is always on; `fluxformer scaling` reads it. One thread
// per rank.

#include <array>
#include <cstddef>
#include <cstdint>

namespace fluxformer {

enum class Phase { compute, ghosts, ring, reduction, output };
inline constexpr std::array phase_names = {"compute", "ghosts", "ring", "reduction", "output"};

/// Since the counts were last reset. Messages are those this rank sends; a collective call counts as one,
/// with the bytes of its buffer.
struct PhaseCount {
  double seconds = 0;
  std::uint64_t messages = 0, bytes = 0;
};
struct WorkCounts {
  std::array<PhaseCount, phase_names.size()> phases{};
  double flops = 0;  ///< see count_flops
  double seconds() const;
  PhaseCount& at(Phase phase) { return phases[static_cast<std::size_t>(phase)]; }
  const PhaseCount& at(Phase phase) const { return phases[static_cast<std::size_t>(phase)]; }
};

/// From birth to death time and messages count for `phase` and not for the one around it, unless that is
/// output, which keeps what belongs to it (the ranks agree when they write); outside of all: compute.
class InPhase {
 public:
  explicit InPhase(Phase phase);
  ~InPhase();
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  Phase around_;
};

/// One more message, of the phase at hand.
void count_message(std::size_t bytes);

/// Additions and multiplications of the products in a layer, attention's among them: 8 d^2 + 4 d f for each
/// row and 4 d for each pair of tokens on the way forward, twice that backwards. What else is computed counts
/// as nothing.
void count_flops(double flops);

/// All time since the last reset is in one of the phases.
WorkCounts work_counts();
void reset_work_counts();

}  // namespace fluxformer
