// Layers left out of a model: what scores mean, and that all ways to leave layers out agree.

#include "analysis/depth/removal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model/tasks/word_targets.hpp"
#include "model/tasks/word_task.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::depth {
namespace {

using test::ProbeCase;
using test::ProbeSpec;
using Slab = RemovableLayers::Slab;

const std::vector<Score> all_scores{Score::influence, Score::angle,     Score::change, Score::dual,
                                    Score::dual_abs,  Score::dual_mean, Score::taylor, Score::removal};
const std::vector<long> three{0, 1, 2};  // of 12, 9 and 6 real tokens, in batches of 4

struct Named {
  std::string name;
  ProbeSpec spec;
};

/// Kinds of layers: those of Transformers, one of two cells, and the cells of a PDE model. Four or five of them.
const std::vector<Named> kinds{
    {"pre", {.layers = 4, .cells = 4}},
    {"post", {.norm = Norm::post, .layers = 4, .cells = 4}},
    {"two cells in a layer", {.kappa = 0.1, .layers = 4, .cells = 8}},
    {"pde", {.norm = Norm::none, .kind = ModelKind::pde, .kappa = 0.1, .layers = 3, .cells = 5}},
    {"sphere", {.norm = Norm::sphere, .kind = ModelKind::pde, .layers = 3, .cells = 4}}};

/// A batch of the samples of `three`, and the layers of the model.
struct LayersCase : ProbeCase {
  explicit LayersCase(const ProbeSpec& spec, const Loss& loss = {})
      : LayersCase(spec, test::probe_parameters(spec), loss) {}
  LayersCase(const ProbeSpec& spec, Parameters parameters, const Loss& loss = {})
      : ProbeCase(spec, 4, std::move(parameters)), layers(probe, loss), all(batch(three)) {}

  LayerScores scores(const std::vector<Score>& wanted = all_scores) {
    LayerScores found(layers, wanted);
    for (int part = 0; part < found.parts(); ++part) found.show(all, part);
    found.reduce(MPI_COMM_SELF);
    return found;
  }
  SubsetWalk subsets() {
    SubsetWalk walk(layers);
    for (Subset part = 0; part < walk.parts(); ++part) walk.show(all, part);
    walk.reduce(MPI_COMM_SELF);
    return walk;
  }
  /// States in front of the first layer and behind each.
  std::vector<Slab> states() {
    std::vector<Slab> rows(layers.count() + 1);
    layers.embed(all, rows.front());
    for (int l = 1; l <= layers.count(); ++l) layers.map(l, rows[l - 1], rows[l]);
    return rows;
  }
  /// The loss of a march through these layers, from the cells of the probe.
  double loss_with(Subset kept) {
    Slab u, v;
    layers.embed(all, u);
    v.resize(u.size());
    for (int row = 0; row < probe.cells(); ++row) {
      const int l = row * layers.count() / probe.cells();
      if ((kept >> l & 1) == 0) continue;
      probe.map(row, u.data(), v.data());
      u.swap(v);
    }
    return layers.value(all, u).loss;
  }

  RemovableLayers layers;
  Batch all;
};

Subset whole(int layers) {
  return (Subset{1} << layers) - 1;
}
Subset without(int layers, int l) {
  return whole(layers) & ~(Subset{1} << (l - 1));
}

TEST(RemovableLayers, are_the_layers_of_transformers_and_the_cells_of_pde_models) {
  for (const auto& [name, spec] : kinds) {
    auto model = test::probe_parameters(spec).spec;
    model.cells = spec.cells;
    EXPECT_EQ(removable_layers(model), name == "pde" ? 5 : 4) << name;
    EXPECT_EQ(LayersCase(spec).layers.count(), removable_layers(model)) << name;
  }
}

TEST(LayerScores, dual_is_minus_the_slope_of_the_loss_by_a_gate_on_the_layer) {
  for (const auto& [name, spec] : kinds) {
    LayersCase one(spec);
    const auto rows = one.states();
    const auto dual = one.scores({Score::dual}).of(Score::dual);
    Slab slope;
    one.layers.derivative(one.all, rows.back(), slope);
    const int count = one.layers.count(), each = one.probe.cells() / count;
    for (int l = 1; l <= count; ++l) {
      // The tangent along the gate, pushed forward: the scores have the transposes.
      Slab tangent(slope.size()), next(slope.size()), u = rows[l];
      for (std::size_t j = 0; j < tangent.size(); ++j) tangent[j] = rows[l][j] - rows[l - 1][j];
      for (int row = l * each; row < one.probe.cells(); ++row) {
        one.probe.tangent(row, u.data(), tangent.data(), next.data());
        tangent.swap(next);
        one.probe.map(row, u.data(), next.data());
        u.swap(next);
      }
      EXPECT_NEAR(dual[l - 1], -test::dot(slope, tangent), 1e-14) << name << ", layer " << l;
      // The slope itself by central differences: e^2 times third derivatives, and round-off over e.
      const auto gated = [&](double gate) {
        Slab v = rows[l];
        for (std::size_t j = 0; j < v.size(); ++j)
          v[j] = rows[l - 1][j] + gate * (rows[l][j] - rows[l - 1][j]);
        Slab w;
        for (int k = l + 1; k <= count; ++k) {
          one.layers.map(k, v, w);
          v.swap(w);
        }
        return one.layers.value(one.all, v).loss;
      };
      const double e = 1e-4;
      EXPECT_NEAR(dual[l - 1], -(gated(1 + e) - gated(1 - e)) / (2 * e), 1e-7) << name << ", layer " << l;
    }
  }
}

TEST(LayerScores, removal_is_the_loss_of_a_march_anew_and_of_the_subset_without_the_layer) {
  for (const auto& [name, spec] : kinds) {
    LayersCase one(spec);
    const auto scores = one.scores({Score::removal});
    const auto removal = scores.of(Score::removal);
    const auto subsets = one.subsets();
    const int count = one.layers.count();
    RemovalsFrom all(one.layers, std::vector(count, true));
    all.show(one.all);
    all.reduce(MPI_COMM_SELF);
    EXPECT_NEAR(scores.loss(), one.loss_with(whole(count)), 1e-13) << name;
    for (int l = 1; l <= count; ++l) {
      const double anew = one.loss_with(without(count, l));
      EXPECT_GT(std::abs(removal[l - 1]), 1e-4);  // there is something to be found
      EXPECT_NEAR(scores.loss() + removal[l - 1], anew, 1e-13) << name << ", layer " << l;
      EXPECT_NEAR(subsets.loss(without(count, l)), anew, 1e-13) << name << ", layer " << l;
      EXPECT_NEAR(all.loss(l), anew, 1e-13) << name << ", layer " << l;
    }
  }
}

TEST(LayerScores, in_parts_have_every_layer) {
  LayersCase one({.kind = ModelKind::pde, .layers = 3, .cells = 10});
  ASSERT_EQ(LayerScores(one.layers, {Score::removal}).parts(), 2);
  const auto scores = one.scores();
  for (int l = 1; l <= 10; ++l)
    EXPECT_NEAR(scores.loss() + scores.of(Score::removal)[l - 1], one.loss_with(without(10, l)), 1e-13) << l;
  // What does not need marches without a layer is in the first part alone.
  const auto alone = one.scores({Score::influence, Score::dual, Score::taylor});
  for (const auto score : {Score::influence, Score::dual, Score::taylor})
    for (int l = 0; l < 10; ++l)
      EXPECT_EQ(scores.of(score)[l], alone.of(score)[l]) << static_cast<int>(score);
}

TEST(SubsetWalk, has_the_loss_of_every_subset) {
  for (const auto& [name, spec] : kinds) {
    LayersCase one(spec);
    const auto subsets = one.subsets();
    for (Subset kept = 0; kept <= whole(one.layers.count()); ++kept)
      EXPECT_NEAR(subsets.loss(kept), one.loss_with(kept), 1e-13) << name << ", " << kept;
  }
}

TEST(SubsetWalk, in_parts_has_the_loss_of_every_subset) {
  LayersCase one({.kind = ModelKind::pde, .layers = 3, .cells = 10});
  ASSERT_EQ(SubsetWalk(one.layers).parts(), Subset{4});
  const auto subsets = one.subsets();
  for (Subset kept = 0; kept <= whole(10); kept += 31)
    EXPECT_NEAR(subsets.loss(kept), one.loss_with(kept), 1e-13) << kept;
  SubsetWalk third(one.layers);
  third.show(one.all, 2);
  third.reduce(MPI_COMM_SELF);
  for (Subset kept = 0; kept <= whole(10); ++kept)  // those with layer 2 and without layer 1
    EXPECT_EQ(third.loss(kept), (kept & 3) == 2 ? subsets.loss(kept) : 0) << kept;
}

TEST(OrderWalk, has_the_curve_that_all_subsets_have) {
  for (const auto& [name, spec] : kinds) {
    LayersCase one(spec);
    const auto subsets = one.subsets();
    std::vector<int> order(one.layers.count());
    std::iota(order.begin(), order.end(), 1);
    std::swap(order[1], order[3]);
    std::swap(order[0], order[2]);
    OrderWalk walk(one.layers, order);
    walk.show(one.all);
    walk.reduce(MPI_COMM_SELF);
    const auto curve = walk.curve(), table = subsets.along(order);
    Subset kept = whole(one.layers.count());
    for (int left = one.layers.count(); left >= 0; --left) {
      EXPECT_NEAR(curve.loss[left], one.loss_with(kept), 1e-13) << name << ", " << left;
      EXPECT_NEAR(curve.loss[left], table.loss[left], 1e-13) << name << ", " << left;
      EXPECT_EQ(curve.correct[left], table.correct[left]) << name << ", " << left;
      if (left > 0) kept &= ~(Subset{1} << (order[one.layers.count() - left] - 1));
    }
  }
}

TEST(RemovalsFrom, continue_with_what_is_left) {
  for (const auto& [name, spec] : kinds) {
    LayersCase one(spec);
    std::vector<bool> kept(one.layers.count(), true);
    kept[1] = false;
    RemovalsFrom rest(one.layers, kept);
    rest.show(one.all);
    rest.reduce(MPI_COMM_SELF);
    for (const int l : {1, 3, 4})
      EXPECT_NEAR(rest.loss(l), one.loss_with(without(one.layers.count(), l) & ~Subset{2}), 1e-13) << name;
  }
}

TEST(LayerScores, are_zero_for_a_layer_that_adds_nothing_and_the_loss_stays_bit_for_bit) {
  const ProbeSpec spec{.layers = 3, .cells = 3};
  auto parameters = test::probe_parameters(spec);
  for (const auto* name : {"W_O", "b_O", "W_2", "b_2"})
    std::ranges::fill(parameters.view(std::string("layers/2/") + name), 0.0);
  LayersCase one(spec, parameters);
  const auto scores = one.scores();
  for (const auto score : all_scores) {
    EXPECT_EQ(scores.of(score)[1], 0) << static_cast<int>(score);
    EXPECT_NE(scores.of(score)[0], 0) << static_cast<int>(score);
  }
  const auto subsets = one.subsets();
  for (const Subset others : {0u, 1u, 4u, 5u}) EXPECT_EQ(subsets.loss(others | 2), subsets.loss(others));
}

TEST(LayerScores, dual_mean_is_removal_where_layers_are_linear_and_the_loss_is_quadratic) {
  const ProbeSpec diffusion{.norm = Norm::none,
                            .kind = ModelKind::pde,
                            .kappa = 0.1,
                            .alpha = 0,
                            .rho = 0,
                            .layers = 4,
                            .cells = 4};
  // Pooling over all tokens would see no diffusion, which keeps sums: it reads the first token.
  auto model = test::probe_parameters(diffusion).spec;
  model.pooling = Pooling::first;
  LayersCase one(diffusion, test::random_parameters({.model = model, .kappa = 0.1, .alpha = 0, .rho = 0}),
                 {.kind = LossKind::mean_squared_error});
  const auto scores = one.scores();
  const auto removal = scores.of(Score::removal);
  for (int l = 0; l < 4; ++l) {
    EXPECT_GT(std::abs(removal[l]), 1e-4);
    EXPECT_NEAR(scores.of(Score::dual_mean)[l], removal[l], 1e-14);
    EXPECT_GT(std::abs(scores.of(Score::dual)[l] - removal[l]), 1e-6);  // the slope alone misses the square
  }
}

TEST(LayerScores, measure_distances_of_real_tokens_only) {
  for (const auto& [name, spec] : kinds) {
    LayersCase one(spec);
    const auto rows = one.states();
    const auto scores = one.scores({Score::influence, Score::angle, Score::change});
    const Index width = one.probe.spec().width, slots = one.all.weight.size();
    for (int l = 1; l <= one.layers.count(); ++l) {
      double influence = 0, angle = 0, change = 0;
      for (std::size_t b = 0; b < three.size(); ++b) {
        const int tokens = one.all.length[b];
        for (Index t = 0; t < tokens; ++t) {
          double aa = 0, bb = 0, ab = 0;
          for (Index c = 0; c < width; ++c) {
            const auto j = static_cast<std::size_t>((t * slots + static_cast<Index>(b)) * width + c);
            const double from = rows[l - 1][j], to = rows[l][j];
            aa += from * from, bb += to * to, ab += from * to;
          }
          const double weight = 1.0 / (static_cast<double>(three.size()) * tokens);
          influence += weight * (1 - ab / std::sqrt(aa * bb));
          angle += weight * std::acos(ab / std::sqrt(aa * bb)) / std::acos(-1.0);
          change += weight * std::sqrt((aa + bb - 2 * ab) / aa);
        }
      }
      EXPECT_NEAR(scores.of(Score::influence)[l - 1], influence, 1e-14) << name << ", layer " << l;
      // The arc cosine and the difference of squares lose half of the digits where little changes.
      EXPECT_NEAR(scores.of(Score::angle)[l - 1], angle, 1e-12) << name << ", layer " << l;
      EXPECT_NEAR(scores.of(Score::change)[l - 1], change, 1e-12) << name << ", layer " << l;
    }
  }
}

TEST(LayerScores, dual_abs_is_the_mean_of_the_sizes_by_sample) {
  LayersCase one({.layers = 3, .cells = 3});
  const auto scores = one.scores({Score::dual, Score::dual_abs});
  std::vector<double> sizes(3, 0.0), sums(3, 0.0);
  for (const long key : three) {
    LayersCase alone({.layers = 3, .cells = 3});
    alone.all = alone.batch({key});
    const auto dual = alone.scores({Score::dual}).of(Score::dual);
    for (int l = 0; l < 3; ++l) sizes[l] += std::abs(dual[l]) / 3, sums[l] += dual[l] / 3;
  }
  for (int l = 0; l < 3; ++l) {
    EXPECT_NEAR(scores.of(Score::dual_abs)[l], sizes[l], 1e-15);
    EXPECT_NEAR(scores.of(Score::dual)[l], sums[l], 1e-15);
  }
}

TEST(LayerScores, taylor_has_the_gradients_of_back_propagation) {
  for (const int cells : {3, 6}) {  // with two cells, a layer's weights count in both
    LayersCase one({.layers = 3, .cells = cells});
    const auto taylor = one.scores({Score::taylor}).of(Score::taylor);
    // z_bar of the weighted cross entropy by hand
    auto& probe = one.probe;
    Slab u, u_bar;
    probe.embed(one.all, u);
    auto z_bar = probe.forward(u, Keep::activations);
    const int classes = probe.spec().classes;
    for (std::size_t b = 0; b < one.all.weight.size(); ++b)
      loss_of({}, std::vector(z_bar.begin() + b * classes, z_bar.begin() + (b + 1) * classes).data(), classes,
              one.all.label[b], one.all.weight[b], z_bar.data() + b * classes);
    std::vector<double> gradient(probe.parameters().values.size());
    probe.adjoint(z_bar, u_bar, gradient);
    const auto& [spec, layout, values] = probe.parameters();
    for (int l = 0; l < 3; ++l) {
      double sum = 0;
      for (Index j = layout.block_offset(l); j < layout.block_offset(l + 1); ++j)
        sum += std::abs(values[j] * gradient[j]);
      EXPECT_NEAR(taylor[l], sum, 1e-14) << cells << ", layer " << l + 1;
    }
  }
}

TEST(LayerScores, of_the_cells_of_a_pde_model_are_those_of_layers_with_their_weights) {
  // Two knots over three layers of h = 1: weights at s = 0, 1 and 2.
  const ProbeSpec pde{.norm = Norm::pre, .kind = ModelKind::pde, .layers = 3, .cells = 3};
  auto model = test::probe_parameters(pde).spec;
  model.knots = 2;
  const auto knots = test::random_parameters({.model = model});
  const ProbeSpec transformer{.layers = 3, .cells = 3};
  auto layers = test::probe_parameters(transformer);
  for (const auto& view : layers.layout.views()) {
    auto to = layers.view(view.path());
    if (!view.group.starts_with("layers/")) {
      std::ranges::copy(knots.view(view.path()), to.begin());
      continue;
    }
    const double share = (std::stoi(view.group.substr(7)) - 1) / 2.0;
    const auto one = knots.view("layers/1/" + view.name), other = knots.view("layers/2/" + view.name);
    for (std::size_t j = 0; j < to.size(); ++j) to[j] = (1 - share) * one[j] + share * other[j];
  }
  LayersCase cells(pde, knots), same(transformer, layers);
  const auto found = cells.scores(), expected = same.scores();
  for (const auto score : all_scores)
    for (int l = 0; l < 3; ++l)
      EXPECT_NEAR(found.of(score)[l], expected.of(score)[l], 1e-14) << static_cast<int>(score);
}

TEST(LayerScores, count_masked_words_where_the_model_guesses_them) {
  const ProbeSpec spec{.layers = 3, .cells = 3, .vocabulary = 9, .classes = 0};
  auto model = test::probe_parameters(spec).spec;
  model.word_head.present = true;
  LayersCase one(spec, test::random_parameters({.model = model}), {.target = LossTarget::words});
  one.all.targets = {{0, 1, 4, 0.3}, {0, 7, 2, 0.2}, {1, 8, 5, 0.3}, {2, 0, 3, 0.2}};
  const auto rows = one.states();
  // The loss by the words' logits.
  double loss = 0;
  for (const auto& [sample, token, word, weight] : one.all.targets) {
    std::vector<double> z(9);
    WordLogits(one.probe.parameters(), Precision::float64)(
        1, rows.back().data() + (token * 4 + sample) * one.probe.spec().width, z.data());
    loss += loss_of({}, z.data(), 9, word, 1, nullptr) * weight;
  }
  const auto scores = one.scores();
  EXPECT_NEAR(scores.loss(), loss, 1e-14);
  for (int l = 1; l <= 3; ++l) {
    EXPECT_NEAR(scores.loss() + scores.of(Score::removal)[l - 1], one.loss_with(without(3, l)), 1e-14);
    const auto gated = [&](double gate) {
      Slab v = rows[l], w;
      for (std::size_t j = 0; j < v.size(); ++j) v[j] = rows[l - 1][j] + gate * (rows[l][j] - rows[l - 1][j]);
      for (int k = l + 1; k <= 3; ++k) {
        one.layers.map(k, v, w);
        v.swap(w);
      }
      return one.layers.value(one.all, v).loss;
    };
    EXPECT_NEAR(scores.of(Score::dual)[l - 1], -(gated(1 + 1e-4) - gated(1 - 1e-4)) / 2e-4, 1e-7);
  }
}

TEST(RemovalOrder, begins_with_the_least_and_takes_equals_in_the_order_of_depth) {
  EXPECT_EQ(removal_order({0.3, -2, 0.1, 0.3}), (std::vector{2, 3, 1, 4}));
  // Round-off of a sum does not decide.
  EXPECT_EQ(removal_order({0.3 + 1e-13, 0.3, 5, 0.3 - 1e-13}), (std::vector{1, 2, 4, 3}));
  EXPECT_EQ(removal_order({2e-9, 1e-9, 5}), (std::vector{2, 1, 3}));
  EXPECT_EQ(removal_order({1e-17, -1e-17, 1}), (std::vector{1, 2, 3}));
  EXPECT_EQ(removal_order({0, 0}), (std::vector{1, 2}));
}

TEST(SubsetWalk, finds_the_best_subsets_and_the_mean_of_all_orders) {
  LayersCase one({.layers = 3, .cells = 3});
  const auto subsets = one.subsets();
  const auto best = subsets.best();
  for (Subset kept = 0; kept < 8; ++kept)
    EXPECT_LE(subsets.loss(best[std::popcount(kept)]), subsets.loss(kept) + 1e-9) << kept;
  for (int size = 0; size <= 3; ++size) EXPECT_EQ(std::popcount(best[size]), size);
  const auto mean = subsets.mean();
  RemovalCurve sum{.loss = std::vector(4, 0.0), .correct = std::vector(4, 0.0)};
  std::vector<int> order{1, 2, 3};
  do {
    const auto curve = subsets.along(order);
    for (int kept = 0; kept <= 3; ++kept) {
      sum.loss[kept] += curve.loss[kept] / 6;
      sum.correct[kept] += curve.correct[kept] / 6;
    }
  } while (std::ranges::next_permutation(order).found);
  for (int kept = 0; kept <= 3; ++kept) {
    EXPECT_NEAR(mean.loss[kept], sum.loss[kept], 1e-14);
    EXPECT_NEAR(mean.correct[kept], sum.correct[kept], 1e-14);
  }
}

TEST(Regret, is_the_mean_over_all_but_the_ends) {
  EXPECT_NEAR(regret({.loss = {9, 3, 2.5, 6}, .correct = {}}, {.loss = {8, 2, 2, 1}, .correct = {}}), 0.75,
              1e-15);
}

TEST(SubsetWalk, refuses_more_layers_than_it_can_try) {
  LayersCase one({.kind = ModelKind::pde, .layers = 3, .cells = 13});
  EXPECT_THROW(SubsetWalk{one.layers}, std::invalid_argument);
}

}  // namespace
}  // namespace fluxformer::depth
