#pragma once

// A term as seen from outside: a function of the whole state, on any distribution over ranks.
//
// A state is [cell 0..M][token][sample][channel] on every rank; cell 0 is the inflow. The harness returns the
// same on every rank. It calls the term through mesh, ghosts and gathering, as a solver does.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mesh/ghosts.hpp"
#include "operators/slab.hpp"
#include "operators/term.hpp"
#include "tests/support/second_order_cells.hpp"

namespace fluxformer::test {

using State = std::vector<double>;

/// A term and the objects it borrows from.
struct BuiltTerm {
  std::shared_ptr<void> owned;
  std::unique_ptr<Term> term;
};

/// One term with one set of settings, on one lattice.
struct TermCase {
  using Build = std::function<BuiltTerm(const Mesh&, const SlabContext&, const State& parameters)>;
  using Reference = std::function<State(const State& parameters, const State& u)>;

  /// A slab term, called directly. States: of this rank's cells, from number `first_cell` on.
  using SecondOrderCalls = std::function<Products(const SlabContext&, int first_cell, const Point& at,
                                                  const Point& along, double scale, Base base)>;
  using TangentCalls = std::function<State(const SlabContext&, int first_cell, const Point& at,
                                           const Point& along, std::optional<Order> tapes)>;

  std::string name;
  MeshSpec lattice = {};
  TokenMask mask = {};
  State parameters = {};           ///< all cells in order; empty: none
  Build build = {};                ///< in double
  Build build_single = {};         ///< kernels in float; may be empty
  Build build_scaled = {};         ///< the term times `scale`; may be empty
  bool second_derivatives = true;  ///< false: a slab term that refuses tapes of second order
  /// With tapes of first order, and of second order (empty without second derivatives); slab terms only.
  Build build_keeping = {}, build_keeping_second = {};
  TangentCalls tangent_in_weights = {};  ///< the tangent in state and weights; slab terms only
  SecondOrderCalls first_order = {};     ///< with tapes of first order: no pull_along; slab terms only
  /// With tapes of second order, in double and in float; slab terms only.
  SecondOrderCalls second_order = {}, second_order_single = {};
  Reference reference = {};     ///< naive
  bool compare_padding = true;  ///< whether values in padded rows are defined

  std::size_t slab() const {
    return static_cast<std::size_t>(lattice.tokens_x * lattice.tokens_y * lattice.samples * lattice.width);
  }
  std::size_t size() const { return slab() * static_cast<std::size_t>(lattice.cells + 1); }
};

/// The factor of build_scaled.
inline constexpr double conformance_scale = -0.37;

/// The operators, in all their settings.
std::vector<TermCase> every_term();

/// A term on a mesh; all calls are collective over the communicator.
class Harness {
 public:
  struct Adjoint {
    State u_bar, parameters;
  };
  /// `split` is a lattice of the case with ranks_depth and ranks_token chosen.
  Harness(MPI_Comm comm, const TermCase& term_case, const MeshSpec& split, const TermCase::Build& build);
  Harness(MPI_Comm comm, const TermCase& term_case, const MeshSpec& split)
      : Harness(comm, term_case, split, term_case.build) {}

  /// term(u; p) in cells 1..M, 0 in cell 0. `start`: initial value of every number of the output.
  State rhs(const State& p, const State& u, double start = 0);
  State tangent(const State& p, const State& u, const State& v, double start = 0);
  Adjoint adjoint(const State& p, const State& u, const State& w, double start = 0);
  /// Results of one of the case's SecondOrderCalls, times conformance_scale; 0 in cell 0.
  Products products(const TermCase::SecondOrderCalls& calls, const Point& at, const Point& along,
                    Base base = Base::zero);
  /// The tangent in state and weights, with nothing kept or from tapes of this order; 0 in cell 0.
  State tangent(const Point& at, const Point& along, std::optional<Order> tapes);
  /// start + scale * diagonal in cells 1..M, 0 in cell 0; empty if the term is not an ImplicitTerm.
  std::optional<State> diagonal(const State& p, double scale, double start);
  /// Step limit that the term reports on this rank.
  std::optional<StepLimit> step_limit(const State& p);
  TermText text(const State& p);

 private:
  struct Filled;
  template <class Apply>
  State through(const State& p, const State& u, const State* v, double start, Apply&& apply);
  VecHandle scatter(const State& global) const;
  /// The numbers of this rank's cells.
  State local(const State& global) const;
  State inflow(const State& global) const;
  State gather(const double* owned, const double* inflow) const;
  std::size_t global_index(int cell, std::size_t local) const;
  CellRange owned_cells() const { return {mesh_.first_cell(), mesh_.first_cell() + mesh_.cells()}; }

  const TermCase& case_;
  Mesh mesh_;
  SlabContext context_;
  TermCase::Build build_;
};

}  // namespace fluxformer::test
