#pragma once

// The examples of a task that a rank holds, where several ranks share one: blocks of examples are dealt out in turn.

#include <mpi.h>

#include <vector>

namespace fluxformer::paths {

/// Blocks k, k + R, k + 2 R, ... of rank k; the last ranks hold nothing where there are fewer blocks. By default all of it.
struct ExampleShare {
  int rank = 0, ranks = 1;
  int block = 64;  ///< examples of one, from 1

  /// How many of the examples 0 .. all - 1 this rank holds.
  int count(int all) const;
  /// The example in one of its rows, from 0.
  int example(int row) const { return (row / block * ranks + rank) * block + row % block; }
  bool holds(int example) const { return example / block % ranks == rank; }
  /// Those that it holds of 0 .. all - 1, rising.
  std::vector<int> examples(int all) const;
};

/// Of this rank of `comm`: blocks of at most 64 of `examples`, small enough that every rank has one if there are as many
/// examples. No communication.
ExampleShare share_of(MPI_Comm comm, int examples);

}  // namespace fluxformer::paths
