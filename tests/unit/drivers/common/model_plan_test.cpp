// From the words of a deck to the model and the equation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "drivers/common/model_options.hpp"
#include "io/archive_writer.hpp"
#include "io/layout.hpp"
#include "operators/kernels/product.hpp"
#include "tests/unit/drivers/plan.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// These and the keys of language models: no key at its default. (Some values that do not fit each other in a
/// run are only refused later.)
const std::vector<std::string> model_keys{"model.kind=pde",         "mesh.layers=6",
                                          "model.knots=4",          "model.width=6",
                                          "model.ffn=10",           "model.kappa=channel",
                                          "model.activation=relu",  "attention.heads=2",
                                          "attention.kernel=l2",    "attention.normalisation=sinkhorn",
                                          "attention.iterations=7", "attention.causal=true",
                                          "depth.norm=post",        "depth.order=macaron",
                                          "depth.subflow=midpoint", "depth.halves=own",
                                          "depth.weights=linear",   "depth.residual=false"};

const std::vector<std::string> keys_of_language_models{"mesh.layers=3",
                                                       "model.knots=3",
                                                       "depth.weights=constant",
                                                       "model.width=12",
                                                       "model.gated=true",
                                                       "model.activation=silu",
                                                       "model.biases=qkv",
                                                       "model.positions=none",
                                                       "depth.norm_map=rms",
                                                       "attention.heads=6",
                                                       "attention.groups=2",
                                                       "attention.head_width=8",
                                                       "attention.qk_norm=true",
                                                       "attention.rotary=half",
                                                       "attention.window=5",
                                                       "attention.rotary_share=0.5",
                                                       "attention.rotary_base=100"};

Parameters made(const std::vector<std::string>& given, const InputShape& input = {}) {
  return make_parameters(model_plan(plan("train", given)), input, MPI_COMM_SELF);
}
/// Every key that describes a model is written as it was given; adds those that are not at their default.
void expect_all_written(const std::vector<std::string>& keys, std::set<std::string>& changed) {
  const auto settings = plan("train", keys);
  for (const auto& [key, value] : settings_of(made(keys, {.vocabulary = 9, .tokens = 7}).spec)) {
    EXPECT_EQ(settings.value(key), value) << key;
    if (settings.options()->at(key).fallback != value) changed.insert(key);
  }
}

std::string refusal_to_make(const std::vector<std::string>& given, const InputShape& input = {}) {
  return complaint<BadInput>([&] { made(given, input); });
}

TEST(ModelPlan, has_the_value_of_every_key) {
  const auto spec = made(model_keys).spec;
  EXPECT_EQ(spec.kind, ModelKind::pde);
  EXPECT_EQ(spec.layers, 6);
  EXPECT_EQ(spec.knots, 4);
  EXPECT_EQ(spec.variation, DepthVariation::linear);
  EXPECT_EQ(spec.width, 6);
  EXPECT_EQ(spec.ffn, 10);
  EXPECT_EQ(spec.activation, Activation::relu);
  EXPECT_EQ(spec.attention.heads, 2);
  EXPECT_EQ(spec.attention.kernel, Kernel::l2);
  EXPECT_EQ(spec.attention.normalisation, Normalisation::sinkhorn);
  EXPECT_EQ(spec.attention.sinkhorn_iterations, 7);
  EXPECT_FALSE(spec.attention.layer_norm);  // of norm = pre alone
  EXPECT_EQ(spec.norm, Norm::post);
  EXPECT_EQ(spec.order, SubLayerOrder::macaron);
  EXPECT_EQ(spec.subflow, SubLayerIntegrator::midpoint);
  EXPECT_FALSE(spec.residual);
  EXPECT_TRUE(spec.causal && spec.own_halves && spec.kappa_per_channel);
}

TEST(ModelPlan, has_the_value_of_every_key_of_language_models) {
  const auto spec = made(keys_of_language_models).spec;
  EXPECT_TRUE(spec.gated);
  EXPECT_EQ(spec.activation, Activation::silu);
  EXPECT_EQ(spec.biases, Biases::qkv);
  EXPECT_EQ(spec.norm_map, NormMap::rms);
  EXPECT_EQ(spec.attention.groups, 2);
  EXPECT_EQ(spec.attention.head_width, 8);
  EXPECT_TRUE(spec.attention.qk_norm);
  EXPECT_EQ(spec.attention.rotary.layout, RotaryLayout::half);
  EXPECT_EQ(spec.attention.rotary.channels, 4);
  EXPECT_EQ(spec.windows, (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(spec.rotary.table, (std::vector<int>{0, 0, 0}));
  // theta_j = base^(-2j/r)
  EXPECT_EQ(spec.rotary.theta, (std::vector<double>{1, 0.1}));
  EXPECT_EQ(made(keys_of_language_models, {.vocabulary = 9, .tokens = 7}).spec.tokens, 0);
}

TEST(ModelSettings, describe_a_model_as_its_keys_did) {
  std::set<std::string> changed;
  expect_all_written(model_keys, changed);
  expect_all_written(keys_of_language_models, changed);
  for (const auto& [key, value] : settings_of(ModelSpec{}))
    EXPECT_TRUE(changed.contains(key)) << key << ": no key above has another value than its default";
}

TEST(ModelPlan, takes_the_weights_over_depth_from_the_kind_unless_they_are_given) {
  const auto variation = [](std::vector<std::string> given) {
    given.emplace_back("mesh.layers=3");
    const auto spec = made(given).spec;
    EXPECT_EQ(spec.knots, 3);
    return spec.variation;
  };
  EXPECT_EQ(variation({}), DepthVariation::constant);
  EXPECT_EQ(variation({"model.kind=pde"}), DepthVariation::linear);
  EXPECT_EQ(variation({"model.kind=pde", "depth.weights=constant"}), DepthVariation::constant);
  EXPECT_EQ(variation({"depth.weights=linear"}), DepthVariation::linear);
}

TEST(ModelPlan, takes_sizes_from_the_input) {
  const auto spec = made({}, {.features = 16, .tokens = 49, .classes = 10}).spec;
  EXPECT_EQ(spec.features, 16);
  EXPECT_EQ(spec.tokens, 49);
  EXPECT_EQ(spec.classes, 10);
  EXPECT_FALSE(spec.word_head.present);
  const auto words =
      made({}, {.vocabulary = 30, .tokens = 8, .segments = 2, .word_head = true, .own_word_matrix = true})
          .spec;
  EXPECT_EQ(words.vocabulary, 30);
  EXPECT_EQ(words.segments, 2);
  EXPECT_TRUE(words.word_head.present && words.word_head.own_matrix);
  EXPECT_EQ(made({}, {.tokens = 49}).spec.tokens, 0);  // no embedding, no positions
}

TEST(ModelPlan, refuses_combinations_that_are_not_defined_by_the_name_of_a_key) {
  EXPECT_THAT(refusal_to_make({"model.width=6", "attention.heads=4"}),
              AllOf(HasSubstr("attention.heads = 4"), HasSubstr("model.width = 6")));
  EXPECT_THAT(refusal_to_make({"model.knots=5"}), HasSubstr("model.knots = 5"));
  EXPECT_THAT(refusal_to_make({"depth.norm=sphere", "depth.residual=false", "depth.order=macaron"}),
              HasSubstr("depth.residual"));
  EXPECT_THAT(refusal_to_make({"depth.halves=own"}), HasSubstr("depth.halves"));
  EXPECT_THAT(refusal_to_make({"attention.groups=3"}), HasSubstr("attention.groups = 3"));
  EXPECT_THAT(refusal_to_make({"attention.rotary=half", "attention.rotary_share=0.3"}),
              HasSubstr("attention.rotary_share = 0.3"));
  EXPECT_THAT(refusal_to_make({"attention.rotary=half"}, {.features = 4, .tokens = 9}),
              HasSubstr("attention.rotary"));
  EXPECT_THAT(refusal_to_make({"attention.window=2", "attention.normalisation=sinkhorn"}),
              HasSubstr("attention.window"));
  EXPECT_THAT(refusal_to_make({"attention.qk_norm=true", "attention.kernel=l2"}),
              HasSubstr("attention.qk_norm"));
  EXPECT_THAT(refusal_to_make(
                  {"depth.norm=post", "depth.norm_map=rms", "model.initial=identity", "attention.groups=2"}),
              HasSubstr("model.initial"));
}

TEST(ModelPlan, starts_from_the_seed_and_the_coefficients_of_the_deck) {
  const std::vector<std::string> small{"mesh.layers=2", "model.width=4", "model.ffn=4"};
  const auto with = [&](const std::vector<std::string>& more) { return made(joined(small, more)); };
  EXPECT_EQ(with({"model.seed=3"}).values, with({"model.seed=3"}).values);
  EXPECT_NE(with({"model.seed=3"}).values, with({"model.seed=4"}).values);
  const auto parameters =
      with({"equation.alpha=-2", "equation.rho=0.25", "equation.kappa=0.5", "model.kappa=channel"});
  EXPECT_EQ(parameters.values[parameters.layout.alpha()], -2);
  EXPECT_EQ(parameters.values[parameters.layout.rho()], 0.25);
  EXPECT_THAT(parameters.view("layers/2/kappa"), AllOf(testing::SizeIs(4), Each(0.5)));
  EXPECT_FALSE(parameters.layout.has("layers/2/nu"));
  EXPECT_THAT(with({"equation.nu=0.25"}).view("layers/2/nu"), testing::ElementsAre(0.25));
  EXPECT_THAT(complaint<BadInput>([&] { with({"model.nu=channel"}); }), HasSubstr("equation.nu > 0"));
  EXPECT_THAT(with({"equation.nu=0.25", "model.nu=channel"}).view("layers/1/nu"),
              AllOf(testing::SizeIs(4), Each(0.25)));
}

TEST(ModelPlan, of_identities_gives_logits_the_inverse_temperature) {
  const std::vector<std::string> given{"model.initial=identity", "model.beta=16",     "model.value=-3",
                                       "model.width=6",          "attention.heads=2", "equation.rho=0.25"};
  const auto parameters = made(given);
  const auto query = parameters.view("layers/1/W_Q"), key = parameters.view("layers/1/W_K"),
             value = parameters.view("layers/1/W_V");
  // A logit of one pair of equal channels, (W_Q x)(W_K y) / sqrt(d / heads); it takes some ten roundings.
  constexpr double round_off = 10 * std::numeric_limits<double>::epsilon();
  EXPECT_NEAR(query[0] * key[0] / std::sqrt(3.0), 16, 16 * round_off);
  EXPECT_EQ(query[1], 0);
  EXPECT_EQ(value[0], -3);
  EXPECT_EQ(value[1], 0);
  EXPECT_EQ(parameters.values[parameters.layout.rho()], 0.25);  // given, where particles have none
}

EquationSpec equation_of(const std::vector<std::string>& given, const ModelSpec& model) {
  return equation_for(equation_plan(plan("evolve", given)), model);
}

TEST(EquationPlan, has_the_value_of_every_key) {
  const ModelSpec model{.layers = 6};
  const auto spec = equation_of(
      {"mesh.cells=12", "equation.c=0.5", "equation.epsilon=0.125", "depth.scheme=upwind2"}, model);
  EXPECT_EQ(spec.depth.layers, 6);
  EXPECT_EQ(spec.depth.cells, 12);
  EXPECT_EQ(spec.speed, 0.5);
  EXPECT_EQ(spec.epsilon, 0.125);
  EXPECT_EQ(spec.scheme, DepthScheme::upwind2);
  EXPECT_EQ(equation_of({"depth.scheme=upwind"}, model).scheme, DepthScheme::upwind);
  EXPECT_EQ(equation_of({}, model).scheme, DepthScheme::shift);
}

TEST(EquationPlan, takes_cells_from_the_deck_then_the_training_then_the_layers) {
  const auto cells = [](const std::vector<std::string>& given, const ModelSpec& model) {
    return equation_of(given, model).depth.cells;
  };
  EXPECT_EQ(cells({"mesh.cells=12"}, {.layers = 6, .cells = 18}), 12);
  EXPECT_EQ(cells({}, {.layers = 6, .cells = 18}), 18);
  EXPECT_EQ(cells({"mesh.layers=3"}, {.layers = 6}), 6);
}

TEST(EquationPlan, takes_edges_from_the_deck_then_those_of_the_training) {
  using Edges = std::vector<double>;
  const auto edges = [](const std::vector<std::string>& given, const ModelSpec& model) {
    return equation_of(given, model).depth.edges;
  };
  const ModelSpec trained{.layers = 2, .cells = 3, .edges = {0, 0.5, 1.5, 2}};
  EXPECT_EQ(edges({}, trained), trained.edges);
  EXPECT_EQ(edges({"mesh.cells=3"}, trained), Edges{});
  EXPECT_EQ(edges({"mesh.edges=0, 0.25, 2"}, trained), (Edges{0, 0.25, 2}));
  EXPECT_EQ(equation_of({"mesh.edges=0, 1, 2"}, trained).depth, (DepthCells{2, 2}));
  for (const auto& [text, why] : {std::pair{"0, 1", "not from 0 to 1"},
                                  {"0, 1, 3", "not from 0 to 3"},
                                  {"0, 1.5, 1, 2", "1 after 1.5"},
                                  {"0, one, 2", "'one'"}})
    EXPECT_THAT(complaint<BadInput>([&] { edges({"mesh.edges=" + std::string(text)}, trained); }),
                AllOf(HasSubstr("mesh.edges"), HasSubstr(why)));
  EXPECT_THAT(complaint<BadInput>([&] {
                edges({"mesh.edges=0, 1, 2", "mesh.cells=2"}, trained);
              }),
              HasSubstr("leave mesh.cells out"));
}

TEST(PrecisionPlan, is_refused_where_the_processor_lacks_it) {
  const auto precision = [](const std::string& word) {
    return precision_of(plan("evolve", {"run.precision=" + word}));
  };
  EXPECT_EQ(precision("double"), Precision::float64);
  EXPECT_EQ(precision("single"), Precision::float32);
  EXPECT_EQ(precision("mixed_emulated"), Precision::mixed_emulated);
  if (has_bfloat16_products())
    EXPECT_EQ(precision("mixed"), Precision::mixed);
  else
    EXPECT_THAT(complaint<BadInput>([&] { precision("mixed"); }),
                AllOf(HasSubstr("run.precision = mixed"), HasSubstr("mixed_emulated")));
}

class ModelFilePlans : public InAFolder {
 protected:
  void SetUp() override {
    InAFolder::SetUp();
    const auto stored = made(in_file, {.features = 16, .tokens = 49, .classes = 10});
    io::ArchiveWriter writer(MPI_COMM_SELF, file("model.h5"), false);
    write_model_attributes(writer, stored.spec);
    write_model_arrays(writer, stored.layout.views(), stored.values.data());
    writer.finish(names::done);
    values = stored.values;
  }
  std::vector<std::string> with(const std::vector<std::string>& given) const {
    return joined({"model.file=" + file("model.h5")}, given);
  }
  static inline const std::vector<std::string> in_file{"mesh.layers=2",    "model.width=6",
                                                       "model.ffn=4",      "attention.heads=2",
                                                       "equation.alpha=3", "equation.kappa=0.25"};
  std::vector<double> values;
};

TEST_F(ModelFilePlans, keep_the_edges_of_unequal_cells) {
  auto stored = made(in_file, {.features = 16, .tokens = 49, .classes = 10});
  stored.spec.variation = DepthVariation::linear;
  stored.spec.set_depth(DepthCells::between(2, {0, 0.1, 2}));
  io::ArchiveWriter writer(MPI_COMM_SELF, file("edges.h5"), false);
  write_model_attributes(writer, stored.spec);
  write_model_arrays(writer, stored.layout.views(), stored.values.data());
  writer.finish(names::done);
  const io::ArchiveReader reader(MPI_COMM_SELF, file("edges.h5"));
  EXPECT_EQ(read_model(reader).spec.depth(), stored.spec.depth());
  auto moved = stored.spec;
  moved.edges[1] = 0.2;
  EXPECT_NE(digest_of(moved), digest_of(stored.spec));
  const auto settings = plan("evolve", {"mesh.edges=" + file("edges.h5")});
  EXPECT_EQ(with_edges_from_file(settings, MPI_COMM_SELF).word("mesh.edges"), "0, 0.1, 2");
  EXPECT_THAT(complaint<BadInput>([&] {
                with_edges_from_file(plan("evolve", {"mesh.edges=" + file("model.h5")}), MPI_COMM_SELF);
              }),
              HasSubstr("the cells of its model are equal"));
}

TEST_F(ModelFilePlans, take_the_weights_of_the_file_whatever_the_defaults_are) {
  EXPECT_EQ(made(with({})).values, values);
  EXPECT_EQ(made(with({"model.seed=9", "mesh.layers=2", "depth.weights=auto"})).values, values);
}

TEST_F(ModelFilePlans, override_coefficients_that_are_given_and_nothing_else) {
  const auto parameters = made(with({"equation.alpha=-2", "equation.rho=0.5", "equation.kappa=0.125"}));
  auto expected = values;
  expected[parameters.layout.alpha()] = -2;
  expected[parameters.layout.rho()] = 0.5;
  for (const char* kappa : {"layers/1/kappa", "layers/2/kappa"})
    expected[parameters.layout.at(kappa).offset] = 0.125;
  EXPECT_EQ(parameters.values, expected);
}

TEST_F(ModelFilePlans, give_a_model_transport_and_override_that_of_one_that_has_it) {
  const auto given = made(with({"equation.nu=0.5"}));
  EXPECT_THAT(given.view("layers/2/nu"), testing::ElementsAre(0.5));
  EXPECT_THAT(made(with({"equation.nu=0.5", "model.nu=channel"})).view("layers/1/nu"),
              AllOf(testing::SizeIs(6), Each(0.5)));
  EXPECT_THAT(refusal_to_make(with({"model.nu=channel"})), HasSubstr("equation.nu > 0"));
  const auto without = made(with({}));
  for (const auto& view : without.layout.views())
    EXPECT_THAT(given.view(view.path()), testing::ElementsAreArray(without.view(view.path())));
  {
    io::ArchiveWriter writer(MPI_COMM_SELF, file("drifting.h5"), false);
    write_model_attributes(writer, given.spec);
    write_model_arrays(writer, given.layout.views(), given.values.data());
    writer.finish(names::done);
  }
  const std::string drifting = "model.file=" + file("drifting.h5");
  EXPECT_EQ(made({drifting}).values, given.values);
  EXPECT_THAT(made({drifting, "equation.nu=0"}).view("layers/1/nu"), testing::ElementsAre(0));
  EXPECT_THAT(refusal_to_make({drifting, "model.nu=channel"}),
              AllOf(HasSubstr("model.nu = channel"), HasSubstr("drifting.h5 has scalar")));
}

TEST_F(ModelFilePlans, refuse_keys_that_contradict_the_file) {
  EXPECT_THAT(refusal_to_make(with({"model.width=8"})),
              AllOf(HasSubstr("model.width = 8"), HasSubstr("model.h5 has 6")));
  EXPECT_THAT(refusal_to_make(with({"depth.residual=false"})),
              HasSubstr("depth.residual: the model in " + file("model.h5") + " has it on"));
  EXPECT_THAT(refusal_to_make(with({"depth.weights=linear"})), HasSubstr("depth.weights = linear"));
}

TEST_F(ModelFilePlans, refuse_data_that_do_not_fit_the_file) {
  EXPECT_EQ(refusal_to_make(with({}), {.features = 16, .tokens = 49}), "");
  EXPECT_THAT(refusal_to_make(with({}), {.features = 28, .tokens = 49}),
              AllOf(HasSubstr("data.set"), HasSubstr("28"), HasSubstr("embeds 16")));
  EXPECT_THAT(refusal_to_make(with({}), {.vocabulary = 30, .tokens = 49}),
              AllOf(HasSubstr("vocabulary has 30"), HasSubstr("embeds none")));
  EXPECT_THAT(refusal_to_make(with({}), {.features = 16, .tokens = 28}),
              AllOf(HasSubstr("28 tokens"), HasSubstr("positions for 49")));
  // The tokens of a token file take the first positions, if there are enough of them.
  const std::vector<std::string> from_file{"data.set=tokens"};
  EXPECT_EQ(refusal_to_make(with(from_file), {.features = 16, .tokens = 28}), "");
  EXPECT_THAT(refusal_to_make(with(from_file), {.features = 16, .tokens = 50}),
              HasSubstr("positions for 49"));
}

}  // namespace
}  // namespace fluxformer::test
