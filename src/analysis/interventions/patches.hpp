#pragma once

// Patches: a state of one run of a model is replaced by another value, and the run goes on. The effect on the goal,
// E = J(patched) - J(own), exactly (run again) and to first order (one adjoint for all sites).
//
// At a face a patch is a source of the equation, c du/ds = F_s(u) + (u' - u) delta(s - s_l), and its effect to first
// order is lambda_l . (u' - u) with the adjoint lambda. Within a cell it changes the sum of a sub-layer.

#include <optional>
#include <span>
#include <vector>

#include "analysis/interventions/cell.hpp"
#include "analysis/interventions/run_slab.hpp"
#include "analysis/interventions/sites.hpp"

namespace fluxformer::interventions {

/// A run of one sample, with the numbers at all sites.
struct Run {
  SiteNumbers at;
  std::vector<CellTrace> traces;  ///< of each cell, where cells count
  int length = 0;                 ///< real tokens
};

/// The sites that count: faces alone, for any march and token lines that ranks share, or those within cells, too.
enum class SiteScope { faces, cells };

/// Runs of samples of a model, and the effects of patches. Calls are collective over the token line.
class Patches {
 public:
  /// `parameters` and `line` are borrowed; `runs`: patched runs at a time. Throws BadInput as RunSlab and OpenCells do,
  /// and for SiteScope::cells unless `precision` is double.
  Patches(const Parameters& parameters, const TokenLine& line, int runs, Precision precision, SiteScope scope,
          const MarchMaker& march = layer_maps);

  const SiteExtents& extents() const { return extents_; }
  /// Throws BadInput, naming the site, if the model has no such site.
  void require(Site site) const;
  /// The slab of patched runs, and that of one run: for FaceAccounts.
  RunSlab& many() { return many_; }
  RunSlab& one() { return one_; }

  /// Runs the sample in the first slot of `batch`.
  Run run(const Batch& batch);
  /// J at the end of a run.
  double value(const Run& run, const Question& question);
  /// The logits of a run, [class or word].
  std::vector<double> logits(const Run& run, const Question& question);
  /// dJ/d(site) at all sites, by one adjoint.
  SiteNumbers cotangents(const Run& run, const Question& question);

  /// The exact effects at these places of a site (SiteExtents::place, tokens by global index): one run from the site on
  /// for each, `runs` at a time. Padding tokens have the effect 0.
  std::vector<double> exact(Site site, const Run& own, const SiteNumbers& put, const Question& question,
                            std::span<const Index> places);
  /// The exact effect where the whole face is replaced by this state, [local token][channel].
  double exact_face(int face, const Run& own, const RowMatrix& state, const Question& question);
  /// The effects of all queries or keys with the soft-max computed again, [depth][part][token].
  std::vector<double> softmax(Site site, const Run& own, const SiteNumbers& put,
                              const SiteNumbers& cotangents);
  /// OpenCells::zeroing of a cell.
  RowMatrix zeroing(int cell, const Run& own);

  /// Bytes of a run and its cotangents on this rank.
  static double bytes(const SiteExtents& extents, SiteScope scope);

 private:
  /// The patched runs at places of one depth: effects of `places`, at most `runs` of them at a time.
  void exact_at_face(int face, const Run& own, const SiteNumbers& put, const Question& question,
                     std::span<const Index> places, double* effects);
  void exact_in_cell(Site site, int cell, const Run& own, const SiteNumbers& put, const Question& question,
                     std::span<const Index> places, double* effects);

  RunSlab one_, many_;
  std::optional<OpenCells> cells_one_, cells_many_;
  SiteExtents extents_;
};

}  // namespace fluxformer::interventions
