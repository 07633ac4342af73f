#pragma once

// Steering: the difference of two class means is added to a face at all tokens, beside a random vector of equal norm.

#include <string>
#include <vector>

#include "drivers/interventions/measured.hpp"

namespace fluxformer::interventions {

/// Dose-response of a model. Ranks share the samples. Collective over `comm` but for `put`.
class Steering {
 public:
  /// `plan` and `runs` are borrowed.
  Steering(const InterventionPlan& plan, SampleRuns& runs, std::string called, MPI_Comm comm)
      : plan_(plan), runs_(runs), called_(std::move(called)), comm_(comm) {}
  /// Steers each sample of `steered` from its own class towards every other one; `fit`: samples of the class means.
  /// Throws NumericalFailure for a goal that is not finite.
  void measure(const std::vector<std::size_t>& steered, const std::vector<std::size_t>& fit);
  void put(Results& to) const;

 private:
  int face() const { return plan_.face >= 0 ? plan_.face : runs_.extents().cells / 2; }
  void take_means(const std::vector<std::size_t>& fit);
  RowMatrix slope(const Run& run, int wanted, int own);
  void steer(std::size_t sample, double* sums);

  const InterventionPlan& plan_;
  SampleRuns& runs_;
  std::string called_;
  MPI_Comm comm_;
  std::vector<RowMatrix> means_;  // by class, [token][channel]; empty: no sample
  std::vector<double> sums_;      // slope, count, then goal and share reached by dose, along v and at random
};

}  // namespace fluxformer::interventions
