#pragma once

// Attention with frozen queries and keys, computed in every layer from the bare input x (D x T, columns are
// tokens):
//
//   A^{l,h}_{s t} = softmax over the key s of  x_s^T W x_t  or  (K x_s).(Q x_t) / sqrt(G)
//
// and what it makes of x along each path of heads. No causal mask, no padding.
// Source: Tiberi et al., arXiv 2405.15926; docs/model.md, section 11.2.

#include <Eigen/Core>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "analysis/paths/path_examples.hpp"

namespace fluxformer::paths {

/// A head with logits x_s^T W x_t, without any scaling.
struct BilinearHead {
  Eigen::MatrixXd weights;  ///< W, D x D: the key stands left, the query right
};

/// A head with logits (K x_s).(Q x_t) / sqrt(G).
struct QueryKeyHead {
  Eigen::MatrixXd query;  ///< Q, G x D
  Eigen::MatrixXd key;    ///< K, G x D
};

/// A frozen head of either form.
using FrozenHead = std::variant<BilinearHead, QueryKeyHead>;

/// The column of the last layer's attention that the network reads.
enum class ReadOut {
  last_token,      ///< the column of the last token
  average_pooling  ///< the mean over all columns
};

/// Columns of A for some queries: T x n, each column sums to 1. x: D x T, queries: D x n, any columns of x.
/// Costs 2 D^2 n + 2 D T n flops (2 D G (T + n) + 2 G T n for queries and keys).
Eigen::MatrixXd attention_columns(const FrozenHead& head, const Eigen::MatrixXd& x,
                                  const Eigen::MatrixXd& queries);

/// The frozen heads of all layers.
class FrozenAttention {
 public:
  /// Takes layers[l][h]. Throws BadInput unless there is a layer, each layer has a head, and all matrices fit
  /// one dimension D and are finite.
  FrozenAttention(std::vector<std::vector<FrozenHead>> layers, ReadOut read_out);

  int dimension() const { return dimension_; }  ///< D
  /// Numbers of heads H_1 .. H_L.
  std::vector<int> heads() const;
  /// One head; both indices count from 0.
  const FrozenHead& head(int layer, int head) const;

  /// alpha^h of the last layer's heads, as columns: T x H_L. x: D x T.
  Eigen::MatrixXd read_out_columns(const Eigen::MatrixXd& x) const;

  /// Writes xi of every path of one example x (D x T) to `row` (paths D numbers, [path][dimension]).
  /// Vectors are multiplied from right to left, and paths with equal last heads share them. Throws BadInput
  /// if a size does not fit. Costs the attention of each head once, 2 T^2 flops for each head and each path
  /// of the layers after it, and 2 D T for each whole path.
  void attentioned_inputs(const Eigen::MatrixXd& x, std::span<double> row) const;

 private:
  std::vector<std::vector<FrozenHead>> layers_;
  ReadOut read_out_;
  int dimension_ = 0;
};

/// Inputs of PathExamples, one row for each of the examples 0 .. count - 1 that `share` holds. tokens(k)
/// gives x of example k, D x T. Throws BadInput without examples.
RowMatrix attentioned_inputs(const FrozenAttention& attention, int count,
                             const std::function<Eigen::MatrixXd(int)>& tokens,
                             const ExampleShare& share = {});

}  // namespace fluxformer::paths
