#include "analysis/identifiability/attribution_baselines.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {
namespace {

Index tokens_of(const LayerHeads& heads) {
  if (heads.empty()) throw BadInput("the attention of a layer needs at least one head");
  const Index n = heads.front().weights.rows();
  for (const auto& head : heads)
    if (head.weights.rows() != n || head.weights.cols() != n)
      throw BadInput("the heads of a layer see different numbers of tokens");
  return n;
}

}  // namespace

Matrix raw_attention(const LayerHeads& heads) {
  const Index n = tokens_of(heads);
  Matrix sum = Matrix::Zero(n, n);
  for (const auto& head : heads) sum += head.weights;
  return sum / heads.size();
}

Matrix with_residual(const Matrix& attention, double step) {
  // (h A + I)/(1 + h)
  Matrix mixed = step / (1 + step) * attention;
  mixed.diagonal().array() += 1 / (1 + step);
  return mixed;
}

namespace {

/// h_l of the layer at this place.
double step_of(std::span<const double> steps, std::size_t place) {
  return steps.empty() ? 1 : steps[place];
}

}  // namespace

std::vector<Matrix> rollout(const std::vector<Matrix>& attention, std::span<const double> steps) {
  std::vector<Matrix> layers;
  for (const auto& a : attention) {
    const Matrix mixed = with_residual(a, step_of(steps, layers.size()));
    // R_l = (h_l A_l + I)/(1 + h_l) R_{l-1}
    layers.push_back(layers.empty() ? mixed : Matrix(mixed * layers.back()));
  }
  return layers;
}

Matrix norm_based_attention(const LayerHeads& heads) {
  const Index n = tokens_of(heads), d = heads.front().output.cols();
  const Index count = std::ssize(heads);
  std::vector<Matrix> moved;  // T^h
  for (const auto& head : heads) moved.emplace_back(head.values * head.output);

  Matrix norms(n, n), weights(n, count), vectors(count, d), sums(n, d);
  for (Index i = 0; i < n; ++i) {  // one input token: all output tokens in one product
    for (Index h = 0; h < count; ++h) {
      weights.col(h) = heads[h].weights.col(i);
      vectors.row(h) = moved[h].row(i);
    }
    // |sum_h A^h_ji T^h_i| for all j
    sums.noalias() = weights * vectors;
    norms.col(i) = sums.rowwise().norm();
  }
  return norms;
}

std::vector<double> scores_of_inputs(const Matrix& method, std::span<const int> outputs) {
  if (outputs.empty()) throw BadInput("a score of input tokens needs at least one output token");
  // score_i = mean over the output tokens j of method_ji
  Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(method.cols());
  for (const int j : outputs) {
    if (j < 0 || j >= method.rows())
      throw BadInput("output token " + std::to_string(j) + " is none of " + std::to_string(method.rows()));
    sum += method.row(j);
  }
  sum /= outputs.size();
  return {sum.data(), sum.data() + sum.size()};
}

namespace {

constexpr double round_off = 1e-13;  // relative error of sums of some hundred capacities

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;

// Push-relabel counts in whole units, so that what flows into a token flows out of it exactly. 2^-52 of the
// capacity of a row is what a double number near 1 resolves, and some hundred rows fit into 64 bits.
constexpr double units = 4503599627370496.0;

std::int64_t in_units(double capacity) {
  return std::llround(capacity * units);
}

struct Link {
  std::int64_t capacity = 0, residual = 0;
  Traits::edge_descriptor reverse;
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Link>;

/// A flow that is found quickly and may not be the largest: paths are filled one after the other until none
/// is left that only goes down. Each token first passes on to itself, where the residual connection is wide.
class QuickFlow {
 public:
  explicit QuickFlow(const std::vector<Matrix>& capacity)
      : capacity_(capacity), n_(capacity.front().rows()), tried_(capacity.size() * n_) {}

  /// `bottom`: the column of the input token. Not more than the largest flow.
  double flow(Index output, const Eigen::VectorXd& bottom) {
    left_ = capacity_;
    sink_ = bottom;
    std::fill(tried_.begin(), tried_.end(), Index{0});
    return send(capacity_.size() - 1, output, std::numeric_limits<double>::infinity());
  }

 private:
  /// Sends up to `amount` from a token above layer s + 1 to the sink; returns what arrives.
  double send(std::size_t s, Index token, double amount) {
    if (s == 0) {
      const double sent = std::min(amount, sink_[token]);
      sink_[token] -= sent;
      return sent;
    }
    double sum = 0;
    for (Index& tried = tried_[s * n_ + token]; tried < n_; ++tried) {
      const Index next = (token + tried) % n_;
      double& edge = left_[s](token, next);
      if (edge <= 0) continue;
      const double sent = send(s - 1, next, std::min(amount, edge));
      edge -= sent, amount -= sent, sum += sent;
      if (amount <= 0) break;  // the edge may have room for more
    }
    return sum;
  }

  const std::vector<Matrix>& capacity_;
  Index n_;
  std::vector<Matrix> left_;
  Eigen::VectorXd sink_;
  std::vector<Index> tried_;  // [s][token]: edges that are full or lead nowhere
};

/// The layers between, with a source and a sink whose capacities are set for each pair.
class FlowGraph {
 public:
  explicit FlowGraph(const std::vector<Matrix>& capacity)
      : n_(capacity.front().rows()),
        graph_(n_ * (capacity.size() - 1) + 2),
        source_(boost::num_vertices(graph_) - 2),
        sink_(source_ + 1) {
    const std::size_t interior = capacity.size() - 1;  // sets of nodes; set s lies above layer s + 1
    for (std::size_t s = 1; s < interior; ++s)
      for (Index q = 0; q < n_; ++q)
        for (Index k = 0; k < n_; ++k)
          if (const double c = capacity[s](q, k); c > 0)
            graph_[link(node(s, q), node(s - 1, k))].capacity = in_units(c);
    for (Index k = 0; k < n_; ++k) {
      from_source_.push_back(link(source_, node(interior - 1, k)));
      to_sink_.push_back(link(node(0, k), sink_));
    }
  }

  double largest(const Matrix& top, Index output, const Matrix& bottom, Index input) {
    for (Index k = 0; k < n_; ++k) {
      graph_[from_source_[k]].capacity = in_units(top(output, k));
      graph_[to_sink_[k]].capacity = in_units(bottom(k, input));
    }
    const std::int64_t flow = boost::push_relabel_max_flow(
        graph_, source_, sink_, boost::get(&Link::capacity, graph_), boost::get(&Link::residual, graph_),
        boost::get(&Link::reverse, graph_), boost::get(boost::vertex_index, graph_));
    return flow / units;
  }

 private:
  /// Set s = 0 is the lowest: above layer 1.
  std::size_t node(std::size_t s, Index token) const { return s * n_ + token; }
  /// An edge of capacity 0, with the reverse edge that the algorithm needs.
  Traits::edge_descriptor link(std::size_t from, std::size_t to) {
    const auto forth = boost::add_edge(from, to, graph_).first,
               back = boost::add_edge(to, from, graph_).first;
    graph_[forth].reverse = back;
    graph_[back].reverse = forth;
    return forth;
  }

  Index n_;
  Graph graph_;
  std::size_t source_, sink_;
  std::vector<Traits::edge_descriptor> from_source_, to_sink_;
};

std::vector<Matrix> capacities_of(const std::vector<Matrix>& attention, std::span<const double> steps) {
  if (attention.empty()) throw BadInput("attention flow needs at least one layer");
  std::vector<Matrix> capacity;
  for (const auto& a : attention) {
    if (a.rows() != attention.front().rows() || a.cols() != a.rows())
      throw BadInput("attention flow needs square matrices of one size");
    if (!(a.array() >= 0).all()) throw BadInput("attention flow needs weights that are not negative");
    capacity.push_back(with_residual(a, step_of(steps, capacity.size())));
  }
  return capacity;
}

}  // namespace

Matrix attention_flow(const std::vector<Matrix>& attention, std::span<const int> outputs,
                      std::span<const double> steps) {
  const auto capacity = capacities_of(attention, steps);
  const Index n = capacity.front().rows();
  for (const int j : outputs)
    if (j < 0 || j >= n)
      throw BadInput("output token " + std::to_string(j) + " is none of " + std::to_string(n));

  Matrix flow(std::ssize(outputs), n);
  const auto fill = [&](const auto& largest) {
    for (Index o = 0; o < flow.rows(); ++o)
      for (Index i = 0; i < n; ++i) flow(o, i) = largest(outputs[o], i);
  };
  if (capacity.size() == 1) {
    fill([&](Index j, Index i) { return capacity.front()(j, i); });
  } else if (capacity.size() == 2) {
    fill([&](Index j, Index i) { return capacity[1].row(j).cwiseMin(capacity[0].col(i).transpose()).sum(); });
  } else {
    // The edges of output token j are a cut, and so are those of input token i: a flow as large is the
    // largest.
    QuickFlow quick(capacity);
    FlowGraph graph(capacity);
    fill([&](Index j, Index i) {
      const double bound = std::min(capacity.back().row(j).sum(), capacity.front().col(i).sum());
      if (quick.flow(j, capacity.front().col(i)) >= bound * (1 - round_off)) return bound;
      return graph.largest(capacity.back(), j, capacity.front(), i);
    });
  }
  return flow;
}

Matrix flow_shares(const Matrix& flow) {
  return flow.array().colwise() / flow.rowwise().sum().array();
}

}  // namespace fluxformer::identifiability
