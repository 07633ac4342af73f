#pragma once

// Response of one model to perturbations of many kinds and levels, batch by batch: change of the logits by
// level, growth of a small perturbation through depth, and the Jacobian of the logits. At the same level,
// noise, sign steps and the worst direction change the embedded input by about the same fraction of its norm,
// so that their curves can share an axis.

#include <mpi.h>
#include <Eigen/Core>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_probe.hpp"
#include "analysis/perturbation/perturbation_variables.hpp"
#include "analysis/perturbation/perturbations.hpp"
#include "base/index.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::perturbation {

/// Responses to one kind of perturbation, one number for each level: means over samples. The norms are
/// Euclidean; that of u_0 is over the real tokens of the sample.
struct ResponseResult {
  std::vector<double> accuracy;      ///< share of samples whose most likely class is the label
  std::vector<double> loss;          ///< cross entropy
  std::vector<double> input_change;  ///< |du_0| / |u_0|
  std::vector<double> sensitivity;  ///< (|dz| / |z|) / (|du_0| / |u_0|), z the clean logits; over the samples
                                    ///< for which it exists (something moved, z is finite and not 0)
  std::vector<long> not_finite;     ///< samples whose logits are not finite: wrong, and not in the loss
  long samples = 0;
};

/// Accumulates ResponseResult. Samples may be distributed over ranks; only `reduce` is collective.
class ResponseAccumulator {
 public:
  /// Sums for `levels` levels of one kind; `classes` is the number of logits, `samples` the number on all
  /// ranks.
  ResponseAccumulator(int levels, int classes, Index samples);

  /// Adds the samples of the input's batch at one level: u_0 and logits [sample][class] after the
  /// perturbation, and the logits before it. `places` is the index of each sample of the batch among all
  /// samples. Fillers are left out.
  void add(int level, const ModelInput& input, std::span<const long> places, const std::vector<double>& u,
           const double* logits, const double* clean_logits);
  /// Sums over ranks (see Accumulator::reduce). Collective.
  void reduce(MPI_Comm comm);

  /// Means over all samples; NaN if there is nothing to average.
  ResponseResult result() const;
  /// [sample][level]: 1 where the most likely class is the label, else 0.
  const std::vector<double>& correct_by_sample() const { return each_.numbers(); }

 private:
  int classes_;
  Sums sums_;  // [level][response_sum]
  SampleTable each_;
};

/// Accumulates the growth |du(s)| / |du(0)| of a small perturbation of the embedded input through depth:
/// means over samples of the ratio of Euclidean norms over real tokens. Samples may be distributed over
/// ranks, each whole on one rank; only `reduce` is collective.
class GrowthAccumulator : public Accumulator {
 public:
  /// `context` is borrowed; a sample of length 0 is left out. Throws BadInput for tokens that are distributed
  /// over ranks.
  GrowthAccumulator(int depths, const SlabContext& context);

  /// Adds du at a depth, for the samples of the context; depth 0 first for every batch. Samples with du(0) =
  /// 0 are left out at all depths.
  void add(int depth, const double* du);

  /// Growth by depth; NaN without any sample.
  std::vector<double> growth() const;
  /// Number of samples that count.
  long samples() const;

 private:
  const SlabContext& context_;  // the sums are [depth], then the samples
  std::vector<double> start_;   // |du(0)| of each sample of the batch
};

/// Adds the growth of a finite perturbation: the difference of the marches from `moved` and from u, both
/// states of row 0 for the probe's batch. Cost: two forward passes; memory: a slab for each depth.
void add_growth(ModelProbe& probe, const std::vector<double>& u, const std::vector<double>& moved,
                GrowthAccumulator& meter);

/// Adds the growth of an infinitesimal perturbation along v: the tangent of the march from u. Cost: about
/// three forward passes.
void add_tangent_growth(ModelProbe& probe, const std::vector<double>& u, const std::vector<double>& v,
                        GrowthAccumulator& meter);

/// Jacobian J = dz/du_0 of the logits with respect to the embedded input, for each sample of one batch at a
/// time. It has one row for each class, each at the cost of a backward pass for all samples of the batch. Its
/// singular values are the square roots of the eigenvalues of the C x C matrix J J^T: the largest is exact up
/// to round-off, the others have an error of about 1e-8 times the largest. Not collective: a sample is whole
/// on one rank.
class LogitJacobian {
 public:
  /// `input` is borrowed. The Jacobian is that of the embedded input in both input spaces.
  explicit LogitJacobian(ModelInput& input) : input_(input) {}

  /// Computes J for the unperturbed batch of the input. Cost: a forward and C backward passes; memory: C
  /// slabs.
  void set();

  /// Logits of the last `set`, [sample][class].
  const std::vector<double>& logits() const { return logits_; }
  /// Singular values of a sample, in descending order; empty for a filler.
  const Eigen::VectorXd& singular_values(int sample) const { return values_[sample]; }
  /// v := slab of the right singular vectors of the largest singular value: norm 1 for each sample, with the
  /// sign along which the cross entropy increases; 0 on fillers, on padding, and for J = 0.
  void worst_direction(std::vector<double>& v) const;

 private:
  ModelInput& input_;
  std::vector<double> logits_;
  std::vector<std::vector<double>> rows_;  // [class]: slab with a row of J for each sample
  std::vector<Eigen::VectorXd> values_;    // [sample]
  std::vector<Eigen::VectorXd> left_;      // [sample]: left singular vector of the largest
};

/// Accumulates singular values of LogitJacobian: means over samples. Only `reduce` is collective.
class JacobianAccumulator : public Accumulator {
 public:
  explicit JacobianAccumulator(int classes) : Accumulator(classes + 3) {}

  /// Adds the samples of the batch that `jacobian` was computed for.
  void add(const ModelInput& input, const LogitJacobian& jacobian);

  /// Number of samples on all ranks.
  long samples() const;
  /// Mean singular values, the largest first, in logits per unit of u_0; NaN without samples.
  std::vector<double> singular_values() const;
  /// Relative sensitivity in the worst direction: the largest singular value times |u_0| / |z|, mean over the
  /// samples whose logits are not 0.
  double worst_sensitivity() const;
};

/// Perturbations of the inputs.
struct PerturbationPlan {
  /// Levels by name of the axis; kinds of perturbations with an empty list are left out.
  std::map<std::string, std::vector<double>> levels = {};
  int pgd_steps = 10;         ///< number of steps of PGD; 0: no PGD
  bool random_start = false;  ///< true: PGD starts at a random point
  bool jacobian = true;       ///< true: the Jacobian of the logits and the worst direction are computed
  double growth = 1e-3;       ///< level of the noise whose growth is followed
  InputRange range = {};      ///< range of features under attack
  std::uint64_t seed = 1;     ///< seed of all draws
};

/// Perturbs every batch that it is shown in all ways of the plan and accumulates the responses of the model.
class PerturbedModel {
 public:
  /// All three arguments are borrowed; batches are those of `samples`. Throws BadInput for levels of features
  /// if the model reads words.
  PerturbedModel(ModelProbe& probe, const PerturbationPlan& plan, const SampleSet& samples);

  /// Adds the samples of a batch of SampleSet::for_batches. Random draws are keyed by the sample in the data
  /// set, not by its place in the list. Not collective.
  void show(const Batch& batch);

  /// Responses to one kind of perturbation over its levels.
  struct Curve {
    const variables::PerturbationKind& kind;
    ResponseAccumulator responses;
  };
  const std::vector<Curve>& curves() const { return curves_; }
  /// Responses to the unperturbed inputs, as one level.
  const ResponseAccumulator& clean() const { return clean_; }
  const GrowthAccumulator& growth() const { return growth_; }
  const GrowthAccumulator& tangent_growth() const { return tangent_growth_; }
  const JacobianAccumulator& jacobian() const { return jacobian_meter_; }
  /// Sums all accumulators over the ranks (Accumulator::reduce). Collective.
  void reduce(MPI_Comm comm);

 private:
  /// perturb(level, u) sets u := perturbed u_0.
  using Perturb = std::function<void(double level, std::vector<double>& u)>;
  /// Adds the responses at all levels of a kind, if it is in the plan.
  void follow(const std::string& kind, const Perturb& perturb);
  void attack(const std::string& fgsm_kind, const std::string& pgd_kind, ModelInput& input,
              Adversary& adversary);
  void follow_growth();

  void add(ResponseAccumulator& to, int level, const std::vector<double>& u, const double* logits) const;

  ModelProbe& probe_;
  const PerturbationPlan& plan_;
  const SampleSet& samples_;
  std::vector<long> places_;  // places of the batch's samples in the list
  ModelInput embedded_;
  std::unique_ptr<ModelInput> features_;  // null: features are not perturbed
  LogitJacobian jacobian_;
  std::vector<Curve> curves_;
  ResponseAccumulator clean_;
  GrowthAccumulator growth_, tangent_growth_;
  JacobianAccumulator jacobian_meter_;
  std::vector<double> clean_logits_, x_, moved_, state_;
};

}  // namespace fluxformer::perturbation
