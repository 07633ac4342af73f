#include "drivers/common/announce.hpp"

#include <iostream>

#include "base/rank_of.hpp"
#include "operators/kernels/blas.hpp"

namespace fluxformer {

bool announce(const Experiment& experiment, const RunContext& context) {
  if (!RankOf(context.comm).root()) return false;
  if (!context.quiet) std::cerr << experiment.describe() << '\n';
  if (!blas_warning().empty()) std::cerr << "fluxformer: " << blas_warning() << '\n';
  return !context.quiet;
}

}  // namespace fluxformer
