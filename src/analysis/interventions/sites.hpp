#pragma once

// Sites at which a state is replaced, and numbers at all sites of one sample: values, changes, or cotangents.
//
//   face l        u_l, the state between depth cells l and l + 1 (0: embedded input)          [token][channel]
//   attention i   h alpha A(u), what attention adds to the residual stream in cell i          [token][channel]
//   ffn i         h rho R(v), what the network adds there                                     [token][channel]
//   head i        o = sum_y p(x, y) v_y of each head, before W_O                              [token][head][channel]
//   query, key, value i   as they meet in the kernel        [token][head][channel], or [token][group][channel]

#include <string>
#include <vector>

#include "analysis/dense_matrices.hpp"
#include "base/index.hpp"

namespace fluxformer::interventions {

enum class Site { face, attention, ffn, head, query, key, value };
inline constexpr Site all_sites[] = {Site::face,  Site::attention, Site::ffn,  Site::head,
                                     Site::query, Site::key,       Site::value};

/// The word of a site in decks and files: "face", "attention", ...
std::string site_word(Site site);
/// The site of a word; throws BadInput for another one.
Site site_of(const std::string& word);

/// Sizes of the sites of a model on one sample. Of a token line that ranks share, `tokens` are those of this rank.
struct SiteExtents {
  int cells = 1, tokens = 1, width = 1;
  int heads = 1, groups = 1, channels = 1;

  /// Depths at which a site lies: M + 1 faces, M cells.
  int depths(Site site) const { return site == Site::face ? cells + 1 : cells; }
  /// Parts of a token: heads, groups of keys and values, or 1.
  int parts(Site site) const;
  /// Numbers of a part of a token.
  int part_width(Site site) const;
  /// Number of places: depths x parts x tokens.
  Index places(Site site) const { return Index{depths(site)} * parts(site) * tokens; }
  /// Index of a place among them: [depth][part][token].
  Index place(Site site, int depth, int part, int token) const {
    return (Index{depth} * parts(site) + part) * tokens + token;
  }
};

/// Numbers at the sites within a cell, rows: tokens.
struct CellNumbers {
  RowMatrix attention, ffn, heads, queries, keys, values;
};

/// Numbers at all sites of one sample; `cells` is empty where only faces count.
struct SiteNumbers {
  std::vector<RowMatrix> faces;    ///< [face]
  std::vector<CellNumbers> cells;  ///< [cell], from 0

  /// Throws std::out_of_range for a depth that does not exist.
  const RowMatrix& of(Site site, int depth) const;
  RowMatrix& of(Site site, int depth);
  /// Adds `scale` times other numbers of the same shape (empty numbers take their shape).
  void add(double scale, const SiteNumbers& other);
};

/// The part of a token: a row of numbers.
inline auto part_of(const RowMatrix& numbers, const SiteExtents& extents, Site site, int part, int token) {
  const int width = extents.part_width(site);
  return numbers.row(token).segment(Index{part} * width, width);
}

/// <cotangent, put - own> at each place of a site, [depth][part][token]: the effect by first order.
std::vector<double> first_order(const SiteExtents& extents, Site site, const SiteNumbers& cotangent,
                                const SiteNumbers& own, const SiteNumbers& put);
/// |put - own| at each place of a site: the size of the change.
std::vector<double> sizes_of_change(const SiteExtents& extents, Site site, const SiteNumbers& own,
                                    const SiteNumbers& put);

}  // namespace fluxformer::interventions
