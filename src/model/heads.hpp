#pragma once

// A trained model with other heads: fine-tuning on another task.

#include <cstdint>
#include <string>

#include "model/parameters.hpp"

namespace fluxformer {

/// A model adapted to another task, and a report of what became of the arrays of the model it was made from.
struct AdaptedModel {
  Parameters parameters;
  /// "kept: ...; new: ...; left out: ...": groups of arrays, and the arrays by name where a group is only kept
  /// in part or an array has another size ("head/W (2 x 8 instead of 1 x 8)", which is new); "" if all arrays
  /// were kept.
  std::string report;
};

/// The model `from` with `classes` outputs of a classifier (0: none) and with or without a word head. Arrays
/// of the same name and shape are kept; new ones are initialised as by initialise_standard with `seed`. If a
/// word head is wanted and `from` has one, it stays as it is: `word_head` then does not decide its matrix and
/// what is in front of it.
AdaptedModel with_heads(const Parameters& from, int classes, const WordHead& word_head, std::uint64_t seed);

}  // namespace fluxformer
