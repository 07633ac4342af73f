// AdjointMarch: checkpoints, consecutive runs, memory, refusals.

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <tuple>

#include "base/error.hpp"
#include "base/phases.hpp"
#include "model/depth_march.hpp"
#include "tests/support/adjoint_case.hpp"

namespace fluxformer {
namespace {

using namespace test;

TEST(AdjointMarch, checkpoints_change_no_bit_of_the_gradient) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  for (const auto* method : {"1fe", "2b", "4", "5f", "8vr", "beuler", "cn", "theta"}) {
    const auto whole = c.gradient(adjoint_by(method));
    for (const bool on_disk : {false, true})
      for (const int every : {1, 2, 3, 4, 9})
        EXPECT_EQ(c.gradient(adjoint_by(method, every, on_disk)), whole)
            << method << " every " << every << (on_disk ? " on disk" : "");
  }
}

TEST(AdjointMarch, checkpoints_change_nothing_but_round_off_where_a_last_stage_is_used_again) {
  // At a checkpoint the first stage is evaluated, in between it is the last one of the step before, whose sum
  // of stages is the new state's in another order.
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  for (const auto* method : {"3bs", "5dp", "5bs"})
    for (const int every : {1, 3})
      EXPECT_LT(relative_difference(c.gradient(adjoint_by(method, every)), c.gradient(adjoint_by(method))),
                1e-13)
          << method << " every " << every;
}

// The same sums in the same order but for the scale of a stage, which is applied before or after a product.
TEST(AdjointMarch, tapes_change_nothing_but_round_off) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  for (const auto* method : {"1fe", "2a", "2b", "3", "4", "5f"}) {
    auto settings = adjoint_by(method);
    const auto without = c.gradient(settings);
    settings.tapes = true;
    EXPECT_LT(relative_difference(c.gradient(settings), without), 1e-13) << method;
  }
}

TEST(AdjointMarch, tapes_evaluate_nothing_again) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  auto settings = adjoint_by("4");
  const auto flops = [&] {
    const auto march = c.march(settings);
    const double before = work_counts().flops;
    c.gradient(*march);
    return work_counts().flops - before;
  };
  const double without = flops();
  settings.tapes = true;
  // Evaluation and adjoint are counted as 1 and 2, the adjoint that evaluates again as 3.
  EXPECT_NEAR(flops() / without, 3.0 / 4, 1e-12);
}

TEST(AdjointMarch, nothing_is_left_from_one_march_to_the_next) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  const std::size_t size = c.problem.context.size();
  for (const auto* method : {"1fe", "3", "5dp", "cn"})
    for (const int every : {0, 2}) {
      const auto march = c.march(adjoint_by(method, every));
      const auto first = c.gradient(*march);
      EXPECT_EQ(c.gradient(*march), first) << method;
      // Two forward marches in a row, the trajectory of the first unused, with a march that keeps nothing in
      // between.
      auto u = random_vector(size, 5);
      march->forward(u.data(), Keep::activations, {});
      u = random_vector(size, 6);
      march->forward(u.data(), Keep::activations, {});
      auto v = random_vector(size, 7);
      march->forward(v.data(), Keep::nothing, {});
      const auto bar = random_vector(size, 8);
      auto u_bar = bar;
      Whole gradient(first.size(), 0.0);
      march->backward(u_bar.data(), gradient, {});
      const auto other = c.march(adjoint_by(method, every));
      auto w = random_vector(size, 6);
      other->forward(w.data(), Keep::activations, {});
      EXPECT_EQ(w, u);
      auto w_bar = bar;
      Whole expected(first.size(), 0.0);
      other->backward(w_bar.data(), expected, {});
      EXPECT_EQ(u_bar, w_bar) << method;
      EXPECT_EQ(gradient, expected) << method;
      EXPECT_EQ(c.gradient(*march), first) << method;
    }
}

TEST(AdjointMarch, shows_the_rows_of_the_forward_march_on_the_way_back) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  const std::size_t size = c.problem.context.size();
  for (const auto* method : {"1fe", "4", "5bs", "beuler", "cn", "theta"})
    for (const int every : {0, 3}) {
      const auto march = c.march(adjoint_by(method, every));
      auto u = random_vector(size, 5);
      std::vector<Whole> rows = {u};
      march->forward(u.data(), Keep::activations, [&](int row, const double* slab) {
        EXPECT_EQ(static_cast<std::size_t>(row), rows.size());
        rows.emplace_back(slab, slab + size);
      });
      EXPECT_EQ(rows.size(), 5u);
      EXPECT_EQ(rows.back(), u);
      auto u_bar = random_vector(size, 6);
      Whole gradient(c.problem.parameters.values.size(), 0.0);
      int next = 3;
      march->backward(u_bar.data(), gradient, [&](int row, const double* slab, double*) {
        EXPECT_EQ(row, next--);
        EXPECT_EQ(Whole(slab, slab + size), rows[row]) << method << ' ' << row;
      });
      EXPECT_EQ(next, -1);
    }
}

TEST(AdjointMarch, by_1fe_marches_as_the_layer_map_does) {
  auto spec = adjoint_pde();
  AdjointCase c(MPI_COMM_WORLD, spec);
  Backpropagation direct(*c.problem.model, c.problem.depth, spec.speed);
  auto u = random_vector(c.problem.context.size(), 5), v = u;
  c.march(adjoint_by("1fe"))->forward(u.data(), Keep::nothing, {});
  direct.forward(v.data(), Keep::nothing, {});
  EXPECT_LT(relative_difference(u, v), 1e-14);
}

TEST(AdjointMarch, on_unequal_cells_is_the_march_of_a_stepper_through_depth) {
  // March steps in s by h_i, AdjointMarch in cells with h_i as a factor of the field.
  const auto spec = adjoint_pde_on_unequal_cells();
  const Problem problem(MPI_COMM_WORLD, spec);
  const auto inflow = random_vector(problem.whole_slab(), 5);
  for (const auto& [method, variant, name] :
       {std::tuple{"euler", "", "1fe"}, {"rk", "4", "4"}, {"rk", "3bs", "3bs"}, {"beuler", "", "beuler"}}) {
    MarchSettings settings;
    settings.method = method;
    settings.variant = variant;
    const auto rows = march_rows(problem, inflow, settings);
    AdjointMarch march(*problem.model, problem.depth, spec.speed, adjoint_by(name));
    auto u = problem.local(inflow);
    march.forward(u.data(), Keep::nothing, {});
    const Whole last(rows.end() - static_cast<std::ptrdiff_t>(u.size()), rows.end());
    // Newton's method of beuler ends at 1e-10 of its step, the others differ by round-off.
    EXPECT_LT(relative_difference(u, last), name == std::string("beuler") ? 1e-8 : 1e-13) << name;
  }
}

TEST(AdjointMarch, by_a_kept_last_stage_starts_each_layer_with_its_own_weights) {
  // 3bs takes the last stage of a step for the first of the next, which would be the layer before.
  auto both = adjoint_transformer(2);
  const Problem two(MPI_COMM_WORLD, both);
  MarchSettings settings;
  settings.method = "rk";
  settings.variant = "3bs";
  const auto inflow = random_vector(two.whole_slab(), 5);
  const auto rows = march_rows(two, inflow, settings);
  auto state = inflow;
  for (const int layer : {0, 1}) {
    auto one = adjoint_transformer(1);
    Parameters weights(one.model);
    const auto& from = two.parameters.layout;
    std::copy_n(two.parameters.values.begin() + from.block_offset(layer), from.block_size(),
                weights.values.begin() + weights.layout.block_offset(0));
    weights.values[weights.layout.alpha()] = weights.values[weights.layout.rho()] = 1;
    const Problem alone(MPI_COMM_WORLD, one, weights);
    state = march_rows(alone, state, settings);
  }
  EXPECT_LT(
      relative_difference(Whole(rows.end() - static_cast<std::ptrdiff_t>(state.size()), rows.end()), state),
      1e-14);
  auto u = inflow;
  AdjointMarch adjoint(*two.model, two.depth, 1, adjoint_by("3bs"));
  adjoint.forward(u.data(), Keep::activations, {});
  EXPECT_LT(relative_difference(u, state), 1e-14);
}

TEST(AdjointMarch, checkpoints_save_memory) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_transformer(48));
  const auto bytes = [&](DepthMarch& march) {
    c.gradient(march);
    return static_cast<double>(march.kept_bytes());
  };
  Backpropagation direct(*c.problem.model, c.problem.depth, 1);
  const double everything = bytes(direct);
  EXPECT_NEAR(bytes(*c.march(adjoint_by("1fe"))) / everything, 1, 0.05);
  EXPECT_LT(4 * bytes(*c.march(adjoint_by("1fe", 6))), everything);
  EXPECT_LT(16 * bytes(*c.march(adjoint_by("1fe", 2, true))), everything);
}

TEST(AdjointMarch, leaves_no_file_behind_and_names_a_folder_that_is_none) {
  const auto folder = std::filesystem::temp_directory_path() / "fluxformer-adjoint-states";
  std::filesystem::remove_all(folder);
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  auto settings = adjoint_by("1fe", 1, true);
  settings.folder = folder.string();
  try {
    c.march(settings);
    ADD_FAILURE() << "made a file in a folder that is none";
  } catch (const BadInput& refused) {
    EXPECT_NE(std::string(refused.what()).find(folder.string()), std::string::npos) << refused.what();
  }
  std::filesystem::create_directories(folder);
  const auto march = c.march(settings);
  auto u = random_vector(c.problem.context.size(), 5);
  march->forward(u.data(), Keep::activations, {});
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST(AdjointMarch, goes_on_after_a_visitor_threw) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  const std::size_t size = c.problem.context.size();
  for (const auto* method : {"1fe", "4", "cn"})
    for (const int every : {0, 2}) {
      const auto march = c.march(adjoint_by(method, every));
      const auto expected = c.gradient(*march);
      auto u = random_vector(size, 5);
      EXPECT_THROW(march->forward(u.data(), Keep::activations,
                                  [](int row, const double*) {
                                    if (row == 3) throw NumericalFailure("enough");
                                  }),
                   NumericalFailure);
      EXPECT_EQ(c.gradient(*march), expected) << method;
      march->forward(u.data(), Keep::activations, {});
      auto u_bar = u;
      Whole gradient(expected.size(), 0.0);
      EXPECT_THROW(march->backward(u_bar.data(), gradient,
                                   [](int, const double*, double*) { throw NumericalFailure("enough"); }),
                   NumericalFailure);
      EXPECT_EQ(c.gradient(*march), expected) << method;
    }
}

std::string refusal(const ProblemSpec& spec, const AdjointSettings& settings, DepthCells depth = {},
                    double speed = 1) {
  const Problem problem(MPI_COMM_WORLD, spec);
  try {
    const AdjointMarch march(*problem.model, depth.cells > 1 ? depth : problem.depth, speed, settings);
  } catch (const BadInput& refused) {
    return refused.what();
  }
  return "";
}

TEST(AdjointMarch, refuses_what_is_not_defined) {
  const auto pde = adjoint_pde();
  const auto names = [](const std::string& message, const std::string& key) {
    EXPECT_NE(message.find(key), std::string::npos) << message;
  };
  for (const auto* method : {"euler", "ssp", "bdf2", "rk", ""})
    names(refusal(pde, adjoint_by(method)), "5dp");
  names(refusal(pde, adjoint_by("1fe", -1)), "adjoint.segment = -1");
  names(refusal(pde, adjoint_by("1fe", 0, true)), "adjoint.segment = 0");
  for (const double theta : {0.0, -1.0, 1.5}) {
    auto settings = adjoint_by("theta");
    settings.theta = theta;
    names(refusal(pde, settings), "adjoint.theta");
  }
  auto post = adjoint_transformer(2);
  post.model.norm = Norm::post;
  post.model.attention.layer_norm = false;
  names(refusal(post, adjoint_by("4")), "depth.norm");
  names(refusal(post, adjoint_by("cn")), "adjoint.method = cn");
  EXPECT_EQ(refusal(post, adjoint_by("1fe")), "");
  names(refusal(adjoint_transformer(2), adjoint_by("1fe"), {2, 3}), "mesh.cells = 3");
  names(refusal(pde, adjoint_by("1fe"), {}, 0), "equation.c");
}

TEST(AdjointMarch, refuses_tapes_where_steps_share_stages_or_are_recomputed) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  for (const auto* method : {"3bs", "5dp", "5bs", "6vr", "beuler", "cn", "theta"}) {
    auto settings = adjoint_by(method);
    settings.tapes = true;
    EXPECT_THROW(c.march(settings), BadInput) << method;
  }
  auto settings = adjoint_by("4", 2);
  settings.tapes = true;
  EXPECT_THROW(c.march(settings), BadInput);
}

TEST(AdjointMarch, refuses_to_keep_for_second_derivatives) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  const auto march = c.march(adjoint_by("1fe"));
  auto u = random_vector(c.problem.context.size(), 5);
  EXPECT_THROW(march->forward(u.data(), Keep::second_derivatives, {}), std::logic_error);
}

TEST(AdjointMarch, that_does_not_converge_is_a_numerical_failure) {
  auto spec = adjoint_pde();
  spec.weight_scale = 1e4;  // Newton's method does not converge from the previous state
  spec.model.norm = Norm::none;
  spec.model.attention.layer_norm = false;
  AdjointCase c(MPI_COMM_WORLD, spec);
  EXPECT_THROW(c.gradient(adjoint_by("beuler")), NumericalFailure);
}

}  // namespace
}  // namespace fluxformer
