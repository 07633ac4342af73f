// Two generations of checkpoints, one of which is complete whenever the program dies.

#include "io/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "io/archive_writer.hpp"
#include "io/layout.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::io {
namespace {

using test::complaint;
using testing::AllOf;
using testing::HasSubstr;

const MPI_Comm self = MPI_COMM_SELF;

class Checkpoints : public test::InAFolder {
 protected:
  void save(long step) const {
    CheckpointWriter writer(self, file("run.h5"));
    writer.put("step", step);
    writer.commit();
  }
  long newest() const { return CheckpointReader::newest(self, file("run.h5")).integer("step"); }
};

TEST_F(Checkpoints, stand_beside_the_output_in_two_generations) {
  save(1);
  EXPECT_TRUE(exists("run.checkpoint.h5"));
  EXPECT_FALSE(exists("run.checkpoint.previous.h5"));
  save(2);
  save(3);
  EXPECT_EQ(newest(), 3);
  EXPECT_EQ(CheckpointReader(self, file("run.checkpoint.previous.h5")).integer("step"), 2);
  EXPECT_FALSE(exists("run.checkpoint.h5.part"));
}

TEST_F(Checkpoints, interrupted_while_written_do_not_count) {
  save(1);
  {
    CheckpointWriter writer(self, file("run.h5"));
    writer.put("step", 2L);
  }
  EXPECT_TRUE(exists("run.checkpoint.h5.part"));
  EXPECT_EQ(newest(), 1);
  EXPECT_THAT(complaint<BadInput>([&] { CheckpointReader(self, file("run.checkpoint.h5.part")); }),
              HasSubstr("incomplete"));
  save(3);  // a left-over part file does not get in the way
  EXPECT_EQ(newest(), 3);
}

TEST_F(Checkpoints, fall_back_to_the_previous_generation) {
  save(1);
  save(2);
  std::filesystem::resize_file(folder_ / "run.checkpoint.h5",
                               std::filesystem::file_size(folder_ / "run.checkpoint.h5") / 2);
  EXPECT_EQ(newest(), 1);
  std::filesystem::remove(folder_ / "run.checkpoint.h5");  // died between the two renames
  EXPECT_EQ(newest(), 1);
  std::filesystem::remove(folder_ / "run.checkpoint.previous.h5");
  EXPECT_THAT(complaint<BadInput>([&] { newest(); }),
              AllOf(HasSubstr("run.checkpoint.h5: no such file"),
                    HasSubstr("run.checkpoint.previous.h5: no such file")));
}

TEST_F(Checkpoints, are_not_taken_for_archives_nor_archives_for_them) {
  ArchiveWriter(self, file("run.h5"), false).finish(names::done);
  EXPECT_THAT(complaint<BadInput>([&] { CheckpointReader(self, file("run.h5")); }),
              HasSubstr("not a checkpoint"));
}

TEST_F(Checkpoints, name_what_they_do_not_hold) {
  save(1);
  const CheckpointReader reader(self, file("run.checkpoint.h5"));
  EXPECT_TRUE(reader.has("step"));
  EXPECT_FALSE(reader.has("u"));
  EXPECT_THAT(complaint<BadInput>([&] { reader.numbers("u"); }), HasSubstr("no /state/u"));
  EXPECT_THAT(complaint<BadInput>([&] { reader.real("t"); }), HasSubstr("no attribute t"));
}

}  // namespace
}  // namespace fluxformer::io
