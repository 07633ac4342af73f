#pragma once

// What the theory and the samplers of attention paths need of a task: the attentioned inputs of each example,
// and which of the examples a rank holds. Source: Tiberi et al., arXiv 2405.15926; docs/model.md, section
// 11.2.
//
//   xi^pi = x A^{1,h_1} A^{2,h_2} ... A^{L-1,h_{L-1}} alpha^{h_L}     (D)     pi = (h_1, ..., h_L)
//
// h_1 is the slowest index of a path, h_L the fastest: 0-based (..(h_1 H_2 + h_2) H_3 + ..) + h_L.

#include <mpi.h>

#include <Eigen/Core>
#include <string>
#include <vector>

#include "analysis/dense_matrices.hpp"

namespace fluxformer::paths {

/// The examples of a task that a rank holds: blocks k, k + R, k + 2 R, ... of rank k of R. The last ranks
/// hold nothing where there are fewer blocks. The default holds all of them.
struct ExampleShare {
  int rank = 0, ranks = 1;
  int block = 64;  ///< examples in a block, at least 1

  /// Number of the examples 0 .. all - 1 that this rank holds.
  int count(int all) const;
  /// The example in a row of this rank, both from 0.
  int example(int row) const { return (row / block * ranks + rank) * block + row % block; }
  bool holds(int example) const { return example / block % ranks == rank; }
  /// The examples of 0 .. all - 1 that this rank holds, in rising order.
  std::vector<int> examples(int all) const;
};

/// The share of this rank of `comm`: blocks of at most 64 of `examples`, of ceil(examples / ranks) if that is
/// less, so that few ranks are left without one. No communication.
ExampleShare share_of(MPI_Comm comm, int examples);

/// Attentioned inputs and targets of P examples.
struct PathExamples {
  /// P x (paths D), [example][path][dimension]: xi, without any normalisation. Where several ranks share a
  /// task, rows are the examples of this rank.
  RowMatrix inputs;
  Eigen::VectorXd targets;  ///< P, +1 or -1, of all ranks
};

/// f of each example: the sum of the entries of xi times those of `input_weights` (paths x D).
Eigen::VectorXd outputs(const RowMatrix& inputs, const RowMatrix& input_weights);

/// A named set of examples beside those of the test.
struct FurtherExamples {
  std::string name;
  PathExamples examples;
};

/// A task with its frozen attention.
struct PathTask {
  std::vector<int> heads = {};               ///< H_1 .. H_L, at least one layer
  int dimension = 0;                         ///< D, of an input token
  std::vector<std::string> path_names = {};  ///< name of each path, in the order of its index
  PathExamples train = {}, test = {};
  std::vector<FurtherExamples> further = {};
  ExampleShare share = {};  ///< the examples of every set that this rank holds
};

/// Number of paths of these heads in each layer: their product. Throws BadInput without layers, for a layer
/// without heads and beyond the range of int.
int path_count(const std::vector<int>& heads);

/// The heads (h_1 .. h_L) of a path, 0-based.
std::vector<int> heads_of_path(int path, const std::vector<int>& heads);

/// The same task for a network that has these heads only, in this order (kept[l]: heads of layer l + 1,
/// 0-based). Its normalisation is by its own number of paths. Throws BadInput for heads that do not exist.
PathTask with_heads(const PathTask& task, const std::vector<std::vector<int>>& kept);

}  // namespace fluxformer::paths
