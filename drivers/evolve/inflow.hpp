#pragma once

// The inflow at s = 0.

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "drivers/evolve/evolve_options.hpp"

namespace fluxformer {

/// The inflow: samples of a data set, noise, or zeros, in blocks of samples that follow each other in time.
class Inflow {
 public:
  /// Reads the data set if there is one. Collective over `comm`; throws BadInput (agreed).
  Inflow(const InflowPlan& plan, MPI_Comm comm);

  /// Input that the model must take; all sizes are 0 unless the inflow is data.
  InputShape shape() const;
  int tokens_x() const { return tokens_x_; }
  int tokens_y() const { return tokens_y_; }
  int samples() const { return samples_; }
  /// Global indices of the samples of block `block` (they wrap around at the end of the data set).
  std::vector<std::size_t> indices(long block) const;

  /// Number of real tokens of each sample where the data are texts; empty if all are.
  std::vector<int> lengths() const;

  /// Fills the slab of cell 0 with block `block`. Not collective.
  void fill(const Parameters& parameters, const SlabContext& context, long block, double* slab) const;

 private:
  std::string source_;
  std::unique_ptr<data::Dataset> data_;
  int samples_, tokens_x_ = 0, tokens_y_ = 0;
  std::size_t first_;
  std::uint64_t seed_;
};

}  // namespace fluxformer
