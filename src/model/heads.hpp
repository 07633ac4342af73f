#pragma once

// A trained model with other heads: fine-tuning on another task.

#include <cstdint>
#include <string>

#include "model/parameters.hpp"

namespace fluxformer {

/// A model for a task, and what became of the arrays it was made of.
struct Reheaded {
  Parameters parameters;
  std::string report;  ///< "kept: ...; new: ...; left out: ...", by groups of arrays; "" if all was kept
};

/// `from` with `classes` outputs of a classifier (0: none) and with or without a word head. Arrays of the same name and shape
/// are kept; new ones are initialised as by initialise_standard with `seed`. A word head that is there stays as it is, if one
/// is wanted: its matrix and what is in front of it are not those of `word_head`.
Reheaded with_heads(const Parameters& from, int classes, const WordHead& word_head, std::uint64_t seed);

}  // namespace fluxformer
