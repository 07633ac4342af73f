// Unreadable files are refused as bad input, with a message that names the file and the reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

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

class ArchiveReading : public test::InAFolder {
 protected:
  std::string opening(const std::string& name) const {
    return complaint<BadInput>([&] { ArchiveReader(MPI_COMM_SELF, file(name)); });
  }
  void write(const std::string& name, const AttributeValue& version = schema_version) const {
    const std::vector<double> values(100000, 1.5);
    ArchiveWriter writer(MPI_COMM_SELF, file(name), true);
    writer.attribute(names::version, version);
    writer.write("/analysis/test", {"values", {"extent_10", "extent_10000"}}, values);
    writer.finish(names::done);
  }
};

TEST_F(ArchiveReading, refuses_a_missing_file_and_a_folder) {
  EXPECT_THAT(opening("a.h5"), AllOf(HasSubstr(file("a.h5")), HasSubstr("no such file")));
  EXPECT_THAT(complaint<BadInput>([&] { ArchiveReader(MPI_COMM_SELF, folder_.string()); }),
              HasSubstr("is a folder"));
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

/// Changes a closed file with HDF5 itself.
template <class Change>
void change(const std::string& path, const Change& change) {
  const FileHandle handle(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  ASSERT_TRUE(handle.open());
  change(handle);
}

TEST_F(ArchiveReading, follows_no_links) {
  write("a.h5");
  write("b.h5");
  change(file("b.h5"), [&](hid_t b) {
    H5Lcreate_external(file("a.h5").c_str(), "/analysis", b, "/outside", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/outside/test/values", b, "/inside", H5P_DEFAULT, H5P_DEFAULT);
  });
  const ArchiveReader reader(MPI_COMM_SELF, file("b.h5"));
  for (const char* path : {"/outside", "/outside/test/values", "/inside"}) {
    EXPECT_THAT(complaint<BadInput>([&] { reader.array(path); }),
                AllOf(HasSubstr("b.h5"), HasSubstr("is a link"), HasSubstr("not followed")));
    EXPECT_THAT(complaint<BadInput>([&] { reader.has(path); }), HasSubstr("is a link"));
    EXPECT_THAT(complaint<BadInput>([&] { reader.text("kind", path); }), HasSubstr("is a link"));
    EXPECT_THAT(complaint<BadInput>([&] { reader.children(path); }), HasSubstr("is a link"));
    EXPECT_THAT(complaint<BadInput>([&] { reader.words(path); }), HasSubstr("is a link"));
  }
}

TEST_F(ArchiveReading, reads_no_numbers_from_other_files) {
  write("a.h5");
  write("b.h5");
  std::ofstream(folder_ / "secret") << std::string(80, 's');
  change(file("b.h5"), [&](hid_t b) {
    const hsize_t ten = 10;
    const SpaceHandle space(H5Screate_simple(1, &ten, nullptr));
    const PropertyHandle external(H5Pcreate(H5P_DATASET_CREATE)), virtually(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_external(external, file("secret").c_str(), 0, 80);
    H5Pset_virtual(virtually, space, file("a.h5").c_str(), "/analysis/test/values", space);
    const DatasetHandle one(
        H5Dcreate2(b, "external", H5T_IEEE_F64LE, space, H5P_DEFAULT, external, H5P_DEFAULT)),
        other(H5Dcreate2(b, "virtual", H5T_IEEE_F64LE, space, H5P_DEFAULT, virtually, H5P_DEFAULT));
    ASSERT_TRUE(one.open() && other.open());
  });
  const ArchiveReader reader(MPI_COMM_SELF, file("b.h5"));
  EXPECT_THAT(complaint<BadInput>([&] { reader.array("/external"); }),
              AllOf(HasSubstr("b.h5: /external"), HasSubstr("external storage")));
  EXPECT_THAT(complaint<BadInput>([&] { reader.array("/virtual"); }), HasSubstr("virtual dataset"));
  EXPECT_THAT(complaint<BadInput>([&] { reader.shape("/virtual"); }), HasSubstr("virtual dataset"));
}

TEST_F(ArchiveReading, takes_no_memory_for_numbers_that_are_only_announced) {
  write("a.h5");
  change(file("a.h5"), [&](hid_t a) {
    const hsize_t many = hsize_t{1} << 40;
    const SpaceHandle space(H5Screate_simple(1, &many, nullptr));
    const DatasetHandle empty(
        H5Dcreate2(a, "empty", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    ASSERT_TRUE(empty.open());
  });
  const ArchiveReader reader(MPI_COMM_SELF, file("a.h5"));
  EXPECT_THAT(complaint<BadInput>([&] { reader.array("/empty"); }),
              AllOf(HasSubstr("/empty announces"), HasSubstr("the file holds 0")));
}

// Free space of size 0 in the heap of texts: HDF5 1.10 goes over it forever.
TEST_F(ArchiveReading, comes_to_an_end_where_hdf5_does_not) {
  write("a.h5");
  std::ifstream stream(folder_ / "a.h5", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  const auto heap = bytes.find("GCOL");
  ASSERT_NE(heap, std::string::npos);
  bytes.replace(heap + 16, 16, 16, '\0');  // after the header: index, count and size of the first text
  std::ofstream(folder_ / "a.h5", std::ios::binary) << bytes;
  EXPECT_THAT(opening("a.h5"),
              AllOf(HasSubstr("a.h5"), HasSubstr("damaged HDF5 file (HDF5 comes to no end")));
}

TEST_F(ArchiveReading, says_what_a_file_was_read_for) {
  EXPECT_THAT(complaint<BadInput>([&] { ArchiveReader(MPI_COMM_SELF, file("a.h5"), "model.file = "); }),
              HasSubstr("model.file = " + file("a.h5") + ": no such file"));
}

TEST_F(ArchiveReading, finds_changed_numbers_by_their_digest) {
  const std::vector<double> values = {1, 2, 3};
  {
    ArchiveWriter writer(MPI_COMM_SELF, file("a.h5"), true);
    writer.write_with_digests("/model",
                              {{{"a", {"extent_3"}}, values.data()}, {{"b", {"extent_3"}}, values.data()}});
    writer.finish(names::done);
  }
  change(file("a.h5"), [&](hid_t a) {
    const DatasetHandle numbers(H5Dopen2(a, "/model/b", H5P_DEFAULT));
    const double exchanged[] = {2, 1, 3};
    H5Dwrite(numbers, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, exchanged);
  });
  const ArchiveReader reader(MPI_COMM_SELF, file("a.h5"));
  EXPECT_EQ(reader.array("/model/a").values, values);
  EXPECT_THAT(complaint<BadInput>([&] { reader.array("/model/b"); }),
              AllOf(HasSubstr("/model/b is damaged"), HasSubstr("remove the attribute digest")));
}

TEST_F(ArchiveReading, names_what_is_missing_or_of_another_kind) {
  write("a.h5");
  const ArchiveReader reader(MPI_COMM_SELF, file("a.h5"));
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
