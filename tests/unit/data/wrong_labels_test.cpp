#include "data/wrong_labels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data/make_dataset.hpp"
#include "tests/unit/data/images/idx_writer.hpp"

namespace fluxformer::data {
namespace {

using testing::HasSubstr;

/// Samples without tokens: labels 0, 1, ... in turn, or none; every virtual function has a value of its own.
class Plain final : public Dataset {
 public:
  Plain(std::size_t size, int classes, int labelled = 1)
      : size_(size), classes_(classes), labelled_(labelled) {}
  std::string name() const override { return "plain"; }
  std::string origin() const override { return "a folder"; }
  std::size_t size() const override { return size_; }
  int classes() const override { return classes_; }
  int label(std::size_t index) const override {
    require(index);
    return labelled_ == 0 ? -1 : static_cast<int>(index % static_cast<std::size_t>(classes_));
  }
  bool one_split() const override { return true; }
  int tokens_x() const override { return 3; }
  int tokens_y() const override { return 1; }
  int features() const override { return 2; }
  double largest_feature() const override { return 7; }
  void tokens(std::size_t index, double* out) const override {
    std::fill_n(out, 6, 1.5 + static_cast<double>(index));
  }
  void variant(std::size_t index, const RandomStream& draw, double strength, double* out) const override {
    std::fill_n(out, 6, strength + draw.uniform(index));
  }
  std::string why_no_variants() const override { return "for no reason"; }
  int length(std::size_t index) const override { return 1 + static_cast<int>(index % 3); }
  bool padded() const override { return false; }
  int vocabulary() const override { return 11; }
  int segments() const override { return 2; }
  std::vector<std::string> words() const override { return {"a", "b"}; }
  int unknown_word() const override { return 4; }
  std::vector<int> placeholders() const override { return {0, 4}; }
  int seen(std::size_t index) const override { return static_cast<int>(index % 2); }
  int end_word() const override { return 5; }
  std::vector<int> token_bytes(std::size_t index) const override { return {static_cast<int>(index), 2, 3}; }

 private:
  std::size_t size_;
  int classes_, labelled_;
};

WrongLabels planted(std::size_t size, int classes, double share, std::uint64_t seed = 1) {
  return {std::make_unique<Plain>(size, classes), share, seed};
}

bool is_wrong(const Dataset& data, std::size_t index) {
  return data.label(index) != data.right_label(index);
}

TEST(WrongLabels, are_a_share_of_the_samples_and_uniform_among_the_other_classes) {
  constexpr std::size_t size = 30000;
  constexpr int classes = 6;
  constexpr double share = 0.3;
  const auto data = planted(size, classes, share);
  std::vector<std::vector<double>> count(classes, std::vector<double>(classes));
  double wrong = 0;
  for (std::size_t i = 0; i < size; ++i) {
    ASSERT_EQ(data.right_label(i), static_cast<int>(i % classes));
    ASSERT_GE(data.label(i), 0);
    ASSERT_LT(data.label(i), classes);
    ++count[static_cast<std::size_t>(data.right_label(i))][static_cast<std::size_t>(data.label(i))];
    wrong += is_wrong(data, i) ? 1 : 0;
  }
  // Binomial: five standard deviations.
  EXPECT_NEAR(wrong, share * size, 5 * std::sqrt(size * share * (1 - share)));
  const double of_class = static_cast<double>(size) / classes, p = share / (classes - 1);
  for (std::size_t right = 0; right < classes; ++right)
    for (std::size_t label = 0; label < classes; ++label) {
      if (right == label) continue;
      EXPECT_NEAR(count[right][label], of_class * p, 5 * std::sqrt(of_class * p * (1 - p)))
          << right << " became " << label;
    }
}

TEST(WrongLabels, are_those_of_seed_and_index_whatever_the_number_of_samples) {
  const auto few = planted(50, 4, 0.4, 7), many = planted(500, 4, 0.4, 7), other = planted(50, 4, 0.4, 8);
  std::vector<int> first, again, elsewhere;
  for (std::size_t i = 0; i < few.size(); ++i) {
    first.push_back(few.label(i));
    again.push_back(many.label(i));
    elsewhere.push_back(other.label(i));
  }
  EXPECT_EQ(first, again);
  EXPECT_NE(first, elsewhere);
}

TEST(WrongLabels, of_a_smaller_share_are_among_those_of_a_larger_one) {
  const auto few = planted(2000, 5, 0.1), more = planted(2000, 5, 0.5);
  int in_few = 0, in_more = 0;
  for (std::size_t i = 0; i < few.size(); ++i) {
    in_more += is_wrong(more, i) ? 1 : 0;
    if (!is_wrong(few, i)) continue;
    ++in_few;
    EXPECT_EQ(few.label(i), more.label(i)) << i;
  }
  EXPECT_GT(in_few, 0);
  EXPECT_GT(in_more, in_few);
}

TEST(WrongLabels, of_two_classes_are_the_other_one) {
  const auto data = planted(300, 2, 0.5);
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < data.size(); ++i)
    if (is_wrong(data, i)) wrong.push_back(i);
  EXPECT_FALSE(wrong.empty());
  for (const std::size_t i : wrong) EXPECT_EQ(data.label(i), 1 - data.right_label(i));
}

TEST(WrongLabels, leave_everything_else_as_it_is) {
  const Plain plain(5, 3);
  const auto data = planted(5, 3, 0.5);
  EXPECT_EQ(data.title(), plain.title());
  EXPECT_EQ(data.size(), plain.size());
  EXPECT_EQ(data.classes(), plain.classes());
  EXPECT_EQ(data.one_split(), plain.one_split());
  EXPECT_EQ(data.tokens_x(), plain.tokens_x());
  EXPECT_EQ(data.tokens_y(), plain.tokens_y());
  EXPECT_EQ(data.features(), plain.features());
  EXPECT_EQ(data.largest_feature(), plain.largest_feature());
  EXPECT_EQ(data.why_no_variants(), plain.why_no_variants());
  EXPECT_EQ(data.padded(), plain.padded());
  EXPECT_EQ(data.vocabulary(), plain.vocabulary());
  EXPECT_EQ(data.segments(), plain.segments());
  EXPECT_EQ(data.words(), plain.words());
  EXPECT_EQ(data.unknown_word(), plain.unknown_word());
  EXPECT_EQ(data.placeholders(), plain.placeholders());
  EXPECT_EQ(data.end_word(), plain.end_word());
  const RandomStream draw(3, "variants");
  for (std::size_t i = 0; i < data.size(); ++i) {
    EXPECT_EQ(data.length(i), plain.length(i));
    EXPECT_EQ(data.seen(i), plain.seen(i));
    EXPECT_EQ(data.token_bytes(i), plain.token_bytes(i));
    std::vector<double> own(6), of_plain(6);
    data.tokens(i, own.data());
    plain.tokens(i, of_plain.data());
    EXPECT_EQ(own, of_plain);
    data.variant(i, draw, 0.2, own.data());
    plain.variant(i, draw, 0.2, of_plain.data());
    EXPECT_EQ(own, of_plain);
  }
  EXPECT_THROW(data.label(5), std::out_of_range);
}

TEST(WrongLabels, are_refused_where_no_label_can_be_wrong) {
  const auto message = [](std::size_t size, int classes, double share, int labelled) {
    return test::complaint([&] { WrongLabels(std::make_unique<Plain>(size, classes, labelled), share, 1); });
  };
  EXPECT_EQ(message(9, 3, 0.2, 1), "");
  EXPECT_EQ(message(9, 1, 0.2, 1),
            "data.wrong_labels: plain (a folder) has fewer than two classes, so that no label can be wrong");
  EXPECT_EQ(message(9, 3, 0.2, 0), "data.wrong_labels: plain (a folder) has samples without a label");
  for (const double share : {-0.1, 0.0, 1.0, std::nan("")})
    EXPECT_THAT(message(9, 3, share, 1), HasSubstr("must be above 0 and below 1")) << share;
}

TEST(MakeDataset, plants_wrong_labels_in_the_training_split_alone) {
  const auto labels = [](const char* set, const char* split, double share) {
    const auto data = make_dataset({.name = set, .split = split, .at_most = 200, .wrong_labels = share});
    std::vector<int> found, right;
    for (std::size_t i = 0; i < data->size(); ++i) {
      found.push_back(data->label(i));
      right.push_back(data->right_label(i));
    }
    return std::pair(found, right);
  };
  for (const char* set : {"digits", "topics"}) {
    const auto plain = labels(set, "train", 0), wrong = labels(set, "train", 0.2);
    EXPECT_EQ(plain.first, plain.second) << set;
    EXPECT_EQ(wrong.second, plain.first) << set;
    EXPECT_NE(wrong.first, plain.first) << set;
    EXPECT_EQ(labels(set, "test", 0.2).first, labels(set, "test", 0).first) << set;
  }
}

}  // namespace
}  // namespace fluxformer::data
