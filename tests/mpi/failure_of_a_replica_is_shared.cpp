// A march that fails on one replica ends the step on all of them with the same message, even with parts of
// the gradient in flight; the next step works as usual.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/small_training.hpp"

namespace fluxformer::failure_of_a_replica_is_shared {
namespace {

using namespace test;

constexpr int cells = 4, on_the_way_up = cells + 1, never = -1;

/// The march of `inner`, failing at row `at` of the backward march.
class Failing final : public DepthMarch {
 public:
  explicit Failing(DepthMarch& inner) : inner_(inner) {}
  int at = never;

  DepthModel& model() const override { return inner_.model(); }
  const DepthCells& depth() const override { return inner_.depth(); }
  DepthRange range() const override { return inner_.range(); }
  void forward(double* u, Keep keep, const RowVisitor& row) override {
    if (at == on_the_way_up) throw NumericalFailure("no way up");
    inner_.forward(u, keep, row);
  }
  void backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) override {
    inner_.backward(u_bar, gradient, [&](int i, const double* u, double* bar) {
      if (at == i) throw NumericalFailure("no way back from row " + std::to_string(i));
      row(i, u, bar);
    });
  }
  std::size_t kept_bytes() const override { return inner_.kept_bytes(); }

 private:
  DepthMarch& inner_;
};

struct Troubled {
  Troubled(int ranks_token, const data::Dataset& data)
      : run(MPI_COMM_WORLD, ranks_token, spec(), data, random_parameters({.model = model()})),
        trainer(TrainingRanks::without_stages(MPI_COMM_WORLD), run.parameters, *run.model,
                Pipeline(MPI_COMM_SELF, {}, [&] { return slot(); }), spec().settings) {}

  static ModelSpec model() {
    auto spec = small_model(cells);
    spec.features = 3;
    spec.classes = 3;
    return spec;
  }
  static TrainingSpec spec() {
    TrainingSpec spec{.cells = cells, .global = 6};
    spec.settings.bucket = 50;  // several pieces are in flight
    return spec;
  }
  Slot slot() {
    auto failing = std::make_unique<Failing>(run.march);
    march = failing.get();
    Slot made{std::move(failing), nullptr};
    made.evaluator = std::make_unique<GradientEvaluator>(run.parameters, run.context, *march, Loss{});
    return made;
  }
  /// Only the last replica fails.
  void fail_at(int row) { march->at = run.replica.index == run.replica.count - 1 ? row : never; }

  TrainingRun run;
  Failing* march = nullptr;  // of the trainer's only slot
  Trainer trainer;
};

/// 0 if `work` throws a NumericalFailure with the text `expected`.
template <class Work>
double unless_it_fails_with(const std::string& expected, Work&& work) {
  try {
    work();
  } catch (const NumericalFailure& e) {
    return e.what() == expected ? 0 : 1;
  }
  return 1;
}

TEST(FailureOfAReplica, reaches_all_and_is_forgotten) {
  const auto data = random_samples(12, 4, 1, 3, 3, 7);
  for (const int ranks_token : every_token_split(MPI_COMM_WORLD, data.tokens_x())) {
    Troubled troubled(ranks_token, data), untroubled(ranks_token, data);
    auto& run = troubled.run;
    const auto start = run.parameters.values;
    for (const int row : {on_the_way_up, cells - 1, 1, 0}) {
      troubled.fail_at(row);
      const auto what = row == on_the_way_up ? "no way up" : "no way back from row " + std::to_string(row);
      const double wrong = unless_it_fails_with(what, [&] { troubled.trainer.step(run.batches.at(0)); });
      EXPECT_EQ(max_over(MPI_COMM_WORLD, wrong), 0) << what;
      EXPECT_EQ(run.parameters.values, start) << what;
    }
    troubled.fail_at(on_the_way_up);
    const double wrong = unless_it_fails_with(
        "no way up", [&] { troubled.trainer.evaluate(run.samples(data, all_of(data))); });
    EXPECT_EQ(max_over(MPI_COMM_WORLD, wrong), 0);

    troubled.fail_at(never);
    const auto report = troubled.trainer.step(run.batches.at(0)),
               expected = untroubled.trainer.step(run.batches.at(0));
    // Sums over ranks may be taken in another order.
    EXPECT_NEAR(report.loss, expected.loss, 1e-14 * expected.loss);
    EXPECT_NEAR(report.gradient_norm, expected.gradient_norm, 1e-13 * expected.gradient_norm);
  }
}

}  // namespace
}  // namespace fluxformer::failure_of_a_replica_is_shared
