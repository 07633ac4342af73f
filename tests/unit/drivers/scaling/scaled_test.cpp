// What a scaling study runs on a number of ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "drivers/scaling/scaling_workload.hpp"
#include "tests/unit/drivers/plan.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::HasSubstr;

constexpr int ranks = 4;

Settings on_four(const std::vector<std::string>& given) {
  return scaled(plan("scaling", given), ranks);
}
std::string refusal_to_scale(const std::vector<std::string>& given) {
  return complaint<BadInput>([&] { on_four(given); });
}

const std::string weak = "scaling.mode=weak", training = "scaling.workload=train";

TEST(Scaled, put_the_ranks_where_the_study_looks_unless_they_are_given) {
  const auto grid = [](const std::vector<std::string>& given) {
    const auto s = on_four(given);
    return std::pair{s.integer("mesh.ranks_depth"), s.integer("mesh.ranks_token")};
  };
  EXPECT_EQ(grid({"scaling.over=depth"}), std::pair(4L, 1L));
  EXPECT_EQ(grid({"scaling.over=tokens"}), std::pair(1L, 4L));
  EXPECT_EQ(grid({training, "scaling.over=samples"}), std::pair(1L, 1L));
  EXPECT_EQ(grid({"scaling.over=tokens", "mesh.ranks_depth=2"}), std::pair(2L, 0L));
}

TEST(Scaled, leave_the_problem_as_it_is_if_scaling_is_strong) {
  const std::vector<std::string> given{"mesh.layers=3", "mesh.cells=6", "mesh.tokens_x=5",
                                       "inflow.source=noise"};
  for (const char* over : {"scaling.over=depth", "scaling.over=tokens"}) {
    const auto before = plan("scaling", joined(given, {over})), after = scaled(before, ranks);
    for (const char* key : {"mesh.layers", "mesh.cells", "mesh.tokens_x", "mesh.tokens_y", "train.batch"})
      EXPECT_EQ(after.integer(key), before.integer(key)) << key;
  }
}

TEST(Scaled, grow_the_problem_with_the_ranks_if_scaling_is_weak) {
  const auto depth = on_four({weak, "scaling.over=depth", "mesh.layers=3", "mesh.cells=6"});
  EXPECT_EQ(depth.integer("mesh.layers"), 12);
  EXPECT_EQ(depth.integer("mesh.cells"), 24);
  EXPECT_EQ(on_four({weak, "scaling.over=depth"}).integer("mesh.cells"), 0);  // one for each layer, still
  const std::vector<std::string> tokens{weak, "scaling.over=tokens", "inflow.source=noise"};
  EXPECT_EQ(on_four(joined(tokens, {"mesh.tokens_x=5"})).integer("mesh.tokens_x"), 20);
  EXPECT_EQ(on_four(tokens).integer("mesh.tokens_x"), 4);  // of one
  const auto grid = on_four(joined(tokens, {"mesh.tokens_x=5", "mesh.tokens_y=3"}));
  EXPECT_EQ(grid.integer("mesh.tokens_x"), 5);
  EXPECT_EQ(grid.integer("mesh.tokens_y"), 12);
  EXPECT_EQ(on_four({weak, training, "scaling.over=samples", "train.batch=32"}).integer("train.batch"), 128);
}

TEST(Scaled, last_long_enough_for_all_steps) {
  // 2 + 5 * 5 steps and one to spare: of dt, or of four times forward Euler's, 4 * 0.5 h/c.
  EXPECT_EQ(on_four({"evolve.dt=0.25"}).real("evolve.time"), 28 * 0.25);
  EXPECT_EQ(on_four({"mesh.layers=3", "mesh.cells=12", "equation.c=2"}).real("evolve.time"),
            28 * 4 * 0.5 * 0.25 / 2);
  EXPECT_EQ(on_four({"evolve.time=3"}).real("evolve.time"), 3);
}

TEST(Scaled, refuse_what_cannot_be_timed_or_grown) {
  EXPECT_THAT(refusal_to_scale({"evolve.stop=steady"}), HasSubstr("evolve.stop = steady"));
  EXPECT_THAT(refusal_to_scale({"scaling.over=samples"}), HasSubstr("scaling.over = samples"));
  EXPECT_THAT(refusal_to_scale({weak, "scaling.over=tokens"}), HasSubstr("scaling.over = tokens"));
  EXPECT_THAT(refusal_to_scale({weak, training, "scaling.over=tokens", "inflow.source=noise"}),
              HasSubstr("scaling.over = tokens"));
  EXPECT_THAT(refusal_to_scale({weak, "scaling.over=depth", "model.file=weights.h5"}),
              HasSubstr("scaling.over = depth"));
  EXPECT_EQ(refusal_to_scale({"scaling.over=depth", "model.file=weights.h5"}), "");  // strong
}

}  // namespace
}  // namespace fluxformer::test
