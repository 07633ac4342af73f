#pragma once

// What `scaling` times: an equation that is evolved, or a training, made from the same keys as theirs.

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>

#include "base/settings.hpp"
#include "model/model_spec.hpp"

namespace fluxformer {

/// Every member but the descriptions is collective.
class ScalingWorkload {
 public:
  /// How large the problem is, and how the ranks share it.
  struct Size {
    long cells, tokens, samples, parameters;
    long ranks_depth, ranks_token, groups;  ///< `groups` of ranks share samples
  };
  virtual ~ScalingWorkload() = default;
  virtual std::string describe() const = 0;
  virtual const ModelSpec& model() const = 0;
  virtual Size size() const = 0;
  /// Steps until `after_step` returns false. Throws NumericalFailure (agreed).
  virtual void run(const std::function<bool()>& after_step) = 0;
  /// Writes a checkpoint beside `output`, without what only restarts need.
  virtual void save(const std::string& output) = 0;
};

/// These settings with what scaling.mode and scaling.over decide on so many ranks. Throws BadInput for what
/// cannot be shared or grown.
Settings scaled(const Settings& settings, int ranks);

/// Collective over `comm`; throws BadInput (agreed).
std::unique_ptr<ScalingWorkload> make_workload(const Settings& settings, MPI_Comm comm);

}  // namespace fluxformer
