#include "analysis/interventions/patches.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/error.hpp"

namespace fluxformer::interventions {

Patches::Patches(const Parameters& parameters, const TokenLine& line, int runs, Precision precision,
                 SiteScope scope, const MarchMaker& march)
    : one_(parameters, line, 1, precision, march), many_(parameters, line, runs, precision, march) {
  const auto& attention = parameters.spec.attention;
  extents_ = {.cells = one_.depth().cells,
              .tokens = line.block().count(),
              .width = parameters.spec.width,
              .heads = attention.heads,
              .groups = attention.key_groups(),
              .channels = attention.channels(parameters.spec.width)};
  if (scope == SiteScope::faces) return;
  if (precision != Precision::float64)
    throw BadInput("run.precision: states within depth cells are patched in double only");
  cells_one_.emplace(parameters, one_.context(), one_.depth(), one_.model().coefficients());
  cells_many_.emplace(parameters, many_.context(), many_.depth(), many_.model().coefficients());
}

void Patches::require(Site site) const {
  if (site == Site::face) return;
  if (!cells_one_)
    throw BadInput("interventions.sites = " + site_word(site) + ": only faces can be patched here");
  cells_one_->require(site);
}

Run Patches::run(const Batch& batch) {
  Run found;
  const int tokens = one_.context().line->tokens();
  found.length = batch.length.empty() ? tokens : batch.length.front();
  std::vector<double> u, next(one_.size());
  one_.embed(batch, u);
  found.at.faces.push_back(one_.get(u, 0));
  if (!cells_one_) {
    one_.from(0).forward(u.data(), Keep::nothing, [&](int, const double* state) {
      found.at.faces.emplace_back(Eigen::Map<const RowMatrix>(state, extents_.tokens, extents_.width));
    });
    return found;
  }
  found.at.cells.resize(extents_.cells);
  for (int cell = 0; cell < extents_.cells; ++cell) {
    found.traces.push_back(cells_one_->walk(cell, u.data(), next.data(), found.at.cells[cell]));
    u.swap(next);
    found.at.faces.push_back(one_.get(u, 0));
  }
  return found;
}

double Patches::value(const Run& run, const Question& question) {
  std::vector<double> u(one_.size());
  one_.show(run.length);
  one_.put(run.at.faces.back(), 0, u);
  return one_.goal().value(question, u.data()).front();
}

std::vector<double> Patches::logits(const Run& run, const Question& question) {
  value(run, question);
  return one_.goal().logits();
}

SiteNumbers Patches::cotangents(const Run& run, const Question& question) {
  SiteNumbers found;
  found.faces.resize(extents_.cells + 1);
  value(run, question);
  std::vector<double> w(one_.size()), next(one_.size());
  if (!cells_one_) {
    std::vector<double> u(one_.size());
    one_.put(run.at.faces.front(), 0, u);
    one_.from(0).forward(u.data(), Keep::activations, {});
    one_.goal().value(question, u.data());
    one_.goal().pull(w.data());
    found.faces.back() = one_.get(w, 0);
    one_.from(0).backward(w.data(), {}, [&](int row, const double*, double* bar) {
      found.faces[row] = Eigen::Map<const RowMatrix>(bar, extents_.tokens, extents_.width);
    });
    return found;
  }
  one_.goal().pull(w.data());
  found.faces.back() = one_.get(w, 0);
  found.cells.resize(extents_.cells);
  for (int cell = extents_.cells - 1; cell >= 0; --cell) {
    cells_one_->pull(cell, run.at.faces[cell].data(), run.at.cells[cell], run.traces[cell], w.data(),
                     next.data(), found.cells[cell]);
    w.swap(next);
    found.faces[cell] = one_.get(w, 0);
  }
  return found;
}

std::vector<double> Patches::exact(Site site, const Run& own, const SiteNumbers& put,
                                   const Question& question, std::span<const Index> places) {
  require(site);
  many_.show(own.length);
  const Index of_depth = Index{extents_.parts(site)} * one_.context().line->tokens();
  std::vector<double> effects(places.size(), 0.0);
  // Places of one depth are runs of one slab.
  for (std::size_t first = 0; first < places.size();) {
    const Index depth = places[first] / of_depth;
    std::size_t end = first;
    while (end < places.size() && places[end] / of_depth == depth) ++end;
    const auto group = places.subspan(first, end - first);
    if (site == Site::face)
      exact_at_face(static_cast<int>(depth), own, put, question, group, effects.data() + first);
    else
      exact_in_cell(site, static_cast<int>(depth), own, put, question, group, effects.data() + first);
    first = end;
  }
  return effects;
}

namespace {

/// The token of a place, and its part.
struct PlaceOfDepth {
  int part, token;
};
PlaceOfDepth place_of(Index place, int parts, int tokens) {
  return {static_cast<int>(place / tokens % parts), static_cast<int>(place % tokens)};
}

}  // namespace

void Patches::exact_at_face(int face, const Run& own, const SiteNumbers& put, const Question& question,
                            std::span<const Index> places, double* effects) {
  const auto& line = *one_.context().line;
  const Index runs = many_.runs(), width = extents_.width;
  std::vector<int> local(line.tokens(), -1);
  for (int t = 0; t < line.block().count(); ++t) local[line.global_index(line.rank(), t)] = t;
  std::vector<double> u(many_.size());
  const auto start = [&] {
    for (int run = 0; run < runs; ++run) many_.put(own.at.faces[face], run, u);
  };
  // J of the own state in each run: a difference of equal runs is 0 to the last bit.
  start();
  const std::vector<double> before = many_.run_on(face, question, u);
  for (std::size_t first = 0; first < places.size(); first += runs) {
    const auto count = std::min<std::size_t>(runs, places.size() - first);
    start();
    for (std::size_t run = 0; run < count; ++run) {
      const int token = place_of(places[first + run], 1, line.tokens()).token;
      if (token >= own.length || local[token] < 0) continue;
      Eigen::Map<Eigen::RowVectorXd>(u.data() + (local[token] * runs + static_cast<Index>(run)) * width,
                                     width) = put.faces[face].row(local[token]);
    }
    const auto& after = many_.run_on(face, question, u);
    for (std::size_t run = 0; run < count; ++run) effects[first + run] = after[run] - before[run];
  }
}

void Patches::exact_in_cell(Site site, int cell, const Run& own, const SiteNumbers& put,
                            const Question& question, std::span<const Index> places, double* effects) {
  const auto& at = own.at.cells[cell];
  const Index runs = many_.runs(), width = extents_.width;
  const auto& sums = own.traces[cell].sums[cells_one_->sub_layer(sum_of(site))];
  std::vector<double> changed(many_.size()), u(many_.size());
  const RowMatrix own_sums = Eigen::Map<const RowMatrix>(sums.data(), extents_.tokens, width);
  const auto start = [&] {
    for (int run = 0; run < runs; ++run) many_.put(own_sums, run, changed);
  };
  const auto go_on = [&]() -> std::vector<double> {
    cells_many_->finish(cell, sum_of(site), changed.data(), u.data());
    return many_.run_on(cell + 1, question, u);
  };
  start();
  const auto before = go_on();
  for (std::size_t first = 0; first < places.size(); first += runs) {
    const auto count = std::min<std::size_t>(runs, places.size() - first);
    start();
    for (std::size_t run = 0; run < count; ++run) {
      const auto [part, token] = place_of(places[first + run], extents_.parts(site), extents_.tokens);
      if (token >= own.length) continue;
      const auto add = [&](Index row, const Eigen::RowVectorXd& change) {
        Eigen::Map<Eigen::RowVectorXd>(changed.data() + (row * runs + static_cast<Index>(run)) * width,
                                       width) += change;
      };
      const Eigen::RowVectorXd other = part_of(put.of(site, cell), extents_, site, part, token);
      if (site == Site::attention || site == Site::ffn) {
        add(token, other - part_of(own.at.of(site, cell), extents_, site, part, token));
        continue;
      }
      for (const auto& [head, begin, change] : cells_one_->changes(cell, at, site, part, token, other)) {
        const RowMatrix added = cells_one_->added_by_head(cell, head, change);
        for (Index row = 0; row < added.rows(); ++row) add(begin + row, added.row(row));
      }
    }
    const auto after = go_on();
    for (std::size_t run = 0; run < count; ++run) effects[first + run] = after[run] - before[run];
  }
}

double Patches::exact_face(int face, const Run& own, const RowMatrix& state, const Question& question) {
  one_.show(own.length);
  std::vector<double> u(one_.size());
  one_.put(own.at.faces[face], 0, u);
  const double before = one_.run_on(face, question, u).front();
  one_.put(state, 0, u);
  return one_.run_on(face, question, u).front() - before;
}

std::vector<double> Patches::softmax(Site site, const Run& own, const SiteNumbers& put,
                                     const SiteNumbers& cotangents) {
  require(site);
  if (site != Site::query && site != Site::key)
    throw std::invalid_argument("the soft-max is computed again for queries and keys");
  one_.show(own.length);
  std::vector<double> effects;
  for (int cell = 0; cell < extents_.cells; ++cell) {
    const auto of_cell =
        cells_one_->softmax_effects(cell, site, own.at.cells[cell], put.cells[cell], cotangents.cells[cell]);
    effects.insert(effects.end(), of_cell.begin(), of_cell.end());
  }
  return effects;
}

RowMatrix Patches::zeroing(int cell, const Run& own) {
  require(Site::value);
  one_.show(own.length);
  return cells_one_->zeroing(cell, own.at.cells[cell]);
}

double Patches::bytes(const SiteExtents& extents, SiteScope scope) {
  const double rows = extents.tokens, width = extents.width;
  const double of_heads = 2.0 * (extents.heads + extents.groups) * extents.channels;
  const double faces = (extents.cells + 1) * rows * width;
  if (scope == SiteScope::faces) return 2 * faces * sizeof(double);
  // Numbers and cotangents of all sites, and the trace of each cell: two sums and an argument.
  return (2 * faces + extents.cells * rows * (2 * (2 * width + of_heads) + 3 * width)) * sizeof(double);
}

}  // namespace fluxformer::interventions
