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
    auto& time = writer.growing_axis(coordinate("time", "time", ""));
    auto& step = writer.growing_axis(coordinate("step", "", ""));
    writer.axis(coordinate("depth", "layer", "depth"), {0.5, 1, 1.5, 2});
    test::index_axis(writer, "token", 15, "token");
    test::index_axis(writer, "sample", 2, "sample");
    test::index_axis(writer, "channel", 4, "channel");
    const FieldPart part{.cells = 4,
                         .first_cell = 0,
                         .cell_count = 4,
                         .tokens_x = 5,
                         .tokens_y = 3,
                         .block = {0, 5, 0, 3},
                         .samples = 2,
                         .channels = 4};
    auto& u =
        writer.field({"u", {"time", "depth", "token", "sample", "channel"}, "", "hidden state"}, part, {});
    auto& rate = writer.series("/history", {"rate", {"step", "depth"}, "1/time", "rate"});
    writer.show(u, 1, {0, 3});
    std::vector<double> memory(part.size());
    for (int n = 0; n < 3; ++n) {
      for (Index k = 0; k < std::ssize(memory); ++k)
        memory[k] = static_cast<double>(n * std::ssize(memory) + k) / 7;
      time.append(0.25 * n);
      u.write(n, memory.data());
      step.append(n);
      rate.append(std::vector<double>(4, 1.0));
    }
    writer.write_with_digests("/model/layers/1", {{{"W_Q", names::anonymous_axes({4, 4})}, memory.data()}});
    writer.write("", {"token_x", {"token"}, "", "", true}, std::vector<double>(15, 1));
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
