#pragma once

// The examples of a task that a rank holds, where several ranks share one: blocks of examples are dealt out in turn.

#include <mpi.h>

#include <Eigen/Core>
#include <string>
#include <vector>

#include "analysis/dense_matrices.hpp"

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

// What the theory and the samplers of attention paths need of a task: the attentioned inputs of each example.
// Source: Tiberi et al., arXiv 2405.15926; specification of attention paths, section 1.4.
//
//   xi^pi = x A^{1,h_1} A^{2,h_2} ... A^{L-1,h_{L-1}} alpha^{h_L}     (D)     pi = (h_1, ..., h_L)
//
// h_1 is the slowest index of a path, h_L the fastest: 0-based (..(h_1 H_2 + h_2) H_3 + ..) + h_L.

/// Attentioned inputs and targets of P examples.
struct PathExamples {
  /// P x (paths D), [example][path][dimension]: xi, without any normalisation. Of the examples of this rank where several share a task.
  RowMatrix inputs;
  Eigen::VectorXd targets;  ///< P, +1 or -1
};

/// f of each example, the sum of the entries of xi times those of `input_weights` (paths x D).
Eigen::VectorXd outputs(const RowMatrix& inputs, const RowMatrix& input_weights);

/// Other examples than those of the test.
struct FurtherExamples {
  std::string name;
  PathExamples examples;
};

/// A task with its frozen attention.
struct PathTask {
  std::vector<int> heads = {};               ///< H_1 .. H_L, at least one layer
  int dimension = 0;                         ///< D, of an input token
  std::vector<std::string> path_names = {};  ///< of each path, in the order of its index
  PathExamples train = {}, test = {};
  std::vector<FurtherExamples> further = {};
  ExampleShare share = {};  ///< of all its examples: what this rank holds
};

/// Number of paths of these heads in each layer: their product.
int path_count(const std::vector<int>& heads);

/// The heads (h_1 .. h_L) of a path, 0-based.
std::vector<int> heads_of_path(int path, const std::vector<int>& heads);

/// The same task for a network that has these heads only, in this order (kept[l]: heads of layer l + 1, 0-based).
/// Its normalisation is by its own number of paths.
PathTask with_heads(const PathTask& task, const std::vector<std::vector<int>>& kept);

}  // namespace fluxformer::paths
