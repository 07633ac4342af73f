// From the words of a deck to the integrator, the inflow and the state at t = 0 of `evolve`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "drivers/evolve/evolve_problem.hpp"
#include "tests/unit/drivers/plan.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> small_evolution{"inflow.source=none", "mesh.layers=2", "mesh.tokens_x=3",
                                               "model.width=4",      "model.ffn=4",   "attention.heads=2"};

EvolvePlan evolution(const std::vector<std::string>& given) {
  return plan_of_evolution(plan("evolve", given));
}
EvolveSettings solver_of(const std::vector<std::string>& given) {
  return EvolveProblem(evolution(joined(small_evolution, given)), MPI_COMM_SELF).solver_settings;
}
std::string refusal_to_evolve(const std::vector<std::string>& given) {
  return complaint<BadInput>([&] { solver_of(given); });
}

TEST(EvolvePlan, has_the_value_of_every_key) {
  const auto s = solver_of({"evolve.method=rk", "evolve.variant=3bs", "evolve.dt=0.125", "evolve.cfl=0.25",
                            "evolve.time=3", "evolve.tolerance=1e-4", "evolve.stop=steady",
                            "evolve.steady=1e-3", "evolve.max_norm=50"});
  EXPECT_EQ(s.method, "rk");
  EXPECT_EQ(s.variant, "3bs");
  EXPECT_EQ(s.dt, 0.125);
  EXPECT_EQ(s.cfl, 0.25);
  EXPECT_EQ(s.time, 3);
  EXPECT_EQ(s.adaptive_tolerance, 1e-4);
  EXPECT_EQ(s.steady_tolerance, 1e-3);
  EXPECT_EQ(s.max_norm, 50);
  EXPECT_EQ(s.inflow_every, 0);
  EXPECT_EQ(solver_of({"inflow.source=noise", "inflow.every=0.5", "evolve.dt=0.125"}).inflow_every, 0.5);
}

TEST(EvolvePlan, ends_after_two_crossings_of_the_depth_unless_a_time_is_given) {
  EXPECT_EQ(solver_of({"equation.c=0.5", "mesh.cells=4"}).time, 8);  // 2 S / c, S = 2 layers
  EXPECT_EQ(solver_of({"equation.c=0", "mesh.layers=1", "depth.scheme=upwind"}).time,
            1);  // nothing crosses it
}

TEST(EvolvePlan, looks_for_a_steady_state_only_if_it_is_to_stop_there) {
  EXPECT_EQ(solver_of({"evolve.steady=1e-3"}).steady_tolerance, 0);
  EXPECT_EQ(solver_of({"evolve.stop=steady"}).steady_tolerance, 1e-6);
}

TEST(EvolvePlan, makes_the_mesh_of_the_deck) {
  const EvolveProblem problem(
      evolution(joined(small_evolution, {"mesh.cells=6", "mesh.tokens_y=2", "inflow.samples=5",
                                         "mesh.periodic=true", "attention.causal=true"})),
      MPI_COMM_SELF);
  EXPECT_EQ(problem.mesh->total_cells(), 6);
  const auto& spec = problem.mesh->spec();
  EXPECT_EQ(spec.tokens_x, 3);
  EXPECT_EQ(spec.tokens_y, 2);
  EXPECT_EQ(spec.samples, 5);
  EXPECT_EQ(spec.width, 4);
  EXPECT_TRUE(spec.periodic);
  EXPECT_TRUE(problem.slab.mask.causal);
  EXPECT_EQ(problem.equation->spec().depth.layers, 2);
}

TEST(EvolvePlan, refuses_bfloat16_where_a_steady_state_is_solved_for) {
  const std::string mixed = "run.precision=mixed_emulated";
  for (const char* solved : {"depth.scheme=upwind", "equation.epsilon=0.01"}) {
    EXPECT_THAT(refusal_to_evolve({mixed, solved}),
                AllOf(HasSubstr("run.precision = mixed_emulated"), HasSubstr("front.threshold = 0")));
    EXPECT_EQ(refusal_to_evolve({mixed, solved, "front.threshold=0"}), "");
    EXPECT_EQ(refusal_to_evolve({solved}), "");
  }
  EXPECT_EQ(refusal_to_evolve({mixed}), "");  // it is marched to
}

TEST(InflowPlan, of_data_takes_samples_and_tokens_from_the_set) {
  const auto inflow = [](const std::vector<std::string>& given) {
    return Inflow(evolution(given).inflow, MPI_COMM_SELF);
  };
  const auto last = inflow({"inflow.first=9998", "inflow.samples=2"});  // of 10000 in the test split
  EXPECT_THAT(last.indices(0), ElementsAre(9998, 9999));
  EXPECT_THAT(last.indices(1), ElementsAre(0, 1));  // around the end
  EXPECT_EQ(last.tokens_x(), 7);
  EXPECT_EQ(last.tokens_y(), 7);
  EXPECT_EQ(last.shape().features, 16);
  EXPECT_EQ(last.shape().classes, 10);
  const std::vector<std::string> beyond{"inflow.first=9999", "inflow.samples=2"};
  EXPECT_THAT(complaint<BadInput>([&] { inflow(beyond); }),
              AllOf(HasSubstr("inflow.first + inflow.samples = 10001"), HasSubstr("10000 samples")));
  EXPECT_NO_THROW(inflow(joined(beyond, {"data.split=train"})));  // which has more
  EXPECT_NO_THROW(inflow({"mesh.tokens_x=7"}));
  EXPECT_THAT(complaint<BadInput>([&] { inflow({"mesh.tokens_y=5"}); }),
              AllOf(HasSubstr("mesh.tokens_y = 5"), HasSubstr("the data has 7")));
}

TEST(InflowPlan, without_data_has_the_tokens_of_the_deck_and_no_end) {
  const Inflow noise(
      evolution({"inflow.source=noise", "inflow.first=9999", "inflow.samples=2", "mesh.tokens_x=5"}).inflow,
      MPI_COMM_SELF);
  EXPECT_EQ(noise.tokens_x(), 5);
  EXPECT_EQ(noise.tokens_y(), 1);
  EXPECT_FALSE(noise.shape().any());
  EXPECT_THAT(noise.indices(1), ElementsAre(10001, 10002));
}

TEST(StartPlan, has_the_value_of_every_key) {
  const auto start =
      evolution({"start.state=cosine", "start.gamma=0.5", "start.mode=3", "start.scale=2", "run.seed=11"})
          .start;
  EXPECT_EQ(start.kind, "cosine");
  EXPECT_EQ(start.gamma, 0.5);
  EXPECT_EQ(start.mode, 3);
  EXPECT_EQ(start.scale, 2);
  EXPECT_EQ(start.seed, 11U);
  const auto groups = evolution({"start.state=clustered_sphere", "start.groups=4", "start.scale=0.01"}).start;
  EXPECT_EQ(groups.kind, "clustered_sphere");
  EXPECT_EQ(groups.groups, 4);
  EXPECT_EQ(groups.scale, 0.01);
}

TEST(StartPlan, refuses_the_state_0_on_the_sphere) {
  EXPECT_THAT(refusal_to_evolve({"depth.norm=sphere"}), HasSubstr("zero vector"));
}

TEST(OutputPlan, has_the_value_of_every_key) {
  const auto output = output_of_evolve(plan(
      "evolve",
      {"output.file=o.h5", "output.every=0.5", "output.history=3", "checkpoint.every=0.25",
       "front.threshold=0.125", "output.fields=none", "output.model=false", "output.attention=true",
       "output.logits=true", "output.depth_stride=2", "output.channel_stride=4", "output.compression=5"}));
  EXPECT_EQ(output.file, "o.h5");
  EXPECT_EQ(output.every, 0.5);
  EXPECT_EQ(output.history, 3);
  EXPECT_EQ(output.checkpoints, 0.25);
  EXPECT_EQ(output.threshold, 0.125);
  EXPECT_FALSE(output.fields);
  EXPECT_FALSE(output.model);
  EXPECT_TRUE(output.attention);
  EXPECT_TRUE(output.logits);
  EXPECT_EQ(output.depth_stride, 2);
  EXPECT_EQ(output.channel_stride, 4);
  EXPECT_EQ(output.compression, 5);
  EXPECT_FALSE(output.counts.has_value());
}

clusters::FieldClusterSettings counts(const std::vector<std::string>& given) {
  const auto found = output_of_evolve(plan("evolve", joined({"clusters.measure=true"}, given))).counts;
  return with_kernel(found.value(), 16);
}

TEST(OutputPlan, of_clusters_has_the_kernel_of_the_keys_or_of_the_model) {
  const auto given = counts({"clusters.beta=9", "clusters.delta=0.2", "clusters.leaders=30"});
  EXPECT_EQ(given.beta, 9);
  EXPECT_EQ(given.delta, 0.2);
  EXPECT_EQ(given.leaders, 30);
  EXPECT_EQ(counts({}).beta, 4);  // the root of the width
  EXPECT_DOUBLE_EQ(counts({}).delta, 0.15);
  EXPECT_EQ(counts({}).leaders, 4096);
  EXPECT_EQ(counts({"clusters.beta=0.01"}).delta, 1);
  EXPECT_EQ(counts({"model.initial=identity", "model.beta=9"}).beta, 9);
  EXPECT_DOUBLE_EQ(counts({"model.initial=identity", "model.beta=9"}).delta, 0.1);
  EXPECT_EQ(counts({"model.initial=identity", "model.beta=9", "clusters.beta=2"}).beta, 2);
}

TEST(OutputPlan, of_clusters_refuses_what_cannot_be) {
  const auto refusal = [](const std::vector<std::string>& given) {
    return complaint<BadInput>([&] { counts(given); });
  };
  EXPECT_THAT(refusal({"clusters.delta=2.1"}), HasSubstr("clusters.delta"));
  EXPECT_THAT(refusal({"clusters.delta=1e-9"}), HasSubstr("clusters.delta"));
  EXPECT_THAT(refusal({"clusters.beta=-1"}), HasSubstr("clusters.beta"));
  EXPECT_THAT(complaint<BadInput>([] { plan("evolve", {"clusters.beta=2"}).refuse_idle_keys(); }),
              HasSubstr("clusters.beta: needs clusters.measure"));
}

}  // namespace
}  // namespace fluxformer::test
