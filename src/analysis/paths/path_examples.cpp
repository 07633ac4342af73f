#include "analysis/paths/path_examples.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"

namespace fluxformer::paths {

int ExampleShare::count(int all) const {
  // Of B = floor(all/block) whole blocks each rank gets floor(B/R), the first B mod R ranks one more. The
  // all mod block examples left over go to the rank whose turn is next.
  const int blocks = all / block, behind = blocks % ranks;
  return blocks / ranks * block + (rank < behind ? block : 0) + (rank == behind ? all % block : 0);
}

std::vector<int> ExampleShare::examples(int all) const {
  std::vector<int> held(count(all));
  for (int row = 0; auto& one : held) one = example(row++);
  return held;
}

ExampleShare share_of(MPI_Comm comm, int examples) {
  const int ranks = mpi::size(comm);
  constexpr int most = ExampleShare{}.block;
  // Blocks of ceil(P/R) examples, but of 64 at most: few examples make no more than one block for each rank.
  return {
      .rank = mpi::rank(comm), .ranks = ranks, .block = std::clamp((examples + ranks - 1) / ranks, 1, most)};
}

namespace {

/// Path of `heads` behind each path of the network that keeps `kept`.
std::vector<int> kept_paths(const std::vector<int>& heads, const std::vector<std::vector<int>>& kept) {
  std::vector<int> paths{0};
  for (std::size_t l = 0; l < heads.size(); ++l) {
    std::vector<int> longer;
    longer.reserve(paths.size() * kept[l].size());
    // h_1 slowest: (..(h_1 H_2 + h_2) H_3 + ..) + h_L
    for (const int path : paths)
      for (const int head : kept[l]) longer.push_back(path * heads[l] + head);
    paths = std::move(longer);
  }
  return paths;
}

/// The columns of these paths.
PathExamples pick(const PathExamples& examples, const std::vector<int>& paths, int dimension) {
  PathExamples picked;
  picked.inputs.resize(examples.inputs.rows(), paths.size() * dimension);
  Index column = 0;
  for (const int path : paths) {
    picked.inputs.middleCols(column, dimension) =
        examples.inputs.middleCols(Index{path} * dimension, dimension);
    column += dimension;
  }
  picked.targets = examples.targets;
  return picked;
}

void require_kept(const PathTask& task, const std::vector<std::vector<int>>& kept) {
  if (kept.size() != task.heads.size())
    throw BadInput("heads are kept in " + std::to_string(kept.size()) + " layers, the network has " +
                   std::to_string(task.heads.size()));
  for (std::size_t l = 0; l < kept.size(); ++l) {
    const auto layer = std::to_string(l + 1);
    if (kept[l].empty()) throw BadInput("layer " + layer + " keeps no head");
    for (const int head : kept[l])
      if (head < 0 || head >= task.heads[l])
        throw BadInput("layer " + layer + " has no head " + std::to_string(head) + " (0 to " +
                       std::to_string(task.heads[l] - 1) + ")");
  }
}

void require_consistent(const PathTask& task) {
  const int paths = path_count(task.heads);
  const Index columns = Index{paths} * task.dimension;
  if (task.train.inputs.cols() != columns || task.test.inputs.cols() != columns ||
      std::ssize(task.path_names) != paths)
    throw BadInput("the attentioned inputs of a task are not those of its " + std::to_string(paths) +
                   " paths");
}

}  // namespace

Eigen::VectorXd outputs(const RowMatrix& inputs, const RowMatrix& input_weights) {
  // f_mu = sum_pi w^pi . xi^pi_mu: a row of inputs and the weights by rows are both [path][dimension].
  return inputs * Eigen::Map<const Eigen::VectorXd>(input_weights.data(), input_weights.size());
}

int path_count(const std::vector<int>& heads) {
  if (heads.empty()) throw BadInput("attention paths need at least one layer");
  int count = 1;
  for (const int here : heads) {
    if (here < 1) throw BadInput("a layer of attention needs at least one head");
    if (here > std::numeric_limits<int>::max() / count)
      throw BadInput("the heads make too many attention paths");
    count *= here;
  }
  return count;
}

std::vector<int> heads_of_path(int path, const std::vector<int>& heads) {
  const int count = path_count(heads);
  if (path < 0 || path >= count)
    throw BadInput("there is no path " + std::to_string(path) + " (0 to " + std::to_string(count - 1) + ")");
  std::vector<int> of(heads.size());
  // h_L, the fastest index, is the remainder by H_L; the quotient is the path of the layers before.
  for (std::size_t l = heads.size(); l-- > 0; path /= heads[l]) of[l] = path % heads[l];
  return of;
}

PathTask with_heads(const PathTask& task, const std::vector<std::vector<int>>& kept) {
  require_consistent(task);
  require_kept(task, kept);
  PathTask smaller;
  smaller.dimension = task.dimension;
  smaller.share = task.share;
  smaller.heads.reserve(kept.size());
  for (const auto& layer : kept) smaller.heads.push_back(layer.size());
  path_count(smaller.heads);  // a head may be kept twice: refuses too many
  const auto paths = kept_paths(task.heads, kept);
  smaller.path_names.reserve(paths.size());
  for (const int path : paths) smaller.path_names.push_back(task.path_names[path]);
  smaller.train = pick(task.train, paths, task.dimension);
  smaller.test = pick(task.test, paths, task.dimension);
  smaller.further.reserve(task.further.size());
  for (const auto& [name, examples] : task.further)
    smaller.further.push_back({name, pick(examples, paths, task.dimension)});
  return smaller;
}

}  // namespace fluxformer::paths
