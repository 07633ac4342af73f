#include "analysis/identifiability/sample_head.hpp"

namespace fluxformer::identifiability {

SampleHead SampleHead::first(int count) const {
  SampleHead cut{weights.topLeftCorner(count, count),
                 queries.topRows(count),
                 keys.topRows(count),
                 values.topRows(count),
                 output,
                 causal,
                 factor};
  for (Eigen::Index i = 0; i < count; ++i) cut.weights.row(i) /= cut.weights.row(i).sum();
  return cut;
}

}  // namespace fluxformer::identifiability
