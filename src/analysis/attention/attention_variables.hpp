#pragma once

// Variables of attention in output files: scores of rows against the Transformer's rows, null controls, and
// matched heads (attention_measures.hpp).

#include <array>
#include <vector>

#include "io/axes.hpp"

namespace fluxformer::attention::variables {

/// Scores of rows, in the order of RowScore.
inline const std::array<io::Variable, 5> scores = {
    io::Variable{"cosine",
                 {"layer"},
                 "",
                 "cosine of attention rows with the Transformer's, mean over queries, samples and matched "
                 "heads"},
    io::Variable{"kl", {"layer"}, "nat", "KL(Transformer || PDE model) of attention rows"},
    io::Variable{"js", {"layer"}, "nat", "Jensen-Shannon divergence of attention rows"},
    io::Variable{"tv", {"layer"}, "", "total variation between attention rows"},
    io::Variable{
        "centred",
        {"layer"},
        "",
        "cosine of attention rows minus 1/n with the Transformer's, over the n keys that a query sees; "
        "0 where a row is uniform"}};

/// Null control of a score: uniform rows.
inline io::Variable of_uniform_rows(const io::Variable& score) {
  return io::variant(score, "uniform", "the same of uniform rows with the Transformer's");
}
/// Null control of a score: rows against themselves with permuted keys.
inline io::Variable of_permuted_keys(const io::Variable& score) {
  return io::variant(score, "permuted", "the same of the Transformer's rows with themselves, keys permuted");
}
/// Null control of a score: a PDE model that has not seen data.
inline io::Variable of_untrained(const io::Variable& score) {
  return io::variant(score, "untrained", "the same of an untrained PDE model with the Transformer");
}
/// Ceiling of a score: a model that was trained independently.
inline io::Variable of_transformers(const io::Variable& score) {
  return io::variant(score, "ceiling",
                     "the same of the Transformers of this seed and the next, heads paired in the same way");
}

/// Values of a score, null control or ceiling for each sample.
inline io::Variable of_samples(const io::Variable& score) {
  return io::by_sample(
      score, {},
      score.name + " of that sample, mean over layers, heads and queries; NaN if no query sees 2 keys");
}

inline const io::Variable centred_heads{
    "centred_heads",
    {"layer", "head"},
    "",
    "the centred cosine of each of the Transformer's heads with its match"},
    matched_head{
        "matched_head", {"layer", "head"}, "", "head of the PDE model that is matched to this one; -1: none"},
    entropy_transformer{
        "entropy_transformer", {"layer", "head"}, "", "mean entropy of the Transformer's rows over log n"},
    entropy{"entropy",
            {"layer", "head"},
            "",
            "mean entropy of the matched head's rows over log n; of the Transformer, of its own"},
    flat_rows{
        "flat_rows", {"layer", "head"}, "", "rows that were uniform, so that the centred cosine counts as 0"},
    scored_samples{"scored_samples", {"layer"}, "", "samples in which a query sees at least 2 keys"},
    map{"map", {"layer", "query", "key"}, "", "attention of the first sample, mean over the heads"};

// Attention by distance along a line of tokens, of the heads that are matched with the Transformer's.
inline const io::Variable distance =
    io::index("distance", "tokens between a query and a key, in either direction that the query sees");
inline const io::Variable weight_by_distance{"weight_by_distance",
                                             {"layer", "head", "distance"},
                                             "",
                                             "attention weight of a key at that distance, mean over all "
                                             "pairs of a query and a key that it sees, of all "
                                             "samples; of the matched head; NaN without pairs"},
    pairs_by_distance{
        "pairs_by_distance", {"layer", "distance"}, "", "pairs of a query and a key that it sees"},
    mean_distance{
        "mean_distance",
        {"layer", "head"},
        "token",
        "distance between query and key weighted by attention, mean over the queries of all samples; of "
        "the matched head"};
/// The same of rows that are uniform over the keys that a query sees: over layers, as it is for all heads.
inline io::Variable of_uniform_heads(const io::Variable& measure) {
  auto uniform = io::variant(measure, "uniform", "the same of uniform rows over the same keys");
  std::erase(uniform.axes, "head");
  return uniform;
}

// Attention of a state that evolves.
inline const io::Variable attention_entropy{
    "attention_entropy", {"depth", "head"}, "", "mean entropy of the attention rows over log n"},
    weights{"weights", {"layer", "sample", "head", "query", "key"}, "", "attention weights"};

}  // namespace fluxformer::attention::variables
