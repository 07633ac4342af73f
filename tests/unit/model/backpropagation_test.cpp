// Back-propagation where its tapes change between marches: token diffusion that sets in, tapes of another
// order; and its second derivatives under dropout, whose masks differ from layer to layer.

#include <gtest/gtest.h>

#include <array>

#include "model/depth_march.hpp"
#include "operators/dropout.hpp"
#include "tests/support/adjoint_case.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/richardson.hpp"
#include "tests/unit/model/layer_settings.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// A state and the vector of an adjoint at the last row; or a direction of them.
struct Ends {
  explicit Ends(std::size_t size, unsigned seed)
      : u(random_vector(size, seed)), w(random_vector(size, seed + 1)) {}
  Whole u, w;
};

/// The last state, the adjoint of the first one and the gradient of the parameters.
using Results = std::array<Whole, 3>;

Results forward_and_back(Backpropagation& march, Index parameters, const Ends& at, Keep keep) {
  Results found{at.u, at.w, Whole(parameters, 0.0)};
  march.forward(found[0].data(), keep, {});
  march.backward(found[1].data(), found[2], {});
  return found;
}

/// The derivatives of these results along `along` and a direction of the parameters. The last forward march
/// kept second derivatives.
Results results_along(Backpropagation& march, const Ends& along, const Whole& direction) {
  Results found{along.u, along.w, Whole(direction.size(), 0.0)};
  march.push(found[0].data(), direction, {});
  march.pull_along(found[1].data(), direction, found[2], {});
  return found;
}

TEST(Backpropagation, follows_token_diffusion_that_sets_in_and_ends) {
  for (const auto order : {SubLayerOrder::sequential, SubLayerOrder::parallel, SubLayerOrder::macaron}) {
    auto with = adjoint_pde();
    with.model.order = order;
    auto without = with;
    without.kappa = 0;
    AdjointCase c(MPI_COMM_WORLD, without);
    Backpropagation march(*c.problem.model, c.problem.depth, with.speed);
    // The same march all the time, so that its tapes are from before.
    for (const auto* now : {&without, &with, &without}) {
      AdjointCase fresh(MPI_COMM_WORLD, *now);
      Backpropagation expected(*fresh.problem.model, fresh.problem.depth, with.speed);
      c.problem.parameters.values = fresh.problem.parameters.values;
      c.problem.model->refresh();
      EXPECT_EQ(c.gradient(march), fresh.gradient(expected)) << to_word(order) << ", kappa " << now->kappa;
      EXPECT_EQ(march.kept_bytes(), expected.kept_bytes()) << to_word(order) << ", kappa " << now->kappa;
    }
  }
}

TEST(Backpropagation, keeps_for_second_derivatives_in_between_and_changes_no_bit_of_a_gradient) {
  for (const auto subflow : {SubLayerIntegrator::euler, SubLayerIntegrator::midpoint}) {
    auto spec = adjoint_pde();
    spec.model.subflow = subflow;
    Problem problem(MPI_COMM_WORLD, spec);
    const Ends at(problem.context.size(), 6), along(problem.context.size(), 8);
    const auto direction = random_vector(problem.parameters.values.size(), 10, 0.1);
    const auto results = [&](Backpropagation& march, Keep keep) {
      return forward_and_back(march, std::ssize(direction), at, keep);
    };
    Backpropagation march(*problem.model, problem.depth, spec.speed),
        of_second(*problem.model, problem.depth, spec.speed);
    const auto first = results(march, Keep::activations);
    const auto bytes = march.kept_bytes();
    EXPECT_EQ(results(march, Keep::second_derivatives), first);
    EXPECT_GT(march.kept_bytes(), bytes);
    EXPECT_EQ(results(march, Keep::activations), first);
    EXPECT_EQ(march.kept_bytes(), bytes) << "tapes of second order stayed";
    results(march, Keep::second_derivatives);
    results(of_second, Keep::second_derivatives);
    EXPECT_EQ(results_along(march, along, direction), results_along(of_second, along, direction));
  }
}

/// Three layers with these sub-layers, under dropout of two samples.
struct DroppedLayers {
  DroppedLayers(Norm norm, SubLayerOrder order)
      : problem(MPI_COMM_WORLD, problem_of({norm, order, true, SubLayerIntegrator::euler, false})) {
    dropout.set_keys({31, 32});
    problem.context.dropout = &dropout;
    problem.model->refresh();  // composes the layers of terms under dropout
  }
  Problem problem;
  Dropout dropout{0.3, 7};
};

// Masks are constant, so that the marches are as smooth as without. Richardson's and round-off's errors are
// near 1e-9 of derivatives that three LayerNorms in a row make large.
TEST(Backpropagation, has_second_derivatives_under_dropout_of_several_layers) {
  for (const auto norm : {Norm::pre, Norm::post})
    for (const auto order : {SubLayerOrder::sequential, SubLayerOrder::macaron}) {
      DroppedLayers of(norm, order);
      auto& values = of.problem.parameters.values;
      const Whole start = values;
      const Ends at(of.problem.context.size(), 6), along(of.problem.context.size(), 8);
      const auto direction = random_vector(values.size(), 10, 0.1);
      Backpropagation march(*of.problem.model, of.problem.depth, 1);
      const auto kept = forward_and_back(march, std::ssize(values), at, Keep::second_derivatives);
      const auto found = results_along(march, along, direction);

      Backpropagation plain(*of.problem.model, of.problem.depth, 1);
      const auto moved = [&](double e) {
        auto there = at;
        there.u = plus(at.u, e, along.u), there.w = plus(at.w, e, along.w);
        values = plus(start, e, direction);
        of.problem.model->refresh();
        const auto results = forward_and_back(plain, std::ssize(values), there, Keep::activations);
        values = start;
        of.problem.model->refresh();
        return results;
      };
      for (std::size_t k = 0; k < found.size(); ++k)
        EXPECT_LT(
            reached("second derivatives under dropout against differences",
                    relative_difference(found[k], derivative([&](double e) { return moved(e)[k]; }, 4e-3))),
            1e-8)
            << to_word(norm) << ' ' << to_word(order) << ' ' << k;
      // Nothing is dropped without keys.
      of.dropout.set_keys({});
      const auto undropped = forward_and_back(plain, std::ssize(values), at, Keep::activations);
      EXPECT_GT(relative_difference(kept[0], undropped[0]), 0.1) << "a case that shows nothing";
    }
}

}  // namespace
}  // namespace fluxformer
