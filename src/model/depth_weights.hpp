#pragma once

// The parameters at a depth: one of S layers, or the linear interpolation between K knots at
// s_k = (k-1)(S-1)/(K-1), constant beyond the last (docs/model.md section 1). The PDE model with K = S and h
// = 1 is the Transformer exactly.

#include <map>
#include <span>
#include <vector>

#include "model/parameters.hpp"

namespace fluxformer {

/// Which two knots (0-based) meet at a depth and the share of the upper one.
struct KnotPair {
  int lower = 0, upper = 0;
  double share = 0;
};
KnotPair knots_at(const ModelSpec& spec, const DepthPoint& point);

template <class T>
class DepthWeights {
 public:
  /// `parameters` is borrowed; `refresh` after it changed.
  explicit DepthWeights(const Parameters& parameters) : parameters_(parameters) {}

  /// Views valid until the next call at a depth that was not prepared, or until `refresh`.
  LayerWeights<const T> at(const DepthPoint& point);
  /// Keeps the parameters of these depths ready (memory: one block each, shared between equal depths).
  void prepare(std::span<const DepthPoint> points);
  void refresh();

  /// Where a gradient with respect to the parameters at `point` is collected: a view into `flat` where one
  /// knot decides, else a scratch block that `finish_gradient` spreads over the two knots.
  LayerWeights<double> begin_gradient(const DepthPoint& point, std::span<double> flat);
  void finish_gradient(const DepthPoint& point, std::span<double> flat);

 private:
  struct Block {
    std::vector<double> exact;  // empty where the flat vector itself serves
    std::vector<T> cast;        // empty for T = double
  };
  void fill(const KnotPair& pair, Block& block) const;
  LayerWeights<const T> view(const KnotPair& pair, const Block& block) const;
  using Key = std::pair<int, double>;
  const Parameters& parameters_;
  std::map<Key, Block> prepared_;
  Block scratch_;
  std::vector<double> gradient_;
};

extern template class DepthWeights<float>;
extern template class DepthWeights<double>;

}  // namespace fluxformer
