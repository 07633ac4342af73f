// T1 on real images: evolve with `shift`, forward Euler and Courant number 1 for M steps is the march through
// depth, relative 1e-13. The images are found through FLUXFORMER_DATA.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "base/error.hpp"
#include "data/make_dataset.hpp"
#include "model/embedding.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/lattices.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::transformer_is_the_cfl_one_scheme_on_mnist {
namespace {

using namespace test;

/// The folder with MNIST's test images, or "".
std::string mnist_folder() {
  const char* const told = std::getenv("FLUXFORMER_DATA");
  if (told == nullptr) return {};
  const std::string folder = std::string(told) + "/mnist";
  return std::filesystem::is_directory(folder) ? folder : "";
}

constexpr int layers = 12, samples = 8;

ProblemSpec main_job() {
  ProblemSpec spec;
  auto& model = spec.model;
  model.layers = model.knots = layers;
  model.width = 64;
  model.ffn = 256;
  model.attention.heads = 4;
  model.features = 16;  // patches of 4 x 4 pixels
  model.tokens = 49;
  spec.mesh = {.cells = layers, .tokens_x = 7, .tokens_y = 7, .samples = samples, .width = 64};
  return spec;
}

Whole embedded_images(const Problem& problem, const data::Dataset& images) {
  const auto one = static_cast<std::size_t>(images.tokens_x() * images.tokens_y() * images.features());
  std::vector<double> input(one * samples), slab(problem.context.size());
  for (std::size_t b = 0; b < samples; ++b) images.tokens(b, input.data() + b * one);
  embed(problem.parameters, problem.context, input.data(), slab.data());
  return problem.whole(slab.data());
}

TEST(TransformerIsTheCflOneSchemeOnMnist, on_mnist_images) {
  const auto folder = mnist_folder();
  if (folder.empty()) {
    if (rank_in(MPI_COMM_WORLD) == 0)
      std::cerr << "NOT CHECKED: no MNIST files; set FLUXFORMER_DATA to their folder\n";
    GTEST_SKIP();
  }
  const auto images = collectively(MPI_COMM_WORLD, [&] {
    return data::make_dataset({.name = "mnist", .directory = folder, .split = "test", .at_most = samples});
  });
  ASSERT_EQ(images->features(), 16);
  for (const auto& split : every_split(MPI_COMM_WORLD, main_job().mesh)) {
    auto spec = main_job();
    spec.mesh = split;
    const Problem problem(MPI_COMM_WORLD, spec);
    const auto inflow = embedded_images(problem, *images);
    EvolveSettings settings;
    settings.method = "euler";
    settings.dt = 1;
    settings.time = layers;
    // From any start up to ten times the inflow: the normal numbers below stay within 7 deviations.
    double size = 0;
    for (const double e : inflow) size = std::max(size, std::abs(e));
    const auto rows = evolve(problem, settings, random_vector(problem.whole_size(), 6, size), inflow);
    const double here = largest_row_difference(rows, march_rows(problem, inflow), problem.whole_slab());
    EXPECT_LT(reached("evolve against march", here), 1e-13) << "ranks over depth " << split.ranks_depth;
  }
}

}  // namespace
}  // namespace fluxformer::transformer_is_the_cfl_one_scheme_on_mnist
