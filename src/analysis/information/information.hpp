#pragma once

// What the estimators of mutual information have in common. T: hidden state of a sample (pooled or of one
// token), X: the sample itself, Y: its label. All numbers are in nats; nothing here communicates.
//
// A deterministic layer that does not merge samples has I(X;T) = ln N; a decrease with depth shows the
// resolution of the estimator. Only I(X; T + sigma Z) with a given sigma is a property of the layer.

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace fluxformer::information {

/// `count` points of `components` numbers, row by row. Borrowed.
struct Points {
  const double* data = nullptr;
  std::size_t count = 0, components = 0;
  const double* row(std::size_t i) const { return data + i * components; }
};

/// One estimate. N samples cannot show more than ln N.
struct Information {
  double value = 0;                        ///< nats
  std::optional<double> lower{}, upper{};  ///< nats; only of estimators that give bounds
};

/// A point of the information plane.
struct InformationPlane {
  Information input;  ///< I(X;T)
  Information label;  ///< I(T;Y)
};

/// Samples sorted by label: those of group g are order[first[g]] .. order[first[g + 1] - 1].
struct LabelGroups {
  /// Labels may be any integers; groups are in their order, samples of a group in the order they had.
  explicit LabelGroups(std::span<const int> labels);
  std::size_t groups() const { return first.size() - 1; }
  std::size_t size(std::size_t g) const { return first[g + 1] - first[g]; }
  /// p_y: the samples of group g over all samples.
  double share(std::size_t g) const {
    return static_cast<double>(size(g)) / static_cast<double>(order.size());
  }
  /// The rows of `points`, in this order.
  std::vector<double> rows(const Points& points) const;
  /// H(Y) = -sum_y p_y ln p_y, nats: what I(T;Y) cannot exceed.
  double entropy() const;

  std::vector<std::size_t> order, first;
};

/// Midpoint of the bounds of a mutual information that cannot exceed `most`; all three are clamped to [0,
/// most].
Information between(double lower, double upper, double most);

/// These throw BadInput naming the estimator: for fewer than two points, no component or a number that is not
/// finite; unless there is one label per point; for a noise that is not positive.
void require_points(std::string_view estimator, const Points& points);
void require_labels(std::string_view estimator, const Points& points, std::span<const int> labels);
void require_noise(std::string_view estimator, double sigma);

}  // namespace fluxformer::information
