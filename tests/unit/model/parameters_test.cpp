// The flat parameter vector and its names, and weights between knots.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "model/depth_weights.hpp"
#include "model/initialise.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

ModelSpec parameters_full_model() {
  auto m = small_model(3);
  m.order = SubLayerOrder::macaron;
  m.own_halves = true;
  m.kappa_per_channel = true;
  m.features = 4;
  m.tokens = 12;
  m.classes = 5;
  return m;
}

TEST(ParameterLayout, has_as_many_as_were_counted_before) {
  auto words = small_model(2);
  words.vocabulary = 100;
  words.norm = Norm::post;
  words.classes = 3;
  for (const auto& spec : {parameters_full_model(), small_model(1), words})
    EXPECT_EQ(parameter_count(spec), static_cast<double>(ParameterLayout(spec).size()));
  auto large = small_model(1);
  large.width = large.ffn = 1'000'000'000;
  large.knots = 1'000'000'000;
  EXPECT_NEAR(parameter_count(large), 6e27, 1e20);  // W_Q, W_K, W_V, W_O, W_1, W_2
}

TEST(ParameterLayout, views_cover_the_flat_vector_once_without_a_gap) {
  for (const auto& spec : {parameters_full_model(), small_model(1)}) {
    const ParameterLayout layout(spec);
    Index next = 0;
    std::set<std::string> paths;
    for (const auto& view : layout.views()) {
      EXPECT_EQ(view.offset, next) << view.path();
      next += view.size();
      EXPECT_TRUE(paths.insert(view.path()).second) << view.path();
    }
    EXPECT_EQ(next, layout.size());
  }
}

TEST(ParameterLayout, shapes_are_those_of_the_formulas) {
  const ParameterLayout layout(parameters_full_model());
  using Shape = std::vector<int>;
  EXPECT_EQ(layout.at("embedding/W").shape, (Shape{6, 4}));
  EXPECT_EQ(layout.at("embedding/position").shape, (Shape{12, 6}));
  EXPECT_EQ(layout.at("layers/2/W_1").shape, (Shape{7, 6}));
  EXPECT_EQ(layout.at("layers/2/W_2").shape, (Shape{6, 7}));
  EXPECT_EQ(layout.at("layers/3/half_W_2").shape, (Shape{6, 7}));
  EXPECT_EQ(layout.at("layers/3/kappa").shape, (Shape{6}));
  EXPECT_EQ(layout.at("head/W").shape, (Shape{5, 6}));
  EXPECT_TRUE(layout.has("final_norm/gain"));
  EXPECT_FALSE(layout.has("layers/4/W_Q"));
  EXPECT_THROW(static_cast<void>(layout.at("layers/4/W_Q")), std::out_of_range);
  auto post = parameters_full_model();
  post.norm = Norm::post;
  EXPECT_FALSE(
      ParameterLayout(post).has("final_norm/gain"));  // with post-norm the state is already normalised
}

ModelSpec with_word_head(bool own_matrix) {
  auto m = parameters_full_model();
  m.features = 0;
  m.vocabulary = 20;
  m.word_head = {.present = true, .own_matrix = own_matrix};
  return m;
}

TEST(ParameterLayout, shares_hold_what_the_whole_has_there_and_together_all_of_it) {
  for (const auto& spec : {parameters_full_model(), with_word_head(false), with_word_head(true)}) {
    Parameters whole(spec);
    initialise_standard(whole, 7, 0.1, 0.9, 0.8);
    std::set<std::string> seen;
    for (const ParameterShare share : {ParameterShare{0, 1, true, false}, ParameterShare{1, 1, false, false},
                                       ParameterShare{1, 2, false, true}}) {
      Parameters part(spec, share);
      initialise_standard(part, 7, 0.1, 0.9, 0.8);
      EXPECT_EQ(part.layout.size_of_model(), std::ssize(whole.values));
      EXPECT_EQ(parameter_count(spec, share), static_cast<double>(part.values.size()));
      Index next = 0;
      for (const auto& view : part.layout.views()) {
        EXPECT_EQ(view.offset, next) << view.path();
        next += view.size();
        EXPECT_EQ(view.offset_in_model, whole.layout.at(view.path()).offset) << view.path();
        EXPECT_TRUE(std::ranges::equal(part.view(view.path()), whole.view(view.path()))) << view.path();
        seen.insert(view.path());
      }
      EXPECT_EQ(next, std::ssize(part.values));
      for (int knot = share.first_knot; knot <= share.last_knot; ++knot)
        EXPECT_EQ(part.layout.block_offset(knot),
                  part.layout.at("layers/" + std::to_string(knot + 1) + "/norm1_gain").offset);
      const bool tied = spec.word_head.present && !spec.word_head.own_matrix;
      EXPECT_EQ(part.layout.has("embedding/words"),
                spec.vocabulary > 0 && (share.embedding || (share.head && tied)));
      EXPECT_EQ(part.layout.has("embedding/position"), share.embedding);
      EXPECT_EQ(part.layout.has("final_norm/gain"), share.head);
    }
    EXPECT_EQ(seen.size(), whole.layout.views().size());
  }
}

TEST(ParameterLayout, a_layer_is_made_of_its_named_arrays) {
  const Parameters p(parameters_full_model());
  const auto& layout = p.layout;
  for (int l = 1; l <= 3; ++l) {
    const double* block = p.values.data() + layout.block_offset(l - 1);
    const auto w = layout.layer<const double>(block, block, p.values.data() + layout.alpha());
    const auto named = [&](const char* name) {
      return p.view("layers/" + std::to_string(l) + "/" + name).data();
    };
    EXPECT_EQ(w.attention.gain, named("norm1_gain"));
    EXPECT_EQ(w.attention.bias, named("norm1_bias"));
    EXPECT_EQ(w.attention.w_qkv, named("W_Q"));
    EXPECT_EQ(w.attention.w_qkv + 36, named("W_K"));
    EXPECT_EQ(w.attention.w_qkv + 72, named("W_V"));
    EXPECT_EQ(w.attention.b_qkv, named("b_Q"));
    EXPECT_EQ(w.attention.b_qkv + 6, named("b_K"));
    EXPECT_EQ(w.attention.b_qkv + 12, named("b_V"));
    EXPECT_EQ(w.attention.w_o, named("W_O"));
    EXPECT_EQ(w.attention.b_o, named("b_O"));
    EXPECT_EQ(w.attention.alpha, p.view("equation/alpha").data());
    EXPECT_EQ(w.reaction.gain, named("norm2_gain"));
    EXPECT_EQ(w.reaction.bias, named("norm2_bias"));
    EXPECT_EQ(w.reaction.w_1, named("W_1"));
    EXPECT_EQ(w.reaction.b_1, named("b_1"));
    EXPECT_EQ(w.reaction.w_2, named("W_2"));
    EXPECT_EQ(w.reaction.b_2, named("b_2"));
    EXPECT_EQ(w.reaction.rho, p.view("equation/rho").data());
    EXPECT_EQ(w.first_reaction.gain, named("half_norm_gain"));
    EXPECT_EQ(w.first_reaction.w_1, named("half_W_1"));
    EXPECT_EQ(w.first_reaction.b_2, named("half_b_2"));
    EXPECT_EQ(w.first_reaction.rho, w.reaction.rho);
    EXPECT_EQ(w.diffusion.kappa, named("kappa"));
    EXPECT_TRUE(w.diffusion.per_channel);
    EXPECT_EQ(w.transport.nu, nullptr);
  }
}

TEST(ParameterLayout, transport_is_the_last_array_of_a_layer) {
  auto model = parameters_full_model();
  model.transport = model.nu_per_channel = true;
  const Parameters p(model);
  for (int l = 1; l <= 3; ++l) {
    const double* block = p.values.data() + p.layout.block_offset(l - 1);
    const auto w = p.layout.layer<const double>(block, block, p.values.data() + p.layout.alpha());
    const auto nu = p.view("layers/" + std::to_string(l) + "/nu");
    EXPECT_EQ(w.transport.nu, nu.data());
    EXPECT_TRUE(w.transport.per_channel);
    EXPECT_EQ(std::ssize(nu), 6);
    EXPECT_EQ(nu.data() + nu.size(), block + p.layout.block_size());
  }
  EXPECT_EQ(parameter_count(model), static_cast<double>(p.values.size()));
}

ModelSpec knotted(int layers, int knots) {
  auto m = small_model(layers);
  m.knots = knots;
  m.variation = DepthVariation::linear;
  return m;
}

TEST(DepthWeights, interpolates_between_knots_and_is_constant_beyond_the_last) {
  Parameters p(knotted(7, 3));  // knots at s = 0, 3, 6
  p.view("layers/1/W_1")[5] = 1;
  p.view("layers/2/W_1")[5] = 4;
  p.view("layers/3/W_1")[5] = -2;
  DepthWeights<double> exact(p);
  DepthWeights<float> rough(p);
  const std::vector<std::pair<double, double>> expected = {{0, 1},       {1.5, 2.5}, {3, 4},    {4, 2},
                                                           {5.75, -1.5}, {6, -2},    {6.5, -2}, {7, -2}};
  for (const auto& [s, value] : expected) {
    EXPECT_NEAR(exact.at({1, s}).reaction.w_1[5], value, 1e-14) << "s = " << s;
    EXPECT_NEAR(rough.at({1, s}).reaction.w_1[5], value, 1e-6) << "s = " << s;
  }
}

TEST(DepthWeights, prepared_depths_follow_a_change_of_the_parameters_after_refresh) {
  Parameters p(knotted(3, 2));  // knots at 0 and 2
  DepthWeights<float> weights(p);
  const DepthPoint points[] = {{1, 0}, {1, 0.5}, {2, 1}};
  weights.prepare(points);
  const auto before = weights.at(points[1]).attention.w_o;
  p.view("layers/2/W_O")[3] = 8;
  weights.refresh();
  EXPECT_EQ(weights.at(points[1]).attention.w_o, before);  // the same place in memory
  EXPECT_EQ(weights.at(points[1]).attention.w_o[3], 2.0F);
  EXPECT_EQ(weights.at(points[2]).attention.w_o[3], 4.0F);
}

TEST(DepthWeights, a_knot_for_every_layer_and_unit_steps_are_the_transformer_to_the_bit) {
  ProblemSpec transformer;
  transformer.model = small_model(5);
  transformer.mesh = small_mesh(5);
  auto pde = transformer;
  pde.model.kind = ModelKind::pde;
  pde.model.variation = DepthVariation::linear;
  Problem a(MPI_COMM_WORLD, transformer), b(MPI_COMM_WORLD, pde);
  ASSERT_EQ(a.parameters.values, b.parameters.values);
  const auto inflow = random_vector(a.whole_slab(), 5);
  EXPECT_EQ(march_rows(a, inflow), march_rows(b, inflow));
}

TEST(DepthWeights, constant_weights_belong_to_the_cells_of_their_layer) {
  // M = 3 S: cells 1..3 layer 1, 4..6 layer 2, also where (i - 1) S / M is not a binary fraction.
  const DepthCells depth{7, 21};
  for (int cell = 1; cell <= 21; ++cell) {
    EXPECT_EQ(depth.entry(cell).layer, (cell - 1) / 3 + 1);
    EXPECT_EQ(depth.exit(cell).layer, (cell - 1) / 3 + 1);
  }
  EXPECT_DOUBLE_EQ(depth.entry(21).s, 20.0 / 3);
  EXPECT_DOUBLE_EQ(depth.exit(21).s, 7);
}

}  // namespace
}  // namespace fluxformer
