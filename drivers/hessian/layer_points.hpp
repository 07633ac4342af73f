#pragma once

// The points of a study of one attention layer: kind of layer, seed and, where norms are followed, size of
// the embeddings.

#include <span>
#include <string>
#include <vector>

#include "analysis/decoder/layer_measures.hpp"
#include "base/settings.hpp"
#include "drivers/common/point_sweep.hpp"
#include "drivers/compare/study_record.hpp"

namespace fluxformer {

/// Points of kind, seed and sigma, in this order, sigma fastest.
class LayerPoints final : public SweepPoints {
 public:
  /// Reads the keys of the study. Throws BadInput, on every rank.
  explicit LayerPoints(const Settings& settings);

  const std::vector<long>& seeds() const { return seeds_; }
  const std::vector<std::string>& kinds() const { return kinds_; }
  std::size_t count() const override { return kinds_.size() * per_kind(); }
  /// Number of points of each kind.
  std::size_t per_kind() const { return seeds_.size() * sigmas_per_seed(); }
  /// Name of a point, e.g. "softmax, seed 3, sigma 0.1".
  std::string name(std::size_t point) const;
  /// Description in one line, for the start of a run.
  std::string describe() const;

  std::size_t numbers(std::size_t point) const override;
  /// Computes the results of a point: the measures of one part of the Hessian after the other.
  std::vector<double> measure(std::size_t point) override;
  /// The study of a decoder of a kind, with weights and data of a seed.
  decoder::LayerStudy study_of(const std::string& kind, long seed) const;

  /// Adds the axes of the measures.
  void add_axes(StudyRecord& record) const;
  /// Adds the measures of all points to the record; `found` holds the results by point.
  void add(const std::vector<std::vector<double>>& found, StudyRecord& record) const;

 private:
  std::size_t sigmas_per_seed() const { return scaling_ ? sigmas_.size() : 1; }
  /// Number of norms of each part and sigma.
  std::size_t norms_per_part(const std::string& kind) const;
  const std::string& kind_of(std::size_t point) const { return kinds_[point / per_kind()]; }
  long seed_of(std::size_t point) const { return seeds_[point % per_kind() / sigmas_per_seed()]; }
  std::vector<double> entries(const decoder::LayerStudy& study) const;
  void add_entries(const std::string& kind, const std::vector<double>& numbers, StudyRecord& record) const;
  /// Adds the norms; `of_sigmas` holds the results of each sigma.
  void add_norms(const std::string& kind, std::span<const std::vector<double>> of_sigmas,
                 StudyRecord& record) const;

  const Settings& settings_;
  bool scaling_;
  std::vector<long> seeds_;
  std::vector<std::string> kinds_;
  std::vector<double> sigmas_, edges_;
  int depth_;
};

}  // namespace fluxformer
