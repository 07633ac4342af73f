#pragma once

// Layers that can be left out of a model: without layer l the march has u_l = u_{l-1} in the place of
// u_l = G_l(u_{l-1}). Scores say from the whole march, or from short ones, which layer the loss J needs least.
//
// Sources: Men et al., arXiv 2403.03853 (influence); Gromov et al., arXiv 2403.17887 (angle, deepest first);
// Kim et al., arXiv 2402.02834 (weights). dual is the slope of J by a gate in front of what a layer adds.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/depth/rounded.hpp"
#include "analysis/model_probe.hpp"
#include "base/index.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer::depth {

/// The number of layers that can be left out one by one: the layers of a model with constant weights, each with
/// all its cells, else the cells.
int removable_layers(const ModelSpec& spec);

/// A model whose layers are applied one by one, 1 .. S, and the loss of its last state. Slabs are those of the
/// probe, without dropout. Calls are collective over the token line.
class RemovableLayers {
 public:
  /// A state, or its derivative.
  using Slab = std::vector<double>;
  /// `probe` is borrowed. Throws BadInput if the model lacks the head that the loss needs.
  RemovableLayers(ModelProbe& probe, const Loss& loss);

  int count() const { return static_cast<int>(std::ssize(first_)) - 1; }
  const SlabContext& counted() const { return probe_.counted(); }
  void embed(const Batch& batch, Slab& u) { probe_.embed(batch, u); }
  /// v := G_l(u)
  void map(int l, const Slab& u, Slab& v);
  /// bar := (dG_l/du)^T bar at the state u in front of the layer. With `weights` (weights() numbers, or none):
  /// += (dG_l/dtheta)^T bar, for the weights of the layer.
  void pull(int l, const Slab& u, Slab& bar, std::span<double> weights = {});
  /// Loss and share of right answers of the batch, with its weights, at a last state u.
  Evaluation value(const Batch& batch, const Slab& u) { return task_->value(batch, u.data(), *tape_); }
  /// The same; u_bar := derivative of the loss; 0 for padding.
  Evaluation derivative(const Batch& batch, const Slab& u, Slab& u_bar);

  /// The number of weights of a layer, and these weights: those of its block, for weights that are linear in
  /// depth those at its entry.
  Index weights() const { return probe_.parameters().layout.block_size(); }
  std::vector<double> weights_of(int l) const;

 private:
  /// The knots of the cell after a row.
  KnotPair knots(int row) const { return knots_at(probe_.spec(), probe_.point(row)); }

  ModelProbe& probe_;
  std::vector<int> first_;  // row in front of layer l: first_[l - 1]; the last row
  std::unique_ptr<Task> task_;
  std::unique_ptr<TaskTape> tape_;
  Slab next_;
  std::vector<Slab> within_;  // states within a layer
  std::vector<double> flat_;  // a gradient; 0 in all blocks between calls
};

/// Numbers that say how much a layer does; the layer with the least goes first. With a = u_{l-1} and b = u_l:
///   influence   1 - cos(a, b), computed as half the squared distance of their directions
///   angle       angle between a and b, over pi
///   change      |b - a| / |a|
///   dual        -lambda_l . (b - a) with lambda_l = dJ/du_l: minus the slope of J by a gate on the layer
///   dual_abs    mean over the samples of its size
///   dual_mean   the same as dual with half the sum of lambda_l along the march and along that without l
///   taylor      sum over the weights of the layer of |theta dJ/dtheta|
///   removal     the change of J without the layer, measured
/// The first three are means over the real tokens of a sample, then over the samples. A vector that is 0 counts
/// as orthogonal to all others.
enum class Score { influence, angle, change, dual, dual_abs, dual_mean, taylor, removal };
inline constexpr int score_count = 8;

/// Scores of all layers on some samples.
class LayerScores {
 public:
  /// `layers` is borrowed. Only what `wanted` needs is computed.
  LayerScores(RemovableLayers& layers, const std::vector<Score>& wanted);
  /// The scores in several parts, all of which each batch is to be shown, so that none takes long: the marches
  /// without a layer are those of eight layers at a time.
  int parts() const { return removals_ ? parts_of(layers_.count()) : 1; }
  /// Adds the samples of a batch to a part. Collective over the token line.
  void show(const Batch& batch, int part);
  void reduce(MPI_Comm comm);
  /// A score of the layers 1 .. S; must be among those wanted.
  std::vector<double> of(Score score) const;
  /// The loss of the whole model.
  double loss() const { return sums_.total().back(); }
  /// The layer maps for each sample, of which a derivative counts as three.
  static double cost(int layers, const std::vector<Score>& wanted);

 private:
  using Slab = RemovableLayers::Slab;
  double& sum(Score score, int l) { return sums_.local()[static_cast<int>(score) * layers_.count() + l - 1]; }
  static constexpr int layers_of_a_part = 8;
  static int parts_of(int layers) { return (layers + layers_of_a_part - 1) / layers_of_a_part; }
  void add_distances(const Batch& batch, int l);
  void add_derivatives(const Batch& batch);
  /// The marches without each of these layers.
  void add_removals(const Batch& batch, int first, int last);
  /// lambda_b . (u_l - u_{l-1}) of each sample b, where lambda_b holds the weight of the sample.
  template <class Add>
  void for_each_product(const Batch& batch, int l, const Slab& lambda, const Add& add);

  RemovableLayers& layers_;
  bool derivatives_, removals_, means_, taylor_;
  Sums sums_, weights_;  // [score][layer], then the loss; gradients by the weights, [layer][weight]
  std::vector<Slab> states_, without_;  // of the march, and of that without a layer
};

/// The loss without one more layer, for each of those that are kept.
class RemovalsFrom {
 public:
  /// `kept`: for each layer whether it is there. `layers` is borrowed.
  RemovalsFrom(RemovableLayers& layers, std::vector<bool> kept);
  void show(const Batch& batch);
  void reduce(MPI_Comm comm) { sums_.reduce(comm); }
  /// The loss without layer l as well; l must be kept.
  double loss(int l) const { return sums_.total()[l - 1]; }
  /// The layer maps for each sample until one layer is left, in a greedy search.
  static double cost_of_search(int layers);

 private:
  RemovableLayers& layers_;
  std::vector<bool> kept_;
  Sums sums_;
};

/// Loss and share of right answers by the number of layers kept, [0 .. S].
struct RemovalCurve {
  std::vector<double> loss, correct;
};

/// The curve of one order, each time marched from behind the layer that goes.
class OrderWalk {
 public:
  /// `order`: the layers 1 .. S, the first to go in front. `layers` is borrowed.
  OrderWalk(RemovableLayers& layers, std::vector<int> order);
  void show(const Batch& batch);
  void reduce(MPI_Comm comm) { sums_.reduce(comm); }
  RemovalCurve curve() const;
  /// The most layer maps for each sample: those of `layers` .. 1, the first layers going first.
  static double cost(int layers);

 private:
  RemovableLayers& layers_;
  std::vector<int> order_;
  Sums sums_;  // loss and correct, [kept][2]
};

/// A set of kept layers: bit l - 1 is that of layer l.
using Subset = std::size_t;

/// Loss and share of right answers of all subsets of the layers: a depth-first walk through the tree of
/// subsets, in which those that begin alike share their states. It takes 2^S - 1 layer maps, a few more in several
/// parts, and S slabs.
class SubsetWalk {
 public:
  /// `layers` is borrowed; at most most_layers of them.
  explicit SubsetWalk(RemovableLayers& layers);
  static constexpr int most_layers = 12;
  /// The walk in several parts, all of which each batch is to be shown: the first parts() subsets of the first
  /// layers. Each part marches through these layers again.
  Subset parts() const { return Subset{1} << shared_; }
  /// The layer maps for each sample.
  static double cost(int layers);
  /// Adds the samples of a batch to the subsets of a part. Collective over the token line.
  void show(const Batch& batch, Subset part);
  void reduce(MPI_Comm comm) { sums_.reduce(comm); }

  double loss(Subset kept) const { return sums_.total()[2 * kept]; }
  double correct(Subset kept) const { return sums_.total()[2 * kept + 1]; }
  /// The curve of an order.
  RemovalCurve along(const std::vector<int>& order) const;
  /// The mean over all subsets of each size: that of all orders.
  RemovalCurve mean() const;
  /// The subset of each size with the least loss, rounded as `removal_order` does; the first of equals.
  std::vector<Subset> best() const;

 private:
  using Slab = RemovableLayers::Slab;
  /// The subsets that agree with `kept` on the layers before l; states_[at] is the state in front of l.
  void walk(const Batch& batch, int l, int at, Subset kept, Subset part);

  RemovableLayers& layers_;
  int shared_;  // layers that the parts fix
  Sums sums_;   // [subset][2]
  std::vector<Slab> states_;
};

/// The layers 1 .. S with the least score first, rounded; equals in the order of depth.
std::vector<int> removal_order(const std::vector<double>& scores);
/// The mean over 1 .. S - 1 kept layers of the loss less that of the best subset.
double regret(const RemovalCurve& curve, const RemovalCurve& best);

}  // namespace fluxformer::depth
