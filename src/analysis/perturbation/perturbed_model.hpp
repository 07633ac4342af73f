#pragma once

// Response of one model to perturbations of many kinds and levels, batch by batch.

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/derivatives/logit_jacobian.hpp"
#include "analysis/perturbation/adversary.hpp"
#include "analysis/perturbation/growth_measures.hpp"
#include "analysis/perturbation/perturbation_variables.hpp"
#include "analysis/perturbation/response_measures.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::perturbation {

/// The perturbations of the inputs.
struct PerturbationPlan {
  /// By name of the axis; kinds of perturbations with an empty list are left out.
  std::map<std::string, std::vector<double>> levels = {};
  int pgd_steps = 10;         ///< 0: no PGD
  bool random_start = false;  ///< of PGD
  bool jacobian = true;       ///< whether to compute it, and the worst direction
  double growth = 1e-3;       ///< level of the noise whose growth is followed
  InputRange range = {};      ///< of features under attack
  std::uint64_t seed = 1;     ///< of all draws
};

/// Perturbs every batch it is shown in all ways of the plan and accumulates what the model answers.
class PerturbedModel {
 public:
  /// For the samples of `samples`. All three are borrowed. Throws BadInput for levels of features where the
  /// model reads words.
  PerturbedModel(ModelProbe& probe, const PerturbationPlan& plan, const SampleSet& samples);

  /// Adds the samples of a batch of SampleSet::for_batches. Random draws are keyed by the sample in the data
  /// set, not by its place in the list. Not collective.
  void show(const Batch& batch);

  /// One kind of perturbation over its levels.
  struct Curve {
    const variables::Kind& kind;
    ResponseMeter responses;
  };
  const std::vector<Curve>& curves() const { return curves_; }
  /// Of the unperturbed inputs; one level.
  const ResponseMeter& clean() const { return clean_; }
  const GrowthMeter& growth() const { return growth_; }
  const GrowthMeter& tangent_growth() const { return tangent_growth_; }
  const derivatives::JacobianMeter& jacobian() const { return jacobian_meter_; }
  /// Adds up all of the above over the ranks (Accumulator::reduce). Collective.
  void reduce(MPI_Comm comm);

 private:
  /// perturb(level, u): u := the perturbed u_0.
  using Perturb = std::function<void(double level, std::vector<double>& u)>;
  void follow(const std::string& kind, const Perturb& perturb);
  void attack(const std::string& fgsm_kind, const std::string& pgd_kind, ModelInput& input,
              Adversary& adversary);
  void follow_growth();

  void add(ResponseMeter& to, int level, const std::vector<double>& u, const double* logits) const;

  ModelProbe& probe_;
  const PerturbationPlan& plan_;
  const SampleSet& samples_;
  std::vector<long> places_;  // of the batch
  ModelInput embedded_;
  std::unique_ptr<ModelInput> features_;  // null: none of it is perturbed
  derivatives::LogitJacobian jacobian_;
  std::vector<Curve> curves_;
  ResponseMeter clean_;
  GrowthMeter growth_, tangent_growth_;
  derivatives::JacobianMeter jacobian_meter_;
  std::vector<double> clean_logits_, x_, moved_, state_;
};

}  // namespace fluxformer::perturbation
