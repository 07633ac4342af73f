// Places of a study that groups of ranks measure together: the same results on any number of ranks, and a rank
// that fails alone within its group ends the run on all ranks, with the finished places kept.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/mpi.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/study/study.hpp"
#include "io/archive_reader.hpp"
#include "io/checkpoint.hpp"
#include "io/file_names.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/scratch.hpp"

namespace fluxformer::studies_share_their_places {
namespace {

using test::rank_in;
using test::size_of;

const MPI_Comm world = MPI_COMM_WORLD;
constexpr std::size_t places_of_the_study = 7;  // prime: the last round is not full
const io::Variable number{"number", {}, "", "a number of each seed"};

/// Sums over the ranks of a group at each place; the last rank of the group that measures `fails_at` fails
/// alone, and goes on with the sum that the others wait for.
class GroupStudy final : public Study {
 public:
  GroupStudy(int ranks, std::size_t fails_at) : ranks_(ranks), fails_at_(fails_at) {
    const int together = ranks == all_ranks ? size_of(world) : ranks;
    MPI_Comm mine = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(world, rank_in(world) / together, rank_in(world), &mine));
    group_ = Communicator(mine);
  }
  std::string describe() const override { return "groups of ranks"; }
  std::vector<Place> places() const override {
    std::vector<Place> all;
    for (std::size_t seed = 0; seed < places_of_the_study; ++seed)
      all.push_back({.group = "group", .name = "seed " + std::to_string(seed), .index = {{"seed", seed}}});
    return all;
  }
  int ranks_of_place() const override { return ranks_; }
  void begin(StudyRecord& record) override { record.seeds({1, 2, 3, 4, 5, 6, 7}); }
  void measure(const Place& place, Results& to) override {
    const std::size_t seed = place.index.at("seed");
    const int rank = mpi::rank(group_), ranks = mpi::size(group_);
    double share = 0;
    RankFailure failure;
    failure.attempt([&] {
      if (seed == fails_at_ && rank == ranks - 1) throw Error(ExitCode::failure, out_of_memory);
      share = rank == 0 ? 10.0 * static_cast<double>(seed) : 0;
    });
    sum_over_ranks({&share, 1}, group_);
    failure.share(group_);
    to.put(number, {share});
  }

 private:
  int ranks_;
  std::size_t fails_at_;
  Communicator group_;
};

class Places : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test::scratch("places");
    if (rank_in(world) == 0) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
    }
    MPI_Barrier(world);
  }
  void TearDown() override {
    MPI_Barrier(world);
    if (rank_in(world) == 0) std::filesystem::remove_all(folder_);
    MPI_Barrier(world);
  }
  std::string output() const { return (folder_ / "study.h5").string(); }
  Report start(int ranks, std::size_t fails_at = 99) const {
    const auto declare = [](Options& options) {
      options.declare(seed_option("seed"));
      declare_study_run(options, "study.h5");
    };
    const Settings settings(std::make_shared<const Options>(declare), "",
                            {"output.file=" + output(), "output.overwrite=true", "checkpoint.every=0",
                             "checkpoint.restart=auto"});
    RunContext context;
    context.comm = world;
    context.experiment = "paths";
    context.quiet = true;
    return make_study(
               settings, context, {.measures = {number}},
               [&](const Settings&, MPI_Comm) { return std::make_unique<GroupStudy>(ranks, fails_at); })
        ->run();
  }
  std::vector<double> numbers() const {
    return io::ArchiveReader(world, output()).array("/analysis/paths/group/number").values;
  }
  /// Groups that this number of ranks allows: single ranks, all, and pairs.
  static std::vector<int> groups() {
    std::vector<int> all{1, Study::all_ranks, size_of(world)};
    if (size_of(world) % 2 == 0) all.push_back(2);
    return all;
  }

  std::filesystem::path folder_;
};

TEST_F(Places, are_measured_once_by_groups_of_any_size) {
  for (const int ranks : groups()) {
    EXPECT_EQ(start(ranks).code, ExitCode::done);
    EXPECT_THAT(numbers(), testing::ElementsAre(0, 10, 20, 30, 40, 50, 60)) << ranks << " ranks together";
  }
}

TEST_F(Places, of_which_one_fails_on_one_rank_end_the_run_on_all_and_go_on_later) {
  for (const int ranks : groups()) {
    std::string message;
    try {
      start(ranks, 5);
    } catch (const Error& e) {
      message = e.what();
    }
    EXPECT_EQ(message, out_of_memory) << ranks << " ranks together";
    const int at_once = ranks == Study::all_ranks ? 1 : size_of(world) / ranks;
    constexpr io::WholeItem done{"points"};
    if (at_once < 6) {
      EXPECT_EQ(io::CheckpointReader(world, io::checkpoint_path(output())).integer(done),
                5 / at_once * at_once);
    }
    EXPECT_EQ(start(ranks).code, ExitCode::done);
    EXPECT_THAT(numbers(), testing::ElementsAre(0, 10, 20, 30, 40, 50, 60)) << ranks << " ranks together";
    MPI_Barrier(world);
    if (rank_in(world) == 0)
      for (const auto& path :
           {output(), io::checkpoint_path(output()), io::previous_checkpoint_path(output())})
        std::filesystem::remove(path);
    MPI_Barrier(world);
  }
}

}  // namespace
}  // namespace fluxformer::studies_share_their_places
