#pragma once

// One-shot classification in context: two labelled images of two classes and a third of one of them without its label.
//
//   48 tokens = slots 0, 1 (images with labels 0, 1) and 2 (query) x 16 patches of 8 x 8 pixels
//   token     = normalised patch (192 = 8 x 8 pixels x 3 equal channels) + code of its place + embedding of its label
//   y = +1 if the query is of the class of label 1, else -1
//
// Images are 32 x 32: the 28 x 28 of data:: in a margin of 2. Source: specification of attention paths, section 3.2.

#include <Eigen/Core>
#include <cstdint>
#include <string>

#include "analysis/paths/one_shot_images.hpp"
#include "base/random.hpp"

namespace fluxformer::paths {

inline constexpr int one_shot_dimension = 192, one_shot_tokens = 48;

/// sin and cos codes of places 0 .. T - 1 in columns (D x T), shifted and scaled to mean 0 and variance 1 as a whole.
/// Source: Vaswani et al., arXiv 1706.03762, section 3.5.
Eigen::MatrixXd place_codes(int dimension, int tokens);

/// Examples by number: the same on any rank, in any order.
class OneShotExamples {
 public:
  /// From a pool, which is used, not copied. `purpose` makes those of one seed independent; the embedding of labels
  /// depends on the seed alone.
  OneShotExamples(const OneShotPool& pool, std::uint64_t seed, const std::string& purpose);

  /// +1 for even numbers, -1 for odd ones.
  static double target(std::uint64_t example) { return example % 2 == 0 ? 1 : -1; }
  /// Codes of places and embedding of labels, the same in all examples: D x T.
  const Eigen::MatrixXd& constant() const { return constant_; }
  /// D x T.
  Eigen::MatrixXd tokens(std::uint64_t example) const;

 private:
  const OneShotPool& pool_;
  RandomStream stream_;
  Eigen::MatrixXd constant_;
};

}  // namespace fluxformer::paths
