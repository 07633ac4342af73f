#pragma once

// Equation (1) as described by a deck, ready to be evolved: input, weights, mesh, terms, integrator, state at
// t = 0.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "drivers/evolve/evolve_options.hpp"
#include "solvers/evolve/evolve.hpp"

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
  /// The data set; null unless the inflow is data.
  const data::Dataset* data() const { return data_.get(); }
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

/// Makes a term of the equation beside those of the model. The term may borrow `slab`. Throws BadInput.
using MakeTerm = std::function<std::unique_ptr<Term>(const SlabContext& slab)>;

/// Everything that `evolve` needs to take its first step; every part is there once the problem is made.
/// Neither copied nor moved: later parts borrow earlier ones.
struct EvolveProblem {
  /// Builds the problem. Collective over `comm`. Throws BadInput (agreed) for anything in the plan that
  /// cannot run on these ranks.
  EvolveProblem(const EvolvePlan& plan, MPI_Comm comm, const std::vector<MakeTerm>& more_terms = {});
  EvolveProblem(const EvolveProblem&) = delete;
  EvolveProblem& operator=(const EvolveProblem&) = delete;
  /// Description of the equation and of the ranks that solve it.
  std::string describe() const;

  std::optional<Inflow> inflow;
  std::unique_ptr<Mesh> mesh;
  std::optional<Parameters> parameters;  ///< the parameters that this rank's cells need
  std::string depth_report;              ///< of the training that wrote the model file; "": none
  SlabContext slab;
  std::unique_ptr<DepthModel> model;
  std::optional<Equation> equation;
  EvolveSettings solver_settings;
  std::optional<Evolve> solver;
  std::vector<double> inflow_slab;  ///< slab of cell 0 at t = 0
};

/// Computes the steady state u* behind the information front on the rank's cells,
/// [cell][token][sample][channel], in single precision (the threshold of a front is 5 %). It is marched
/// through depth or, if epsilon > 0 couples depth in both directions or the equation has added terms, evolved
/// to the steady state. Empty if `stop` ended the search; it is called after each step. Collective over the
/// mesh, as `stop` must be. Throws NumericalFailure (agreed) if u* is not found.
std::vector<float> front_reference(const EvolveProblem& problem, const std::function<bool()>& stop);

}  // namespace fluxformer
