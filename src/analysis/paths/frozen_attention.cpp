#include "analysis/paths/frozen_attention.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::MatrixXd;

/// Keys of x in rows, queries in columns.
MatrixXd logits(const BilinearHead& head, const MatrixXd& x, const MatrixXd& queries) {
  MatrixXd turned(x.rows(), queries.cols()), logits(x.cols(), queries.cols());
  // x_s^T (W x_t)
  turned.noalias() = head.weights * queries;
  logits.noalias() = x.transpose() * turned;
  return logits;
}

MatrixXd logits(const QueryKeyHead& head, const MatrixXd& x, const MatrixXd& queries) {
  const Index g = head.key.rows();
  MatrixXd keys(g, x.cols()), asked(g, queries.cols()), logits(x.cols(), queries.cols());
  // (K x_s).(Q x_t) / sqrt(G)
  keys.noalias() = head.key * x;
  asked.noalias() = head.query * queries;
  logits.noalias() = keys.transpose() * asked;
  return logits / std::sqrt(g);
}

/// D of a head, 0 if its matrices do not fit.
Index dimension_of(const BilinearHead& head) {
  return head.weights.rows() == head.weights.cols() ? head.weights.rows() : 0;
}

Index dimension_of(const QueryKeyHead& head) {
  const bool fit =
      head.key.rows() > 0 && head.key.rows() == head.query.rows() && head.key.cols() == head.query.cols();
  return fit ? head.key.cols() : 0;
}

bool finite(const BilinearHead& head) {
  return head.weights.allFinite();
}

bool finite(const QueryKeyHead& head) {
  return head.query.allFinite() && head.key.allFinite();
}

/// D of all heads.
Index common_dimension(const std::vector<std::vector<FrozenHead>>& layers) {
  if (layers.empty()) throw BadInput("frozen attention needs at least one layer");
  Index common = 0;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (layers[l].empty()) throw BadInput("layer " + std::to_string(l + 1) + " of attention has no head");
    for (std::size_t h = 0; h < layers[l].size(); ++h) {
      const auto& head = layers[l][h];
      const auto which = "head " + std::to_string(h + 1) + " of layer " + std::to_string(l + 1);
      const Index here = std::visit([](const auto& one) { return dimension_of(one); }, head);
      if (common == 0) common = here;
      if (here == 0 || here != common)
        throw BadInput(which + ": its matrices do not have the shapes of frozen attention");
      if (!std::visit([](const auto& one) { return finite(one); }, head))
        throw BadInput(which + ": its weights are not all finite");
    }
  }
  return common;
}

}  // namespace

MatrixXd attention_columns(const FrozenHead& head, const MatrixXd& x, const MatrixXd& queries) {
  // A_{s t}: keys s in rows, the given queries t in columns
  MatrixXd a = std::visit([&](const auto& one) { return logits(one, x, queries); }, head);
  for (Index t = 0; t < a.cols(); ++t) {
    auto column = a.col(t);
    // softmax over the key s, without overflow
    column = (column.array() - column.maxCoeff()).exp().eval();
    column /= column.sum();
  }
  return a;
}

FrozenAttention::FrozenAttention(std::vector<std::vector<FrozenHead>> layers, ReadOut read_out)
    : layers_(std::move(layers)), read_out_(read_out), dimension_(common_dimension(layers_)) {
  path_count(heads());
}

std::vector<int> FrozenAttention::heads() const {
  std::vector<int> heads;
  heads.reserve(layers_.size());
  for (const auto& layer : layers_) heads.push_back(layer.size());
  return heads;
}

const FrozenHead& FrozenAttention::head(int layer, int head) const {
  return layers_.at(layer).at(head);
}

MatrixXd FrozenAttention::read_out_columns(const MatrixXd& x) const {
  const auto& last = layers_.back();
  MatrixXd columns(x.cols(), std::ssize(last));
  for (Index h = 0; h < columns.cols(); ++h) {
    auto column = columns.col(h);
    // One query costs a product of a matrix and a vector, all of them T times as much.
    if (read_out_ == ReadOut::last_token)
      column = attention_columns(last[h], x, x.rightCols(1));
    else
      column = attention_columns(last[h], x, x).rowwise().mean();
  }
  return columns;
}

void FrozenAttention::attentioned_inputs(const MatrixXd& x, std::span<double> row) const {
  const Index d = dimension_, paths = path_count(heads());
  if (x.rows() != d || x.cols() < 1 || std::ssize(row) != paths * d)
    throw BadInput("an example of " + std::to_string(x.rows()) + " x " + std::to_string(x.cols()) +
                   " numbers does not fit attention of dimension " + std::to_string(d));
  // Columns are the products of the layers so far, in the order of their paths (h_l .. h_L).
  MatrixXd products = read_out_columns(x);
  for (auto layer = layers_.rbegin() + 1; layer != layers_.rend(); ++layer) {
    const Index behind = products.cols();
    MatrixXd longer(x.cols(), std::ssize(*layer) * behind);
    // A^{l,h} (A^{l+1,..} .. alpha)
    for (Index h = 0; h < std::ssize(*layer); ++h)
      longer.middleCols(h * behind, behind).noalias() = attention_columns((*layer)[h], x, x) * products;
    products = std::move(longer);
  }
  // Column-major D x paths is [path][dimension].
  Eigen::Map<MatrixXd>(row.data(), d, paths).noalias() = x * products;
}

RowMatrix attentioned_inputs(const FrozenAttention& attention, int count,
                             const std::function<MatrixXd(int)>& tokens, const ExampleShare& share) {
  if (count < 1) throw BadInput("a task needs at least one example");
  const Index columns = Index{path_count(attention.heads())} * attention.dimension();
  RowMatrix inputs(share.count(count), columns);
  for (int row = 0; row < inputs.rows(); ++row)
    attention.attentioned_inputs(tokens(share.example(row)), std::span(inputs.row(row).data(), columns));
  return inputs;
}

}  // namespace fluxformer::paths
