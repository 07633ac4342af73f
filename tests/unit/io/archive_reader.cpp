// Unreadable files are refused as bad input, with a message that names the file and the reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.hpp"
#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "io/hdf5/handles.hpp"
#include "io/layout.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::io {
namespace {

using test::complaint;
using testing::AllOf;
using testing::HasSubstr;

const MPI_Comm self = MPI_COMM_SELF;

class ArchiveReading : public test::InAFolder {
 protected:
  std::string opening(const std::string& name) const {
    return complaint<BadInput>([&] { ArchiveReader(self, file(name)); });
  }
  void write(const std::string& name, const AttributeValue& version = schema_version) const {
    const std::vector<double> values(100000, 1.5);
    ArchiveWriter writer(self, file(name), true);
    writer.attribute(names::version, version);
    writer.array("/analysis/test/values", {10, 10000}, values.data());
    writer.finish(names::done);
  }
};

TEST_F(ArchiveReading, refuses_a_missing_file_and_a_folder) {
  EXPECT_THAT(opening("a.h5"), AllOf(HasSubstr(file("a.h5")), HasSubstr("no such file")));
  EXPECT_THAT(complaint<BadInput>([&] { ArchiveReader(self, folder_.string()); }), HasSubstr("is a folder"));
}

TEST_F(ArchiveReading, refuses_what_is_not_hdf5) {
  std::ofstream(folder_ / "text.h5") << std::string(4096, 'x');
  std::ofstream(folder_ / "empty.h5") << "";
  EXPECT_THAT(opening("text.h5"), AllOf(HasSubstr("text.h5"), HasSubstr("cannot be read as HDF5")));
  EXPECT_THAT(opening("empty.h5"), HasSubstr("cannot be read as HDF5"));
}

TEST_F(ArchiveReading, refuses_a_truncated_file) {
  write("a.h5");
  const auto size = std::filesystem::file_size(folder_ / "a.h5");
  for (const double kept : {0.999, 0.5, 0.01}) {
    write("a.h5");
    std::filesystem::resize_file(folder_ / "a.h5",
                                 static_cast<std::uintmax_t>(kept * static_cast<double>(size)));
    EXPECT_THAT(opening("a.h5"), HasSubstr("truncated")) << kept;
  }
}

TEST_F(ArchiveReading, refuses_a_file_of_another_program) {
  {
    const FileHandle foreign(H5Fcreate(file("foreign.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  }
  EXPECT_THAT(opening("foreign.h5"), HasSubstr("not written by Fluxformer (no schema_version)"));
  write("word.h5", "one");
  EXPECT_THAT(opening("word.h5"), HasSubstr("not written by Fluxformer"));
}

TEST_F(ArchiveReading, refuses_a_newer_schema) {
  write("newer.h5", schema_version + 1);
  EXPECT_THAT(opening("newer.h5"), AllOf(HasSubstr("schema_version 2"), HasSubstr("reads 1 to 1")));
}

TEST_F(ArchiveReading, names_what_is_missing_or_of_another_kind) {
  write("a.h5");
  const ArchiveReader reader(self, file("a.h5"));
  const auto refused = [](const auto& work) { return complaint<BadInput>(work); };
  EXPECT_THAT(refused([&] { reader.array("/model/head/W"); }),
              AllOf(HasSubstr("a.h5"), HasSubstr("no /model/head/W")));
  EXPECT_THAT(refused([&] { reader.array("/analysis"); }), HasSubstr("/analysis is not a dataset"));
  EXPECT_THAT(refused([&] { reader.array("/analysis/test/values", {3}); }),
              HasSubstr("is 10 x 10000, expected 3"));
  EXPECT_THAT(refused([&] { reader.words("/analysis/test/values"); }), HasSubstr("is not a list of words"));
  EXPECT_THAT(refused([&] { reader.words("/model/embedding/vocabulary"); }),
              HasSubstr("no /model/embedding"));
  EXPECT_THAT(refused([&] { reader.text("deck"); }), HasSubstr("no attribute deck"));
  EXPECT_THAT(refused([&] { reader.text(names::version); }), HasSubstr("not a text"));
  EXPECT_THAT(refused([&] { reader.integer(names::status); }), HasSubstr("not a whole number"));
  EXPECT_THAT(refused([&] { reader.real(names::status); }), HasSubstr("not a number"));
  EXPECT_THAT(refused([&] { reader.children("/field"); }), HasSubstr("no /field"));
  EXPECT_THAT(refused([&] { reader.text("kind", "/model"); }), HasSubstr("no /model"));
}

}  // namespace
}  // namespace fluxformer::io
