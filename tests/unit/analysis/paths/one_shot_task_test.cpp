// One-shot examples from images that tell their class and number in one pixel each.

#include "analysis/paths/one_shot_task.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "analysis/paths/path_learner.hpp"
#include "base/error.hpp"
#include "data/images/omniglot.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int classes_of_all = 6, drawings_of_each = 3;

/// Ink of class c in pixel (0, c), of drawing d in pixel (4, d).
class Marks final : public data::ImageDataset {
 public:
  Marks() : ImageDataset(data::ImageTokens(data::TokenLayout::patches)) {}
  std::string name() const override { return "marks"; }
  std::size_t size() const override { return classes_of_all * drawings_of_each; }
  int classes() const override { return classes_of_all; }
  int label(std::size_t index) const override { return static_cast<int>(index % classes_of_all); }
  void image(std::size_t index, double* out) const override {
    std::fill_n(out, data::image_pixels, 0.0);
    out[label(index)] = 1;
    out[4 * data::image_side + static_cast<int>(index / classes_of_all)] = 1;
  }
};

OneShotPool pool(const std::function<bool(int)>& kept) {
  return {"marks", std::make_shared<Marks>(), kept};
}

constexpr int patches = 16;

/// Place of the ink in rows 2 and 6 of the first patch (a margin of 2 above the image): class and drawing.
struct Shown {
  Index of_class, drawing;
};

Shown shown(const MatrixXd& images, int slot) {
  const VectorXd patch = images.col(slot * patches);
  Shown found{};
  patch.segment(2 * 8, 8).minCoeff(&found.of_class);  // ink is dark
  patch.segment(6 * 8, 8).minCoeff(&found.drawing);
  return {found.of_class - 2, found.drawing - 2};
}

TEST(OneShotExamples, ShowTwoClassesAndAnotherDrawingOfOneOfThem) {
  const auto all = pool([](int label) { return label != 1; });
  const OneShotExamples examples(all, 7, "test");
  std::set<Index> classes, supports, queries;
  int right = 0;
  for (std::uint64_t k = 0; k < 200; ++k) {
    const MatrixXd x = examples.tokens(k), again = examples.tokens(k);
    ASSERT_EQ((x - again).cwiseAbs().maxCoeff(), 0);
    const MatrixXd own = x - examples.constant();
    // Channels are equal, but for round-off of what was added to them.
    ASSERT_LT((own.topRows(64) - own.middleRows(64, 64)).cwiseAbs().maxCoeff(), 1e-14 * 20);
    ASSERT_LT((own.topRows(64) - own.bottomRows(64)).cwiseAbs().maxCoeff(), 1e-14 * 20);
    const auto first = shown(own, 0), second = shown(own, 1), query = shown(own, 2);
    ASSERT_NE(first.of_class, second.of_class);
    const auto& support = OneShotExamples::target(k) > 0 ? second : first;
    ASSERT_EQ(query.of_class, support.of_class);
    ASSERT_NE(query.drawing, support.drawing);
    right += OneShotExamples::target(k) > 0 ? 1 : 0;
    for (const auto& one : {first, second, query}) classes.insert(one.of_class);
    supports.insert(first.drawing);
    queries.insert(query.drawing);
  }
  EXPECT_EQ(right, 100);
  EXPECT_EQ(classes, (std::set<Index>{0, 2, 3, 4, 5}));
  EXPECT_EQ(supports, (std::set<Index>{0, 1, 2}));
  EXPECT_EQ(queries, supports);
}

TEST(OneShotExamples, PatchesArePlacedAndNormalised) {
  const auto all = pool([](int) { return true; });
  const OneShotExamples examples(all, 7, "test"), other_seed(all, 8, "test"),
      other_purpose(all, 7, "training");
  const MatrixXd own = examples.tokens(3) - examples.constant();
  for (Index t = 0; t < own.cols(); ++t) {
    EXPECT_NEAR(own.col(t).mean(), 0, 1e-12);
    const double variance = own.col(t).squaredNorm() / one_shot_dimension;
    if (t % patches == 0)
      EXPECT_NEAR(variance, 1, 1e-5);  // two pixels of ink of size 1 / .084, beside an epsilon of 1e-5
    else
      EXPECT_LT(variance, 1e-20);  // white
  }
  EXPECT_EQ((other_purpose.constant() - examples.constant()).cwiseAbs().maxCoeff(), 0);
  EXPECT_GT((other_purpose.tokens(3) - examples.tokens(3)).cwiseAbs().maxCoeff(), 0.1);
  EXPECT_GT((other_seed.constant() - examples.constant()).cwiseAbs().maxCoeff(), 0.1);
  // Labels: the columns of a slot differ by their place codes only.
  const MatrixXd labels = examples.constant() - place_codes(one_shot_dimension, one_shot_tokens);
  for (Index slot = 0; slot < 3; ++slot)
    EXPECT_LT((labels.middleCols(slot * patches, patches).colwise() - labels.col(slot * patches))
                  .cwiseAbs()
                  .maxCoeff(),
              1e-14);
  EXPECT_NEAR(labels.squaredNorm() / static_cast<double>(labels.size()), 1,
              5 * std::sqrt(2.0 / 576));  // normal numbers
}

TEST(OneShotExamples, PlaceCodesAreThoseOfTransformersStandardised) {
  const MatrixXd codes = place_codes(6, 5);
  EXPECT_NEAR(codes.mean(), 0, 1e-15);
  EXPECT_NEAR(codes.squaredNorm() / 30, 1, 1e-14);
  // Differences do not know the shift, their ratios not the scale.
  const double scale = (codes(0, 1) - codes(0, 0)) / std::sin(1);
  for (Index t = 0; t < 5; ++t)
    for (Index pair = 0; pair < 3; ++pair) {
      const double angle = static_cast<double>(t) / std::pow(1e4, static_cast<double>(2 * pair) / 6);
      EXPECT_NEAR(codes(2 * pair, t) - codes(0, 0), scale * std::sin(angle), 1e-13);
      EXPECT_NEAR(codes(2 * pair + 1, t) - codes(0, 0), scale * std::cos(angle), 1e-13);
    }
}

TEST(OneShotTask, HasItsSetsAndRefusesWhatDoesNotFit) {
  EXPECT_THROW(pool([](int label) { return label == 3; }), BadInput);
  const auto pools = one_shot_pools("digits", "digits", "", 1);
  EXPECT_EQ(pools.training.classes(), 4U);
  EXPECT_EQ(pools.foreign.classes(), 2U);
  EXPECT_EQ(pools.validation.classes(), 2U);
  EXPECT_EQ(pools.test.classes(), 2U);
  const auto random = [](int dimension) {
    const LearnerWeights weights(
        {.dimension = dimension, .tokens = one_shot_tokens, .width = 1, .layers = 2, .heads = 2, .key = 3});
    return weights.attention(weights.initial(1));
  };
  const OneShotSettings sizes{.examples = 6, .test_examples = 4, .seed = 1};
  EXPECT_THROW(one_shot_task(pools, random(10), sizes), BadInput);
  const auto attention = random(one_shot_dimension);
  const auto task = one_shot_task(pools, attention, sizes);
  EXPECT_EQ(task.heads, (std::vector<int>{2, 2}));
  EXPECT_EQ(task.path_names[1], "1, 2");
  ASSERT_EQ(task.further.size(), 2U);
  EXPECT_EQ(task.further[0].name, pools.validation.name());
  EXPECT_EQ(task.train.inputs.rows(), 6);
  EXPECT_EQ(task.test.inputs.rows(), 4);
  EXPECT_EQ(task.train.targets.sum(), 0);
  const OneShotExamples drawn(pools.test, 1, "test");
  std::vector<double> row(static_cast<std::size_t>(task.test.inputs.cols()));
  attention.attentioned_inputs(drawn.tokens(2), row);
  EXPECT_EQ((task.test.inputs.row(2).transpose() - Eigen::Map<VectorXd>(row.data(), task.test.inputs.cols()))
                .cwiseAbs()
                .maxCoeff(),
            0);
}

/// The real drawings: $FLUXFORMER_DATA/omniglot.
TEST(RealOneShotPools, share_no_character_and_no_alphabet) {
  namespace fs = std::filesystem;
  const char* given = std::getenv("FLUXFORMER_DATA");
  if (given == nullptr || !fs::exists(fs::path(given) / "omniglot" / "images_evaluation.zip"))
    GTEST_SKIP() << "no Omniglot files: set FLUXFORMER_DATA to the folder that holds omniglot/";
  const auto names_of = [&](const char* set) {
    return data::Omniglot({.name = set, .directory = given}, data::ImageTokens(data::TokenLayout::patches))
        .characters();
  };
  const auto background = names_of("omniglot"), evaluation = names_of("omniglot_evaluation");
  const auto pools = one_shot_pools("omniglot", "digits", given, 0);
  std::set<std::string> characters, alphabets;
  std::size_t count = 0;
  const auto add = [&](const OneShotPool& pool, const std::vector<std::string>& names) {
    std::set<std::string> mine;
    for (std::size_t k = 0; k < pool.classes(); ++k) {
      const auto& name = names.at(static_cast<std::size_t>(pool.label(k)));
      EXPECT_TRUE(characters.insert(name).second) << name << " is in two pools";
      mine.insert(name.substr(0, name.find('/')));
      EXPECT_EQ(pool.drawings(k), 16U) << name;
    }
    for (const auto& alphabet : mine)
      EXPECT_TRUE(alphabets.insert(alphabet).second) << alphabet << " is in two pools";
    count += pool.classes();
    return mine.size();
  };
  EXPECT_EQ(add(pools.training, background), 25U);
  EXPECT_EQ(add(pools.validation, background), 5U);
  EXPECT_EQ(add(pools.test, evaluation), 20U);
  EXPECT_EQ(count, 964U + 659U);
}

}  // namespace
}  // namespace fluxformer::paths
