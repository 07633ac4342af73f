#pragma once

// How much each attention head counts by the theory of attention paths. Source: specification of attention paths, section 2.6.

#include <Eigen/Core>
#include <vector>

namespace fluxformer::paths {

/// One head, both counted from 0.
struct HeadPlace {
  int layer = 0, head = 0;
};

/// Of all layers, the first layer's heads first.
std::vector<HeadPlace> all_heads(const std::vector<int>& heads);

/// 1 for the paths through a head, 0 for the others: by paths.
Eigen::VectorXd paths_through(const HeadPlace& head, const std::vector<int>& heads);

/// score(l, h) = sum of |U_1^{pi pi'}| over the pairs of paths of which at least one goes through head h of layer l. By
/// layers, the heads of a layer behind each other; not normalised.
std::vector<double> head_scores(const Eigen::MatrixXd& u, const std::vector<int>& heads);

/// All heads, that of the smallest score first; of equal ones the first.
std::vector<HeadPlace> in_rising_order(const std::vector<double>& scores, const std::vector<int>& heads);

/// U_1 with zeros in the rows and columns of all paths through the head.
Eigen::MatrixXd without_head(const Eigen::MatrixXd& u, const HeadPlace& head, const std::vector<int>& heads);

}  // namespace fluxformer::paths
