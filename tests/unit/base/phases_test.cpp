// Time and messages by phase.

#include "base/phases.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace fluxformer::test {
namespace {

void work(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(Phases, share_all_the_time_and_an_inner_one_takes_it_from_the_one_around) {
  const auto start = std::chrono::steady_clock::now();
  reset_work_counts();
  work(2e-3);
  {
    const InPhase ring(Phase::ring);
    work(3e-3);
    {
      const InPhase sum(Phase::reduction);
      work(4e-3);
    }
    work(1e-3);
  }
  const auto counts = work_counts();
  const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // Waits last at least as long as requested, so lower bounds hold on any machine.
  EXPECT_GE(counts.at(Phase::compute).seconds, 2e-3);
  EXPECT_GE(counts.at(Phase::ring).seconds, 4e-3);
  EXPECT_GE(counts.at(Phase::reduction).seconds, 4e-3);
  EXPECT_EQ(counts.at(Phase::ghosts).seconds, 0);
  const double sum = std::accumulate(counts.phases.begin(), counts.phases.end(), 0.0,
                                     [](double s, const PhaseCount& one) { return s + one.seconds; });
  EXPECT_LE(sum, all);  // counted once: nested phases would add up to more
  EXPECT_GE(sum, 10e-3);
}

TEST(Phases, count_messages_where_they_are_sent) {
  reset_work_counts();
  count_message(8);
  {
    const InPhase ghosts(Phase::ghosts);
    count_message(100);
    count_message(28);
  }
  auto counts = work_counts();
  EXPECT_EQ(counts.at(Phase::compute).messages, 1u);
  EXPECT_EQ(counts.at(Phase::ghosts).messages, 2u);
  EXPECT_EQ(counts.at(Phase::ghosts).bytes, 128u);
  reset_work_counts();
  counts = work_counts();
  EXPECT_EQ(counts.at(Phase::ghosts).messages, 0u);
}

}  // namespace
}  // namespace fluxformer::test
