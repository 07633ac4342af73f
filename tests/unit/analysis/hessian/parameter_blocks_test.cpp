// The blocks of a model are its matrices, each once.

#include "analysis/hessian/parameter_blocks.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace fluxformer::hessian {
namespace {

std::string names_of(const std::vector<NamedBlock>& blocks) {
  std::string names;
  for (const auto& block : blocks) names += block.name() + "; ";
  return names;
}

/// A decoder of two layers with a gated network, whose word head has a matrix of its own.
ModelSpec gated_decoder() {
  ModelSpec spec;
  spec.layers = spec.knots = 2;
  spec.width = 8;
  spec.ffn = 12;
  spec.attention.heads = 2;
  spec.causal = true;
  spec.gated = true;
  spec.vocabulary = 20;
  spec.tokens = 5;
  spec.word_head = {.present = true, .own_matrix = true};
  return spec;
}

TEST(ParameterBlocks, are_all_matrices_but_the_positions) {
  const ParameterLayout layout(gated_decoder());
  const auto blocks = parameter_blocks(layout, block_kinds, "key");
  EXPECT_EQ(names_of(blocks),
            "embedding; Q of set 1; K of set 1; V of set 1; O of set 1; W_G of set 1; W_1 of set 1; "
            "W_2 of set 1; Q of set 2; K of set 2; V of set 2; O of set 2; W_G of set 2; W_1 of set 2; "
            "W_2 of set 2; head; ");
  std::size_t at = 0;
  for (const auto& view : layout.views()) {
    if (view.shape.size() != 2 || view.name == "position") continue;
    ASSERT_LT(at, blocks.size());
    const auto& entries = blocks[at++].entries;
    ASSERT_EQ(entries.size(), 1U);
    EXPECT_EQ(entries[0].begin, view.offset) << view.path();
    EXPECT_EQ(entries[0].end, view.offset + view.size()) << view.path();
  }
  EXPECT_EQ(at, blocks.size());
}

TEST(ParameterBlocks, are_those_that_were_asked_for) {
  const ParameterLayout layout(gated_decoder());
  EXPECT_EQ(names_of(parameter_blocks(layout, {"W_G", "K"}, "key")),
            "K of set 1; W_G of set 1; K of set 2; W_G of set 2; ");
  EXPECT_THROW(parameter_blocks(layout, {"W_3"}, "key"), BadInput);
}

}  // namespace
}  // namespace fluxformer::hessian
