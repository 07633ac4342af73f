#include "data/text/baselines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/make_dataset.hpp"
#include "data/text/text_dataset.hpp"
#include "tests/unit/data/images/idx_writer.hpp"

namespace fluxformer::test {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t unk = 1, a = 2, b = 3, c = 4;

class TinyTexts final : public data::TextDataset {
 public:
  using Samples = std::vector<std::pair<int, std::vector<std::uint32_t>>>;
  explicit TinyTexts(Samples samples, std::vector<std::string> words = {"<pad>", "<unk>", "a", "b", "c"})
      : data::TextDataset(data::Vocabulary(std::move(words)), 6), samples_(std::move(samples)) {}
  std::string name() const override { return "tiny"; }
  std::size_t size() const override { return samples_.size(); }
  int classes() const override { return 3; }
  int label(std::size_t index) const override { return samples_.at(index).first; }
  int length(std::size_t index) const override { return static_cast<int>(samples_.at(index).second.size()); }
  std::vector<std::uint32_t> text(std::size_t index) const override { return samples_.at(index).second; }

 private:
  Samples samples_;
};

/// Class 0: a 3 times, b once, of 4 words; class 1: b and c once each; class 2 has no samples. p(0) = 2/3.
TinyTexts training() {
  return TinyTexts({{0, {a, a, b}}, {0, {a, unk}}, {1, {b, c}}});
}

/// By hand with alpha = 1: p(. | 0) = 4/7, 2/7, 1/7 and p(. | 1) = 1/5, 2/5, 2/5 for a, b, c.
TEST(NaiveBayes, predicts_what_the_formula_gives_by_hand) {
  data::NaiveBayes bayes(1);
  bayes.fit(training());
  const TinyTexts asked({
      {0, {b}},          // 2/3 * 2/7 = 0.190   against 1/3 * 2/5 = 0.133
      {0, {b, b}},       // 0.0544              against 0.0533
      {1, {b, b, b}},    // 0.0155              against 0.0213
      {1, {c}},          // 0.095               against 0.133
      {0, {unk}},        // the class frequencies alone
      {0, {unk, b, b}},  // unknown words do not count
      {1, {a}},          // 0.38 against 0.07: predicted 0, not 1
  });
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(bayes.predict(asked, i), asked.label(i)) << i;
  EXPECT_EQ(bayes.predict(asked, 6), 0);
  EXPECT_DOUBLE_EQ(bayes.accuracy(asked), 6.0 / 7);
}

/// a a a c c c. alpha = 1: 2/3 (4/7)^3 (1/7)^3 = 3.6e-4 against 1/3 (1/5)^3 (2/5)^3 = 1.7e-4; alpha = 0.01:
/// 2/3 (3.01/4.03)^3 (0.01/4.03)^3 = 4.2e-9 against 1/3 (0.01/2.03)^3 (1.01/2.03)^3 = 4.9e-9.
TEST(NaiveBayes, smoothing_decides_what_words_not_met_cost) {
  const TinyTexts asked({{0, {a, a, a, c, c, c}}});
  data::NaiveBayes laplace(1), lidstone(0.01);
  laplace.fit(training());
  lidstone.fit(training());
  EXPECT_EQ(laplace.predict(asked, 0), 0);
  EXPECT_EQ(lidstone.predict(asked, 0), 1);
}

TEST(NaiveBayes, learns_from_the_chosen_samples_alone_and_is_judged_on_the_chosen_ones) {
  data::NaiveBayes bayes(1);
  // Without the last sample class 1 has none and is never predicted.
  bayes.fit(training(), {0, 1});
  const TinyTexts asked({{1, {c}}, {0, {a}}, {-1, {a}}});
  EXPECT_EQ(bayes.predict(asked, 0), 0);
  EXPECT_DOUBLE_EQ(bayes.accuracy(asked, {0, 1}), 0.5);
  EXPECT_DOUBLE_EQ(bayes.accuracy(asked, {1}), 1);
  EXPECT_DOUBLE_EQ(bayes.accuracy(asked, {}), 0);
  EXPECT_THAT(complaint([&] { bayes.fit(asked, {0, 2}); }), HasSubstr("sample 2 has no label"));
}

TEST(NaiveBayes, refuses_what_it_cannot_learn_from) {
  EXPECT_THAT(complaint([] { data::NaiveBayes(0.0); }), HasSubstr("alpha = 0.0"));
  data::NaiveBayes bayes(1);
  EXPECT_THAT(complaint([&] { bayes.predict(training(), 0); }), HasSubstr("before it was fitted"));
  EXPECT_THAT(complaint([&] { bayes.fit(TinyTexts({})); }), HasSubstr("tiny has 0 samples"));
  EXPECT_THAT(complaint([&] { bayes.fit(*data::make_dataset({.name = "digits"})); }),
              HasSubstr("needs texts: digits"));
  bayes.fit(training());
  const TinyTexts other({{0, {a}}}, {"<pad>", "<unk>", "a"});
  EXPECT_THAT(complaint([&] { bayes.accuracy(other); }), HasSubstr("fitted to 5 words, tiny has 3"));
  EXPECT_EQ(bayes.accuracy(TinyTexts({})), 0);
}

}  // namespace
}  // namespace fluxformer::test
