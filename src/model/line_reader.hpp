#pragma once

// Lines of words read token by token by a causal model: a token is marched through depth once, when its word is
// known, and what later tokens need of it is kept, or the line is marched from its beginning each time.

#include <memory>

#include "model/depth_model.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// The tokens that were read before: their keys and values are kept by depth cell, 2 G c numbers
/// for each token and cell (of a layer with a window of W tokens, those of W - 1 tokens), with transport over tokens
/// the last state of each cell, too, or they are marched again.
enum class EarlierTokens { kept, again };

/// Reads the lines of a few samples on this rank, all at the same pace. The march is that by layer maps through
/// the depth cells of the model.
class LineReader {
 public:
  /// Lines have `tokens` tokens. `parameters` is borrowed. Throws BadInput for a model that is not causal.
  LineReader(const Parameters& parameters, int tokens, int samples, Precision precision,
             EarlierTokens earlier);
  ~LineReader();

  /// Reads the next `count` tokens of the samples of `batch`, whose input is known that far. Returns their last
  /// states [token][sample][channel], valid until the next call.
  const double* read(const Batch& batch, int count);
  /// Tokens of each sample that have been read.
  int position() const { return position_; }
  /// Tokens of each sample that have been marched through depth for that.
  long marched() const { return marched_; }

  /// Bytes that are kept of these tokens; 0 if they are marched again.
  static double bytes(const ModelSpec& spec, int tokens, int samples, Precision precision,
                      EarlierTokens earlier);

 private:
  struct Piece;
  const Parameters& parameters_;
  int tokens_, samples_;
  Precision precision_;
  std::unique_ptr<KeptTokens> kept_;  // null: earlier tokens are marched again
  int position_ = 0;
  long marched_ = 0;
  std::unique_ptr<Piece> piece_;
};

}  // namespace fluxformer
