// Data-parallel training matches training on one rank: losses and parameters of 20 steps on replicas, each
// with ranks over its tokens, against the same run on MPI_COMM_SELF; with batches that do not divide evenly,
// samples of different lengths, random variants and dropout.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/support/small_problem.hpp"
#include "tests/support/small_training.hpp"

namespace fluxformer::losses_do_not_depend_on_ranks {
namespace {

using namespace test;

constexpr int steps = 20;
// Only the order of sums over samples and tokens differs: about 1e-16 of a gradient, accumulated over 20
// steps.
constexpr double tolerance = 1e-10;

struct Case {
  std::string name;
  ModelSpec model = {};
  double kappa = 0;
  TrainingSpec training = {};
};

ModelSpec classifier(const data::Dataset& data, int layers) {
  auto model = small_model(layers);
  model.features = data.features();
  model.tokens = data.tokens_x() * data.tokens_y();
  model.classes = data.classes();
  return model;
}

/// 7 samples a batch: on 2, 3, 4 and 6 replicas the shares differ.
std::vector<Case> every_case(const data::Dataset& data) {
  TrainingSpec training{.cells = 2, .global = 7, .loss = {LossKind::cross_entropy, 0.1}, .seed = 5};
  training.settings.schedule = {.peak = 5e-3, .warm_up = 4, .steps = steps};
  training.settings.clip = 1;
  training.settings.bucket = 50;
  Case transformer{.name = "transformer", .model = classifier(data, 2), .training = training};

  Case pde{.name = "pde", .model = classifier(data, 3), .kappa = 0.1, .training = training};
  pde.model.variation = DepthVariation::linear;
  pde.model.knots = 2;
  pde.model.kappa_per_channel = true;
  pde.training.cells = 6;
  pde.training.settings.coefficients = {true, true, true};
  pde.training.settings.smoothness = 0.01;
  pde.training.settings.largest.kappa = 0.0975;  // below the start
  pde.training.settings.optimiser.method = Method::adam;
  pde.training.augment = 0.1;

  Case post{.name = "post", .model = classifier(data, 2), .training = training};
  post.model.norm = Norm::post;
  post.model.attention.layer_norm = false;
  post.training.loss.kind = LossKind::mean_squared_error;
  post.training.settings.optimiser.method = Method::sgd;

  Case dropout = transformer;
  dropout.name = "dropout";
  dropout.training.dropout = 0.2;
  return {transformer, pde, post, dropout};
}

Parameters start_of(const Case& c) {
  return random_parameters({.model = c.model, .kappa = c.kappa, .seed = 11});
}

struct Course {
  std::vector<double> losses, norms, correct, largest_kappa;
  Evaluation after;
  std::vector<double> parameters;
};

Course train(MPI_Comm comm, int ranks_token, const Case& c, const data::Dataset& data) {
  TrainingRun run(comm, ranks_token, c.training, data, start_of(c));
  Course course;
  for (long step = 0; step < steps; ++step) {
    const auto report = run.trainer.step(run.batches.at(step));
    course.losses.push_back(report.loss + report.penalty);
    course.norms.push_back(report.gradient_norm);
    course.correct.push_back(report.accuracy);
    course.largest_kappa.push_back(run.model->largest_kappa());
  }
  course.after = run.trainer.evaluate(run.samples(data, all_of(data)));
  course.parameters = run.parameters.values;
  return course;
}

TEST(Training, does_not_depend_on_replicas_nor_on_ranks_over_tokens) {
  // 3 batches of 7 in an epoch, 2 samples left over; the 20 steps see 7 epochs.
  const auto data = random_samples(23, 4, 2, 3, 3, 31);
  double reached = 0;
  for (const auto& c : every_case(data)) {
    const auto alone = train(MPI_COMM_SELF, 1, c, data);
    EXPECT_LT(alone.losses.back(), alone.losses.front()) << c.name << ": it learns nothing";
    for (const int ranks_token : every_token_split(MPI_COMM_WORLD, data.tokens_x())) {
      const auto what = c.name + ", ranks over tokens " + std::to_string(ranks_token);
      const auto together = train(MPI_COMM_WORLD, ranks_token, c, data);
      for (std::size_t step = 0; step < steps; ++step) {
        EXPECT_NEAR(together.losses[step], alone.losses[step], tolerance * alone.losses[step])
            << what << ", step " << step;
        EXPECT_NEAR(together.norms[step], alone.norms[step], tolerance * alone.norms[step])
            << what << ", step " << step;
        EXPECT_NEAR(together.correct[step], alone.correct[step], tolerance) << what << ", step " << step;
        reached =
            std::max(reached, std::abs(together.losses[step] - alone.losses[step]) / alone.losses[step]);
      }
      EXPECT_NEAR(together.after.loss, alone.after.loss, tolerance * alone.after.loss) << what;
      EXPECT_NEAR(together.after.correct, alone.after.correct, tolerance) << what;
      EXPECT_LT(relative_difference(together.parameters, alone.parameters), tolerance) << what;
      // All ranks must have identical bits, or they would drift apart.
      auto most = together.parameters;
      MPI_Allreduce(MPI_IN_PLACE, most.data(), static_cast<int>(most.size()), MPI_DOUBLE, MPI_MAX,
                    MPI_COMM_WORLD);
      const double apart = most == together.parameters ? 0 : 1;
      EXPECT_EQ(max_over(MPI_COMM_WORLD, apart), 0) << what;
    }
  }
  if (rank_in(MPI_COMM_WORLD) == 0)
    std::printf("losses of %d steps: largest relative difference %.2e\n", steps, reached);
}

TEST(Training, keeps_kappa_below_its_largest_value_on_any_ranks) {
  const auto data = random_samples(23, 4, 2, 3, 3, 31);
  auto pde = every_case(data)[1];
  const double cap = pde.training.settings.largest.kappa;
  const auto course = train(MPI_COMM_WORLD, 1, pde, data);
  EXPECT_DOUBLE_EQ(course.largest_kappa.front(), cap);  // one Adam step does not get below the cap
  for (const double kappa : course.largest_kappa) EXPECT_LE(kappa, cap);
  Parameters p(pde.model);
  p.values = course.parameters;
  for (const char* path : {"layers/1/kappa", "layers/2/kappa"})
    for (const double kappa : p.view(path)) EXPECT_GT(kappa, 0);
  EXPECT_LT(p.view("layers/1/kappa")[0], cap) << "it can leave the cap";
}

}  // namespace
}  // namespace fluxformer::losses_do_not_depend_on_ranks
