// Other programs can read the files: xarray as netCDF-4, ParaView through the XDMF side-car file.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "io/archive_writer.hpp"
#include "io/layout.hpp"
#include "io/xdmf.hpp"
#include "tests/support/index_axis.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::io {
namespace {

class Strangers : public test::InAFolder {
 protected:
  // The sample that tests/support/read_as_stranger.py expects.
  void write_sample(const std::string& path) const {
    ArchiveWriter writer(MPI_COMM_SELF, path, true);
    writer.attribute(names::deck, "κ = ½\n");
    writer.axis({.name = "time", .values = {}, .unit = "time", .growing = true});
    writer.axis({.name = "step", .values = {}, .growing = true});
    writer.axis({.name = "depth", .values = {0.5, 1, 1.5, 2}, .unit = "layer", .long_name = "depth"});
    writer.axis(test::index_axis("token", 15, "token"));
    writer.axis(test::index_axis("sample", 2, "sample"));
    writer.axis(test::index_axis("channel", 4, "channel"));
    const FieldPart part{.cells = 4,
                         .first_cell = 0,
                         .cell_count = 4,
                         .tokens_x = 5,
                         .tokens_y = 3,
                         .block = {0, 5, 0, 3},
                         .samples = 2,
                         .channels = 4};
    writer.field({"u", {"time", "depth", "token", "sample", "channel"}, "", "hidden state"}, part, {});
    writer.series("/history", {"rate", {"step", "depth"}, "1/time", "rate"});
    writer.show({.field = "u", .sample = 1, .channels = {0, 3}});
    std::vector<double> memory(part.size());
    for (std::size_t time = 0; time < 3; ++time) {
      for (std::size_t k = 0; k < memory.size(); ++k)
        memory[k] = static_cast<double>(time * memory.size() + k) / 7;
      writer.append("/time", 0.25 * static_cast<double>(time));
      writer.write("u", time, memory.data());
      writer.append("/step", static_cast<double>(time));
      writer.append("/history/rate", std::vector<double>(4, 1.0));
    }
    writer.array("/model/layers/1/W_Q", {4, 4}, memory.data());
    writer.array("/token_x", {15}, std::vector<double>(15, 1).data(), {.whole_numbers = true}, {"token"});
    writer.words("/model/embedding/vocabulary", {"the", "naïve", ""}, "vocabulary");
    writer.timing("solve", 1);
    writer.finish(names::done);
  }
};

TEST_F(Strangers, read_archives_with_xarray_and_the_side_car_with_an_xml_reader) {
  write_sample(file("sample.h5"));
  // Debian's Python has Debian's modules; another one may come first on PATH.
  const std::string python = std::filesystem::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
  const int status = std::system(
      (python + " '" FLUXFORMER_SOURCE_DIR "/tests/support/read_as_stranger.py' '" + file("sample.h5") + "'")
          .c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "xarray or h5netcdf is missing";
  EXPECT_EQ(status, 0);
}

TEST(SideCar, escapes_names_and_ends_where_the_field_ends) {
  const std::string text = xdmf_document({.file = "a&b.h5",
                                          .times = {0, 1, 2},
                                          .depths = {1},
                                          .tokens_x = 2,
                                          .tokens_y = 1,
                                          .scalars = {{"<u>", "/field/u", {2, 1, 2, 1, 1}, 0, 0}}});
  EXPECT_NE(text.find("a&amp;b.h5:/field/u"), std::string::npos);
  EXPECT_NE(text.find("Name=\"&lt;u&gt;\""), std::string::npos);
  std::size_t scalars = 0;
  for (auto at = text.find("<Attribute"); at != std::string::npos; at = text.find("<Attribute", at + 1))
    ++scalars;
  EXPECT_EQ(scalars, 2U);  // the field has two of the three times
}

}  // namespace
}  // namespace fluxformer::io
