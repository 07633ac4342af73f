#include "analysis/interventions/face_accounts.hpp"

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <boost/math/quadrature/gauss_kronrod.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "model/depth_march.hpp"

namespace fluxformer::interventions {
namespace {

constexpr double not_computed = std::numeric_limits<double>::quiet_NaN();

/// Nodes and weights of a quadrature on [0, 1].
struct Quadrature {
  std::vector<double> nodes, weights, coarse;  ///< coarse: weights of the embedded Gauss rule
};

/// The rule on [-1, 1] with these abscissae >= 0, moved to [0, 1].
template <class Numbers>
Quadrature on_unit_interval(const Numbers& abscissae, const Numbers& weights) {
  Quadrature rule;
  for (std::size_t k = 0; k < abscissae.size(); ++k)
    for (const double sign : {-1.0, 1.0}) {
      if (abscissae[k] == 0 && sign > 0) continue;
      rule.nodes.push_back((1 + sign * abscissae[k]) / 2);
      rule.weights.push_back(weights[k] / 2);
    }
  return rule;
}

/// Kronrod's extension of Gauss's rule of 7 nodes to 15.
Quadrature kronrod() {
  using Fine = boost::math::quadrature::gauss_kronrod<double, 15>;
  using Coarse = boost::math::quadrature::gauss<double, 7>;
  auto rule = on_unit_interval(Fine::abscissa(), Fine::weights());
  rule.coarse.assign(rule.nodes.size(), 0.0);
  const auto gauss = on_unit_interval(Coarse::abscissa(), Coarse::weights());
  // The nodes of Gauss are among those of Kronrod.
  for (std::size_t g = 0; g < gauss.nodes.size(); ++g) {
    const auto near =
        std::ranges::min_element(rule.nodes, {}, [&](double x) { return std::abs(x - gauss.nodes[g]); });
    rule.coarse[near - rule.nodes.begin()] = gauss.weights[g];
  }
  return rule;
}

template <unsigned N>
Quadrature gauss_rule() {
  using Rule = boost::math::quadrature::gauss<double, N>;
  return on_unit_interval(Rule::abscissa(), Rule::weights());
}

Quadrature gauss_of(int nodes) {
  switch (nodes) {
    case 1:
      return {{0.5}, {1}, {}};
    case 2:
      return gauss_rule<2>();
    case 4:
      return gauss_rule<4>();
    case 8:
      return gauss_rule<8>();
    case 16:
      return gauss_rule<16>();
    case 32:
      return gauss_rule<32>();
    case 64:
      return gauss_rule<64>();
    default:
      throw BadInput("Gauss-Legendre rules have 1, 2, 4, 8, 16, 32 or 64 nodes here, not " +
                     std::to_string(nodes));
  }
}

/// |sum of effects - J(put) + J(own)|
double gap(const std::vector<double>& effects, double expected) {
  return std::abs(std::accumulate(effects.begin(), effects.end(), -expected));
}

/// A part of the line from own to put, with the integrals over it.
struct Part {
  double from, length;
  std::vector<double> effects;
  double error;
};

}  // namespace

std::vector<double> FaceAccounts::over_tokens(std::vector<double> mine) const {
  sum_over_ranks(mine, slab_.context().line->comm());
  return mine;
}

std::vector<double> FaceAccounts::own_numbers(const RowMatrix& one, const RowMatrix& other) const {
  const auto& line = *slab_.context().line;
  std::vector<double> mine(line.tokens(), 0.0);
  for (int t = 0; t < line.block().count(); ++t)
    mine[line.global_index(line.rank(), t)] = one.row(t).dot(other.row(t));
  return mine;
}

RowMatrix FaceAccounts::curvature(int face, const Question& question, const RowMatrix& own,
                                  const RowMatrix& put, const std::vector<int>& tokens) {
  const auto& line = *slab_.context().line;
  const Index all = line.tokens(), runs = slab_.runs(), width = slab_.context().width;
  std::vector<int> wanted = tokens;
  if (wanted.empty())
    for (int t = 0; t < slab_.context().real_tokens(0); ++t) wanted.push_back(t);
  for (const int token : wanted)
    if (token < 0 || token >= all) throw std::invalid_argument("curvature of a token that does not exist");
  auto* const march =
      face < slab_.depth().cells ? dynamic_cast<Backpropagation*>(&slab_.from(face)) : nullptr;
  if (march == nullptr && face < slab_.depth().cells)
    throw BadInput(
        "second derivatives need the march by layer maps, and the model was trained by another one");
  std::vector<double> u(slab_.size()), w(u.size()), u_dot(u.size()), w_dot(u.size());
  for (int run = 0; run < runs; ++run) slab_.put(own, run, u);
  if (march != nullptr) march->forward(u.data(), Keep::second_derivatives, {});
  slab_.goal().value(question, u.data());
  slab_.goal().pull(w.data());
  if (march != nullptr) march->backward(w.data(), {}, {});
  // The parameters do not vary, but the march asks for a direction and a place of their derivatives.
  const std::size_t parameters = march != nullptr ? slab_.parameters().values.size() : 0;
  const std::vector<double> direction(parameters, 0.0);
  std::vector<double> unread(parameters);
  const RowMatrix change = put - own;
  RowMatrix products = RowMatrix::Constant(all, all, not_computed);
  for (std::size_t first = 0; first < wanted.size(); first += runs) {
    const auto count = std::min<std::size_t>(runs, wanted.size() - first);
    std::ranges::fill(u_dot, 0.0);
    for (std::size_t run = 0; run < count; ++run)
      for (int t = 0; t < line.block().count(); ++t)
        if (line.global_index(line.rank(), t) == wanted[first + run])
          std::copy_n(change.row(t).data(), width,
                      u_dot.begin() + (t * runs + static_cast<Index>(run)) * width);
    // H D_i by the tangent of the run and that of the adjoint.
    if (march != nullptr) march->push(u_dot.data(), direction, {});
    slab_.goal().pull_along(u_dot.data(), w_dot.data());
    if (march != nullptr) march->pull_along(w_dot.data(), direction, unread, {});
    for (std::size_t run = 0; run < count; ++run) {
      const auto row = over_tokens(own_numbers(change, slab_.get(w_dot, static_cast<int>(run))));
      products.row(wanted[first + run]) = Eigen::Map<const Eigen::RowVectorXd>(row.data(), all);
    }
  }
  return products;
}

std::vector<std::vector<double>> FaceAccounts::slopes(int face, const Question& question,
                                                      const RowMatrix& own, const RowMatrix& change,
                                                      const std::vector<double>& at) {
  std::vector<std::vector<double>> all;
  std::vector<double> u(slab_.size()), w(u.size());
  const std::size_t runs = slab_.runs();
  for (std::size_t first = 0; first < at.size(); first += runs) {
    const auto count = std::min(runs, at.size() - first);
    for (std::size_t run = 0; run < runs; ++run)
      slab_.put(own + at[std::min(first + run, at.size() - 1)] * change, static_cast<int>(run), u);
    auto* const march = face < slab_.depth().cells ? &slab_.from(face) : nullptr;
    if (march != nullptr) march->forward(u.data(), Keep::activations, {});
    slab_.goal().value(question, u.data());
    slab_.goal().pull(w.data());
    if (march != nullptr) march->backward(w.data(), {}, {});
    for (std::size_t run = 0; run < count; ++run)
      all.push_back(over_tokens(own_numbers(change, slab_.get(w, static_cast<int>(run)))));
  }
  return all;
}

double FaceAccounts::difference(int face, const Question& question, const RowMatrix& own,
                                const RowMatrix& put) {
  std::vector<double> u(slab_.size());
  const auto value = [&](const RowMatrix& state) {
    for (int run = 0; run < slab_.runs(); ++run) slab_.put(state, run, u);
    return slab_.run_on(face, question, u).front();
  };
  const double before = value(own);
  return value(put) - before;
}

Integrated FaceAccounts::integrated(int face, const Question& question, const RowMatrix& own,
                                    const RowMatrix& put, double tolerance, int most_nodes) {
  static const Quadrature rule = kronrod();
  const RowMatrix change = put - own;
  const double expected = difference(face, question, own, put);
  Integrated found;
  const auto over = [&](double from, double length) {
    std::vector<double> at;
    at.reserve(rule.nodes.size());
    for (const double node : rule.nodes) at.push_back(from + length * node);
    const auto values = slopes(face, question, own, change, at);
    found.nodes += static_cast<int>(at.size());
    Part part{from, length, std::vector<double>(values.front().size(), 0.0), 0};
    double fine = 0, coarse = 0;
    for (std::size_t k = 0; k < at.size(); ++k)
      for (std::size_t t = 0; t < values[k].size(); ++t) {
        part.effects[t] += length * rule.weights[k] * values[k][t];
        fine += length * rule.weights[k] * values[k][t];
        coarse += length * rule.coarse[k] * values[k][t];
      }
    part.error = std::abs(fine - coarse);
    return part;
  };
  std::vector<Part> parts{over(0, 1)};
  const auto error = [&] {
    double sum = 0;
    for (const auto& part : parts) sum += part.error;
    return sum;
  };
  // The part of the largest error is halved.
  while (error() > tolerance * std::max(1.0, std::abs(expected)) && found.nodes < most_nodes) {
    const auto worst = std::ranges::max_element(parts, {}, &Part::error);
    const auto [from, length, effects, had] = *worst;
    *worst = over(from, length / 2);
    parts.push_back(over(from + length / 2, length / 2));
  }
  found.estimate = error();
  found.effects.assign(parts.front().effects.size(), 0.0);
  for (const auto& part : parts)
    for (std::size_t t = 0; t < part.effects.size(); ++t) found.effects[t] += part.effects[t];
  found.gap = gap(found.effects, expected);
  return found;
}

Integrated FaceAccounts::fixed(int face, const Question& question, const RowMatrix& own, const RowMatrix& put,
                               int nodes) {
  const auto rule = gauss_of(nodes);
  const double expected = difference(face, question, own, put);
  const auto values = slopes(face, question, own, put - own, rule.nodes);
  Integrated found{.effects = std::vector<double>(values.front().size(), 0.0), .nodes = nodes};
  for (std::size_t k = 0; k < values.size(); ++k)
    for (std::size_t t = 0; t < values[k].size(); ++t) found.effects[t] += rule.weights[k] * values[k][t];
  found.gap = gap(found.effects, expected);
  found.estimate = not_computed;
  return found;
}

}  // namespace fluxformer::interventions
