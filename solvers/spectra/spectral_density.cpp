#include "solvers/spectra/spectral_density.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/spectra/orthonormal_basis.hpp"

namespace fluxformer::spectra {

void fill_probe(Vec v, Probe kind, const RandomStream& stream) {
  PetscInt first = 0, last = 0;
  check(VecGetOwnershipRange(v, &first, &last));
  const WriteArray own(v);
  for (PetscInt i = first; i < last; ++i) {
    const bool normal = kind == Probe::gaussian;
    own.values[i - first] = normal ? stream.normal(i) : (stream.bits(i)[0] & 1U) != 0 ? 1.0 : -1.0;
  }
}

namespace {

/// Nodes are the eigenvalues of the tridiagonal matrix, weights the squares of its eigenvectors' first
/// components.
Quadrature gauss_rule(const std::vector<double>& diagonal, const std::vector<double>& off_diagonal,
                      double squared_length) {
  using Map = Eigen::Map<const Eigen::VectorXd>;
  const Index steps = diagonal.size();
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
  solver.computeFromTridiagonal(Map(diagonal.data(), steps), Map(off_diagonal.data(), steps - 1));
  if (solver.info() != Eigen::Success)
    throw NumericalFailure("no eigenvalues of a tridiagonal matrix of " + std::to_string(steps) + " rows");
  Quadrature rule;
  for (Eigen::Index l = 0; l < steps; ++l) {
    // Golub and Welsch: node = eigenvalue, weight = |v|^2 (first component of the eigenvector)^2
    const double first = solver.eigenvectors()(0, l);
    rule.nodes.push_back(solver.eigenvalues()(l));
    rule.weights.push_back(squared_length * first * first);
  }
  return rule;
}

}  // namespace

// H v_j = beta_{j-1} v_{j-1} + alpha_j v_j + beta_j v_{j+1}
Quadrature lanczos_quadrature(Mat h, Vec v, int steps) {
  if (steps < 1) throw BadInput(std::to_string(steps) + " Lanczos steps: at least 1 is needed");
  PetscInt rows = 0;
  check(MatGetSize(h, &rows, nullptr));
  const PetscInt most = std::min<PetscInt>(steps, rows);
  VecHandle w;
  check(VecDuplicate(v, w.out()));
  check(VecCopy(v, w));
  OrthonormalBasis basis(v, most);
  const double length = basis.orthogonalise(w);
  if (length == 0) throw NumericalFailure("Lanczos from the vector 0");

  // T = tridiag(beta, alpha, beta) is H in the basis v_1, v_2, ...; it ends early if the vectors span an
  // invariant space.
  std::vector<double> alpha, beta;
  double rest = length;
  while (true) {
    basis.append(w, rest);
    const PetscInt j = basis.size() - 1;
    basis.multiply(h, j, w);
    rest = basis.orthogonalise(w);
    alpha.push_back(basis.coefficients().back());
    if (basis.size() == most || rest == 0) break;
    beta.push_back(rest);
  }
  return gauss_rule(alpha, beta, length * length);
}

std::vector<Quadrature> spectral_density(Mat h, const DensitySettings& settings) {
  if (settings.probes < 1) throw BadInput(std::to_string(settings.probes) + " probes: at least 1 is needed");
  VecHandle v;
  check(MatCreateVecs(h, v.out(), nullptr));
  const RandomStream stream(settings.seed, "probes of the spectral density");
  std::vector<Quadrature> rules;
  for (int k = 0; k < settings.probes; ++k) {
    fill_probe(v, settings.kind, stream.item(k));
    check(VecNormalize(v, nullptr));
    rules.push_back(lanczos_quadrature(h, v, settings.steps));
  }
  return rules;
}

std::vector<double> broadened_density(std::span<const Quadrature> probes, std::span<const double> grid,
                                      double width) {
  std::vector<double> density(grid.size(), 0.0);
  for (const auto& [nodes, weights] : probes) {
    // mean over probes of sum_l weights_l N(x; nodes_l, width^2)
    const auto one = gaussian_mixture(nodes, weights, width, grid);
    for (Index i = 0; i < std::ssize(grid); ++i) density[i] += one[i] / probes.size();
  }
  return density;
}

}  // namespace fluxformer::spectra
