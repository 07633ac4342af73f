#pragma once

// A model on a slab whose samples are runs of one and the same sample, or one run alone: marches from any face on, and
// the goal at their end.

#include <memory>
#include <vector>

#include "analysis/dense_matrices.hpp"
#include "analysis/interventions/goal.hpp"
#include "analysis/model_probe.hpp"
#include "model/depth_model.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::interventions {

/// The slab of `runs` runs. Calls are collective over the token line unless they say otherwise.
class RunSlab {
 public:
  /// `parameters` and `line` are borrowed. Throws BadInput for a model that cannot be marched or has no head.
  RunSlab(const Parameters& parameters, const TokenLine& line, int runs, Precision precision,
          const MarchMaker& march = layer_maps);
  RunSlab(const RunSlab&) = delete;
  RunSlab& operator=(const RunSlab&) = delete;

  const SlabContext& context() const { return context_; }
  const Parameters& parameters() const { return parameters_; }
  DepthModel& model() { return *model_; }
  const DepthCells& depth() const { return depth_; }
  Goal& goal() { return *goal_; }
  int runs() const { return context_.samples; }
  /// Numbers of the slab on this rank.
  Index size() const { return context_.size(); }

  /// The real tokens of the sample, of which all following calls are runs. Not collective.
  void show(int length);
  /// u := the embedded sample in every run; its length is shown. `batch` holds it in its first slot.
  void embed(const Batch& batch, std::vector<double>& u);
  /// The march from face `face` < M to the end, by the method of the slab. It keeps its tapes as long as the slab lives.
  DepthMarch& from(int face);
  /// Marches u from a face (M: nothing to do) to the end and returns J of each run.
  const std::vector<double>& run_on(int face, const Question& question, std::vector<double>& u);

  /// Copies rows [local token][channel] into a run of a slab, and out of it. Not collective.
  void put(const RowMatrix& rows, int run, std::vector<double>& slab) const;
  RowMatrix get(const std::vector<double>& slab, int run) const;

 private:
  const Parameters& parameters_;
  SlabContext context_;
  std::unique_ptr<DepthModel> model_;
  DepthCells depth_;
  MarchMaker make_;
  std::vector<std::unique_ptr<DepthMarch>> marches_;  // by the face that they start from
  std::unique_ptr<Goal> goal_;
};

}  // namespace fluxformer::interventions
