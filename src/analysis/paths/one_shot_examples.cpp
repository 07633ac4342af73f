#include "analysis/paths/one_shot_examples.hpp"

#include <array>
#include <cmath>

#include "base/index.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr int slots = 3, query_slot = 2, margin = 2, patch = 8, channels = 3;
constexpr int patches_across = (data::image_side + 2 * margin) / patch,
              patches = patches_across * patches_across;
constexpr double paper_mean = 0.922, paper_deviation = 0.084;  // of white pixels as 1
constexpr double epsilon = 1e-5;                               // of the normalisation of a patch
static_assert(patches * slots == one_shot_tokens && patch * patch * channels == one_shot_dimension);

/// Columns are the patches of an image, each of mean 0 and variance 1.
void add_patches(const std::array<double, data::image_pixels>& ink, Eigen::Ref<MatrixXd> to) {
  constexpr Index area = patch * patch;
  Eigen::Matrix<double, area, 1> pixels;
  for (int p = 0; p < patches; ++p) {
    for (int row = 0; row < patch; ++row)
      for (int column = 0; column < patch; ++column) {
        const int y = p / patches_across * patch + row - margin,
                  x = p % patches_across * patch + column - margin;
        const bool inside = y >= 0 && x >= 0 && y < data::image_side && x < data::image_side;
        const double here = inside ? ink[y * data::image_side + x] : 0;
        pixels[row * patch + column] = (1 - here - paper_mean) / paper_deviation;
      }
    pixels.array() -= pixels.mean();
    pixels /= std::sqrt(pixels.squaredNorm() / area + epsilon);
    to.col(p) += pixels.replicate<channels, 1>();
  }
}

/// 0 .. count - 1 without `skipped`.
std::uint64_t other_than(std::uint64_t skipped, const RandomStream& stream, std::uint64_t index,
                         std::size_t count) {
  const auto drawn = stream.below(index, count - 1);
  return drawn < skipped ? drawn : drawn + 1;
}

}  // namespace

MatrixXd place_codes(int dimension, int tokens) {
  MatrixXd codes(dimension, tokens);
  for (int t = 0; t < tokens; ++t)
    for (int d = 0; d < dimension; ++d) {
      const double angle = t / std::pow(10000.0, (d - d % 2) / static_cast<double>(dimension));
      codes(d, t) = d % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  codes.array() -= codes.mean();
  return codes / std::sqrt(codes.squaredNorm() / static_cast<double>(codes.size()));
}

OneShotExamples::OneShotExamples(const OneShotPool& pool, std::uint64_t seed, const std::string& purpose)
    : pool_(pool),
      stream_(seed, "one-shot " + purpose),
      constant_(place_codes(one_shot_dimension, one_shot_tokens)) {
  const RandomStream labels(seed, "embedding of labels");
  for (Index slot = 0; slot < slots; ++slot)
    for (Index d = 0; d < one_shot_dimension; ++d)
      constant_.row(d).segment(slot * patches, patches).array() +=
          labels.normal(static_cast<std::uint64_t>(slot * one_shot_dimension + d));
}

MatrixXd OneShotExamples::tokens(std::uint64_t example) const {
  enum Draw : std::uint64_t { first_class, second_class, first_drawing, second_drawing, query_drawing };
  const auto draw = stream_.item(example);
  std::array<std::size_t, slots> classes, drawings;
  classes[0] = draw.below(first_class, pool_.classes());
  classes[1] = other_than(classes[0], draw, second_class, pool_.classes());
  const std::size_t shown = target(example) > 0 ? 1 : 0;
  classes[query_slot] = classes[shown];
  drawings[0] = draw.below(first_drawing, pool_.drawings(classes[0]));
  drawings[1] = draw.below(second_drawing, pool_.drawings(classes[1]));
  drawings[query_slot] = other_than(drawings[shown], draw, query_drawing, pool_.drawings(classes[shown]));
  MatrixXd x = constant_;
  std::array<double, data::image_pixels> ink;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    pool_.ink(classes[slot], drawings[slot], ink.data());
    add_patches(ink, x.middleCols(static_cast<Index>(slot) * patches, patches));
  }
  return x;
}

}  // namespace fluxformer::paths
