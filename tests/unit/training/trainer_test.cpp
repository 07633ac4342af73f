// The trainer around evaluator and optimiser: clipping, restart, and handling of divergence.

#include "training/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "io/checkpoint.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/small_training.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer {
namespace {

using namespace test;

const ListedSamples& listed() {
  static const auto samples = random_samples(10, 3, 2, 4, 3, 1);
  return samples;
}

Parameters start() {
  auto model = small_model(2);
  model.features = 4;
  model.classes = 3;
  return random_parameters({.model = model, .kappa = 0.1});
}

TrainingSpec spec_of(const TrainerSettings& settings) {
  return {.cells = 2, .global = 4, .loss = {}, .settings = settings, .seed = 2};
}

TrainerSettings usual() {
  TrainerSettings settings;
  settings.schedule = {.peak = 0.01, .warm_up = 2, .steps = 12};
  settings.coefficients = {true, true, true};
  return settings;
}

TEST(Trainer, makes_the_gradient_no_longer_than_the_clip) {
  auto settings = usual();
  settings.optimiser = {.method = Method::sgd, .momentum = 0, .decay = 0};
  settings.schedule = {.peak = 1, .steps = 10, .decay = Decay::constant};
  settings.coefficients = {};
  for (const double clip : {1e-3, 1e6}) {
    settings.clip = clip;
    TrainingRun run(MPI_COMM_SELF, 1, spec_of(settings), listed(), start());
    const auto before = run.parameters.values;
    const auto report = run.trainer.step(run.batches.at(0));
    // The step of plain descent with rate 1 is the gradient itself.
    const double length = norm(plus(run.parameters.values, -1, before));
    EXPECT_NEAR(length, std::min(clip, report.gradient_norm), 1e-12 * report.gradient_norm);
    EXPECT_GT(report.gradient_norm, 1e-3) << "reported before clipping";
  }
}

TEST(Trainer, counts_the_penalty_in_the_gradient_but_not_in_the_loss) {
  auto settings = usual();
  TrainingRun plain(MPI_COMM_SELF, 1, spec_of(settings), listed(), start());
  settings.smoothness = 10;
  TrainingRun smooth(MPI_COMM_SELF, 1, spec_of(settings), listed(), start());
  const auto without = plain.trainer.step(plain.batches.at(0)),
             with = smooth.trainer.step(smooth.batches.at(0));
  EXPECT_EQ(with.loss, without.loss);
  EXPECT_EQ(without.penalty, 0);
  EXPECT_GT(with.penalty, 0);
  EXPECT_GT(with.gradient_norm, 2 * without.gradient_norm);
}

class Restart : public InAFolder, public testing::WithParamInterface<Method> {};

TEST_P(Restart, goes_on_to_the_bit) {
  auto settings = usual();
  settings.optimiser.method = GetParam();
  settings.largest.kappa = 0.101;
  TrainingRun run(MPI_COMM_SELF, 1, spec_of(settings), listed(), start());
  for (long step = 0; step < 5; ++step) run.trainer.step(run.batches.at(step));
  io::CheckpointWriter writer(MPI_COMM_SELF, file("run.h5"));
  run.trainer.save(writer);
  writer.commit();

  auto other = start();
  for (double& value : other.values) value *= 1.5;  // for any initial values
  TrainingRun later(MPI_COMM_SELF, 1, spec_of(settings), listed(), other);
  later.trainer.load(io::CheckpointReader::newest(MPI_COMM_SELF, file("run.h5")));
  EXPECT_EQ(later.trainer.steps(), 5);
  EXPECT_EQ(later.parameters.values, run.parameters.values);
  for (long step = 5; step < 10; ++step) {
    const auto expected = run.trainer.step(run.batches.at(step));
    const auto report = later.trainer.step(later.batches.at(step));
    EXPECT_EQ(report.step, step);
    EXPECT_EQ(report.loss, expected.loss);
    EXPECT_EQ(report.rate, expected.rate);
    EXPECT_EQ(later.parameters.values, run.parameters.values);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Restart, testing::Values(Method::sgd, Method::adam, Method::adamw));

class Checkpoint : public InAFolder {};

TEST_F(Checkpoint, refuses_the_parameters_of_another_model) {
  TrainingRun run(MPI_COMM_SELF, 1, spec_of(usual()), listed(), start());
  io::CheckpointWriter writer(MPI_COMM_SELF, file("run.h5"));
  run.trainer.save(writer);
  writer.commit();
  auto model = start().spec;
  model.ffn = 8;
  TrainingRun other(MPI_COMM_SELF, 1, spec_of(usual()), listed(),
                    random_parameters({.model = model, .kappa = 0.1}));
  const auto text = complaint<BadInput>(
      [&] { other.trainer.load(io::CheckpointReader::newest(MPI_COMM_SELF, file("run.h5"))); });
  EXPECT_THAT(text, testing::HasSubstr("run.checkpoint.h5"));
  EXPECT_EQ(other.trainer.steps(), 0);
}

TEST(Trainer, keeps_the_parameters_when_the_loss_is_not_finite) {
  TrainingRun run(MPI_COMM_SELF, 1, spec_of(usual()), listed(), start());
  run.trainer.step(run.batches.at(0));
  const auto before = run.parameters.values;
  auto batch = run.batches.at(1);
  batch.input.front() = NAN;
  const auto text = complaint<NumericalFailure>([&] { run.trainer.step(batch); });
  EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("step 1"), testing::HasSubstr("train.rate")));
  EXPECT_EQ(run.parameters.values, before);
  EXPECT_EQ(run.trainer.steps(), 1);
  // And continues with another batch.
  EXPECT_TRUE(std::isfinite(run.trainer.step(run.batches.at(1)).loss));
}

TEST(Trainer, evaluates_the_mean_over_all_samples_it_is_asked_for) {
  TrainingRun run(MPI_COMM_SELF, 1, spec_of(usual()), listed(), start());
  const std::vector<std::size_t> members{1, 3, 4, 7, 9};
  const auto all = run.trainer.evaluate(run.samples(listed(), members));
  double loss = 0, correct = 0;
  for (const auto member : members) {
    const auto one = run.trainer.evaluate(run.samples(listed(), {member}));
    EXPECT_TRUE(one.correct == 0 || one.correct == 1);
    loss += one.loss / 5;
    correct += one.correct / 5;
  }
  EXPECT_NEAR(all.loss, loss, 1e-14 * loss);
  EXPECT_NEAR(all.correct, correct, 1e-15);
}

TEST(Trainer, can_learn_a_batch_by_heart) {
  auto settings = usual();
  settings.schedule = {.peak = 0.02, .warm_up = 5, .steps = 150};
  auto spec = spec_of(settings);
  spec.global = 10;
  TrainingRun run(MPI_COMM_SELF, 1, spec, listed(), start());
  StepReport report;
  for (long step = 0; step < 150; ++step) report = run.trainer.step(run.batches.at(step));
  EXPECT_NEAR(report.accuracy, 1, 1e-15);  // ten times a tenth
  EXPECT_LT(report.loss, 0.01);            // log 3 = 1.1 for an untrained model
}

}  // namespace
}  // namespace fluxformer
