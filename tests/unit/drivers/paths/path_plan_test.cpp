// From the words of a deck to the task of attention paths.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "base/error.hpp"
#include "drivers/paths/path_tasks.hpp"
#include "tests/unit/drivers/plan.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

/// The task of a deck with four examples.
struct SmallTask {
  explicit SmallTask(const std::vector<std::string>& given)
      : tasks(path_task_plan_of(
                  plan("paths_theory", joined({"paths.examples=4", "paths.test_examples=6"}, given))),
              MPI_COMM_SELF) {}
  PathTasks tasks;
};
std::string refusal_of_task(const std::vector<std::string>& given) {
  return complaint<BadInput>([&] { SmallTask{given}; });
}

TEST(PathPlan, has_the_seeds_of_the_deck_or_that_of_the_run) {
  EXPECT_THAT(path_seeds(plan("paths_theory", {"run.seed=5"})), ElementsAre(5));
  EXPECT_THAT(path_seeds(plan("paths_theory", {"run.seed=5", "paths.seeds=3, 1, 2"})), ElementsAre(3, 1, 2));
}

TEST(PathPlan, has_the_heads_and_parts_of_its_task) {
  const SmallTask four({}), two({"paths.variant=two_paths"}),
      surrogate({"paths.task=surrogate", "paths.heads=3"}), one({"paths.task=surrogate", "paths.heads=1"});
  EXPECT_EQ(four.tasks.name(), "markov, four paths");
  EXPECT_THAT(four.tasks.heads(), ElementsAre(2, 2));
  EXPECT_EQ(four.tasks.paths(), 4);
  EXPECT_EQ(four.tasks.dimension(), 231);
  EXPECT_THAT(four.tasks.parts(), ElementsAre(Field(&NetworkPart::name, "good"),
                                              Field(&NetworkPart::name, "good and denoising")));
  EXPECT_EQ(four.tasks.examples(), 4);
  EXPECT_EQ(four.tasks.test_examples(), 6);
  EXPECT_EQ(two.tasks.name(), "markov, two paths");
  EXPECT_THAT(two.tasks.heads(), ElementsAre(2, 1));
  EXPECT_THAT(surrogate.tasks.heads(), ElementsAre(3, 3));
  EXPECT_EQ(surrogate.tasks.dimension(), 26);
  EXPECT_THAT(surrogate.tasks.parts(),
              ElementsAre(Field(&NetworkPart::name, "good"), Field(&NetworkPart::name, "random")));
  EXPECT_THAT(one.tasks.parts(), testing::SizeIs(1));  // there is no random head
}

TEST(PathPlan, draws_by_four_seeds_or_by_the_one_that_stands_for_them) {
  SmallTask usual({"run.seed=5"}), same({"run.seed=9", "paths.draws=5, 105, 205, 305"}),
      other({"paths.draws=5, 105, 205, 306"});
  const auto &expected = usual.tasks.task_of(5), &found = same.tasks.task_of(9),
             &changed = other.tasks.task_of(1);
  EXPECT_TRUE(found.train.inputs == expected.train.inputs);
  EXPECT_TRUE(found.test.inputs == expected.test.inputs);
  EXPECT_FALSE(changed.train.inputs == expected.train.inputs);  // by other heads
  EXPECT_FALSE(usual.tasks.task_of(6).train.inputs == expected.train.inputs);
}

TEST(PathPlan, takes_the_published_noise_unless_another_is_given) {
  for (const auto& [task, published, another] :
       {std::array<std::string, 3>{"paths.variant=four_paths", "1", "2"},
        std::array<std::string, 3>{"paths.variant=two_paths", "5", "1"},
        std::array<std::string, 3>{"paths.task=surrogate", "0.8", "0.5"}}) {
    SmallTask usual({task}), same({task, "paths.noise=" + published}),
        other({task, "paths.noise=" + another});
    EXPECT_TRUE(same.tasks.task_of(1).train.inputs == usual.tasks.task_of(1).train.inputs) << task;
    EXPECT_FALSE(other.tasks.task_of(1).train.inputs == usual.tasks.task_of(1).train.inputs) << task;
  }
}

TEST(PathPlan, refuses_draws_and_noise_that_are_none) {
  EXPECT_THAT(refusal_of_task({"paths.draws=1, 2, 3"}), HasSubstr("paths.draws = 1, 2, 3: four seeds"));
  EXPECT_THAT(refusal_of_task({"paths.draws=1, 2, 3, 4", "paths.seeds=1, 2"}),
              AllOf(HasSubstr("paths.draws"), HasSubstr("paths.seeds")));
  EXPECT_EQ(refusal_of_task({"paths.draws=1, 2, 3, 4", "paths.seeds=2"}), "");
  for (const char* noise : {"loud", "-1", "nan", "1, 2"})
    EXPECT_THAT(refusal_of_task({std::string("paths.noise=") + noise}),
                AllOf(HasSubstr(std::string("paths.noise = ") + noise), HasSubstr("'published'")));
  EXPECT_EQ(refusal_of_task({"paths.noise=0"}), "");
}

class OneShotPlans : public InAFolder {
 protected:
  std::vector<std::string> one_shot(const std::vector<std::string>& given) const {
    return joined({"paths.task=one_shot", "paths.images=digits", "output.file=" + file("out.h5")}, given);
  }
};

TEST_F(OneShotPlans, have_the_sizes_of_the_deck) {
  const auto plan_of_sizes =
      one_shot_plan_of(plan("paths_theory", one_shot({"paths.layers=3", "paths.heads=5", "paths.key=7"})));
  EXPECT_EQ(plan_of_sizes.random.layers, 3);
  EXPECT_EQ(plan_of_sizes.random.heads, 5);
  EXPECT_EQ(plan_of_sizes.random.key, 7);
  EXPECT_EQ(plan_of_sizes.attention, "");
  const SmallTask task(one_shot({"paths.layers=3", "paths.heads=5"}));
  EXPECT_EQ(task.tasks.name(), "one-shot digits, random attention");
  EXPECT_THAT(task.tasks.heads(), ElementsAre(5, 5, 5));
  EXPECT_EQ(task.tasks.paths(), 125);
  EXPECT_FALSE(task.tasks.first_is_good());
  EXPECT_EQ(task.tasks.sources().size(), 2U);  // the images: weights are random
  EXPECT_EQ(task.tasks.trained(1), nullptr);
}

TEST_F(OneShotPlans, refuse_to_read_the_network_that_they_would_replace) {
  std::ofstream(folder_ / "out.h5") << "a network";
  EXPECT_THAT(refusal_of_task(one_shot({"paths.attention=" + file("out.h5")})),
              AllOf(HasSubstr("paths.attention"), HasSubstr("is output.file, too")));
  EXPECT_THAT(refusal_of_task(one_shot({"paths.attention=" + file("none.h5")})), HasSubstr(file("none.h5")));
}

}  // namespace
}  // namespace fluxformer::test
