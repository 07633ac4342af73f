// A matrix of 4-byte numbers of which each rank passes its rows, however many: the file holds them one below
// the other.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/index_axis.hpp"
#include "tests/support/scratch.hpp"

namespace fluxformer::rows_of_all_ranks_are_one_matrix {
namespace {

using test::rank_in;
using test::size_of;

const MPI_Comm world = MPI_COMM_WORLD;
// Three chunks of a megabyte, the last one not full.
constexpr int rows = 600, columns = 1000;
const io::Variable matrix{"matrix", {"row", "column"}, "", "numbers"};

class RowsOfRanks : public testing::Test {
 protected:
  void SetUp() override {
    clean();
    MPI_Barrier(world);
  }
  void TearDown() override {
    MPI_Barrier(world);
    clean();
  }
  void clean() const {
    if (rank_in(world) != 0) return;
    for (const auto& path : {file_, io::part_path(file_)}) std::filesystem::remove(path);
  }
  static std::vector<float> share(int first, int end) {
    std::vector<float> numbers;
    for (int k = first * columns; k < end * columns; ++k)
      numbers.push_back(std::sqrt(2.0F + static_cast<float>(k)));
    return numbers;
  }
  void write(const std::vector<float>& mine) const {
    io::ArchiveWriter writer(world, file_, false);
    test::index_axis(writer, "row", rows, "row");
    test::index_axis(writer, "column", columns, "column");
    writer.rows("/analysis/test", matrix, mine);
    writer.finish(names::done);
  }

  const std::string file_ = test::scratch("rows.h5").string();
};

TEST_F(RowsOfRanks, are_one_below_the_other) {
  const int ranks = size_of(world), me = rank_in(world);
  write(share(rows * me / ranks, rows * (me + 1) / ranks));
  const auto stored = io::ArchiveReader(world, file_).array("/analysis/test/matrix", {rows, columns}).values;
  const auto expected = share(0, rows);
  EXPECT_EQ(stored, std::vector<double>(expected.begin(), expected.end()));
}

TEST_F(RowsOfRanks, may_all_come_from_the_last_one) {
  write(rank_in(world) == size_of(world) - 1 ? share(0, rows) : std::vector<float>{});
  const auto stored = io::ArchiveReader(world, file_).array("/analysis/test/matrix", {rows, columns}).values;
  const auto expected = share(0, rows);
  EXPECT_EQ(stored, std::vector<double>(expected.begin(), expected.end()));
}

TEST_F(RowsOfRanks, are_refused_where_one_is_missing_or_cut) {
  const bool last = rank_in(world) == size_of(world) - 1;
  EXPECT_THROW(write(last ? share(1, rows) : std::vector<float>{}), std::logic_error);
  std::vector<float> cut = share(0, last ? rows : 0);
  if (last) cut.pop_back();
  EXPECT_THROW(write(cut), std::logic_error);
}

}  // namespace
}  // namespace fluxformer::rows_of_all_ranks_are_one_matrix
