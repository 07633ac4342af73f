// A disk that fills up while an archive or checkpoint is written gives the same error on every rank, without
// a hang, and leaves earlier files untouched. Needs permission to mount a small tmpfs.

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/error.hpp"
#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "io/checkpoint.hpp"
#include "io/layout.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/index_axis.hpp"
#include "tests/support/scratch.hpp"

namespace fluxformer::a_full_disk_is_one_error {
namespace {

using test::rank_in;
using test::size_of;
using test::sum_over;

const MPI_Comm world = MPI_COMM_WORLD;

class AFullDisk : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test::scratch("full");
    int mounted = 0;
    if (rank_in(world) == 0) {
      ::umount2(folder_.c_str(), MNT_DETACH);
      std::filesystem::create_directories(folder_);
      mounted = ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=16m") == 0;
    }
    MPI_Bcast(&mounted, 1, MPI_INT, 0, world);
    if (!mounted) GTEST_SKIP() << "no right to mount a tmpfs";
  }
  void TearDown() override {
    MPI_Barrier(world);
    if (rank_in(world) == 0) {
      ::umount2(folder_.c_str(), MNT_DETACH);
      std::error_code ignored;
      std::filesystem::remove(folder_, ignored);
    }
    MPI_Barrier(world);
  }

  // A field of 2 MiB per output time, split over depth; with fewer cells than ranks some ranks hold nothing.
  static io::FieldPart part() {
    io::FieldPart part{
        .cells = 4, .tokens_x = 16, .tokens_y = 16, .block = {0, 16, 0, 16}, .samples = 2, .channels = 128};
    part.first_cell = part.cells * rank_in(world) / size_of(world);
    part.cell_count = part.cells * (rank_in(world) + 1) / size_of(world) - part.first_cell;
    return part;
  }

  void archive(const std::string& name, int times, int deflate = 0) const {
    io::ArchiveWriter writer(world, (folder_ / name).string(), true);
    auto& times_of_u = writer.growing_axis({"time"});
    test::index_axis(writer, "depth", 4, "depth");
    test::index_axis(writer, "token", 256, "token");
    test::index_axis(writer, "sample", 2, "sample");
    test::index_axis(writer, "channel", 128, "channel");
    auto& u = writer.field({"u", {"time", "depth", "token", "sample", "channel"}}, part(), {}, deflate);
    std::vector<double> memory(part().size());
    for (std::size_t k = 0; k < memory.size(); ++k)
      memory[k] = 1.0 / (1.0 + static_cast<double>(k * 7919 % 65537));
    for (int time = 0; time < times; ++time) {
      times_of_u.append(time);
      u.write(time, memory.data());
      if (time % 2 == 1) writer.flush();
    }
    writer.finish(names::done);
  }

  void checkpoint(long step) const {
    std::vector<double> memory(part().size(), static_cast<double>(step));
    io::CheckpointWriter writer(world, (folder_ / "run.h5").string());
    writer.put(io::WholeItem{"step"}, step);
    for (const char* name : {"u", "v", "w"}) writer.put(io::NumbersItem{name}, part(), memory.data());
    writer.commit();
  }

  // Whether every rank threw exit code 1 with a message that names the file and the reason.
  template <class Work>
  static bool fails_for_want_of_space(const std::string& file, const Work& work,
                                      const char* reason = "no space left on device") {
    int as_told = 0;
    try {
      work();
    } catch (const Error& e) {
      const std::string message = e.what();
      as_told = e.code() == ExitCode::failure && message.find(file) != std::string::npos &&
                message.find(reason) != std::string::npos;
      if (!as_told) std::cerr << message << '\n';
    }
    return sum_over(world, as_told) == size_of(world);
  }

  std::filesystem::path folder_;
};

TEST_F(AFullDisk, stops_an_archive_and_keeps_the_earlier_one) {
  archive("run.h5", 2);
  for (const int deflate : {0, 1}) {
    EXPECT_TRUE(fails_for_want_of_space("run.h5.part", [&] { archive("run.h5", 40, deflate); }));
    const io::ArchiveReader earlier(world, (folder_ / "run.h5").string());
    EXPECT_EQ(earlier.text(names::status), names::done);
    EXPECT_EQ(earlier.shape("/field/u").front(), 2);
  }
}

TEST_F(AFullDisk, leaves_a_readable_part) {
  EXPECT_TRUE(fails_for_want_of_space("run.h5.part", [&] { archive("run.h5", 40); }));
  const io::ArchiveReader part(world, (folder_ / "run.h5.part").string());
  EXPECT_EQ(part.text(names::status), names::running);
  EXPECT_GE(part.shape("/field/u").front(), 4);  // 16 MiB hold four of 2 MiB plus margins
  const io::Array last = part.array("/field/u");
  EXPECT_EQ(last.values.front(), 1.0);
}

TEST_F(AFullDisk, stops_a_checkpoint_and_keeps_the_earlier_one) {
  checkpoint(1);
  EXPECT_TRUE(fails_for_want_of_space("run.checkpoint.h5.part", [&] {
    for (long step = 2; step < 5; ++step) checkpoint(step);
  }));
  const auto newest = io::CheckpointReader::newest(world, (folder_ / "run.h5").string());
  const long step = newest.integer({"step"});
  EXPECT_GE(step, 1);
  std::vector<double> memory(part().size());
  newest.field(io::NumbersItem{"w"}, part(), memory.data());
  int wrong = 0;
  for (const double value : memory) wrong += value != static_cast<double>(step);
  EXPECT_EQ(sum_over(world, wrong), 0);
}

TEST_F(AFullDisk, is_told_even_before_the_first_byte) {
  if (rank_in(world) == 0) std::ofstream(folder_ / "filler") << std::string(17U << 20, 'x');
  MPI_Barrier(world);
  EXPECT_TRUE(fails_for_want_of_space("run.h5", [&] { archive("run.h5", 1); }));
  if (rank_in(world) == 0) std::filesystem::remove(folder_ / "filler");
}

// One rank may have another limit than rank 0, which reserves the space.
TEST_F(AFullDisk, and_the_limit_of_any_rank_are_alike) {
  archive("run.h5", 1);
  for (const int rank : {0, size_of(world) - 1}) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit limit{rlim_t{7} << 20, before.rlim_max};
    if (rank_in(world) == rank) ::setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT_TRUE(fails_for_want_of_space(
        "run.h5.part", [&] { archive("run.h5", 5); }, "ulimit -f"));
    if (rank_in(world) == rank) ::setrlimit(RLIMIT_FSIZE, &before);
    MPI_Barrier(world);
  }
  EXPECT_EQ(io::ArchiveReader(world, (folder_ / "run.h5").string()).shape("/field/u").front(), 1);
}

}  // namespace
}  // namespace fluxformer::a_full_disk_is_one_error
