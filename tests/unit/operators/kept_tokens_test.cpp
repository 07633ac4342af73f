// Keys of earlier tokens: what stays of them.

#include "operators/kept_tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fluxformer {
namespace {

using testing::ElementsAre;

std::vector<double> row(const KeptLayer<double>& layer, Index sample) {
  const double* const keys = layer.keys(sample);
  return {keys, keys + std::ssize(layer.index()) * layer.per_token()};
}

/// Adds tokens whose two numbers are 100 sample + token and its half, and whose beta is the token.
void add(KeptLayer<double>& layer, const std::vector<int>& tokens) {
  for (Index sample = 0; sample < 2; ++sample) {
    std::vector<double> keys, beta;
    for (const int token : tokens) {
      keys.push_back(static_cast<double>(100 * sample + token));
      keys.push_back(keys.back() / 2);
      beta.push_back(token);
    }
    layer.add_keys(sample, std::ssize(tokens), keys.data());
    layer.add_beta(sample, 0, std::ssize(tokens), beta.data());
  }
  layer.add_index(tokens);
}

TEST(KeptLayer, drops_the_first_tokens_when_there_is_no_room_for_more) {
  KeptLayer<double> layer(2, 3, 2, 1);
  add(layer, {0, 1});
  EXPECT_THAT(layer.index(), ElementsAre(0, 1));
  add(layer, {2});
  add(layer, {3});
  EXPECT_THAT(layer.index(), ElementsAre(1, 2, 3));
  EXPECT_THAT(row(layer, 0), ElementsAre(1, 0.5, 2, 1, 3, 1.5));
  EXPECT_THAT(row(layer, 1), ElementsAre(101, 50.5, 102, 51, 103, 51.5));
  EXPECT_EQ(layer.beta(1, 0)[2], 3);
  add(layer, {4, 5, 6, 7});
  EXPECT_THAT(layer.index(), ElementsAre(5, 6, 7));
  EXPECT_THAT(row(layer, 1), ElementsAre(105, 52.5, 106, 53, 107, 53.5));
}

TEST(KeptTokens, keep_a_token_less_than_the_window_and_give_each_application_its_layer) {
  KeptTokens kept(8, 2);
  kept.begin_march();
  auto& first = kept.next<double>(3, 2, 1);
  add(first, {0, 1, 2, 3});
  add(kept.next<double>(0, 2, 1), {0, 1, 2, 3});
  add(kept.next<double>(1, 2, 1), {0, 1, 2, 3});
  kept.begin_march();
  EXPECT_THAT(kept.next<double>(3, 2, 1).index(), ElementsAre(2, 3));
  EXPECT_THAT(kept.next<double>(0, 2, 1).index(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept.next<double>(1, 2, 1).index(), ElementsAre());
}

}  // namespace
}  // namespace fluxformer
