#include "analysis/paths/one_shot_task.hpp"

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "data/images/digits.hpp"
#include "data/images/mnist.hpp"
#include "data/images/omniglot.hpp"

namespace fluxformer::paths {
namespace {

using Images = std::shared_ptr<const data::ImageDataset>;

constexpr std::size_t built_in_images = 2000;
constexpr std::size_t every = 6;  // alphabet is for validation

/// Any tokens will do: images are read whole.
const data::ImageTokens any_tokens(data::TokenLayout::patches);

Images digits(bool train, std::uint64_t seed) {
  return std::make_shared<data::Digits>(train, any_tokens, seed, built_in_images);
}

std::shared_ptr<const data::Omniglot> omniglot(const std::string& set, const std::string& directory) {
  return std::make_shared<data::Omniglot>(data::DatasetSpec{.name = set, .directory = directory}, any_tokens);
}

/// [character]: number of its alphabet.
std::vector<std::size_t> alphabets(const data::Omniglot& images) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::size_t> of;
  of.reserve(images.characters().size());
  for (const auto& character : images.characters())
    of.push_back(numbers.emplace(character.substr(0, character.find('/')), numbers.size()).first->second);
  return of;
}

OneShotPool foreign_pool(const std::string& word, const std::string& directory, std::uint64_t seed) {
  const auto two = [](int label) { return label < 2; };
  if (word == "mnist")
    return {"0 and 1 of MNIST", std::make_shared<data::Mnist>(directory, false, any_tokens), two};
  return {"0 and 1 of digits", digits(false, seed), two};
}

}  // namespace

OneShotPool::OneShotPool(std::string name, Images images, const std::function<bool(int)>& kept)
    : name_(std::move(name)), images_(std::move(images)) {
  std::map<int, std::vector<std::size_t>> by_label;
  for (std::size_t k = 0; k < images_->size(); ++k)
    if (kept(images_->label(k))) by_label[images_->label(k)].push_back(k);
  for (auto& [label, members] : by_label)
    if (members.size() > 1) members_.push_back(std::move(members));
  if (members_.size() < 2)
    throw BadInput("one-shot examples need two classes of two images each; " + name_ + " have " +
                   std::to_string(members_.size()));
}

void OneShotPool::ink(std::size_t of_class, std::size_t drawing, double* out) const {
  images_->image(members_[of_class][drawing], out);
}

OneShotPools one_shot_pools(const std::string& images, const std::string& foreign,
                            const std::string& directory, std::uint64_t seed) {
  auto other = foreign_pool(foreign, directory, seed);
  if (images == "digits") {
    const auto all = digits(true, seed);
    return {.training = {"digits 2 to 5", all, [](int label) { return label > 1 && label < 6; }},
            .validation = {"digits 6 and 7", all, [](int label) { return label == 6 || label == 7; }},
            .test = {"digits 8 and 9", all, [](int label) { return label > 7; }},
            .foreign = std::move(other)};
  }
  const auto background = omniglot("omniglot", directory);
  const auto alphabet = alphabets(*background);
  const auto validates = [&](int label) { return alphabet[label] % every == every - 1; };
  return {.training = {"characters for training", background, [&](int label) { return !validates(label); }},
          .validation = {"characters for validation", background, validates},
          .test = {"characters of the evaluation set", omniglot("omniglot_evaluation", directory),
                   [](int) { return true; }},
          .foreign = std::move(other)};
}

namespace {

using Eigen::MatrixXd;

constexpr int slots = 3, query_slot = 2, margin = 2, patch = 8, channels = 3;
constexpr int patches_across = (data::image_side + 2 * margin) / patch,
              patches = patches_across * patches_across;
constexpr double paper_mean = 0.922, paper_deviation = 0.084;  // of pixels, white being 1
constexpr double epsilon = 1e-5;                               // added to the variance of a patch
static_assert(patches * slots == one_shot_tokens && patch * patch * channels == one_shot_dimension);

/// Adds the patches of an image to the columns, each of mean 0 and variance 1.
void add_patches(const std::array<double, data::image_pixels>& ink, Eigen::Ref<MatrixXd> to) {
  constexpr Index area = patch * patch;
  Eigen::Matrix<double, area, 1> pixels;
  for (int p = 0; p < patches; ++p) {
    for (int row = 0; row < patch; ++row)
      for (int column = 0; column < patch; ++column) {
        // Pixel (y, x) of the 28 x 28 image; the margin of 2 around it is white, without ink.
        const int y = p / patches_across * patch + row - margin,
                  x = p % patches_across * patch + column - margin;
        const bool inside = y >= 0 && x >= 0 && y < data::image_side && x < data::image_side;
        const double here = inside ? ink[y * data::image_side + x] : 0;
        // The published normalisation, white being 1: (1 - ink - 0.922)/0.084
        pixels[row * patch + column] = (1 - here - paper_mean) / paper_deviation;
      }
    // LayerNorm of a patch without gain, the same in all channels
    pixels.array() -= pixels.mean();
    pixels /= std::sqrt(pixels.squaredNorm() / area + epsilon);
    to.col(p) += pixels.replicate<channels, 1>();
  }
}

/// Draws from 0 .. count - 1 without `skipped`.
std::uint64_t other_than(std::uint64_t skipped, const RandomStream& stream, std::uint64_t index,
                         std::size_t count) {
  const auto drawn = stream.below(index, count - 1);
  // Of the count - 1 numbers left, those from `skipped` on stand one place higher.
  return drawn < skipped ? drawn : drawn + 1;
}

}  // namespace

MatrixXd place_codes(int dimension, int tokens) {
  MatrixXd codes(dimension, tokens);
  for (int t = 0; t < tokens; ++t)
    for (int d = 0; d < dimension; ++d) {
      // t/10000^{2 floor(d/2)/D}: sin for even d, cos for odd d
      const double angle = t / std::pow(10000.0, 1.0 * (d - d % 2) / dimension);
      codes(d, t) = d % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  // Mean 0 and variance 1 over all entries together
  codes.array() -= codes.mean();
  return codes / std::sqrt(codes.squaredNorm() / codes.size());
}

OneShotExamples::OneShotExamples(const OneShotPool& pool, std::uint64_t seed, const std::string& purpose)
    : pool_(pool),
      stream_(seed, "one-shot " + purpose),
      constant_(place_codes(one_shot_dimension, one_shot_tokens)) {
  // All 16 tokens of a slot get the normal embedding of its label: 0, 1, and unknown for the query.
  const RandomStream labels(seed, "embedding of labels");
  for (Index slot = 0; slot < slots; ++slot)
    for (Index d = 0; d < one_shot_dimension; ++d)
      constant_.row(d).segment(slot * patches, patches).array() +=
          labels.normal(slot * one_shot_dimension + d);
}

MatrixXd OneShotExamples::tokens(std::uint64_t example) const {
  enum Draw : std::uint64_t { first_class, second_class, first_drawing, second_drawing, query_drawing };
  const auto draw = stream_.item(example);
  std::array<std::size_t, slots> classes, drawings;
  // Two different classes; the query is another drawing of the one that the target names.
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
    add_patches(ink, x.middleCols(slot * patches, patches));
  }
  return x;
}

namespace {

PathExamples examples_of(const OneShotPool& pool, const FrozenAttention& attention, int count,
                         const OneShotSettings& settings, const std::string& purpose) {
  const OneShotExamples drawn(pool, settings.seed, purpose);
  const auto tokens = [&](int k) { return drawn.tokens(k); };
  PathExamples examples{.inputs = attentioned_inputs(attention, count, tokens, settings.share),
                        .targets = Eigen::VectorXd(count)};
  for (int k = 0; k < count; ++k) examples.targets[k] = OneShotExamples::target(k);
  return examples;
}

/// Name of a path, "1, 3": heads of its layers, from 1.
std::string numbers_of(const std::vector<int>& path) {
  std::string name;
  for (const int head : path) name += (name.empty() ? "" : ", ") + std::to_string(head + 1);
  return name;
}

}  // namespace

PathTask one_shot_task(const OneShotPools& pools, const FrozenAttention& attention,
                       const OneShotSettings& settings) {
  if (attention.dimension() != one_shot_dimension)
    throw BadInput("queries and keys of dimension " + std::to_string(attention.dimension()) +
                   " do not fit one-shot examples, whose tokens have " + std::to_string(one_shot_dimension));
  PathTask task{.heads = attention.heads(), .dimension = one_shot_dimension, .share = settings.share};
  const int paths = path_count(task.heads);
  task.path_names.reserve(paths);
  for (int path = 0; path < paths; ++path)
    task.path_names.push_back(numbers_of(heads_of_path(path, task.heads)));
  const auto of = [&](const OneShotPool& pool, int count, const char* purpose) {
    return examples_of(pool, attention, count, settings, purpose);
  };
  task.train = of(pools.training, settings.examples, "posterior");
  task.test = of(pools.test, settings.test_examples, "test");
  task.further.push_back(
      {pools.validation.name(), of(pools.validation, settings.test_examples, "validation")});
  task.further.push_back({pools.foreign.name(), of(pools.foreign, settings.test_examples, "foreign")});
  return task;
}

}  // namespace fluxformer::paths
