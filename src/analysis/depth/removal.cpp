#include "analysis/depth/removal.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "analysis/state_examples.hpp"
#include "base/statistics.hpp"

namespace fluxformer::depth {

int removable_layers(const ModelSpec& spec) {
  return spec.variation == DepthVariation::constant ? spec.layers : spec.cells;
}

RemovableLayers::RemovableLayers(ModelProbe& probe, const Loss& loss)
    : probe_(probe),
      task_(make_task(probe.parameters(), probe.context(), loss, probe.precision())),
      tape_(task_->make_tape()),
      flat_(probe.parameters().values.size(), 0.0) {
  if (probe.spec().variation == DepthVariation::constant) {
    first_ = probe.layer_rows();
    return;
  }
  first_.resize(probe.depths());
  std::iota(first_.begin(), first_.end(), 0);
}

void RemovableLayers::map(int l, const Slab& u, Slab& v) {
  v.resize(u.size());
  const int first = first_[l - 1], last = first_[l] - 1;
  if (first == last) return probe_.map(first, u.data(), v.data());
  next_ = u;
  for (int row = first; row <= last; ++row) {
    probe_.map(row, next_.data(), v.data());
    if (row < last) next_.swap(v);
  }
}

void RemovableLayers::pull(int l, const Slab& u, Slab& bar, std::span<double> weights) {
  const int first = first_[l - 1], cells = first_[l] - first;
  within_.resize(cells);
  within_.front() = u;
  for (int k = 0; k + 1 < cells; ++k) {
    within_[k + 1].resize(u.size());
    probe_.map(first + k, within_[k].data(), within_[k + 1].data());
  }
  next_.resize(u.size());
  for (int k = cells - 1; k >= 0; --k) {
    const auto gradient = weights.empty() ? std::span<double>{} : std::span(flat_);
    probe_.transposed(first + k, within_[k].data(), bar.data(), next_.data(), gradient);
    bar.swap(next_);
    if (weights.empty()) continue;
    // The weights of the cell are (1 - share) theta_lower + share theta_upper, so that the gradients of the two
    // knots, (1 - share) and share times that of the cell, add up to it.
    const auto [lower, upper, share] = knots(first + k);
    for (int knot = lower; knot <= upper; ++knot) {
      double* const block = flat_.data() + probe_.parameters().layout.block_offset(knot);
      for (Index j = 0; j < std::ssize(weights); ++j) weights[j] += std::exchange(block[j], 0.0);
    }
  }
}

Evaluation RemovableLayers::derivative(const Batch& batch, const Slab& u, Slab& u_bar) {
  u_bar.resize(u.size());
  // The gradient of the head, of which nothing is read, lies behind the blocks of the layers.
  return task_->gradient(batch, u.data(), u_bar.data(), flat_, *tape_, Task::KeepFor::nothing);
}

std::vector<double> RemovableLayers::weights_of(int l) const {
  const auto& [spec, layout, values] = probe_.parameters();
  const auto [lower, upper, share] = knots(first_[l - 1]);
  const double* const one = values.data() + layout.block_offset(lower);
  const double* const other = values.data() + layout.block_offset(upper);
  std::vector<double> all(weights());
  for (Index j = 0; j < weights(); ++j) all[j] = (1 - share) * one[j] + share * other[j];
  return all;
}

namespace {

bool among(const std::vector<Score>& wanted, std::initializer_list<Score> scores) {
  return std::ranges::any_of(scores,
                             [&](Score score) { return std::ranges::find(wanted, score) != wanted.end(); });
}

/// How far a token moves from a to b: influence, angle, change.
struct Distances {
  double influence = 0, angle = 0, change = 0;
};

template <class Row>
Distances distances(const Row& a, const Row& b) {
  const double change = (b - a).norm();
  if (change == 0) return {};  // the differences below may leave round-off
  const double size = a.norm(), behind = b.norm();
  if (!std::isfinite(size + behind))
    return {missing_value, missing_value, missing_value};  // a factor of 0 would hide it
  // Factors that make unit vectors; a vector that is 0 stays 0.
  const double one = size > 0 ? 1 / size : 0, other = behind > 0 ? 1 / behind : 0;
  const double apart = (one * a - other * b).norm(), sum = (one * a + other * b).norm();
  return {.influence = apart * apart / 2,
          .angle = 2 * std::atan2(apart, sum) / std::numbers::pi,
          .change = change / size};
}

}  // namespace

LayerScores::LayerScores(RemovableLayers& layers, const std::vector<Score>& wanted)
    : layers_(layers),
      derivatives_(among(wanted, {Score::dual, Score::dual_abs, Score::dual_mean, Score::taylor})),
      removals_(among(wanted, {Score::removal, Score::dual_mean})),
      means_(among(wanted, {Score::dual_mean})),
      taylor_(among(wanted, {Score::taylor})),
      sums_(Index{score_count} * layers.count() + 1),
      weights_(taylor_ ? layers.count() * layers.weights() : 0),
      states_(layers.count() + 1),
      without_(layers.count() + 1) {}

double LayerScores::cost(int layers, const std::vector<Score>& wanted) {
  if (wanted.empty()) return 0;
  const double whole = layers, behind = whole * (whole - 1) / 2;
  double maps = whole;
  if (among(wanted, {Score::dual, Score::dual_abs, Score::dual_mean, Score::taylor})) maps += 3 * whole;
  if (among(wanted, {Score::removal, Score::dual_mean})) maps += behind + (parts_of(layers) - 1) * whole;
  if (among(wanted, {Score::dual_mean})) maps += 3 * behind;
  return maps;
}

template <class Add>
void LayerScores::for_each_product(const Batch& batch, int l, const Slab& lambda, const Add& add) {
  for_each_sample(batch, [&](Index b, Index) {
    const auto of = [&](const Slab& slab) {
      return sample_of(layers_.counted(), slab.data(), static_cast<int>(b));
    };
    add(of(lambda).cwiseProduct(of(states_[l]) - of(states_[l - 1])).sum());
  });
}

void LayerScores::add_distances(const Batch& batch, int l) {
  for_each_sample(batch, [&](Index b, Index) {
    const auto from = sample_of(layers_.counted(), states_[l - 1].data(), static_cast<int>(b)),
               to = sample_of(layers_.counted(), states_[l].data(), static_cast<int>(b));
    const double weight = batch.weight[b] / static_cast<double>(from.rows());
    for (Index t = 0; t < from.rows(); ++t) {
      const auto [influence, angle, change] = distances(from.row(t), to.row(t));
      sum(Score::influence, l) += weight * influence;
      sum(Score::angle, l) += weight * angle;
      sum(Score::change, l) += weight * change;
    }
  });
}

void LayerScores::show(const Batch& batch, int part) {
  const int count = layers_.count(), first = part * layers_of_a_part + 1;
  layers_.embed(batch, states_.front());
  for (int l = 1; l <= count; ++l) layers_.map(l, states_[l - 1], states_[l]);
  if (removals_) add_removals(batch, first, std::min(count, first + layers_of_a_part - 1));
  if (part > 0) return;
  for (int l = 1; l <= count; ++l) add_distances(batch, l);
  sums_.local()[sums_.size() - 1] += layers_.value(batch, states_.back()).loss;
  if (derivatives_) add_derivatives(batch);
}

void LayerScores::add_derivatives(const Batch& batch) {
  Slab lambda;
  layers_.derivative(batch, states_.back(), lambda);
  for (int l = layers_.count(); l >= 1; --l) {
    for_each_product(batch, l, lambda, [&](double product) {
      sum(Score::dual, l) -= product;
      sum(Score::dual_abs, l) += std::abs(product);
      sum(Score::dual_mean, l) -= product / 2;
    });
    if (taylor_)
      layers_.pull(
          l, states_[l - 1], lambda,
          {weights_.local() + (l - 1) * layers_.weights(), static_cast<std::size_t>(layers_.weights())});
    else if (l > 1)
      layers_.pull(l, states_[l - 1], lambda);
  }
}

void LayerScores::add_removals(const Batch& batch, int first, int last) {
  Slab lambda;
  const int count = layers_.count();
  for (int l = first; l <= last; ++l) {
    without_[l] = states_[l - 1];
    for (int k = l + 1; k <= count; ++k) layers_.map(k, without_[k - 1], without_[k]);
    sum(Score::removal, l) += layers_.value(batch, without_[count]).loss;
    if (!means_) continue;
    layers_.derivative(batch, without_[count], lambda);
    for (int k = count; k > l; --k) layers_.pull(k, without_[k - 1], lambda);
    for_each_product(batch, l, lambda, [&](double product) { sum(Score::dual_mean, l) -= product / 2; });
  }
}

void LayerScores::reduce(MPI_Comm comm) {
  sums_.reduce(comm);
  weights_.reduce(comm);
}

std::vector<double> LayerScores::of(Score score) const {
  const Index layers = layers_.count(), each = layers_.weights();
  const auto first = sums_.total().begin() + static_cast<int>(score) * layers;
  std::vector<double> all(first, first + layers);
  if (score == Score::removal)
    for (double& loss_without : all) loss_without -= loss();
  if (score == Score::taylor)
    for (Index l = 0; l < layers; ++l) {
      const auto theta = layers_.weights_of(static_cast<int>(l) + 1);
      for (Index j = 0; j < each; ++j) all[l] += std::abs(theta[j] * weights_.total()[l * each + j]);
    }
  return all;
}

RemovalsFrom::RemovalsFrom(RemovableLayers& layers, std::vector<bool> kept)
    : layers_(layers), kept_(std::move(kept)), sums_(layers.count()) {}

void RemovalsFrom::show(const Batch& batch) {
  RemovableLayers::Slab u, v, next;
  layers_.embed(batch, u);
  for (int l = 1; l <= layers_.count(); ++l) {
    if (!kept_[l - 1]) continue;
    v = u;  // the march without l
    for (int k = l + 1; k <= layers_.count(); ++k) {
      if (!kept_[k - 1]) continue;
      layers_.map(k, v, next);
      v.swap(next);
    }
    sums_.local()[l - 1] += layers_.value(batch, v).loss;
    layers_.map(l, u, next);
    u.swap(next);
  }
}

double RemovalsFrom::cost_of_search(int layers) {
  // n (n + 1) / 2 with n layers kept, n = S .. 2
  const double all = layers;
  return all * (all + 1) * (all + 2) / 6 - 1;
}

OrderWalk::OrderWalk(RemovableLayers& layers, std::vector<int> order)
    : layers_(layers), order_(std::move(order)), sums_(2 * (layers.count() + 1)) {
  if (std::ssize(order_) != layers.count())
    throw std::invalid_argument("OrderWalk: not an order of the layers");
}

void OrderWalk::show(const Batch& batch) {
  const int count = layers_.count();
  std::vector<RemovableLayers::Slab> states(count + 1);  // behind each layer, kept or not
  std::vector<bool> kept(count, true);
  layers_.embed(batch, states.front());
  int changed = 0;  // the first layer that is not applied yet, less 1
  for (int left = count; left >= 0; --left) {
    for (int l = changed + 1; l <= count; ++l) {
      if (kept[l - 1])
        layers_.map(l, states[l - 1], states[l]);
      else
        states[l] = states[l - 1];
    }
    const auto found = layers_.value(batch, states.back());
    sums_.local()[2 * left] += found.loss;
    sums_.local()[2 * left + 1] += found.correct;
    if (left == 0) break;
    changed = order_[count - left] - 1;
    kept[changed] = false;
  }
}

double OrderWalk::cost(int layers) {
  return layers * (layers + 1.0) / 2;
}

RemovalCurve OrderWalk::curve() const {
  RemovalCurve curve;
  for (Index kept = 0; kept <= layers_.count(); ++kept) {
    curve.loss.push_back(sums_.total()[2 * kept]);
    curve.correct.push_back(sums_.total()[2 * kept + 1]);
  }
  return curve;
}

namespace {

/// The layers that parts fix: behind them a part has 255 layer maps, beside which the march to them is little.
int shared_layers(int layers) {
  return std::max(0, layers - 8);
}

}  // namespace

double SubsetWalk::cost(int layers) {
  // Each part has 2^(S - shared) - 1 maps, and those to it, half of the shared layers in the mean.
  const int shared = shared_layers(layers);
  return std::exp2(layers) - std::exp2(shared) + shared * std::exp2(shared) / 2;
}

SubsetWalk::SubsetWalk(RemovableLayers& layers)
    : layers_(layers),
      shared_(shared_layers(layers.count())),
      sums_(2 * (Index{1} << std::min(layers.count(), most_layers))),
      states_(layers.count() + 1) {
  if (layers.count() > most_layers) throw std::invalid_argument("SubsetWalk: too many layers");
}

void SubsetWalk::show(const Batch& batch, Subset part) {
  layers_.embed(batch, states_.front());
  walk(batch, 1, 0, 0, part);
}

void SubsetWalk::walk(const Batch& batch, int l, int at, Subset kept, Subset part) {
  if (l > layers_.count()) {
    const auto found = layers_.value(batch, states_[at]);
    sums_.local()[2 * kept] += found.loss;
    sums_.local()[2 * kept + 1] += found.correct;
    return;
  }
  const Subset bit = Subset{1} << (l - 1);
  const bool fixed = l <= shared_, there = (part & bit) != 0;
  if (!fixed || !there) walk(batch, l + 1, at, kept, part);
  if (fixed && !there) return;
  layers_.map(l, states_[at], states_[l]);
  walk(batch, l + 1, l, kept | bit, part);
}

RemovalCurve SubsetWalk::along(const std::vector<int>& order) const {
  RemovalCurve curve;
  Subset kept = 0;  // from the layer that goes last
  for (Index left = 0; left <= layers_.count(); ++left) {
    curve.loss.push_back(loss(kept));
    curve.correct.push_back(correct(kept));
    if (left < layers_.count()) kept |= Subset{1} << (order[layers_.count() - left - 1] - 1);
  }
  return curve;
}

RemovalCurve SubsetWalk::mean() const {
  const Index sizes = layers_.count() + 1;
  RemovalCurve curve{.loss = std::vector(sizes, 0.0), .correct = std::vector(sizes, 0.0)};
  std::vector<double> number(sizes, 0.0);
  for (Subset kept = 0; kept < Subset{1} << layers_.count(); ++kept) {
    const int size = std::popcount(kept);
    curve.loss[size] += loss(kept);
    curve.correct[size] += correct(kept);
    ++number[size];
  }
  for (Index size = 0; size < sizes; ++size) {
    curve.loss[size] /= number[size];
    curve.correct[size] /= number[size];
  }
  return curve;
}

std::vector<Subset> SubsetWalk::best() const {
  std::vector<double> losses;
  for (Subset kept = 0; kept < Subset{1} << layers_.count(); ++kept)
    losses.push_back(rounded({loss(kept)}).front());
  std::vector<Subset> least(layers_.count() + 1);
  std::vector<bool> any(layers_.count() + 1, false);
  for (Subset kept = 0; kept < losses.size(); ++kept) {
    const int size = std::popcount(kept);
    if (any[size] && losses[kept] >= losses[least[size]]) continue;
    any[size] = true;
    least[size] = kept;
  }
  return least;
}

std::vector<int> removal_order(const std::vector<double>& scores) {
  const auto by = rounded(scores);
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 1);
  std::ranges::stable_sort(order, [&](int one, int other) { return by[one - 1] < by[other - 1]; });
  return order;
}

double regret(const RemovalCurve& curve, const RemovalCurve& best) {
  const Index layers = std::ssize(curve.loss) - 1;
  double sum = 0;
  for (Index kept = 1; kept < layers; ++kept) sum += curve.loss[kept] - best.loss[kept];
  return sum / static_cast<double>(layers - 1);
}

}  // namespace fluxformer::depth
