#pragma once

// Equation (1) on a small lattice with random weights: model, mesh and terms in one object, with states as
// whole arrays known to every rank, so that runs on different rank counts can be compared number by number.

#include <cstdint>
#include <memory>
#include <vector>

#include "model/depth_model.hpp"
#include "model/equation.hpp"
#include "model/initialise.hpp"
#include "model/parameters.hpp"
#include "solvers/evolve/evolve.hpp"
#include "solvers/march/march.hpp"

namespace fluxformer::test {

/// All cells 1..M: [cell][token][sample][channel]; or one cell: [token][sample][channel]. Tokens by global
/// index.
using Whole = std::vector<double>;

struct ProblemSpec {
  ModelSpec model = {};
  MeshSpec mesh = {};              ///< width is the model's
  std::vector<double> edges = {};  ///< of unequal depth cells
  DepthScheme scheme = DepthScheme::shift;
  double speed = 1, epsilon = 0, kappa = 0, alpha = 1, rho = 1, nu = 0;  ///< nu: with model.transport
  std::uint64_t seed = 3;
  double weight_scale = 1;  ///< of all matrices and biases: below 1, a contractive layer
  TokenMask mask = {};
  Precision precision = Precision::float64;
};

/// A Transformer of `layers` layers, width 6, 2 heads, 7 hidden units, pre-norm.
ModelSpec small_model(int layers);

/// The same with the terms of today's decoders: RMSNorm, SwiGLU, no biases, 4 heads of 4 channels on 2 groups of
/// keys, norms of queries and keys, rotary positions, causal windows that differ by layer. `spec.mask` must be
/// causal, too.
ModelSpec small_language_model(int layers);

/// 12 tokens on a 4 x 3 grid, 2 samples.
MeshSpec small_mesh(int cells);

/// Standard initialisation, then every bias and gain is perturbed, so that none is exactly zero or one.
Parameters random_parameters(const ProblemSpec& spec);
/// The parameters of a model that was trained on so many equal cells.
Parameters on_cells(Parameters parameters, int cells);

class Problem {
 public:
  /// Collective. The mesh's split is that of `spec.mesh`.
  Problem(MPI_Comm comm, const ProblemSpec& spec) : Problem(comm, spec, random_parameters(spec)) {}
  Problem(MPI_Comm comm, const ProblemSpec& spec, Parameters weights);
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  std::size_t whole_slab() const;
  std::size_t whole_size() const { return whole_slab() * static_cast<std::size_t>(mesh.total_cells()); }
  /// This rank's part of one cell, and the inverse (gather is collective over the token line).
  std::vector<double> local(const Whole& slab) const;
  Whole whole(const double* local_slab) const;
  /// The state of all cells to the mesh, and the inverse (gather is collective over the mesh).
  void scatter(const Whole& state, Vec u) const;
  Whole gather(Vec u) const;
  /// A constant inflow of this slab.
  InflowSource inflow(const Whole& slab) const;

  Parameters parameters;
  Mesh mesh;
  SlabContext context;
  DepthCells depth;
  std::unique_ptr<DepthModel> model;
  std::unique_ptr<Equation> equation;

 private:
  std::size_t token_offset(std::size_t local_number) const;
};

/// Rows 1..M of march, all cells. Collective over the token line.
Whole march_rows(const Problem& problem, const Whole& inflow, const MarchSettings& settings = {});

/// A run of evolve from `start` with a constant inflow; the state at its end. Collective.
Whole evolve(const Problem& problem, const EvolveSettings& settings, const Whole& start, const Whole& inflow);

/// max |x - y| / max |y| over each cell, the largest of them; infinite where a number is not finite.
double largest_row_difference(const Whole& x, const Whole& y, std::size_t slab);

}  // namespace fluxformer::test
