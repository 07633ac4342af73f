#pragma once

// A depth cell opened: its sub-layers one by one, what attention and the network add, queries, keys, values and heads,
// with cotangents of all of them. For sub-layers by Euler steps (docs/model.md section 2):
//
//   a = h alpha (W_O o + b_O),   o_x = sum_y p(x, y) v_y,   p = softmax_y(q_x . k_y / sqrt(c)) over visible y
//   attention's sub-layer   sum = (residual) x + a + ...,   N(sum)        the network's   sum = (residual) x + f + ...

#include <vector>

#include "analysis/interventions/sites.hpp"
#include "model/depth_cells.hpp"
#include "model/depth_weights.hpp"
#include "model/sub_layers.hpp"
#include "operators/attention/reach.hpp"

namespace fluxformer::interventions {

/// The slabs between the sub-layers of a cell, in the walk of one sample.
struct CellTrace {
  std::vector<std::vector<double>>
      arguments;                          ///< x of each sub-layer; of the first one empty: the cell's entry
  std::vector<std::vector<double>> sums;  ///< of each sub-layer
};

/// The sum of a sub-layer that a site within a cell changes.
enum class SubSum { attention, ffn };
inline SubSum sum_of(Site site) {
  return site == Site::ffn ? SubSum::ffn : SubSum::attention;
}

/// The cells of a model on a slab of whole samples (one rank holds all tokens), in double.
class OpenCells {
 public:
  /// All are borrowed. Throws BadInput for what has no such sites: sub-layers by the midpoint rule, tokens that ranks
  /// share.
  OpenCells(const Parameters& parameters, const SlabContext& context, const DepthCells& depth,
            const EquationCoefficients& coefficients);

  /// Throws BadInput, naming `site`, if the model has no such site: heads, queries, keys and values need
  /// attention.kernel = dot and attention.normalisation = softmax.
  void require(Site site) const;
  SiteExtents extents() const { return extents_; }
  /// The number of the sub-layer whose sum a site changes.
  Index sub_layer(SubSum sum) const { return sum == SubSum::attention ? attention_ : ffn_; }

  /// Walks u (one sample) through the cell (from 0): v := G(u), to the same bits as the march by layer maps; `at` := the
  /// numbers at its sites.
  CellTrace walk(int cell, const double* u, double* v, CellNumbers& at);
  /// The rest of the cell from the sums of a sub-layer on, for all samples of the slab: v := N(sums) and what follows.
  void finish(int cell, SubSum from, const double* sums, double* v);
  /// u_bar := (dG/du)^T w at the walk of one sample from u, and the cotangents of the sites of the cell.
  void pull(int cell, const double* u, const CellNumbers& at, const CellTrace& trace, const double* w,
            double* u_bar, CellNumbers& cotangents);

  /// h alpha W_O(head) change, for each row of the change: how it changes what attention adds.
  RowMatrix added_by_head(int cell, int head, const RowMatrix& change);

  /// The change of a head's output o where one part of a site is replaced.
  struct HeadChange {
    int head;
    int first;  ///< token of the first row
    RowMatrix
        change;  ///< [row][channel], of consecutive tokens: one for queries and heads, all for keys and values
  };
  /// The exact changes where `part` of `token` becomes `put`: of one head, or of all that read a group.
  std::vector<HeadChange> changes(int cell, const CellNumbers& at, Site site, int part, int token,
                                  const Eigen::RowVectorXd& put) const;
  /// The effects of all queries, or of all keys, of a cell with the soft-max computed again and what follows it to
  /// first order, [part][token]. With logits l and l' of a pair and the mass and the mean of the other keys,
  /// log rho = log sum_{z != y} exp l_xz and m = sum_{z != y} exp(l_xz) v_z / rho, a key changes
  /// o_x by (p' - p) (v_y - m), p = 1 / (1 + exp(log rho - l)): no 0/0 where p is near 1.
  std::vector<double> softmax_effects(int cell, Site site, const CellNumbers& own, const CellNumbers& put,
                                      const CellNumbers& cotangents) const;
  /// The norm of the change of each row of what attention adds where the value of one token is 0, [row][token]:
  /// |h alpha sum_heads W_O(head) p(x, y) v_y| (value zeroing, Mohebbi et al. 2023).
  RowMatrix zeroing(int cell, const CellNumbers& at);

 private:
  /// The weights of a cell, valid until the next call.
  LayerWeights<const double> weights(int cell);
  /// h alpha W_O(head), d x c.
  RowMatrix output_of_head(int cell, int head);
  /// Queries of a head, and keys or values of a group: [token][channel].
  RowMatrix columns(const RowMatrix& numbers, int part) const;
  /// The logits of a head at these queries and keys, [query][key].
  RowMatrix logits(const RowMatrix& queries, const RowMatrix& keys) const;
  /// Turns logits of the queries first, first + 1, ... into weights p; 0 where a key is not visible.
  void to_weights(int cell, Index first, RowMatrix& logits) const;
  RowMatrix weights_of_head(int cell, const CellNumbers& at, int head) const;
  KeyRange visible(int cell, Index query) const;
  int group_of(int head) const { return head * extents_.groups / extents_.heads; }
  void add_head_cotangents(int cell, const CellNumbers& at, CellNumbers& cotangents);
  std::vector<double> query_effects(int cell, const CellNumbers& own, const CellNumbers& put,
                                    const CellNumbers& cotangents) const;
  std::vector<double> key_effects(int cell, const CellNumbers& own, const CellNumbers& put,
                                  const CellNumbers& cotangents) const;

  const Parameters& parameters_;
  const SlabContext& context_;
  DepthCells depth_;
  int layer_ = 1;  // of the present cell, which the terms ask for
  DepthWeights<double> weights_;
  SlabTerms<double> terms_;
  std::vector<SubLayer<double>> sub_layers_;
  Index attention_ = 0, ffn_ = 0;  // the sub-layers that hold them
  SlabNorm<double> norm_;
  SiteExtents extents_;
};

}  // namespace fluxformer::interventions
