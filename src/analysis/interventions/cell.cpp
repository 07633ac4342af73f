#include "analysis/interventions/cell.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace fluxformer::interventions {
namespace {

constexpr double none = -std::numeric_limits<double>::infinity();

RowMatrix as_rows(const std::vector<double>& slab, Index rows, Index width) {
  return Eigen::Map<const RowMatrix>(slab.data(), rows, width);
}

/// p' - p of p = 1 / (1 + exp(-x)): by 1 - p where both are near 1, so that no digits are lost.
double logistic_change(double from, double to) {
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  return from > 0 && to > 0 ? logistic(-from) - logistic(-to) : logistic(to) - logistic(from);
}

}  // namespace

OpenCells::OpenCells(const Parameters& parameters, const SlabContext& context, const DepthCells& depth,
                     const EquationCoefficients& coefficients)
    : parameters_(parameters),
      context_(context),
      depth_(depth),
      weights_(parameters),
      terms_(parameters.spec, context, layer_),
      sub_layers_(terms_.compose(coefficients)),
      norm_(context) {
  const auto& spec = parameters.spec;
  if (spec.subflow != SubLayerIntegrator::euler)
    throw BadInput("depth.subflow = midpoint: attention acts twice in a cell; only faces can be patched");
  if (context.line->size() > 1)
    throw BadInput("states within depth cells are patched where one rank holds all tokens of a sample");
  extents_ = {.cells = depth.cells,
              .tokens = context.line->tokens(),
              .width = spec.width,
              .heads = spec.attention.heads,
              .groups = spec.attention.key_groups(),
              .channels = spec.attention.channels(spec.width)};
  for (Index j = 0; j < std::ssize(sub_layers_); ++j)
    for (const auto* const term : sub_layers_[j].terms) {
      if (term == terms_.term(FieldTermKind::attention)) attention_ = j;
      if (term == terms_.term(FieldTermKind::reaction)) ffn_ = j;
    }
  std::vector<DepthPoint> points;
  for (int cell = 1; cell <= depth.cells; ++cell) points.push_back(depth.entry(cell));
  weights_.prepare(points);
}

void OpenCells::require(Site site) const {
  const auto& attention = parameters_.spec.attention;
  if (site == Site::face || site == Site::attention || site == Site::ffn) return;
  if (attention.kernel != Kernel::dot || attention.normalisation != Normalisation::softmax)
    throw BadInput("interventions.sites = " + site_word(site) + ": needs attention.kernel = dot and " +
                   "attention.normalisation = softmax");
}

LayerWeights<const double> OpenCells::weights(int cell) {
  const auto point = depth_.entry(cell + 1);
  layer_ = point.layer;
  return weights_.at(point);
}

CellTrace OpenCells::walk(int cell, const double* u, double* v, CellNumbers& at) {
  const auto theta = weights(cell);
  const double h = depth_.length(cell + 1);
  const Index size = context_.size(), rows = extents_.tokens, width = extents_.width;
  const bool residual = parameters_.spec.residual;
  CellTrace trace;
  trace.arguments.resize(sub_layers_.size());
  trace.sums.assign(sub_layers_.size(), std::vector<double>(size));
  const double* x = u;
  for (Index j = 0; j < std::ssize(sub_layers_); ++j) {
    const auto& [terms, fraction, after] = sub_layers_[j];
    auto& sum = trace.sums[j];
    // sum = (residual) x + h (the terms at x), in the order of the layer map
    Sum out{fraction * h, residual ? x : sum.data(), sum.data()};
    for (auto* const term : terms) {
      term->apply(theta, x, out, nullptr);
      out.base = sum.data();
    }
    const double step = fraction * h;
    const auto contribution = [&](FieldTermKind kind) {
      if (sub_layers_[j].terms.size() == 1) {
        RowMatrix added = as_rows(sum, rows, width);
        if (residual) added -= Eigen::Map<const RowMatrix>(x, rows, width);
        return added;
      }
      RowMatrix added = RowMatrix::Zero(rows, width);
      terms_.term(kind)->apply(theta, x, add_to(added.data(), step), nullptr);
      return added;
    };
    if (j == attention_) {
      at.attention = contribution(FieldTermKind::attention);
      at.queries.resize(rows, Index{extents_.heads} * extents_.channels);
      at.keys.resize(rows, Index{extents_.groups} * extents_.channels);
      at.values.resize(rows, at.keys.cols());
      terms_.attention().projections(theta, x, at.queries.data(), at.keys.data(), at.values.data());
    }
    if (j == ffn_) at.ffn = contribution(FieldTermKind::reaction);
    double* result = v;
    if (j + 1 < std::ssize(sub_layers_)) {
      trace.arguments[j + 1].resize(size);
      result = trace.arguments[j + 1].data();
    }
    norm_.apply(after, theta, sum.data(), result);
    x = result;
  }
  at.heads.resize(rows, at.queries.cols());
  for (int head = 0; head < extents_.heads; ++head)
    at.heads.middleCols(Index{head} * extents_.channels, extents_.channels).noalias() =
        weights_of_head(cell, at, head) * columns(at.values, group_of(head));
  return trace;
}

void OpenCells::finish(int cell, SubSum from, const double* sums, double* v) {
  const auto theta = weights(cell);
  const double h = depth_.length(cell + 1);
  const bool residual = parameters_.spec.residual;
  std::vector<double> x(context_.size()), sum(sums, sums + context_.size());
  for (Index j = sub_layer(from);; ++j) {
    const bool last = j + 1 == std::ssize(sub_layers_);
    norm_.apply(sub_layers_[j].after, theta, sum.data(), last ? v : x.data());
    if (last) return;
    const auto& next = sub_layers_[j + 1];
    if (!residual) std::ranges::fill(sum, 0.0);
    Sum out{next.fraction * h, residual ? x.data() : sum.data(), sum.data()};
    for (auto* const term : next.terms) {
      term->apply(theta, x.data(), out, nullptr);
      out.base = sum.data();
    }
  }
}

void OpenCells::pull(int cell, const double* u, const CellNumbers& at, const CellTrace& trace,
                     const double* w, double* u_bar, CellNumbers& cotangents) {
  const auto theta = weights(cell);
  const double h = depth_.length(cell + 1);
  const Index rows = extents_.tokens, width = extents_.width;
  const bool residual = parameters_.spec.residual;
  std::vector<double> sum_bar(context_.size()), x_bar(w, w + context_.size());
  for (Index j = std::ssize(sub_layers_) - 1; j >= 0; --j) {
    const auto& [terms, fraction, after] = sub_layers_[j];
    // sum_bar = N'(sum)^T result_bar,  x_bar = (residual) sum_bar + h (terms)'(x)^T sum_bar
    norm_.pull(after, theta, trace.sums[j].data(), x_bar.data(), sum_bar.data(), nullptr);
    if (j == attention_) cotangents.attention = as_rows(sum_bar, rows, width);
    if (j == ffn_) cotangents.ffn = as_rows(sum_bar, rows, width);
    const double* const x = j == 0 ? u : trace.arguments[j].data();
    if (!residual) std::ranges::fill(x_bar, 0.0);
    Sum out{fraction * h, residual ? sum_bar.data() : x_bar.data(), x_bar.data()};
    for (auto* const term : terms) {
      term->pull(theta, x, sum_bar.data(), out, nullptr, nullptr);
      out.base = x_bar.data();
    }
  }
  std::ranges::copy(x_bar, u_bar);
  add_head_cotangents(cell, at, cotangents);
}

// o_bar = h alpha W_O^T a_bar, and through the soft-max of each head with c_x = o_bar_x . o_x:
//   s = p (o_bar_x . v_y - c_x)    q_bar_x = sum_y s k_y / sqrt(c)    k_bar_y = sum_x s q_x / sqrt(c)
//   v_bar_y = sum_x p o_bar_x
void OpenCells::add_head_cotangents(int cell, const CellNumbers& at, CellNumbers& cotangents) {
  const auto theta = weights(cell);
  const double step = depth_.length(cell + 1) * sub_layers_[attention_].fraction * *theta.attention.alpha;
  const Index rows = extents_.tokens, c = extents_.channels, all = at.queries.cols();
  const Eigen::Map<const RowMatrix> w_o(theta.attention.w_o, extents_.width, all);
  cotangents.heads.noalias() = step * (cotangents.attention * w_o);
  cotangents.queries.setZero(rows, all);
  cotangents.keys.setZero(rows, at.keys.cols());
  cotangents.values.setZero(rows, at.keys.cols());
  const auto& attention = parameters_.spec.attention;
  if (attention.kernel != Kernel::dot || attention.normalisation != Normalisation::softmax) return;
  const double scale = 1 / std::sqrt(static_cast<double>(c));
  for (int head = 0; head < extents_.heads; ++head) {
    const int group = group_of(head);
    const RowMatrix p = weights_of_head(cell, at, head);
    const RowMatrix o_bar = columns(cotangents.heads, head), values = columns(at.values, group);
    const Eigen::VectorXd centre = o_bar.cwiseProduct(columns(at.heads, head)).rowwise().sum();
    RowMatrix s = o_bar * values.transpose();
    s.colwise() -= centre;
    s = s.cwiseProduct(p);
    cotangents.queries.middleCols(head * c, c).noalias() = scale * (s * columns(at.keys, group));
    cotangents.keys.middleCols(group * c, c).noalias() += scale * (s.transpose() * columns(at.queries, head));
    cotangents.values.middleCols(group * c, c).noalias() += p.transpose() * o_bar;
  }
}

RowMatrix OpenCells::columns(const RowMatrix& numbers, int part) const {
  return numbers.middleCols(Index{part} * extents_.channels, extents_.channels);
}

RowMatrix OpenCells::logits(const RowMatrix& queries, const RowMatrix& keys) const {
  return 1 / std::sqrt(static_cast<double>(extents_.channels)) * (queries * keys.transpose());
}

KeyRange OpenCells::visible(int cell, Index query) const {
  const auto& spec = parameters_.spec;
  return reach_of(spec.causal, spec.window(depth_.entry(cell + 1).layer))
      .keys(query, context_.real_tokens(0));
}

void OpenCells::to_weights(int cell, Index first, RowMatrix& logits) const {
  for (Index x = 0; x < logits.rows(); ++x) {
    const auto keys = visible(cell, first + x);
    Eigen::RowVectorXd p = Eigen::RowVectorXd::Zero(logits.cols());
    if (keys.count() > 0) {
      const auto seen = logits.row(x).segment(keys.first, keys.count());
      const Eigen::RowVectorXd e = (seen.array() - seen.maxCoeff()).exp();
      p.segment(keys.first, keys.count()) = e / e.sum();
    }
    logits.row(x) = p;
  }
}

RowMatrix OpenCells::weights_of_head(int cell, const CellNumbers& at, int head) const {
  RowMatrix p = logits(columns(at.queries, head), columns(at.keys, group_of(head)));
  to_weights(cell, 0, p);
  return p;
}

RowMatrix OpenCells::output_of_head(int cell, int head) {
  const auto theta = weights(cell);
  const double step = depth_.length(cell + 1) * sub_layers_[attention_].fraction * *theta.attention.alpha;
  const Index c = extents_.channels;
  const Eigen::Map<const RowMatrix> w_o(theta.attention.w_o, extents_.width, extents_.heads * c);
  return step * w_o.middleCols(head * c, c);
}

RowMatrix OpenCells::added_by_head(int cell, int head, const RowMatrix& change) {
  return change * output_of_head(cell, head).transpose();
}

std::vector<OpenCells::HeadChange> OpenCells::changes(int cell, const CellNumbers& at, Site site, int part,
                                                      int token, const Eigen::RowVectorXd& put) const {
  const auto own = part_of(site == Site::head    ? at.heads
                           : site == Site::query ? at.queries
                           : site == Site::key   ? at.keys
                                                 : at.values,
                           extents_, site, part, token);
  if (site == Site::head) return {{part, token, put - own}};
  if (site == Site::query) {
    // The same arithmetic for both, so that the own query changes no bit.
    const auto output = [&](const Eigen::RowVectorXd& query) -> RowMatrix {
      RowMatrix p = logits(query, columns(at.keys, group_of(part)));
      to_weights(cell, token, p);
      return p * columns(at.values, group_of(part));
    };
    return {{part, token, output(put) - output(own)}};
  }
  std::vector<HeadChange> all;
  for (int head = 0; head < extents_.heads; ++head) {
    if (group_of(head) != part) continue;
    const RowMatrix values = columns(at.values, part);
    const RowMatrix p = weights_of_head(cell, at, head);
    if (site == Site::value) {
      all.push_back({head, 0, p.col(token) * (put - own)});
      continue;
    }
    RowMatrix keys = columns(at.keys, part);
    keys.row(token) = put;
    RowMatrix changed = logits(columns(at.queries, head), keys);
    to_weights(cell, 0, changed);
    all.push_back({head, 0, (changed - p) * values});
  }
  return all;
}

std::vector<double> OpenCells::softmax_effects(int cell, Site site, const CellNumbers& own,
                                               const CellNumbers& put, const CellNumbers& cotangents) const {
  return site == Site::query ? query_effects(cell, own, put, cotangents)
                             : key_effects(cell, own, put, cotangents);
}

std::vector<double> OpenCells::query_effects(int cell, const CellNumbers& own, const CellNumbers& put,
                                             const CellNumbers& cotangents) const {
  std::vector<double> effects;
  for (int head = 0; head < extents_.heads; ++head) {
    const RowMatrix values = columns(own.values, group_of(head)), keys = columns(own.keys, group_of(head));
    RowMatrix p = logits(columns(own.queries, head), keys),
              changed = logits(columns(put.queries, head), keys);
    to_weights(cell, 0, p);
    to_weights(cell, 0, changed);
    const Eigen::VectorXd effect =
        columns(cotangents.heads, head).cwiseProduct((changed - p) * values).rowwise().sum();
    for (Index t = 0; t < effect.size(); ++t)
      effects.push_back(t < context_.real_tokens(0) ? effect[t] : 0.0);
  }
  return effects;
}

namespace {

/// The keys of a query beside one of them: log of their mass, and the mean of some numbers over them.
struct OtherKeys {
  double log_mass, mean;
};

/// A row of logits of the visible keys with a number (o_bar . v) of each.
class KeyRow {
 public:
  KeyRow(const Eigen::RowVectorXd& logits, const Eigen::RowVectorXd& numbers) : l_(logits), n_(numbers) {
    top_ = l_.maxCoeff(&at_);
    e_ = (l_.array() - top_).exp();
    mass_ = e_.sum();
    sum_ = e_.dot(n_);
  }
  OtherKeys without(Index y) const {
    // Beside any key but the largest the mass is at least 1: subtraction loses nothing.
    if (y != at_) return {top_ + std::log(mass_ - e_[y]), (sum_ - e_[y] * n_[y]) / (mass_ - e_[y])};
    double second = none, mass = 0, sum = 0;
    for (Index z = 0; z < l_.size(); ++z)
      if (z != y) second = std::max(second, l_[z]);
    for (Index z = 0; z < l_.size(); ++z) {
      if (z == y) continue;
      const double e = std::exp(l_[z] - second);
      mass += e;
      sum += e * n_[z];
    }
    return {second + std::log(mass), sum / mass};
  }

 private:
  Eigen::RowVectorXd l_, n_, e_;
  Index at_ = 0;
  double top_ = 0, mass_ = 0, sum_ = 0;
};

}  // namespace

std::vector<double> OpenCells::key_effects(int cell, const CellNumbers& own, const CellNumbers& put,
                                           const CellNumbers& cotangents) const {
  const Index tokens = extents_.tokens;
  std::vector<double> effects(extents_.groups * tokens, 0.0);
  for (int head = 0; head < extents_.heads; ++head) {
    const int group = group_of(head);
    const RowMatrix queries = columns(own.queries, head);
    const RowMatrix l = logits(queries, columns(own.keys, group));
    const RowMatrix changed = logits(queries, columns(put.keys, group));
    const RowMatrix numbers = columns(cotangents.heads, head) * columns(own.values, group).transpose();
    for (Index x = 0; x < tokens; ++x) {
      const auto keys = visible(cell, x);
      if (keys.count() < 2) continue;  // a lone key has the weight 1 in any case
      const KeyRow row(l.row(x).segment(keys.first, keys.count()),
                       numbers.row(x).segment(keys.first, keys.count()));
      for (Index y = keys.first; y < keys.end; ++y) {
        const auto others = row.without(y - keys.first);
        effects[group * tokens + y] +=
            logistic_change(l(x, y) - others.log_mass, changed(x, y) - others.log_mass) *
            (numbers(x, y) - others.mean);
      }
    }
  }
  return effects;
}

RowMatrix OpenCells::zeroing(int cell, const CellNumbers& at) {
  const Index tokens = extents_.tokens;
  std::vector<RowMatrix> weights_of_heads, outputs;
  for (int head = 0; head < extents_.heads; ++head) {
    weights_of_heads.push_back(weights_of_head(cell, at, head));
    // h alpha W_O(head) v_y of each token
    outputs.push_back(columns(at.values, group_of(head)) * output_of_head(cell, head).transpose());
  }
  RowMatrix norms(tokens, tokens), added(tokens, extents_.width);
  for (Index y = 0; y < tokens; ++y) {
    added.setZero();
    for (int head = 0; head < extents_.heads; ++head)
      added.noalias() += weights_of_heads[head].col(y) * outputs[head].row(y);
    norms.col(y) = added.rowwise().norm();
  }
  return norms;
}

}  // namespace fluxformer::interventions
