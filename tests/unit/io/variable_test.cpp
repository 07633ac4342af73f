// Variables, their derived variants, and the names of a run's files.

#include "io/variable.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::io {
namespace {

using testing::ElementsAre;

const Variable score{"cosine", {"layer"}, "nat", "cosine of rows"};

TEST(Variable, a_variant_has_its_own_name_and_meaning_and_the_same_axes_and_unit) {
  const auto control = variant(score, "uniform", "the same of uniform rows");
  EXPECT_EQ(control.name, "cosine_uniform");
  EXPECT_EQ(control.long_name, "the same of uniform rows");
  EXPECT_EQ(control.axes, score.axes);
  EXPECT_EQ(control.unit, "nat");
}

TEST(Variable, along_another_axis_it_has_that_axis_in_front) {
  const auto course = along(index("epoch", "epoch"), "epoch_", score, ", after that epoch");
  EXPECT_EQ(course.name, "epoch_cosine");
  EXPECT_THAT(course.axes, ElementsAre("epoch", "layer"));
  EXPECT_EQ(course.long_name, "cosine of rows, after that epoch");
}

TEST(Variable, a_coordinate_is_its_own_axis) {
  EXPECT_THAT(coordinate("depth", "layer", "depth").axes, ElementsAre("depth"));
  EXPECT_FALSE(coordinate("depth", "layer", "depth").whole_numbers);
  EXPECT_TRUE(index("head", "attention head").whole_numbers);
}

TEST(Description, holds_absolute_paths_and_each_of_them_once) {
  Description description;
  description.variables("/", {coordinate("depth", "layer", "depth of the cells")});
  description.variables("/analysis/a", {score});
  description.attributes("/analysis/a", {{"samples", "how many"}});
  std::vector<std::string> paths;
  for (const auto& one : description.entries()) paths.push_back(one.path);
  EXPECT_THAT(paths, ElementsAre("/depth", "/analysis/a/cosine", "/analysis/a@samples"));
  EXPECT_THROW(description.variables("/analysis/a", {score}), std::logic_error);
}

class Written : public test::InAFolder {};

TEST_F(Written, a_variable_has_the_shape_of_its_axes_or_is_refused) {
  ArchiveWriter writer(MPI_COMM_SELF, file("a.h5"), false);
  writer.axis(index("layer", "layer"), {1, 2, 3});
  writer.write("/analysis/a", score, {0.1, 0.2, 0.3});
  writer.write("/analysis/a", {"spread", {"layer", "extent_2"}, "", "two numbers for each layer"},
               {1, 2, 3, 4, 5, 6});
  EXPECT_THROW(writer.write("/analysis/b", score, {0.1, 0.2}), std::logic_error);
  EXPECT_THROW(writer.write("/analysis/b", {"x", {"head"}, "", "of no axis"}, {0.1}), std::logic_error);
  writer.finish(names::done);
  const ArchiveReader reader(MPI_COMM_SELF, file("a.h5"));
  EXPECT_THAT(reader.array("/analysis/a/cosine").values, ElementsAre(0.1, 0.2, 0.3));
  EXPECT_EQ(reader.text(names::unit, "/analysis/a/cosine"), "nat");
  EXPECT_EQ(reader.text(names::long_name, "/analysis/a/cosine"), "cosine of rows");
  EXPECT_THAT(reader.shape("/analysis/a/spread"), ElementsAre(3, 2));
  EXPECT_FALSE(reader.has("/analysis/b"));
}

TEST(FileNames, of_all_that_belongs_to_a_run_stand_beside_the_output) {
  EXPECT_EQ(checkpoint_path("out/evolve.h5"), "out/evolve.checkpoint.h5");
  EXPECT_EQ(previous_checkpoint_path("out/evolve.h5"), "out/evolve.checkpoint.previous.h5");
  EXPECT_EQ(side_car_path("out/evolve.h5"), "out/evolve.xdmf");
  EXPECT_EQ(history_path("out/train.h5"), "out/train.history.h5");
  EXPECT_EQ(weights_path("out/train.h5", "best"), "out/train.best.h5");
  EXPECT_EQ(incomplete_path("out/run.h5", "failed"), "out/run.failed.h5");
  EXPECT_EQ(side_car_path(incomplete_path("out/run.h5", "failed")), "out/run.failed.xdmf");
  EXPECT_EQ(side_car_path("out.h5/result"), "out.h5/result.xdmf");
}

}  // namespace
}  // namespace fluxformer::io
