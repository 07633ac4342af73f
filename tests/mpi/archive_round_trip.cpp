// Files contain exactly what was written, on any number of ranks: whole fields, selections, compressed
// fields, ranks that hold nothing, and checkpoints read with a different layout.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "io/checkpoint.hpp"
#include "io/layout.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/index_axis.hpp"
#include "tests/support/scratch.hpp"

namespace fluxformer::archive_round_trip {
namespace {

using test::rank_in;
using test::size_of;
using test::sum_over;

const MPI_Comm world = MPI_COMM_WORLD;

// The share of one part when `size` items are split into `parts`; later parts get the larger shares, so the
// first may get none.
std::pair<int, int> share(int size, int parts, int part) {
  const int first = size * part / parts;
  return {first, size * (part + 1) / parts - first};
}

// Ranks as depth x (px x py); with more parts than items some ranks hold nothing.
io::FieldPart cut(int pz, int px, int py) {
  const int rank = rank_in(world);
  io::FieldPart part{.cells = 5, .tokens_x = 7, .tokens_y = 3, .block = {}, .samples = 2, .channels = 11};
  std::tie(part.first_cell, part.cell_count) = share(part.cells, pz, rank / (px * py));
  std::tie(part.block.x0, part.block.nx) = share(part.tokens_x, px, rank % px);
  std::tie(part.block.y0, part.block.ny) = share(part.tokens_y, py, rank / px % py);
  return part;
}

std::vector<io::FieldPart> every_cut() {
  std::vector<io::FieldPart> cuts;
  const int size = size_of(world);
  for (int pz = 1; pz <= size; ++pz)
    for (int px = 1; px <= size / pz; ++px)
      if (size % pz == 0 && size / pz % px == 0) cuts.push_back(cut(pz, px, size / pz / px));
  io::FieldPart lonely = cut(size, 1, 1);  // only the last rank holds anything
  lonely.first_cell = 0;
  lonely.cell_count = rank_in(world) == size - 1 ? lonely.cells : 0;
  cuts.push_back(lonely);
  return cuts;
}

// A number that identifies its position; not exact in decimal, so that every bit matters.
double entry(int time, int cell, int token, int sample, int channel) {
  return std::sqrt(2.0 + time + 10 * cell + 100 * token + 10000 * sample + 100000 * channel);
}

std::vector<double> filled(const io::FieldPart& part, int time) {
  std::vector<double> memory;
  for (int cell = part.first_cell; cell < part.first_cell + part.cell_count; ++cell)
    for (int y = part.block.y0; y < part.block.y0 + part.block.ny; ++y)
      for (int x = part.block.x0; x < part.block.x0 + part.block.nx; ++x)
        for (int sample = 0; sample < part.samples; ++sample)
          for (int channel = 0; channel < part.channels; ++channel)
            memory.push_back(entry(time, cell, y * part.tokens_x + x, sample, channel));
  return memory;
}

int differences(const std::vector<double>& one, const std::vector<double>& other) {
  int count = one.size() != other.size();
  for (std::size_t k = 0; k < std::min(one.size(), other.size()); ++k) count += one[k] != other[k];
  return static_cast<int>(sum_over(world, count));
}

// The whole of /field/u at one time, replicated and compared with the expected values on every rank.
int wrong_entries(const io::ArchiveReader& reader, int times, const io::FieldSelection& taken) {
  const io::Array field = reader.array(names::in(names::field, "u"));
  const std::vector<Index> shape = {times, std::ssize(taken.depths), std::ssize(taken.tokens),
                                    std::ssize(taken.samples), std::ssize(taken.channels)};
  if (field.shape != shape) return -1;
  std::size_t at = 0;
  int wrong = 0;
  for (int time = 0; time < times; ++time)
    for (const int cell : taken.depths)
      for (const int token : taken.tokens)
        for (const int sample : taken.samples)
          for (const int channel : taken.channels)
            wrong += field.values[at++] != entry(time, cell, token, sample, channel);
  return wrong;
}

class ArchiveRoundTrip : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test::scratch("archive");
    clean();
    if (rank_in(world) == 0) std::filesystem::create_directories(folder_);
    MPI_Barrier(world);
  }
  void TearDown() override { clean(); }
  void clean() {
    MPI_Barrier(world);
    if (rank_in(world) == 0) std::filesystem::remove_all(folder_);
    MPI_Barrier(world);
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  static io::FieldSelection everything(const io::FieldPart& part) {
    return {io::FieldSelection::every(1, part.cells),
            io::FieldSelection::every(1, part.tokens_x * part.tokens_y),
            io::FieldSelection::every(1, part.samples), io::FieldSelection::every(1, part.channels)};
  }

  void write(const std::string& path, const io::FieldPart& part, const io::FieldSelection& taken, int times,
             int deflate = 0) const {
    io::ArchiveWriter writer(world, path, true);
    auto& times_of_u = writer.growing_axis(io::coordinate("time", "time", ""));
    test::index_axis(writer, "depth", taken.depths.size(), "depth");
    test::index_axis(writer, "token", taken.tokens.size(), "token");
    test::index_axis(writer, "sample", taken.samples.size(), "sample");
    test::index_axis(writer, "channel", taken.channels.size(), "channel");
    auto& u = writer.field({"u", {"time", "depth", "token", "sample", "channel"}, "", "hidden state"}, part,
                           taken, deflate);
    for (int time = 0; time < times; ++time) {
      times_of_u.append(0.5 * time);
      const auto memory = filled(part, time);
      u.write(time, memory.empty() ? nullptr : memory.data());
      writer.flush();
    }
    writer.finish(names::done);
  }

  std::filesystem::path folder_;
};

TEST_F(ArchiveRoundTrip, every_entry_of_a_field_stands_in_its_place_for_every_split) {
  for (const io::FieldPart& part : every_cut()) {
    write(file("a.h5"), part, everything(part), 3);
    const io::ArchiveReader reader(world, file("a.h5"));
    EXPECT_EQ(wrong_entries(reader, 3, everything(part)), 0);
    EXPECT_EQ(reader.text(names::status), names::done);
    EXPECT_EQ(reader.array("/time").values, (std::vector<double>{0, 0.5, 1}));
  }
}

TEST_F(ArchiveRoundTrip, compressed_fields_hold_the_same_entries) {
  const auto cuts = every_cut();
  for (const io::FieldPart& part : {cuts.front(), cuts.back()}) {
    write(file("a.h5"), part, everything(part), 2, 4);
    EXPECT_EQ(wrong_entries(io::ArchiveReader(world, file("a.h5")), 2, everything(part)), 0);
  }
}

TEST_F(ArchiveRoundTrip, a_selection_holds_the_chosen_entries_in_order) {
  for (const io::FieldPart& part : every_cut()) {
    // Tokens without any pattern, so that the file hyperslab is a union of runs.
    const io::FieldSelection taken{
        io::FieldSelection::every(2, 5, 1), {0, 1, 5, 9, 13, 14, 20}, {1}, {2, 3, 10}};
    write(file("a.h5"), part, taken, 2);
    EXPECT_EQ(wrong_entries(io::ArchiveReader(world, file("a.h5")), 2, taken), 0);
  }
}

TEST_F(ArchiveRoundTrip, a_field_written_on_one_split_is_read_on_any_other) {
  write(file("a.h5"), every_cut().front(), everything(every_cut().front()), 2);
  const io::ArchiveReader reader(world, file("a.h5"));
  for (const io::FieldPart& part : every_cut()) {
    std::vector<double> memory(part.size());
    reader.field("/field/u", part, memory.data(), 1);
    EXPECT_EQ(differences(memory, filled(part, 1)), 0);
  }
}

TEST_F(ArchiveRoundTrip, a_checkpoint_gives_back_the_same_bits_on_any_split) {
  const auto cuts = every_cut();
  constexpr io::WholeItem step{"step"};
  constexpr io::RealItem t{"t"};
  constexpr io::NumbersItem stages{"stages"}, u{"u"};
  {
    io::CheckpointWriter writer(world, file("run.h5"));
    writer.put(step, 123456789012L);
    writer.put(t, 0.1 + 0.2);
    writer.put("method", "ssp");
    writer.put(stages, std::vector<double>{1.0 / 3, -0.0, 1e-310});
    writer.put(u, cuts.back(), filled(cuts.back(), 7).data());
    writer.commit();
  }
  const auto reader = io::CheckpointReader::newest(world, file("run.h5"));
  EXPECT_EQ(reader.integer(step), 123456789012L);
  EXPECT_EQ(reader.real(t), 0.1 + 0.2);
  EXPECT_EQ(reader.text("method"), "ssp");
  EXPECT_EQ(reader.numbers(stages, 3), (std::vector<double>{1.0 / 3, -0.0, 1e-310}));
  for (const io::FieldPart& part : cuts) {
    std::vector<double> memory(part.size());
    reader.field(u, part, memory.data());
    EXPECT_EQ(differences(memory, filled(part, 7)), 0);
  }
}

TEST_F(ArchiveRoundTrip, pieces_of_a_list_are_written_once_and_read_by_all_who_hold_them) {
  constexpr Index size = 97;
  const auto number = [](Index place) { return std::sqrt(3.0 + static_cast<double>(place)); };
  // Rank r writes every P-th piece of seven numbers; memory has a gap in front of each.
  const auto pieces = [&](Index first, Index every) {
    io::FlatPart part{.size = size, .pieces = {}};
    Index at = 0;
    for (Index place = 7 * first; place < size; place += 7 * every) {
      const Index count = std::min<Index>(7, size - place);
      part.add({place, count, at + 1});
      at += count + 1;
    }
    return std::pair{part, std::vector<double>(at + 1, -1.0)};
  };
  const Index ranks = size_of(world), rank = rank_in(world);
  auto [mine, memory] = pieces(rank, ranks);
  for (const auto& piece : mine.pieces)
    for (Index j = 0; j < piece.count; ++j) memory[piece.at + j] = number(piece.first + j);
  const io::NumbersItem item{"list"};
  {
    io::CheckpointWriter writer(world, file("list.h5"));
    writer.put(item, mine, memory.data());
    writer.commit();
  }
  const auto reader = io::CheckpointReader::newest(world, file("list.h5"));
  int wrong = 0;
  const auto all = reader.numbers(item, size);
  for (Index place = 0; place < size; ++place) wrong += all[place] != number(place);
  // Others than it wrote, some of them read by several ranks.
  auto [wanted, found] = pieces(rank / 2, (ranks + 1) / 2);
  const Index gaps = std::ssize(found) - wanted.count();
  reader.part(item, wanted, found.data());
  for (const auto& piece : wanted.pieces)
    for (Index j = 0; j < piece.count; ++j) wrong += found[piece.at + j] != number(piece.first + j);
  EXPECT_EQ(std::ranges::count(found, -1.0), gaps);
  EXPECT_EQ(sum_over(world, wrong), 0);
  auto other = wanted;
  other.size = size + 1;
  EXPECT_THROW(reader.part(item, other, found.data()), BadInput);
}

TEST_F(ArchiveRoundTrip, small_arrays_and_words_are_those_of_rank_0_and_known_to_all) {
  const double mine = rank_in(world);
  const std::vector<double> ramp = {mine, mine + 1, mine + 2, mine + 3, mine + 4, mine + 5};
  {
    io::ArchiveWriter writer(world, file("a.h5"), false);
    test::index_axis(writer, "layer", 3, "layer");
    writer.write("/analysis/test", {{{"a", {"extent_2", "layer"}}, ramp},
                                    {{"none", {"extent_0"}}, {}},
                                    {{"whole", {"extent_6"}, "", "", true}, ramp}});
    const double* numbers = rank_in(world) == 0 ? ramp.data() : nullptr;
    writer.write_with_digests("/model", {{{"layers/1/W", names::anonymous_axes({6})}, numbers}});
    writer.words("/model/embedding/vocabulary", {"rank", std::to_string(rank_in(world))}, "words");
    writer.finish(names::done);
  }
  const io::ArchiveReader reader(world, file("a.h5"));
  const std::vector<double> expected = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(reader.array("/analysis/test/a", {2, 3}).values, expected);
  EXPECT_EQ(reader.array("/analysis/test/whole", {6}).values, expected);
  EXPECT_EQ(reader.array("/model/layers/1/W", {6}).values, expected);
  EXPECT_TRUE(reader.array("/analysis/test/none", {0}).values.empty());
  EXPECT_EQ(reader.words("/model/embedding/vocabulary"), (std::vector<std::string>{"rank", "0"}));
}

TEST_F(ArchiveRoundTrip, timings_are_the_extremes_and_the_mean_over_ranks) {
  const int size = size_of(world);
  {
    io::ArchiveWriter writer(world, file("a.h5"), false);
    writer.timing("solve", 1.0 + rank_in(world));
    writer.finish(names::done);
  }
  EXPECT_EQ(io::ArchiveReader(world, file("a.h5")).array("/timing/solve").values,
            (std::vector<double>{1.0, 1.0 + 0.5 * (size - 1), static_cast<double>(size)}));
}

TEST_F(ArchiveRoundTrip, every_rank_meets_bad_input_alike) {
  int refused = 0;
  const auto refuses = [&](const auto& attempt) {
    try {
      attempt();
    } catch (const BadInput&) {
      ++refused;
    }
  };
  refuses([&] { io::ArchiveWriter(world, file("missing/a.h5"), false); });
  refuses([&] { io::ArchiveReader(world, file("missing.h5")); });
  write(file("a.h5"), every_cut().front(), everything(every_cut().front()), 1);
  refuses([&] { io::ArchiveWriter(world, file("a.h5"), false); });
  refuses([&] {
    io::FieldPart wrong = every_cut().front();
    wrong.channels += 1;
    std::vector<double> memory(wrong.size());
    io::ArchiveReader(world, file("a.h5")).field("/field/u", wrong, memory.data(), 0);
  });
  EXPECT_EQ(sum_over(world, refused), 4 * size_of(world));
}

}  // namespace
}  // namespace fluxformer::archive_round_trip
