// Each rank is a stage of depth: it keeps the parameters of its cells and the activations of as many
// micro-batches as the schedule says; together they take the step of one rank; a failure of one stage ends
// the step on all, and the next step works as usual.

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "model/initialise.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/staged_training.hpp"

namespace fluxformer::stages_keep_their_share {
namespace {

using namespace test;
using enum PipelineSchedule;

const MPI_Comm world = MPI_COMM_WORLD;
constexpr int cells = 12, batch = 10, up = -1, never = -2;

ModelSpec model() {
  auto spec = small_model(cells);
  spec.features = 3;
  spec.classes = 3;
  spec.tokens = 4;
  return spec;
}

/// The march of `inner`, failing on the way up or at a row of the way back, of the micro-batch that counts
/// `after` down to 0.
class Failing final : public DepthMarch {
 public:
  Failing(std::unique_ptr<DepthMarch> inner, const int& at, int& after)
      : inner_(std::move(inner)), at_(at), after_(after) {}
  DepthModel& model() const override { return inner_->model(); }
  const DepthCells& depth() const override { return inner_->depth(); }
  DepthRange range() const override { return inner_->range(); }
  void forward(double* u, Keep keep, const RowVisitor& row) override {
    if (at_ == up && after_-- == 0) throw NumericalFailure("no way up");
    inner_->forward(u, keep, row);
  }
  void backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) override {
    inner_->backward(u_bar, gradient, [&](int i, const double* u, double* bar) {
      if (at_ == i && after_-- == 0) throw NumericalFailure("no way back");
      row(i, u, bar);
    });
  }
  std::size_t kept_bytes() const override { return inner_->kept_bytes(); }

 private:
  std::unique_ptr<DepthMarch> inner_;
  const int& at_;
  int& after_;
};

TEST(StagesOfDepth, keep_the_activations_that_the_schedule_says) {
  const auto data = random_samples(20, 4, 1, 3, 3, 7);
  for (const auto schedule : {one_f_one_b, gpipe})
    for (const int micro_batches : {1, 2, 5}) {
      StagedTraining run(world, model(), cells, data, batch, {schedule, micro_batches});
      StagedTraining one(MPI_COMM_SELF, model(), cells, data, batch, {one_f_one_b, micro_batches});
      run.step(0);
      one.step(0);
      const auto in_flight = static_cast<std::size_t>(
          schedule == gpipe ? micro_batches : std::min(micro_batches, run.stages - run.stage));
      const auto of_a_cell = one.kept_bytes() / cells;
      EXPECT_EQ(run.kept_bytes(), in_flight * static_cast<std::size_t>(run.range.count()) * of_a_cell);
    }
}

TEST(StagesOfDepth, hold_the_parameters_of_their_cells) {
  const auto data = random_samples(20, 4, 1, 3, 3, 7);
  StagedTraining run(world, model(), cells, data, batch, {});
  const auto& layout = run.parameters.layout;
  Index expected = layout.block_size() * run.range.count() + 2;    // alpha, rho
  if (run.stage == 0) expected += 3 * 6 + 6 + 4 * 6;               // W, b, position
  if (run.stage + 1 == run.stages) expected += 2 * 6 + 3 * 6 + 3;  // final norm, head
  EXPECT_EQ(std::ssize(run.parameters.values), expected);
  const double owned =
      sum_over(world, static_cast<double>(io::FlatPart{0, run.trainer->stages().owned()}.count()));
  EXPECT_EQ(owned, static_cast<double>(layout.size_of_model()));
}

TEST(StagesOfDepth, take_the_steps_of_one_rank) {
  const auto data = random_samples(20, 4, 1, 3, 3, 7);
  TrainerSettings settings;
  settings.optimiser.method = Method::sgd;
  settings.clip = 0.5;
  settings.smoothness = 0;
  StagedTraining one(MPI_COMM_SELF, model(), cells, data, batch, {}, settings);
  StagedTraining run(world, model(), cells, data, batch, {one_f_one_b, 3}, settings);
  for (int k = 0; k < 3; ++k) {
    const auto expected = one.step(k), report = run.step(k);
    // Sums in another order: some hundred terms.
    EXPECT_NEAR(report.loss, expected.loss, 1e-13 * expected.loss);
    EXPECT_NEAR(report.gradient_norm, expected.gradient_norm, 1e-12 * expected.gradient_norm);
  }
  double largest = 0;
  for (const auto& view : run.parameters.layout.views()) {
    const auto mine = run.parameters.view(view.path()), theirs = one.parameters.view(view.path());
    for (std::size_t j = 0; j < mine.size(); ++j) largest = std::max(largest, std::abs(mine[j] - theirs[j]));
  }
  EXPECT_LT(largest, 1e-12);
}

TEST(StagesOfDepth, share_a_failure_and_forget_it) {
  const auto data = random_samples(20, 4, 1, 3, 3, 7);
  int at = never, after = 0;
  const auto wrap = [&](std::unique_ptr<DepthMarch> march) {
    return std::make_unique<Failing>(std::move(march), at, after);
  };
  for (const auto schedule : {one_f_one_b, gpipe}) {
    StagedTraining run(world, model(), cells, data, batch, {schedule, 5}, {}, wrap);
    StagedTraining untroubled(world, model(), cells, data, batch, {schedule, 5});
    for (int culprit = 0; culprit < run.stages; ++culprit)
      for (const bool forward : {true, false})
        for (const int micro_batch : {0, 2, 4}) {
          after = micro_batch;
          at = run.stage != culprit ? never : forward ? up : run.range.first - 1;
          std::string said;
          try {
            run.step(0);
          } catch (const NumericalFailure& e) {
            said = e.what();
          }
          EXPECT_EQ(said, forward ? "no way up" : "no way back") << culprit << ' ' << micro_batch;
          EXPECT_EQ(run.parameters.values, untroubled.parameters.values);
        }
    at = run.stage == run.stages / 2 ? up : never;
    after = 1;
    // Two batches of five samples; the second one fails.
    const SampleSet samples(MPI_COMM_SELF, run.line, data, {0, 1, 2, 3}, run.context.samples);
    EXPECT_THROW(run.trainer->evaluate(samples), NumericalFailure);
    at = never;
    // A stage that cannot read its second batch.
    int read = 0;
    const auto unreadable = samples.prepared([&](Batch&) {
      if (run.stage == run.stages - 1 && ++read == 2) throw BadInput("cannot be read");
    });
    EXPECT_THROW(run.trainer->evaluate(unreadable), BadInput);
    EXPECT_EQ(run.trainer->evaluate(samples).loss, untroubled.trainer->evaluate(samples).loss);
    EXPECT_EQ(run.step(0).loss, untroubled.step(0).loss);
    EXPECT_EQ(run.parameters.values, untroubled.parameters.values);
  }
}

}  // namespace
}  // namespace fluxformer::stages_keep_their_share
