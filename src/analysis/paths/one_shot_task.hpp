#pragma once

// One-shot classification in context: two labelled images of two classes and a third of one of them without
// its label.
//
//   48 tokens = slots 0, 1 (images with labels 0, 1) and 2 (query) x 16 patches of 8 x 8 pixels
//   token     = normalised patch (192 = 8 x 8 pixels x 3 equal channels) + code of its place
//             + embedding of its label
//   y = +1 if the query is of the class of label 1, else -1
//
// Images are 32 x 32: the 28 x 28 of data:: in a margin of 2. Source: docs/model.md, section 11.11.

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/path_examples.hpp"
#include "base/random.hpp"
#include "data/images/image_tokens.hpp"

namespace fluxformer::paths {

/// Drawings for one-shot tasks: some classes of a set of images.
class OneShotPool {
 public:
  /// Takes the classes that are `kept`. The images are borrowed. Throws BadInput, calling the pool `name`,
  /// unless there are two classes, and two images of each.
  OneShotPool(std::string name, std::shared_ptr<const data::ImageDataset> images,
              const std::function<bool(int)>& kept);

  const std::string& name() const { return name_; }
  std::size_t classes() const { return members_.size(); }
  std::size_t drawings(std::size_t of_class) const { return members_[of_class].size(); }
  /// The label of a class in the whole set of images.
  int label(std::size_t of_class) const { return images_->label(members_[of_class].front()); }
  /// Writes the ink, [row][column] of data::image_side squared, 0 to 1.
  void ink(std::size_t of_class, std::size_t drawing, double* out) const;

 private:
  std::string name_;
  std::shared_ptr<const data::ImageDataset> images_;
  std::vector<std::vector<std::size_t>> members_;
};

/// Pools for training, for the choice of settings, for the test, and of images of another kind. No class is
/// in two pools.
struct OneShotPools {
  OneShotPool training, validation, test, foreign;
};

/// Divides a set of images into pools. "omniglot": of the background set every sixth alphabet is for
/// validation, the other 25 for training; the evaluation set, of yet other alphabets, is the test; of each
/// character 16 drawings are used. "digits", built in, drawn from `seed`: 2 to 5, 6 and 7, 8 and 9.
/// `foreign`: 0 and 1 of "mnist" (its test images) or "digits". Reads files of `directory`, or its folders
/// omniglot and mnist; throws BadInput.
OneShotPools one_shot_pools(const std::string& images, const std::string& foreign,
                            const std::string& directory, std::uint64_t seed);

inline constexpr int one_shot_dimension = 192, one_shot_tokens = 48;

/// sin and cos codes of places 0 .. T - 1 in columns (D x T), shifted and scaled to mean 0 and variance 1 as
/// a whole. Source: Vaswani et al., arXiv 1706.03762, section 3.5.
Eigen::MatrixXd place_codes(int dimension, int tokens);

/// Examples by number: the same on any rank, in any order.
class OneShotExamples {
 public:
  /// Draws from a pool, which is borrowed. `purpose` makes the examples of one seed independent; the
  /// embedding of labels depends on the seed alone.
  OneShotExamples(const OneShotPool& pool, std::uint64_t seed, const std::string& purpose);

  /// y of an example: +1 for even numbers, -1 for odd ones.
  static double target(std::uint64_t example) { return example % 2 == 0 ? 1 : -1; }
  /// Codes of places and embedding of labels, the same in all examples: D x T.
  const Eigen::MatrixXd& constant() const { return constant_; }
  /// x of an example: D x T.
  Eigen::MatrixXd tokens(std::uint64_t example) const;

 private:
  const OneShotPool& pool_;
  RandomStream stream_;
  Eigen::MatrixXd constant_;
};

/// Sizes and seed of the task.
struct OneShotSettings {
  int examples = 600;        ///< P, from the training pool
  int test_examples = 1000;  ///< examples from each other pool
  std::uint64_t seed = 0;    ///< seed of examples and of the embedding of labels
  ExampleShare share = {};   ///< the examples of each pool that this rank makes
};

/// The task for given queries and keys. Test examples come from the test pool; `further` holds validation and
/// foreign images. Throws BadInput for attention of another dimension.
PathTask one_shot_task(const OneShotPools& pools, const FrozenAttention& attention,
                       const OneShotSettings& settings);

}  // namespace fluxformer::paths
