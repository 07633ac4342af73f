#pragma once

// Trains a map with one hidden layer (token_mlp.hpp) by AdamW (training/optimiser.hpp) on the mean loss per token. A batch
// is some whole samples; which ones depends on seed, epoch and their places among all training samples only, so that the
// training is the same on any number of ranks. It ends when the loss on the validation samples has stopped falling; the
// weights of the epoch where it was least are kept.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/identifiability/token_mlp.hpp"

namespace fluxformer::identifiability {

/// How an MLP is trained.
struct MlpSettings {
  int hidden = 128;        ///< h
  int epochs = 50;         ///< at most
  int batch = 16;          ///< samples of a step, over all ranks
  int patience = 5;        ///< epochs without a lower validation loss after which training ends
  double rate = 3e-3;      ///< learning rate at the start; falls to 0 as a cosine over `epochs`
  double decay = 1e-4;     ///< weight decay of W_1 and W_2
  std::uint64_t seed = 1;  ///< of weights and batches
};

/// A set of samples, spread over ranks.
struct TokenExamples {
  std::size_t count = 0;              ///< samples on all ranks
  std::vector<TokenExample> samples;  ///< those of this rank, in any order
};

/// What a training came to.
struct MlpTraining {
  MlpMap map;
  int epochs = 0;         ///< that were run
  int best = 0;           ///< the epoch whose weights are kept, from 1; 0: those of the start
  double training = 0;    ///< mean loss per token in that epoch, each batch before its step; NaN for epoch 0
  double validation = 0;  ///< mean loss per token with the kept weights
};

/// Trains a map. The batches, and with them the result, do not depend on the number of ranks but for the order of sums
/// (round-off, which AdamW carries on). Gradients are summed over ranks at each step. Collective over `comm`. Throws
/// BadInput for empty sets or settings below 1, NumericalFailure for a loss that is not finite; all ranks together.
MlpTraining train_token_mlp(const TokenExamples& training, const TokenExamples& validation,
                            TokenDistance distance, const MlpSettings& settings, MPI_Comm comm);

}  // namespace fluxformer::identifiability
