#include "tests/support/conformance.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/vector_arrays.hpp"
#include "tests/support/every_rank.hpp"

namespace fluxformer::test {

/// A distributed state with its inflow and ghosts.
struct Harness::Filled {
  Filled(const Harness& harness, const Term& term, const State& global)
      : vector(harness.scatter(global)),
        inflow(harness.inflow(global)),
        ghosts(harness.mesh_, term.reach_below(), term.reach_above()),
        owned(vector) {
    ghosts.set_inflow(inflow.data());
  }
  Column<const double> column(const Mesh& mesh) const {
    return {
        mesh.first_cell(), mesh.cells(), mesh.slab_size(), owned.values, {ghosts.below(0), ghosts.below(1)},
        ghosts.above()};
  }
  VecHandle vector;
  State inflow;
  DepthGhosts ghosts;
  ReadArray owned;
};

Harness::Harness(MPI_Comm comm, const TermCase& term_case, const MeshSpec& split,
                 const TermCase::Build& build)
    : case_(term_case), mesh_(comm, split), build_(build) {
  context_ = {
      .line = &mesh_.token_line(), .samples = split.samples, .width = split.width, .mask = case_.mask};
}

std::size_t Harness::global_index(int cell, std::size_t local) const {
  const TokenLine& line = mesh_.token_line();
  const std::size_t row = context_.row();
  const int token = line.global_index(line.rank(), static_cast<int>(local / row));
  return static_cast<std::size_t>(cell) * case_.slab() + static_cast<std::size_t>(token) * row + local % row;
}

State Harness::inflow(const State& global) const {
  State slab(mesh_.slab_size());
  for (std::size_t i = 0; i < slab.size(); ++i) slab[i] = global[global_index(0, i)];
  return slab;
}

VecHandle Harness::scatter(const State& global) const {
  VecHandle vector = mesh_.create_vector();
  const WriteArray to(vector);
  for (int k = 0; k < mesh_.cells(); ++k)
    for (Index i = 0; i < mesh_.slab_size(); ++i)
      to.values[static_cast<std::size_t>(k) * mesh_.slab_size() + i] =
          global[global_index(mesh_.first_cell() + k, i)];
  return vector;
}

State Harness::local(const State& global) const {
  const VecHandle vector = scatter(global);
  const ReadArray owned(vector);
  return State(owned.values, owned.values + mesh_.slab_size() * static_cast<std::size_t>(mesh_.cells()));
}

State Harness::gather(const double* owned, const double* inflow_slab) const {
  State global(case_.size(), 0.0);
  const std::size_t slab = mesh_.slab_size();
  for (int k = 0; k < mesh_.cells(); ++k)
    for (std::size_t i = 0; i < slab; ++i)
      global[global_index(mesh_.first_cell() + k, i)] = owned[static_cast<std::size_t>(k) * slab + i];
  for (std::size_t i = 0; inflow_slab != nullptr && i < slab; ++i)
    global[global_index(0, i)] = inflow_slab[i];
  return sum_over(mesh_.comm(),
                  std::move(global));  // each number comes from a single rank, so the sum is exact
}

/// Applies a term as a solver does: first the cells that need no ghosts while these are exchanged, then the
/// rest.
template <class Apply>
State Harness::through(const State& p, const State& u, const State* v, double start, Apply&& apply) {
  const BuiltTerm built = build_(mesh_, context_, p);
  Filled state(*this, *built.term, u), variation(*this, *built.term, v != nullptr ? *v : u);
  State out(mesh_.slab_size() * static_cast<std::size_t>(mesh_.cells()), start);
  const Column<double> result{mesh_.first_cell(), mesh_.cells(), mesh_.slab_size(), out.data()};
  const auto run = [&](int begin, int end) {
    if (begin < end)
      apply(*built.term, state.column(mesh_), variation.column(mesh_), CellRange{begin, end}, result);
  };
  const int first = mesh_.first_cell(), behind = first + mesh_.cells();
  const int inner = std::min(first + built.term->reach_below(), behind);
  const int outer = std::max(behind - built.term->reach_above(), inner);
  state.ghosts.begin(state.vector);
  run(inner, outer);
  state.ghosts.end();
  variation.ghosts.begin(variation.vector);
  variation.ghosts.end();
  run(first, inner);
  run(outer, behind);
  return gather(out.data(), nullptr);
}

State Harness::rhs(const State& p, const State& u, double start) {
  return through(p, u, nullptr, start,
                 [](Term& term, const auto& state, const auto&, CellRange cells, const auto& out) {
                   term.add_rhs(state, cells, out);
                 });
}

State Harness::tangent(const State& p, const State& u, const State& v, double start) {
  return through(p, u, &v, start,
                 [](Term& term, const auto& state, const auto& variation, CellRange cells, const auto& out) {
                   term.add_tangent(state, variation, cells, out);
                 });
}

Harness::Adjoint Harness::adjoint(const State& p, const State& u, const State& w, double start) {
  const BuiltTerm built = build_(mesh_, context_, p);
  Filled state(*this, *built.term, u), weight(*this, *built.term, w);
  state.ghosts.begin(state.vector);
  state.ghosts.end();
  DepthGhosts bars(mesh_, built.term->reach_below(), built.term->reach_above());
  bars.clear_bars();
  const VecHandle u_bar = mesh_.create_vector();
  check(VecSet(u_bar, start));
  State gradient(p.size(), 0.0);
  {
    const WriteArray owned(u_bar);
    const Column<double> result{mesh_.first_cell(),
                                mesh_.cells(),
                                mesh_.slab_size(),
                                owned.values,
                                {bars.below_bar(0), bars.below_bar(1)},
                                bars.above_bar()};
    built.term->add_adjoint(state.column(mesh_), weight.column(mesh_), owned_cells(), result, gradient);
  }
  bars.add_to_owners(u_bar);
  return {gather(ReadArray(u_bar).values, bars.inflow_bar()), sum_over(mesh_.comm(), std::move(gradient))};
}

Products Harness::products(const TermCase::SecondOrderCalls& calls, const Point& at, const Point& along,
                           Base base) {
  Products all = calls(context_, mesh_.first_cell(), {at.parameters, local(at.u), local(at.w)},
                       {along.parameters, local(along.u), local(along.w)}, conformance_scale, base);
  for (State* state : {&all.value, &all.u_bar, &all.tangent, &all.u_bar_dot, &all.newton_bar})
    *state = gather(state->data(), nullptr);
  for (State* gradient : {&all.gradient, &all.gradient_dot, &all.newton_gradient})
    *gradient = sum_over(mesh_.comm(), std::move(*gradient));
  return all;
}

State Harness::tangent(const Point& at, const Point& along, std::optional<Order> tapes) {
  const State owned = case_.tangent_in_weights(context_, mesh_.first_cell(), {at.parameters, local(at.u), {}},
                                               {along.parameters, local(along.u), {}}, tapes);
  return gather(owned.data(), nullptr);
}

std::optional<State> Harness::diagonal(const State& p, double scale, double start) {
  const BuiltTerm built = build_(mesh_, context_, p);
  const auto* const implicit = dynamic_cast<const ImplicitTerm*>(built.term.get());
  if (implicit == nullptr) return std::nullopt;
  State out(mesh_.slab_size() * static_cast<std::size_t>(mesh_.cells()), start);
  implicit->add_diagonal(owned_cells(), scale,
                         {mesh_.first_cell(), mesh_.cells(), mesh_.slab_size(), out.data()});
  return gather(out.data(), nullptr);
}

std::optional<StepLimit> Harness::step_limit(const State& p) {
  return build_(mesh_, context_, p).term->step_limit();
}

TermText Harness::text(const State& p) {
  return build_(mesh_, context_, p).term->text();
}

}  // namespace fluxformer::test
