#pragma once

// The workload that `scaling` times: an equation being evolved or a training, built from the keys of `evolve`
// and `train`.

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>

#include "base/settings.hpp"
#include "model/model_spec.hpp"

namespace fluxformer {

/// A workload to be timed. Every member except the descriptions is collective.
class ScalingWorkload {
 public:
  /// Size of the problem and its distribution over ranks.
  struct Size {
    long cells, tokens, samples, parameters;
    long ranks_depth, ranks_token, groups;  ///< `groups`: groups of ranks that share the samples
    long micro_batches = 1;
  };
  virtual ~ScalingWorkload() = default;
  /// The problem in a few lines, the structure of its model, and its sizes.
  virtual std::string describe() const = 0;
  virtual const ModelSpec& model() const = 0;
  virtual Size size() const = 0;
  /// Takes steps until `after_step` returns false. Throws NumericalFailure (agreed).
  virtual void run(const std::function<bool()>& after_step) = 0;
  /// Writes a checkpoint for `output`, without the parts that only restarts need.
  virtual void save(const std::string& output) = 0;
};

/// Settings completed by those that scaling.mode and scaling.over determine on this many ranks. Throws
/// BadInput for what cannot be split or scaled up.
Settings scaled(const Settings& settings, int ranks);

/// Makes the workload of the settings. Collective over `comm`; throws BadInput (agreed).
std::unique_ptr<ScalingWorkload> make_workload(const Settings& settings, MPI_Comm comm);

}  // namespace fluxformer
