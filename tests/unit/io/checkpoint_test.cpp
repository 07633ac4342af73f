// Two generations of checkpoints, one of which is complete whenever the program dies.

#include "io/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "base/error.hpp"
#include "io/archive_writer.hpp"
#include "io/layout.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::io {
namespace {

using test::complaint;
using testing::AllOf;
using testing::HasSubstr;

constexpr WholeItem steps{"step", 0, 1000};
constexpr RealItem rate{"rate", 0, 1};
constexpr NumbersItem list{"list"}, positive{.name = "list", .least = 0}, absent{"u"};

class Checkpoints : public test::InAFolder {
 protected:
  void save(long step) const {
    CheckpointWriter writer(MPI_COMM_SELF, file("run.h5"));
    writer.put(steps, step);
    writer.put(rate, 0.25);
    writer.put("method", "ssp of order three, as the deck says");
    writer.put(list, std::vector<double>(1000, -1.5));
    writer.commit();
  }
  long newest() const { return CheckpointReader::newest(MPI_COMM_SELF, file("run.h5")).integer(steps); }
};

TEST_F(Checkpoints, stand_beside_the_output_in_two_generations) {
  save(1);
  EXPECT_TRUE(exists("run.checkpoint.h5"));
  EXPECT_FALSE(exists("run.checkpoint.previous.h5"));
  save(2);
  save(3);
  EXPECT_EQ(newest(), 3);
  EXPECT_EQ(CheckpointReader(MPI_COMM_SELF, file("run.checkpoint.previous.h5")).integer(steps), 2);
  EXPECT_FALSE(exists("run.checkpoint.h5.part"));
}

TEST_F(Checkpoints, give_back_the_space_reserved_beyond_their_end) {
  save(1);
  save(2);
  EXPECT_LT(surplus("run.checkpoint.h5"), little);
  EXPECT_LT(surplus("run.checkpoint.previous.h5"), little);
}

TEST_F(Checkpoints, interrupted_while_written_do_not_count) {
  save(1);
  {
    CheckpointWriter writer(MPI_COMM_SELF, file("run.h5"));
    writer.put(steps, 2);
  }
  EXPECT_TRUE(exists("run.checkpoint.h5.part"));
  EXPECT_EQ(newest(), 1);
  EXPECT_THAT(complaint<BadInput>([&] { CheckpointReader(MPI_COMM_SELF, file("run.checkpoint.h5.part")); }),
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
  ArchiveWriter(MPI_COMM_SELF, file("run.h5"), false).finish(names::done);
  EXPECT_THAT(complaint<BadInput>([&] { CheckpointReader(MPI_COMM_SELF, file("run.h5")); }),
              HasSubstr("not a checkpoint"));
}

TEST_F(Checkpoints, name_what_they_do_not_hold) {
  save(1);
  const CheckpointReader reader(MPI_COMM_SELF, file("run.checkpoint.h5"));
  EXPECT_THAT(complaint<BadInput>([&] { reader.numbers(absent, 3); }),
              AllOf(HasSubstr("run.checkpoint.h5"), HasSubstr("no /state/u")));
  EXPECT_THAT(complaint<BadInput>([&] { reader.real({"t"}); }), HasSubstr("no attribute t"));
}

TEST_F(Checkpoints, refuse_what_an_item_cannot_be) {
  save(1001);
  const CheckpointReader reader(MPI_COMM_SELF, file("run.checkpoint.h5"));
  const auto refused = [](const auto& work) { return complaint<BadInput>(work); };
  EXPECT_THAT(refused([&] { reader.integer(steps); }), HasSubstr("step = 1001 is out of range"));
  EXPECT_THAT(refused([&] { reader.real({"rate", 0.5}); }), HasSubstr("rate = 0.25"));
  EXPECT_THAT(refused([&] { reader.integer({"rate"}); }), HasSubstr("not a whole number"));
  EXPECT_THAT(refused([&] { reader.numbers(list, 999); }), HasSubstr("is 1000, expected 999"));
  EXPECT_THAT(refused([&] { reader.numbers(positive, 1000); }), HasSubstr("list holds -1.5"));
  EXPECT_THAT(refused([&] { reader.rows(list, 7); }), HasSubstr("rows of 7 numbers"));
  EXPECT_EQ(reader.rows(list, 8).size(), 1000);
}

TEST_F(Checkpoints, hold_numbers_that_are_not_finite_for_items_that_can_be_so) {
  const double none = std::numeric_limits<double>::quiet_NaN(),
               much = std::numeric_limits<double>::infinity();
  {
    CheckpointWriter writer(MPI_COMM_SELF, file("run.h5"));
    writer.put(NumbersItem{"nans"}, {1, none});
    writer.put(NumbersItem{"infinite"}, {-much, 1, much});
    writer.commit();
  }
  const CheckpointReader reader(MPI_COMM_SELF, file("run.checkpoint.h5"));
  EXPECT_TRUE(std::isnan(reader.numbers({.name = "nans", .can_be_nan = true}, 2)[1]));
  EXPECT_EQ(reader.numbers({.name = "infinite", .can_be_infinite = true}, 3),
            (std::vector<double>{-much, 1, much}));
  for (const NumbersItem& item : {NumbersItem{"nans"}, NumbersItem{.name = "nans", .can_be_infinite = true}})
    EXPECT_THAT(complaint<BadInput>([&] { reader.numbers(item, 2); }), HasSubstr("nans holds"));
  for (const NumbersItem& item :
       {NumbersItem{"infinite"}, NumbersItem{.name = "infinite", .can_be_nan = true}})
    EXPECT_THAT(complaint<BadInput>([&] { reader.numbers(item, 3); }), HasSubstr("infinite holds"));
}

// Every byte matters: what was changed is found when the checkpoint is opened, or HDF5 finds it, or it was
// not used.
TEST_F(Checkpoints, changed_anywhere_are_not_used) {
  save(1);
  save(2);
  std::ifstream stream(folder_ / "run.checkpoint.h5", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), {});
  const auto at = whole.find(std::string("\0\0\0\0\0\0\xF8\xBF", 8));
  ASSERT_NE(at, std::string::npos) << "the numbers -1.5";
  int used = 0, older = 0;
  for (std::size_t place = 0; place < whole.size(); place += 193) {
    auto damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x10);
    std::ofstream(folder_ / "run.checkpoint.h5", std::ios::binary) << damaged;
    const auto reader = CheckpointReader::newest(MPI_COMM_SELF, file("run.h5"));
    EXPECT_EQ(reader.newer_failed().empty(), reader.integer(steps) == 2);
    EXPECT_EQ(reader.numbers(list, 1000), std::vector<double>(1000, -1.5)) << place;
    EXPECT_EQ(reader.text("method"), "ssp of order three, as the deck says") << place;
    EXPECT_EQ(reader.real(rate), 0.25);
    ++(reader.integer(steps) == 2 ? used : older);
    const bool in_numbers = place >= at && place < at + 8000;
    EXPECT_TRUE(!in_numbers || reader.integer(steps) == 1) << place;
  }
  EXPECT_GT(older, 40);
}

TEST_F(Checkpoints, say_why_the_newest_is_not_used) {
  save(1);
  save(2);
  std::filesystem::resize_file(folder_ / "run.checkpoint.h5", 1000);
  const auto reader = CheckpointReader::newest(MPI_COMM_SELF, file("run.h5"));
  EXPECT_THAT(reader.newer_failed(), AllOf(HasSubstr("run.checkpoint.h5"), HasSubstr("truncated")));
  EXPECT_EQ(reader.path(), file("run.checkpoint.previous.h5"));
}

}  // namespace
}  // namespace fluxformer::io
