#pragma once

// Blocks of numbers that travel once around the ranks of a token line.
//
// Every rank owns one block (its tokens); after size() steps every rank has seen every block, its own first,
// then those of rank-1, rank-2, ... If no rank needs the blocks of later steps, the tour may end before, as
// behind a causal window; blocks that only some ranks need, or only in front, travel to all ranks between.
// Communication overlaps with the visitor's work on the current block. A rank holds at most two blocks of
// other ranks, whatever the number of ranks.

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "base/index.hpp"
#include "mesh/token_line.hpp"

namespace fluxformer {

/// The ring of one token line, with its buffers.
template <class T>
class TokenRing {
 public:
  /// `line` is borrowed.
  explicit TokenRing(const TokenLine& line) : line_(line), steps_(line.size()) {}

  /// Ends the tours to come after so many steps, 1 .. size; the same on every rank.
  void set_steps(int steps) { steps_ = steps; }

  /// A visitor is shown a block and the rank of the line that owns it; VisitBack also the sums that return to
  /// that rank.
  using Visit = std::function<void(int rank, const T* block)>;
  using VisitBack = std::function<void(int rank, const T* block, T* bar)>;

  /// Collective over the line. `own` holds per_token numbers for each of this rank's tokens (in any order).
  void visit(const T* own, Index per_token, const Visit& visitor);

  /// Like visit, with an accumulator travelling behind each block: the visitor adds to `bar` (bar_per_token
  /// numbers per token of the visited block, zero at first), and own_bar += what all visited ranks added for
  /// this rank's block.
  void visit_and_collect(const T* own, Index per_token, Index bar_per_token, const VisitBack& visitor,
                         T* own_bar);

  /// Lets messages progress; visitors call it occasionally. Without it most MPI libraries move large messages
  /// only within a wait.
  void progress();

  /// Memory of the buffers, in bytes: at most two blocks and their sums.
  std::size_t bytes() const;

 private:
  int before() const { return (line_.rank() + line_.size() - 1) % line_.size(); }
  int after() const { return (line_.rank() + 1) % line_.size(); }
  int visited(int step) const { return (line_.rank() + line_.size() - step) % line_.size(); }
  /// Posts the exchange for the block of step + 1; `present` is the block of this step.
  const T* begin_exchange(int step, const T* present, Index per_token);
  void end_exchange();

  const TokenLine& line_;
  int steps_;
  std::vector<T> arriving_[2], bar_[2], collected_;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

extern template class TokenRing<float>;
extern template class TokenRing<double>;

}  // namespace fluxformer
