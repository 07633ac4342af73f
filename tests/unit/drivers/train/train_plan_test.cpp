// From the words of a deck to a training: its samples, stages of depth, march, loss and rate.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "drivers/train/train_problem.hpp"
#include "model/depth_march.hpp"
#include "solvers/adjoint/adjoint_march.hpp"
#include "tests/unit/drivers/plan.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

TrainPlan training(const std::vector<std::string>& given) {
  return plan_of_training(plan("train", given));
}
std::string refusal_of_checks(const std::vector<std::string>& given) {
  return complaint<BadInput>([&] { training(given); });
}

TEST(TrainPlan, refuses_what_a_march_through_depth_cannot_do) {
  EXPECT_EQ(refusal_of_checks({}), "");
  EXPECT_THAT(refusal_of_checks({"equation.epsilon=0.1"}), HasSubstr("equation.epsilon"));
  EXPECT_THAT(refusal_of_checks({"depth.scheme=upwind"}), HasSubstr("depth.scheme = upwind"));
  const std::string adjoint = "train.gradient=adjoint", implicit = "adjoint.method=cn",
                    mixed = "run.precision=mixed_emulated";
  EXPECT_THAT(refusal_of_checks({adjoint, implicit, mixed}),
              AllOf(HasSubstr("adjoint.method = cn"), HasSubstr("run.precision = mixed_emulated")));
  EXPECT_EQ(refusal_of_checks({adjoint, implicit}), "");
  EXPECT_EQ(refusal_of_checks({adjoint, mixed}), "");
  EXPECT_EQ(refusal_of_checks({implicit, mixed}), "");  // which back-propagation does not use
}

TEST(TrainPlan, limits_kappa_and_nu_by_the_explicit_steps_through_depth) {
  const std::vector<std::string> given{"mesh.layers=2", "mesh.cells=8", "equation.c=2", "model.width=4",
                                       "model.ffn=4"};
  const auto line = TokenLine::even(MPI_COMM_SELF, 3, 1), grid = TokenLine::even(MPI_COMM_SELF, 3, 3);
  const auto limit = [&](const TokenLine& of, const std::vector<std::string>& more) {
    const auto of_deck = training(joined(given, more));
    const EquationCoefficients all{.kappa = {0, of_deck.model.kappa.value},
                                   .nu = {0, of_deck.model.nu.value}};
    return stable_coefficients(of_deck, make_parameters(of_deck.model, {}, MPI_COMM_SELF), all, of);
  };
  // kappa (h/c) axes <= 1/2 with h = 1/4, c = 2
  EXPECT_EQ(limit(line, {"equation.kappa=4"}).kappa, 4);
  EXPECT_EQ(limit(grid, {"equation.kappa=2"}).kappa, 2);
  EXPECT_THAT(complaint<BadInput>([&] { limit(grid, {"equation.kappa=2.25"}); }),
              AllOf(HasSubstr("equation.kappa = 2.25"), HasSubstr("stable up to 2 ")));
  EXPECT_EQ(limit(grid, {"equation.kappa=9", "train.gradient=adjoint", "adjoint.method=beuler"}).kappa,
            std::numeric_limits<double>::max());
  // nu h/c <= 1; where there are both, 2 kappa h/c <= 1/2 and nu h/c <= 1/2.
  const std::string causal = "attention.causal=true";
  EXPECT_EQ(limit(line, {"equation.nu=8", causal}).nu, 8);
  EXPECT_EQ(limit(line, {"equation.nu=8"}).nu, 8);
  EXPECT_THAT(complaint<BadInput>([&] {
                limit(line, {"equation.nu=8.5", causal});
              }),
              AllOf(HasSubstr("equation.nu = 8.5"), HasSubstr("stable up to 8 ")));
  EXPECT_EQ(limit(line, {"equation.nu=4", "equation.kappa=2"}).nu, 4);
  EXPECT_EQ(limit(line, {"equation.nu=4", "equation.kappa=2"}).kappa, 2);
  EXPECT_THAT(complaint<BadInput>([&] {
                limit(line, {"equation.nu=1", "equation.kappa=3"});
              }),
              HasSubstr("stable up to 2 "));
}

TEST(TrainPlan, has_the_objective_of_the_deck) {
  const auto objective =
      training({"train.objective=masked", "train.loss=mean_squared_error", "train.label_smoothing=0.25",
                "train.masked=0.5", "train.word_matrix=own", "train.dropout=0.125", "distill.teacher=t.h5",
                "distill.hidden=2", "distill.attention=3", "distill.copy=false"})
          .objective;
  EXPECT_TRUE(objective.guesses_words());
  EXPECT_EQ(objective.loss.kind, LossKind::mean_squared_error);
  EXPECT_EQ(objective.loss.smoothing, 0.25);
  EXPECT_EQ(objective.loss.target, LossTarget::words);
  EXPECT_EQ(objective.masked_share, 0.5);
  EXPECT_TRUE(objective.own_word_matrix);
  EXPECT_EQ(objective.dropout, 0.125);
  EXPECT_EQ(objective.teacher, "t.h5");
  EXPECT_EQ(objective.distillation.hidden, 2);
  EXPECT_EQ(objective.distillation.attention, 3);
  EXPECT_FALSE(objective.copy_teacher);
  EXPECT_EQ(training({}).objective.loss.target, LossTarget::label);
}

TEST(TrainPlan, has_the_contexts_of_next_words_and_their_stride) {
  const auto samples =
      training({"train.objective=causal", "train.contexts=packed", "evaluate.stride=5"}).samples;
  EXPECT_TRUE(samples.packed);
  EXPECT_EQ(samples.stride, 5);
  const auto texts = training({"train.objective=causal"});
  EXPECT_EQ(texts.objective.words, ObjectivePlan::Words::next);
  EXPECT_FALSE(texts.samples.packed);
  EXPECT_EQ(texts.samples.stride, 0);
}

TEST(TrainPlan, has_the_optimiser_and_the_schedule_of_the_deck) {
  const auto sgd = training({"train.optimiser=sgd", "train.momentum=0.5", "train.decay=0.25", "train.rate=2",
                             "train.last_rate=0.125", "train.clip=3", "train.smoothness=4",
                             "train.warm_up=0.5", "train.coefficients=no", "train.epochs=7"});
  EXPECT_EQ(sgd.trainer.optimiser.method, Method::sgd);
  EXPECT_EQ(sgd.trainer.optimiser.momentum, 0.5);
  EXPECT_EQ(sgd.trainer.optimiser.decay, 0.25);
  EXPECT_EQ(sgd.trainer.schedule.peak, 2);
  EXPECT_EQ(sgd.trainer.schedule.decay, Decay::cosine);
  EXPECT_EQ(sgd.trainer.schedule.last, 0.25);  // an eighth of the peak
  EXPECT_EQ(sgd.trainer.clip, 3);
  EXPECT_EQ(sgd.trainer.smoothness, 4);
  EXPECT_EQ(sgd.warm_up, 0.5);
  EXPECT_EQ(sgd.coefficients, TrainPlan::Coefficients::no);
  EXPECT_EQ(sgd.epochs, 7);
  const auto adam = training({"train.optimiser=adam", "train.beta1=0.5", "train.beta2=0.25",
                              "train.epsilon=0.125", "train.schedule=steps"});
  EXPECT_EQ(adam.trainer.optimiser.method, Method::adam);
  EXPECT_EQ(adam.trainer.optimiser.beta1, 0.5);
  EXPECT_EQ(adam.trainer.optimiser.beta2, 0.25);
  EXPECT_EQ(adam.trainer.optimiser.epsilon, 0.125);
  EXPECT_EQ(adam.trainer.schedule.decay, Decay::steps);
  EXPECT_EQ(adam.coefficients, TrainPlan::Coefficients::of_a_pde);
}

TEST(TrainPlan, has_the_samples_the_ranks_and_the_output_of_the_deck) {
  const auto settings =
      plan("train", {"data.set=topics", "train.samples=9", "train.test_samples=8", "train.validation=0.5",
                     "train.batch=3", "train.augment=0.25", "train.noise=0.125", "mesh.tokens_x=5",
                     "mesh.ranks_token=2", "mesh.ranks_depth=3", "mesh.periodic=true", "run.memory=2",
                     "run.seed=11", "output.file=o.h5", "output.snapshots=4", "output.preconditioner=true",
                     "checkpoint.every=6", "checkpoint.epochs=false"});
  const auto of_deck = plan_of_training(settings);
  EXPECT_EQ(of_deck.samples.data.set.name, "topics");
  EXPECT_EQ(of_deck.samples.data.set.seed, 11U);
  EXPECT_EQ(of_deck.samples.training, 9);
  EXPECT_EQ(of_deck.samples.testing, 8);
  EXPECT_EQ(of_deck.samples.validation, 0.5);
  EXPECT_EQ(of_deck.samples.batch, 3);
  EXPECT_EQ(of_deck.samples.augment, 0.25);
  EXPECT_EQ(of_deck.samples.noise, 0.125);
  EXPECT_EQ(of_deck.samples.tokens_x, 5);
  EXPECT_EQ(of_deck.samples.tokens_y, 0);
  EXPECT_EQ(of_deck.ranks_token, 2);
  EXPECT_EQ(of_deck.ranks_depth, 3);
  EXPECT_TRUE(of_deck.periodic);
  EXPECT_EQ(of_deck.memory, 2e9);
  EXPECT_EQ(of_deck.seed, 11U);
  const auto output = output_of_train(settings);
  EXPECT_EQ(output.file, "o.h5");
  EXPECT_EQ(output.snapshots, 4);
  EXPECT_TRUE(output.preconditioner);
  EXPECT_EQ(output.checkpoints, 6);
  EXPECT_FALSE(output.every_epoch);
}

TEST(PipelinePlan, cuts_a_batch_into_four_parts_for_each_stage_if_it_has_so_many_samples) {
  const auto pipeline = [](std::vector<std::string> given, int samples, int stages) {
    given.push_back("mesh.ranks_depth=" + std::to_string(stages));
    return pipeline_settings(training(given), samples);
  };
  const auto parts = [&](const std::vector<std::string>& given, int samples, int stages) {
    return pipeline(given, samples, stages).micro_batches;
  };
  EXPECT_EQ(parts({}, 100, 1), 1);
  EXPECT_EQ(parts({}, 100, 3), 12);
  EXPECT_EQ(parts({}, 5, 3), 5);
  EXPECT_EQ(parts({"train.micro_batches=7"}, 7, 1), 7);
  EXPECT_THAT(complaint<BadInput>([&] { parts({"train.micro_batches=7"}, 6, 3); }),
              AllOf(HasSubstr("train.micro_batches = 7"), HasSubstr("6 samples")));
  EXPECT_EQ(pipeline({}, 5, 2).schedule, PipelineSchedule::one_f_one_b);
  EXPECT_EQ(pipeline({"train.pipeline=gpipe"}, 5, 2).schedule, PipelineSchedule::gpipe);
}

TEST(StagePlan, shares_cells_by_what_the_ends_of_the_depth_cost) {
  const ModelSpec spec{.layers = 12, .knots = 12, .width = 4, .ffn = 4};
  const InputShape words{.vocabulary = 3000, .tokens = 8, .word_head = true};
  const auto cells = [&](const char* masked) {
    return cells_of_stages(training({masked, "mesh.ranks_depth=3"}), spec, words);
  };
  // A cell costs 8 (8 d^2 + 4 d f + 4 n d) = 2560, the word head 2 d n 3000 = 192000 times the share that is
  // masked: 0.075 cells if a thousandth is, 75 if all words are.
  const auto even = cells("train.masked=0.001"), uneven = cells("train.masked=1");
  ASSERT_THAT(even, SizeIs(3));
  ASSERT_THAT(uneven, SizeIs(3));
  for (std::size_t stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(even[stage].count(), 4);
    EXPECT_EQ(uneven[stage].first, stage == 0 ? 1 : uneven[stage - 1].last + 1);
  }
  EXPECT_EQ(uneven[0].count(), 5);  // fewer than the second: it keeps most activations
  EXPECT_EQ(uneven[1].count(), 6);
  EXPECT_EQ(uneven[2].count(), 1);
  EXPECT_THAT(complaint<BadInput>([&] {
                cells_of_stages(training({"mesh.cells=12", "mesh.ranks_depth=13"}), spec, words);
              }),
              AllOf(HasSubstr("mesh.ranks_depth = 13"), HasSubstr("mesh.cells = 12")));
}

TEST(StagePlan, holds_the_parameters_that_a_stage_needs) {
  const ModelSpec spec{.layers = 4, .knots = 4, .width = 64, .ffn = 256};
  const InputShape images{.features = 16, .tokens = 49, .classes = 10};
  const auto whole = training({}), halves = training({"mesh.ranks_depth=2"}),
             smooth = training({"mesh.ranks_depth=2", "train.smoothness=1"});
  EXPECT_FALSE(share_of_stage(whole, images, 0));  // all
  const auto first = share_of_stage(halves, images, 0)(spec), last = share_of_stage(halves, images, 1)(spec);
  EXPECT_EQ(first.first_knot, 0);
  EXPECT_EQ(first.last_knot, 1);
  EXPECT_TRUE(first.embedding && !first.head && !first.words);
  EXPECT_EQ(last.first_knot, 2);
  EXPECT_EQ(last.last_knot, 3);
  EXPECT_TRUE(last.head && !last.embedding && !last.words);
  // Both knots of a term of the penalty are on one stage.
  EXPECT_EQ(share_of_stage(smooth, images, 0)(spec).last_knot, 2);
  EXPECT_EQ(share_of_stage(smooth, images, 1)(spec).last_knot, 3);
  // A word head that is tied to the word table needs it where it stands, and nowhere else.
  for (const bool own : {false, true}) {
    const InputShape words{.vocabulary = 30, .tokens = 8, .word_head = true, .own_word_matrix = own};
    EXPECT_FALSE(share_of_stage(halves, words, 0)(spec).words);
    EXPECT_EQ(share_of_stage(halves, words, 1)(spec).words, !own);
  }
}

class MarchPlans : public InAFolder {
 protected:
  /// The march that a deck asks for, through the cells 2 to 4.
  std::unique_ptr<DepthMarch> march(const std::vector<std::string>& given) {
    const auto of_deck = training(joined(small, given));
    return make_march(*model, equation_for(of_deck.equation, model->spec()), of_deck.gradient, {2, 4});
  }
  std::string refusal(const std::vector<std::string>& given) {
    return complaint<BadInput>([&] { march(joined({"train.gradient=adjoint"}, given)); });
  }
  static inline const std::vector<std::string> small{"mesh.layers=4", "model.width=4", "model.ffn=4"};
  Parameters parameters = make_parameters(training(small).model, {}, MPI_COMM_SELF);
  TokenLine line = TokenLine::even(MPI_COMM_SELF, 3, 1);
  SlabContext slab{&line, 1, 4, {}, nullptr};
  std::unique_ptr<DepthModel> model = make_depth_model(parameters, slab, Precision::float64);
};

TEST_F(MarchPlans, go_through_the_cells_of_the_stage_by_the_gradient_that_is_chosen) {
  for (const char* gradient : {"train.gradient=backprop", "train.gradient=adjoint"}) {
    const auto made = march({gradient});
    EXPECT_EQ(dynamic_cast<Backpropagation*>(made.get()) != nullptr,
              std::string(gradient).ends_with("backprop"));
    EXPECT_EQ(made->range().first, 2);
    EXPECT_EQ(made->range().last, 4);
    EXPECT_EQ(made->depth().cells, 4);
  }
}

TEST_F(MarchPlans, keep_what_the_deck_says_where_it_says) {
  const std::string shared_stages = "adjoint.method=3bs", nowhere = "adjoint.folder=" + file("nowhere");
  EXPECT_EQ(refusal({shared_stages}), "");
  EXPECT_THAT(refusal({shared_stages, "adjoint.keep=tapes"}), HasSubstr("adjoint.keep = tapes"));
  EXPECT_EQ(refusal({"adjoint.keep=segments", nowhere}), "");
  EXPECT_THAT(refusal({"adjoint.keep=disk", nowhere}), HasSubstr("adjoint.folder"));
  EXPECT_EQ(refusal({"adjoint.keep=disk", "adjoint.folder=" + folder_.string()}), "");
}

TEST(RankLayouts, need_ranks_that_their_lines_and_stages_divide) {
  const RankLayout one(MPI_COMM_SELF, 1);
  EXPECT_EQ(one.replica.count, 1);
  EXPECT_EQ(one.stages, 1);
  EXPECT_EQ(one.stage, 0);
  EXPECT_EQ(one.of_training(MPI_COMM_SELF).stage, MPI_COMM_SELF);
  EXPECT_THAT(complaint<BadInput>([] { RankLayout(MPI_COMM_SELF, 2); }),
              HasSubstr("mesh.ranks_token = 2: must divide the number of ranks, 1"));
  EXPECT_THAT(complaint<BadInput>([] { RankLayout(MPI_COMM_SELF, 1, 3); }),
              AllOf(HasSubstr("mesh.ranks_depth = 3"), HasSubstr("mesh.ranks_token = 1")));
}

const std::vector<std::string> small_training{
    "mesh.layers=2",         "model.width=8",        "model.ffn=8",   "attention.heads=2", "train.samples=20",
    "train.validation=0.25", "train.test_samples=6", "train.batch=5", "train.epochs=4"};

Members members_of(const std::vector<std::string>& given) {
  return TrainProblem(training(joined(small_training, given)), MPI_COMM_SELF).members;
}

TEST(TrainProblems, draw_as_many_samples_as_the_deck_says_by_its_seed) {
  const auto members = members_of({});
  EXPECT_THAT(members.training, SizeIs(15));
  EXPECT_THAT(members.validation, SizeIs(5));  // a quarter of 20
  EXPECT_THAT(members.testing, SizeIs(6));
  auto drawn = members.training;
  drawn.insert(drawn.end(), members.validation.begin(), members.validation.end());
  std::ranges::sort(drawn);
  EXPECT_EQ(std::ranges::adjacent_find(drawn), drawn.end());  // no sample twice, none for both purposes
  EXPECT_EQ(members_of({}).training, members.training);
  const auto other = members_of({"run.seed=2"});
  EXPECT_NE(other.training, members.training);
  EXPECT_NE(other.testing, members.testing);
  EXPECT_THAT(complaint<BadInput>([] { members_of({"train.samples=60001"}); }),
              AllOf(HasSubstr("train.samples = 60001"), HasSubstr("60000 samples")));
  EXPECT_THAT(complaint<BadInput>([] { members_of({"train.test_samples=10001"}); }),
              HasSubstr("train.test_samples = 10001"));
  EXPECT_THAT(complaint<BadInput>([] { members_of({"mesh.tokens_x=5"}); }), HasSubstr("mesh.tokens_x = 5"));
}

TEST(TrainProblems, warm_up_over_their_share_of_all_steps) {
  TrainProblem problem(
      training(joined(small_training, {"train.rate=0.125", "train.warm_up=0.25", "train.schedule=constant"})),
      MPI_COMM_SELF);
  EXPECT_EQ(problem.total_steps(), 12);              // 4 epochs of 15 / 5
  EXPECT_DOUBLE_EQ(problem.step().rate, 0.125 / 3);  // the first of 3
}

TEST(TrainProblems, train_coefficients_if_asked_to_and_by_default_those_of_a_pde) {
  const auto trained = [](const std::vector<std::string>& given) {
    return TrainProblem(training(joined(small_training, given)), MPI_COMM_SELF).trainer->trained();
  };
  const auto weights = trained({"train.coefficients=no"});
  EXPECT_EQ(trained({}), weights);
  EXPECT_EQ(trained({"train.coefficients=yes"}), weights + 2);                          // alpha, rho
  EXPECT_EQ(trained({"train.coefficients=yes", "equation.kappa=0.125"}), weights + 4);  // kappa of two layers
  EXPECT_EQ(trained({"model.kind=pde"}), trained({"model.kind=pde", "train.coefficients=no"}) + 2);
}

}  // namespace
}  // namespace fluxformer::test
