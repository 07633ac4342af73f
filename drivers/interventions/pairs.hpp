#pragma once

// Pairs of samples, and runs of them on one rank.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "analysis/interventions/patches.hpp"
#include "data/dataset.hpp"
#include "drivers/compare/compare_models.hpp"

namespace fluxformer::interventions {

/// Two samples, and what is asked of both.
struct SamplePair {
  std::size_t clean = 0, donor = 0;  ///< indices in the split
  Question question = {};            ///< a: the answer of clean, b: that of donor
  int length = 0;                    ///< real tokens of both
};

/// The keys that choose pairs.
struct PairPlan {
  std::size_t count = 1;                  ///< interventions.pairs
  std::vector<std::size_t> indices = {};  ///< interventions.indices: clean, donor, clean, ...; empty: by scan
  int token = -1;                         ///< interventions.token
  GoalKind goal = GoalKind::logits;

  std::size_t pairs() const { return indices.empty() ? count : indices.size() / 2; }
};

/// Runs of samples of a model, each on this rank alone. Nothing here is collective.
class SampleRuns {
 public:
  /// `model` and `data` are borrowed; `runs`: patched runs at a time. Throws BadInput as Patches does.
  SampleRuns(const ComparedModel& model, const data::Dataset& data, int runs, SiteScope scope);

  const ModelSpec& spec() const { return parameters_.spec; }
  const data::Dataset& data() const { return data_; }
  Patches& patches() { return patches_; }
  /// A slab of its own for work on one face, whose tapes go with it.
  std::unique_ptr<RunSlab> slab(int runs) const {
    return std::make_unique<RunSlab>(parameters_, line_, runs, Precision::float64);
  }
  const SiteExtents& extents() const { return patches_.extents(); }
  /// The run of a sample, by its index in the split.
  Run run(std::size_t sample);
  /// The token whose word is asked for in a sample of so many real tokens, if `asked` is the key (-1: the last one);
  /// 0 for classes.
  int token_of(int length, int asked) const;

 private:
  const Parameters& parameters_;
  const data::Dataset& data_;
  TokenLine line_;
  Patches patches_;
};

/// The pairs by `plan`, out of `members` (indices in the split): the same on all ranks. Classes: two samples of
/// different labels, both right by the model, and of one length; words: of one length, with different answers. Each
/// sample is in one pair, the earlier is clean. Throws BadInput (agreed), beginning with `called`, the name of the model,
/// if there are too few. Collective over `comm`.
std::vector<SamplePair> choose_pairs(const PairPlan& plan, SampleRuns& runs,
                                     const std::vector<std::size_t>& members, const std::string& called,
                                     MPI_Comm comm);

}  // namespace fluxformer::interventions
