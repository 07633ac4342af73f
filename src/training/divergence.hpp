#pragma once

// Whether a training has diverged, told from the losses of its steps.

#include <vector>

namespace fluxformer {

/// The first epoch, counted from 0, from which on more than half of the losses of every epoch are above
/// `limit`; the number of epochs if those of the last are not. A bad start or a spike that the training
/// recovers from does not count. `loss`: whole epochs of `per_epoch` steps.
long diverged_since(double limit, const std::vector<double>& loss, long per_epoch);

}  // namespace fluxformer
