#pragma once

// The next word of a text, by the logits z of a model.
//
//   temperature T > 0   p_w = exp(z_w/T) / sum exp(z_v/T)  over all words, or over the k of the largest logits
//                       (of equal ones the lower words); the first word, in the order of words, whose
//                       cumulated p exceeds a uniform number of (0, 1)
//   T = 0               the word of the largest logit, the lowest in a tie
//
// A uniform number decides, and not a race of the words, so that the choice of one number can be checked by hand.

#include <span>

namespace fluxformer {

/// The keys generate.temperature and generate.top_k.
struct WordChoice {
  double temperature = 1;
  int most = 0;  ///< words among which one is chosen; 0: all
};

/// The next word. Logits are finite and some there are; `uniform` is in (0, 1). Not collective.
int next_word(std::span<const double> z, const WordChoice& choice, double uniform);

/// log p of a word by the model itself: p = softmax(z) over all words.
double log_probability(std::span<const double> z, int word);

}  // namespace fluxformer
