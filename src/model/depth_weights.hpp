#pragma once

// The parameters at a depth: one of S layers, or the linear interpolation between K knots at
// s_k = (k-1)(S-1)/(K-1), constant beyond the last (docs/model.md section 1). With K = S and h = 1 the PDE
// model is exactly the Transformer.

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "model/parameters.hpp"

namespace fluxformer {

/// The two knots (0-based) around a depth and the weight of the upper one.
struct KnotPair {
  int lower = 0, upper = 0;
  double share = 0;
};
/// The knots around `point`. For constant weights both are the knot of its layer, with share 0.
KnotPair knots_at(const ModelSpec& spec, const DepthPoint& point);

/// The parameters at any depth in the arithmetic T of the kernels; their gradients in double.
template <class T>
class DepthWeights {
 public:
  /// `parameters` is borrowed; `refresh` is to be called after it changed.
  explicit DepthWeights(const Parameters& parameters) : parameters_(parameters) {}

  /// The parameters at `point`. The views are valid until `refresh` or the next call for another depth that
  /// was not prepared. A depth that was not prepared is interpolated once for any number of calls in turn.
  LayerWeights<const T> at(const DepthPoint& point);
  /// The same interpolation of another flat vector, a direction of the parameters: computed at each call, and
  /// valid until the next.
  LayerWeights<const T> direction_at(const DepthPoint& point, std::span<const double> flat);
  /// Interpolates the parameters of these depths and keeps them. Memory: one block for each different depth.
  void prepare(std::span<const DepthPoint> points);
  /// Interpolates the kept depths again, after the parameters changed.
  void refresh();

  /// The place to add a gradient with respect to the parameters at `point`: a view into `flat` if one knot
  /// determines them, else a scratch block that `finish_gradient` distributes over the two knots.
  LayerWeights<double> begin_gradient(const DepthPoint& point, std::span<double> flat);
  /// Adds the scratch block of `begin_gradient`, if it was used, to the two knots around `point`.
  void finish_gradient(const DepthPoint& point, std::span<double> flat);

 private:
  struct Block {
    std::vector<double> exact;  // empty where the flat vector is used directly
    std::vector<T> cast;        // empty for T = double
  };
  void fill(const KnotPair& pair, std::span<const double> flat, Block& block) const;
  LayerWeights<const T> view(int layer, const KnotPair& pair, std::span<const double> flat,
                             const Block& block) const;
  using Key = std::pair<int, double>;
  const Parameters& parameters_;
  std::map<Key, Block> prepared_;
  Block scratch_;
  std::optional<Key> scratch_key_;  // the depth that scratch_ holds
  Block direction_;
  std::vector<double> gradient_;
};

extern template class DepthWeights<float>;
extern template class DepthWeights<double>;

}  // namespace fluxformer
