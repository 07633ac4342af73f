#pragma once

// Planted wrong labels: a noise whose places are known.

#include <memory>

#include "data/dataset.hpp"

namespace fluxformer::data {

/// A data set of which a share of the samples has another label, drawn uniformly among the other classes; everything
/// else is that of the set within. Whether and which is decided by seed and index of each sample alone: sample i draws
/// u_i in (0, 1) and its other label, and is wrong if u_i < share. So wrong labels are the same in every run and for
/// any number of samples, their number is binomial, and those of a smaller share are among those of a larger one.
class WrongLabels final : public Dataset {
 public:
  /// Takes over `of`, the samples with their right labels. Throws BadInput that begins with data.wrong_labels for a
  /// share outside (0, 1), a set of fewer than two classes, and samples without a label.
  WrongLabels(std::unique_ptr<Dataset> of, double share, std::uint64_t seed);

  int label(std::size_t index) const override;
  int right_label(std::size_t index) const override { return of_->right_label(index); }

  std::string name() const override { return of_->name(); }
  std::string origin() const override { return of_->origin(); }
  std::size_t size() const override { return of_->size(); }
  int classes() const override { return of_->classes(); }
  bool one_split() const override { return of_->one_split(); }
  int tokens_x() const override { return of_->tokens_x(); }
  int tokens_y() const override { return of_->tokens_y(); }
  int features() const override { return of_->features(); }
  double largest_feature() const override { return of_->largest_feature(); }
  void tokens(std::size_t index, double* out) const override { of_->tokens(index, out); }
  void variant(std::size_t index, const RandomStream& draw, double strength, double* out) const override {
    of_->variant(index, draw, strength, out);
  }
  std::string why_no_variants() const override { return of_->why_no_variants(); }
  int length(std::size_t index) const override { return of_->length(index); }
  bool padded() const override { return of_->padded(); }
  int vocabulary() const override { return of_->vocabulary(); }
  int segments() const override { return of_->segments(); }
  std::vector<std::string> words() const override { return of_->words(); }
  int unknown_word() const override { return of_->unknown_word(); }
  std::vector<int> placeholders() const override { return of_->placeholders(); }
  int seen(std::size_t index) const override { return of_->seen(index); }
  int end_word() const override { return of_->end_word(); }
  std::vector<int> token_bytes(std::size_t index) const override { return of_->token_bytes(index); }

 private:
  std::unique_ptr<Dataset> of_;
  double share_;
  RandomStream draw_;
};

}  // namespace fluxformer::data
