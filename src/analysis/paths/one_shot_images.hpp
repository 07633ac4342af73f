#pragma once

// Drawings for one-shot tasks, divided by classes: no class is in two of the pools.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/images/image_tokens.hpp"

namespace fluxformer::paths {

/// Some classes of a set of images.
class OneShotPool {
 public:
  /// The classes that are `kept`. The images are used, not copied. Throws BadInput, calling the pool `name`, unless there
  /// are two classes, and two images of each.
  OneShotPool(std::string name, std::shared_ptr<const data::ImageDataset> images,
              const std::function<bool(int)>& kept);

  const std::string& name() const { return name_; }
  std::size_t classes() const { return members_.size(); }
  std::size_t drawings(std::size_t of_class) const { return members_[of_class].size(); }
  /// Of a class among those of the whole set of images.
  int label(std::size_t of_class) const { return images_->label(members_[of_class].front()); }
  /// Ink, [row][column] of data::image_side squared, 0 to 1.
  void ink(std::size_t of_class, std::size_t drawing, double* out) const;

 private:
  std::string name_;
  std::shared_ptr<const data::ImageDataset> images_;
  std::vector<std::vector<std::size_t>> members_;
};

/// What is learned from, what settings are chosen by, what is judged, and images of another kind.
struct OneShotPools {
  OneShotPool training, validation, test, foreign;
};

/// `images`: "omniglot": of the background set every sixth alphabet is for validation, the other 25 for training; the
/// evaluation set, of yet other alphabets, is the test; of each character 16 drawings are used. "digits", built in, drawn from `seed`: 2 to 5, 6 and 7, 8 and 9.
/// `foreign`: 0 and 1 of "mnist" (its test images) or "digits". Reads files of `directory`, or its folders omniglot and
/// mnist; throws BadInput.
OneShotPools one_shot_pools(const std::string& images, const std::string& foreign,
                            const std::string& directory, std::uint64_t seed);

}  // namespace fluxformer::paths
