// A failure on one rank is thrown by all, with the same text and code; stop requests and the source of a
// result are agreed likewise. A rank that did not agree would leave the others waiting until the test times
// out.

#include <gtest/gtest.h>
#include <mpi.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/mpi.hpp"
#include "base/provenance.hpp"
#include "base/session.hpp"

namespace fluxformer::errors_are_agreed {
namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// "type code text" of what `work` throws.
std::string thrown_by(const std::function<void()>& work) {
  const auto tell = [](const std::string& type, const Error& e) {
    return type + " " + std::to_string(static_cast<int>(e.code())) + " " + e.what();
  };
  try {
    work();
  } catch (const BadInput& e) {
    return tell("BadInput", e);
  } catch (const NumericalFailure& e) {
    return tell("NumericalFailure", e);
  } catch (const Error& e) {
    return tell("Error", e);
  }
  return "nothing";
}

TEST(Agree, is_silent_where_every_rank_is_well) {
  EXPECT_EQ(thrown_by([] { agree(MPI_COMM_WORLD, true, "never said"); }), "nothing");
}

// Every set of failing ranks: the error of the lowest is thrown.
TEST(Agree, every_rank_throws_what_the_lowest_failing_rank_says) {
  const int rank = world_rank();
  for (int failing = 1; failing < 1 << world_size(); ++failing) {
    int lowest = 0;
    while ((failing >> lowest & 1) == 0) ++lowest;
    const bool ok = (failing >> rank & 1) == 0;
    // Texts of different lengths, so that a rank throwing its own would be noticed.
    const std::string why = "rank " + std::to_string(rank) + std::string(static_cast<std::size_t>(rank), '!');
    EXPECT_EQ(
        thrown_by([&] { agree(MPI_COMM_WORLD, ok, why); }),
        "BadInput 2 rank " + std::to_string(lowest) + std::string(static_cast<std::size_t>(lowest), '!'));
  }
}

TEST(Agree, the_exit_code_travels_with_the_text) {
  const bool ok = world_rank() != world_size() - 1;
  // The text of a rank that did not fail is ignored.
  const auto outcome = [&](ExitCode code) {
    return thrown_by([&] { agree(MPI_COMM_WORLD, ok, ok ? "" : "why", ok ? ExitCode::failure : code); });
  };
  EXPECT_EQ(outcome(ExitCode::numerical), "NumericalFailure 3 why");
  EXPECT_EQ(outcome(ExitCode::bad_input), "BadInput 2 why");
  EXPECT_EQ(outcome(ExitCode::failure), "Error 1 why");
  EXPECT_EQ(outcome(ExitCode::stopped), "Error 4 why");
}

TEST(Agree, an_empty_text_is_agreed_on_too) {
  EXPECT_EQ(thrown_by([] { agree(MPI_COMM_WORLD, world_rank() != 0); }), "BadInput 2 ");
}

TEST(Agree, concerns_the_ranks_of_its_communicator_alone) {
  const int half = world_rank() % 2;
  MPI_Comm split = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(MPI_COMM_WORLD, half, -world_rank(), &split));
  const Communicator comm(split);
  const bool ok =
      half == 1 || mpi::rank(comm) != mpi::size(comm) - 1;  // the last of the even ranks fails: world rank 0
  EXPECT_EQ(thrown_by([&] { agree(comm, ok, "even"); }), half == 1 ? "nothing" : "BadInput 2 even");
}

TEST(Collectively, every_rank_throws_what_one_rank_threw) {
  const int last = world_size() - 1;
  const auto fail_on_the_last = [&](const std::function<void()>& failure) {
    return thrown_by([&] {
      collectively(MPI_COMM_WORLD, [&] {
        if (world_rank() == last) failure();
      });
    });
  };
  EXPECT_EQ(fail_on_the_last([] { throw BadInput("no such file"); }), "BadInput 2 no such file");
  EXPECT_EQ(fail_on_the_last([] { throw NumericalFailure("not finite"); }), "NumericalFailure 3 not finite");
  EXPECT_EQ(fail_on_the_last([] { throw std::runtime_error("disk full"); }), "Error 1 disk full");
  EXPECT_EQ(fail_on_the_last([] { throw std::length_error("too long"); }), "Error 1 too long");
  EXPECT_EQ(fail_on_the_last([] {}), "nothing");
}

TEST(Collectively, each_rank_keeps_its_own_result) {
  EXPECT_EQ(collectively(MPI_COMM_WORLD, [] { return world_rank() * 10; }), world_rank() * 10);
  std::string result = "before";
  EXPECT_EQ(thrown_by([&] {
              result = collectively(MPI_COMM_WORLD, []() -> std::string {
                if (world_rank() == 0) throw BadInput("rank 0 only");
                return "after";
              });
            }),
            "BadInput 2 rank 0 only");
  EXPECT_EQ(result, "before");
}

TEST(RankFailure, goes_on_with_the_messages_that_others_wait_for_and_throws_at_the_end) {
  RankFailure failure;
  int attempts = 0, sum = 0;
  for (int round = 0; round < 3; ++round) {
    failure.attempt([&] {
      ++attempts;
      if (round == 1 && world_rank() == world_size() - 1) throw NumericalFailure("only the last rank");
    });
    const int one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);  // all ranks take part in every round
    EXPECT_EQ(sum, world_size());
  }
  EXPECT_EQ(attempts, world_rank() == world_size() - 1 ? 2 : 3);  // nothing is attempted after a failure
  EXPECT_EQ(thrown_by([&] { failure.share(MPI_COMM_WORLD); }), "NumericalFailure 3 only the last rank");
}

/// Three sums over all ranks, each after an agreement; `between(k)` is called before the k-th of them.
template <class Between>
void three_steps(Between&& between) {
  for (int k = 0; k < 3; ++k) {
    between(k);
    int one = 1;
    collectively(MPI_COMM_WORLD, [] {});
    MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(one, world_size());
  }
}

TEST(AllOrNone, a_rank_that_fails_by_itself_between_two_steps_meets_the_others_at_the_next) {
  const int last = world_size() - 1;
  for (int at = 0; at < 3; ++at)
    for (const int rank : {0, last})
      EXPECT_EQ(thrown_by([&] {
                  all_or_none(MPI_COMM_WORLD, [&] {
                    three_steps([&](int k) {
                      if (k == at && world_rank() == rank) throw std::runtime_error("by itself");
                    });
                  });
                }),
                "Error 1 by itself");
  EXPECT_EQ(thrown_by([&] {  // behind the last step
              all_or_none(MPI_COMM_WORLD, [&] {
                three_steps([](int) {});
                if (world_rank() == last) throw NumericalFailure("only the last rank");
              });
            }),
            "NumericalFailure 3 only the last rank");
}

TEST(AllOrNone, what_was_agreed_within_is_thrown_as_it_is) {
  EXPECT_EQ(thrown_by([] {
              all_or_none(MPI_COMM_WORLD,
                          [] { agree(MPI_COMM_WORLD, world_rank() != 0, "bad", ExitCode::bad_input); });
            }),
            "BadInput 2 bad");
  // Agreed over another communicator, or thrown by all without an agreement.
  for (const auto& throws : {std::function<void()>([] { agree(MPI_COMM_SELF, false, "bad"); }),
                             std::function<void()>([] { throw BadInput("bad"); })})
    EXPECT_EQ(thrown_by([&] { all_or_none(MPI_COMM_WORLD, throws); }), "BadInput 2 bad");
  EXPECT_EQ(thrown_by([] { all_or_none(MPI_COMM_WORLD, [] { three_steps([](int) {}); }); }), "nothing");
}

// Compares the texts of all ranks with that of rank 0.
bool same_on_every_rank(const std::string& text) {
  unsigned long long length = text.size();
  MPI_Bcast(&length, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD);
  std::string first = text;
  first.resize(length);
  MPI_Bcast(first.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD);
  int same = first == text ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return same == 1;
}

TEST(Provenance, is_the_same_on_every_rank) {
  std::string text;
  for (const auto& [name, value] : provenance()) text += name + "=" + value + "\n";
  EXPECT_TRUE(same_on_every_rank(text)) << text;
}

TEST(StopSignals, received_by_one_rank_stop_all) {
  EXPECT_EQ(stop_signal(MPI_COMM_WORLD), 0);
  if (world_rank() == world_size() - 1) std::raise(SIGUSR1);
  EXPECT_EQ(stop_signal(MPI_COMM_WORLD), SIGUSR1);
}

}  // namespace
}  // namespace fluxformer::errors_are_agreed
