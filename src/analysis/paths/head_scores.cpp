#include "analysis/paths/head_scores.hpp"

#include <algorithm>
#include <numeric>

#include "analysis/paths/path_examples.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {

using Eigen::Index;
using Eigen::MatrixXd;

Eigen::VectorXd paths_through(const HeadPlace& head, const std::vector<int>& heads) {
  Eigen::VectorXd through(path_count(heads));
  for (Index path = 0; path < through.size(); ++path)
    through[path] = heads_of_path(static_cast<int>(path), heads)[head.layer] == head.head;
  return through;
}

std::vector<HeadPlace> all_heads(const std::vector<int>& heads) {
  std::vector<HeadPlace> all;
  all.reserve(std::accumulate(heads.begin(), heads.end(), 0));
  for (std::size_t l = 0; l < heads.size(); ++l)
    for (int h = 0; h < heads[l]; ++h) all.push_back({static_cast<int>(l), h});
  return all;
}

std::vector<double> head_scores(const MatrixXd& u, const std::vector<int>& heads) {
  const MatrixXd size = u.cwiseAbs();
  std::vector<double> scores;
  const auto all = all_heads(heads);
  scores.reserve(all.size());
  for (const auto& head : all) {
    const auto through = paths_through(head, heads);
    scores.push_back(2 * (through.transpose() * size).sum() - through.dot(size * through));
  }
  return scores;
}

std::vector<HeadPlace> in_rising_order(const std::vector<double>& scores, const std::vector<int>& heads) {
  const auto places = all_heads(heads);
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t k) { return scores[k]; });
  std::vector<HeadPlace> rising;
  rising.reserve(order.size());
  for (const auto k : order) rising.push_back(places[k]);
  return rising;
}

MatrixXd without_head(const MatrixXd& u, const HeadPlace& head, const std::vector<int>& heads) {
  const Eigen::VectorXd kept = Eigen::VectorXd::Ones(u.rows()) - paths_through(head, heads);
  return kept.asDiagonal() * u * kept.asDiagonal();
}

}  // namespace fluxformer::paths
