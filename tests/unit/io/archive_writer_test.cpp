// The life cycle of an output file, and what may be written to it.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "base/error.hpp"
#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "io/layout.hpp"
#include "tests/support/index_axis.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::io {
namespace {

using test::complaint;
using testing::HasSubstr;

const MPI_Comm self = MPI_COMM_SELF;

class ArchiveFile : public test::InAFolder {
 protected:
  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::string content(const std::string& name) const {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Whether the file system of the folder reserves space beyond the end of a file.
  bool reserves_space() const {
    const int descriptor = ::open(file("reserved").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    const bool accepted = ::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, 1 << 20) == 0;
    ::close(descriptor);
    return accepted && surplus("reserved") >= little;
  }
};

TEST_F(ArchiveFile, has_its_name_only_once_it_is_finished) {
  {
    ArchiveWriter writer(self, file("a.h5"), false);
    EXPECT_FALSE(exists("a.h5"));
    EXPECT_TRUE(exists("a.h5.part"));
    writer.finish(names::done);
    EXPECT_TRUE(exists("a.h5"));
    EXPECT_FALSE(exists("a.h5.part"));
  }
  EXPECT_EQ(ArchiveReader(self, file("a.h5")).text(names::status), names::done);
}

TEST_F(ArchiveFile, left_unfinished_stays_a_part_and_says_running) {
  put("a.h5", "an earlier result");
  {
    ArchiveWriter writer(self, file("a.h5"), true);
    writer.attribute(names::experiment, "evolve");
  }
  EXPECT_EQ(content("a.h5"), "an earlier result");
  EXPECT_EQ(ArchiveReader(self, file("a.h5.part")).text(names::status), names::running);
}

TEST_F(ArchiveFile, gives_back_the_space_reserved_beyond_its_end) {
  if (!reserves_space()) GTEST_SKIP() << "this file system reserves no space";
  const std::vector<double> million(1 << 20, 0.5);
  const auto write = [&](const std::string& name) {
    auto writer = std::make_unique<ArchiveWriter>(self, file(name), true);
    writer->write("/analysis/test", {"values", {"extent_1048576"}}, million);
    return writer;
  };
  {
    const auto unfinished = write("a.h5");
    unfinished->flush();
    EXPECT_GE(surplus("a.h5.part"), little);
  }
  EXPECT_LT(surplus("a.h5.part"), little);
  for (const std::string word : {names::done, names::interrupted}) {
    write("a.h5")->finish(word);
    EXPECT_LT(surplus(word == names::done ? "a.h5" : "a.interrupted.h5"), little);
  }
  write_text_file(self, file("a.xdmf"), "short");
  EXPECT_LT(surplus("a.xdmf"), little);
  EXPECT_EQ(ArchiveReader(self, file("a.h5")).array("/analysis/test/values").values, million);
}

TEST_F(ArchiveFile, is_not_overwritten_unless_that_was_asked_for) {
  put("a.h5", "an earlier result");
  const std::string message = complaint<BadInput>([&] { ArchiveWriter(self, file("a.h5"), false); });
  EXPECT_THAT(message, HasSubstr("a.h5 exists"));
  EXPECT_THAT(message, HasSubstr("output.overwrite"));
  EXPECT_EQ(content("a.h5"), "an earlier result");
  EXPECT_FALSE(exists("a.h5.part"));
  ArchiveWriter(self, file("a.h5"), true).finish(names::done);
  EXPECT_EQ(ArchiveReader(self, file("a.h5")).text(names::status), names::done);
}

TEST_F(ArchiveFile, of_a_run_that_did_not_complete_never_replaces_what_is_not_like_it) {
  const auto finished = [&](const std::string& status) {
    return ArchiveWriter(self, file("a.h5"), true).finish(status);
  };
  const auto status_of = [&](const std::string& name) {
    return ArchiveReader(self, file(name)).text(names::status);
  };
  EXPECT_EQ(finished(names::failed), file("a.h5"));
  EXPECT_EQ(finished(names::interrupted), file("a.h5"));
  EXPECT_EQ(status_of("a.h5"), names::interrupted);
  EXPECT_EQ(finished(names::done), file("a.h5"));
  for (const std::string word : {names::failed, names::interrupted}) {
    EXPECT_EQ(finished(word), file("a." + word + ".h5"));
    EXPECT_EQ(status_of("a." + word + ".h5"), word);
  }
  EXPECT_EQ(status_of("a.h5"), names::done);
  put("a.h5", "of another program");
  EXPECT_EQ(finished(names::failed), file("a.failed.h5"));
  EXPECT_EQ(content("a.h5"), "of another program");
  EXPECT_FALSE(exists("a.h5.part"));
}

TEST_F(ArchiveFile, leaves_no_part_if_nothing_was_written) {
  { const PartFile part(self, file("a.h5"), false); }
  EXPECT_FALSE(exists("a.h5.part"));
}

TEST_F(ArchiveFile, does_not_replace_a_file_that_appeared_during_the_run) {
  ArchiveWriter writer(self, file("a.h5"), false);
  put("a.h5", "of another run");
  EXPECT_THAT(complaint<Error>([&] { writer.finish(names::done); }), HasSubstr("appeared during the run"));
  EXPECT_EQ(content("a.h5"), "of another run");
  EXPECT_EQ(ArchiveReader(self, file("a.h5.part")).text(names::status), names::done);
}

TEST_F(ArchiveFile, that_one_run_writes_is_refused_to_a_second) {
  ArchiveWriter first(self, file("a.h5"), true);
  first.attribute(names::experiment, "first");
  EXPECT_THAT(complaint<BadInput>([&] { ArchiveWriter(self, file("a.h5"), true); }),
              HasSubstr("another run"));
  first.finish(names::done);
  EXPECT_EQ(ArchiveReader(self, file("a.h5")).text(names::experiment), "first");
  ArchiveWriter(self, file("a.h5"), true).finish(names::done);  // and released again
}

TEST_F(ArchiveFile, whose_part_was_replaced_is_told_and_leaves_the_new_one_alone) {
  ArchiveWriter first(self, file("a.h5"), true);
  std::filesystem::remove(file("a.h5.part"));  // as a second run would on a file system without locks
  ArchiveWriter second(self, file("a.h5"), true);
  second.attribute(names::experiment, "second");
  EXPECT_THAT(complaint<Error>([&] { first.finish(names::done); }), HasSubstr("another run"));
  second.finish(names::done);
  EXPECT_EQ(ArchiveReader(self, file("a.h5")).text(names::experiment), "second");
}

TEST_F(ArchiveFile, that_cannot_be_written_is_bad_input_before_the_run) {
  EXPECT_THAT(complaint<BadInput>([&] { ArchiveWriter(self, file("no/a.h5"), false); }),
              HasSubstr("cannot write in folder " + file("no") + ": No such file"));
  put("plain", "");
  EXPECT_THAT(complaint<BadInput>([&] { ArchiveWriter(self, file("plain/a.h5"), false); }),
              HasSubstr("Not a directory"));
  EXPECT_THAT(complaint<BadInput>([&] { ArchiveWriter(self, folder_.string(), true); }),
              HasSubstr("not a regular file"));
}

TEST_F(ArchiveFile, keeps_attributes_of_any_length_and_the_last_value) {
  const std::string deck(200000, 'x');  // beyond the 64 KiB of an HDF5 object header
  const double third = 1.0 / 3;
  {
    ArchiveWriter writer(self, file("a.h5"), false);
    writer.attribute(names::deck, deck + "κ = ½");
    writer.attribute(names::seed, std::numeric_limits<long>::max());
    writer.attribute("empty", "");
    writer.attribute("third", 1.0);
    writer.attribute("third", third);
    writer.attribute("kind", "transformer", "/model");
    writer.finish(names::done);
  }
  const ArchiveReader reader(self, file("a.h5"));
  EXPECT_EQ(reader.text(names::deck), deck + "κ = ½");
  EXPECT_EQ(reader.integer(names::seed), std::numeric_limits<long>::max());
  EXPECT_EQ(reader.text("empty"), "");
  EXPECT_EQ(reader.real("third"), third);
  EXPECT_EQ(reader.real(names::seed), static_cast<double>(std::numeric_limits<long>::max()));
  EXPECT_EQ(reader.text("kind", "/model"), "transformer");
  EXPECT_FALSE(reader.has_attribute(names::host));
}

TEST_F(ArchiveFile, keeps_arrays_of_any_shape) {
  const std::vector<double> six = {1, 2, 3, 4, 5, 1.0 / 7};
  const std::string layer = "/model/layers/" + std::to_string(12);
  {
    ArchiveWriter writer(self, file("a.h5"), false);
    writer.write(layer, {"W_1", {"extent_2", "extent_3"}}, six);
    writer.write(layer, {"kappa"}, {six.front()});
    writer.write(layer, {"b_1", {"extent_0"}}, {});
    writer.write("/model/embedding", {"W", names::anonymous_axes({1, 6, 1})}, six);
    writer.write("", {"token_x", {"extent_3"}, "", "column", true}, {1, 2, 3});
    writer.finish(names::done);
  }
  const ArchiveReader reader(self, file("a.h5"));
  EXPECT_EQ(reader.array("/model/layers/12/W_1", {2, 3}).values, six);
  EXPECT_EQ(reader.array("/model/layers/12/kappa", {}).values, std::vector<double>{1});
  EXPECT_EQ(reader.array("/model/layers/12/b_1").values, std::vector<double>{});
  EXPECT_EQ(reader.array("/model/embedding/W").shape, (std::vector<Index>{1, 6, 1}));
  EXPECT_EQ(reader.array("/token_x").values, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(reader.children(layer), (std::vector<std::string>{"W_1", "b_1", "kappa"}));
  EXPECT_FALSE(reader.has("/model/layers/13/W_1"));
}

TEST_F(ArchiveFile, holds_the_arrays_of_a_hundred_layers) {
  // 1700 arrays share a few dimension scales, whose reference lists exceed the size of an object header.
  const std::vector<double> weights(16, 0.25);
  {
    ArchiveWriter writer(self, file("a.h5"), false);
    for (int l = 1; l <= 100; ++l)
      for (const char* name : {"W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O", "W_1", "b_1", "W_2",
                               "b_2", "norm1_gain", "norm1_bias", "norm2_gain", "norm2_bias", "kappa"})
        writer.write("/model/layers/" + std::to_string(l), {name, names::anonymous_axes({4, 4})}, weights);
    writer.finish(names::done);
  }
  EXPECT_EQ(ArchiveReader(self, file("a.h5")).array("/model/layers/100/kappa", {4, 4}).values, weights);
}

TEST_F(ArchiveFile, keeps_words_of_any_length_and_alphabet) {
  const std::vector<std::string> words = {"the", "", "naïve", "語", std::string(300, 'x'), "two words "};
  {
    ArchiveWriter writer(self, file("a.h5"), false);
    writer.words("/model/embedding/vocabulary", words, "vocabulary");
    writer.words("/analysis/none", {}, "nothing");
    EXPECT_THROW(writer.words("/analysis/zero", {std::string("a\0b", 3)}, ""), std::logic_error);
    writer.finish(names::done);
  }
  const ArchiveReader reader(self, file("a.h5"));
  EXPECT_EQ(reader.words("/model/embedding/vocabulary"), words);
  EXPECT_TRUE(reader.words("/analysis/none").empty());
}

TEST_F(ArchiveFile, series_grow_by_whole_rows_however_they_are_flushed) {
  {
    ArchiveWriter writer(self, file("a.h5"), false);
    auto& steps = writer.growing_axis({"step"});
    test::index_axis(writer, "depth", 3, "depth");
    auto& rate = writer.series("/history", {"rate", {"step", "depth"}, "1/time", "rate of change"});
    for (int step = 0; step < 5000; ++step) {
      steps.append(step);
      rate.append(std::vector<double>{0.1 * step, 0.2 * step, 0.3 * step});
      if (step == 17 || step == 18) writer.flush();
    }
    writer.finish(names::done);
  }
  const ArchiveReader reader(self, file("a.h5"));
  const Array rate = reader.array("/history/rate", {5000, 3});
  const Array steps = reader.array("/step", {5000});
  int wrong = 0;
  for (std::size_t step = 0; step < 5000; ++step)
    for (std::size_t k = 0; k < 3; ++k)
      wrong += rate.values[3 * step + k] != 0.1 * static_cast<double>(k + 1) * static_cast<double>(step) &&
               std::abs(rate.values[3 * step + k] / (0.1 * static_cast<double>((k + 1) * step)) - 1) > 1e-15;
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(steps.values[4321], 4321);
  EXPECT_EQ(reader.text(names::unit, "/history/rate"), "1/time");
}

TEST_F(ArchiveFile, refuses_what_the_format_does_not_allow) {
  ArchiveWriter writer(self, file("a.h5"), false);
  auto& time = writer.growing_axis({"time"});
  test::index_axis(writer, "depth", 2, "depth");
  const FieldPart part{.cells = 2, .first_cell = 0, .cell_count = 2, .block = {0, 1, 0, 1}};
  const std::vector<std::string> axes = {"time", "depth", "depth", "depth", "depth"};
  const auto refused = [](const auto& work) { return complaint<std::logic_error>(work); };
  EXPECT_THAT(refused([&] { writer.axis({"depth"}, {1}); }), HasSubstr("twice"));
  EXPECT_THAT(refused([&] {
                writer.write("", {"x", {"nowhere"}}, {1, 1});
              }),
              HasSubstr("no axis named nowhere"));
  EXPECT_THAT(refused([&] { writer.write("", {"x", {"depth"}}, {1}); }), HasSubstr("2 points"));
  EXPECT_THAT(refused([&] { writer.write("", {"x", {"time"}}, {}); }), HasSubstr("axis time of /x grows"));
  EXPECT_THAT(refused([&] { writer.words("/x", {"a"}, "", {"depth"}); }), HasSubstr("not as long"));
  EXPECT_THAT(refused([&] { writer.series("", {"x", {"depth"}, "", ""}); }), HasSubstr("does not grow"));
  EXPECT_THAT(refused([&] { time.append(std::vector<double>{1, 1}); }), HasSubstr("row"));
  EXPECT_THAT(refused([&] { writer.field({"u", axes, "", ""}, part, {}); }), HasSubstr("not as long"));
  EXPECT_THAT(complaint<BadInput>([&] {
                writer.field({"u", axes, "", ""}, part, {.depths = {0, 2}});
              }),
              HasSubstr("depth cell 2"));
  EXPECT_THAT(complaint<BadInput>([&] {
                writer.field({"u", axes, "", ""}, part, {.depths = {1, 0}});
              }),
              HasSubstr("out of order"));
}

TEST_F(ArchiveFile, has_no_gaps_in_time) {
  ArchiveWriter writer(self, file("a.h5"), false);
  writer.growing_axis({"time"});
  test::index_axis(writer, "one", 1, "");
  const FieldPart part{.cells = 1, .first_cell = 0, .cell_count = 1, .block = {0, 1, 0, 1}};
  auto& u = writer.field({"u", {"time", "one", "one", "one", "one"}}, part, {});
  const double value = 1;
  EXPECT_THAT(complaint<std::logic_error>([&] { u.write(1, &value); }), HasSubstr("gap"));
}

}  // namespace
}  // namespace fluxformer::io
