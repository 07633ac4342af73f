#pragma once

// Measures of one part of a model's Hessian, put among the results of the model.

#include <string>
#include <vector>

#include "analysis/hessian/block_spectra.hpp"
#include "analysis/hessian/gauss_newton_gram.hpp"
#include "analysis/hessian/parameter_blocks.hpp"
#include "drivers/study/findings.hpp"
#include "io/variable.hpp"
#include "solvers/spectra/eigenvalues.hpp"
#include "solvers/spectra/trace.hpp"

namespace fluxformer {

/// Ranges of named blocks in the flat vector.
std::vector<spectra::Block> entries_of(const std::vector<hessian::NamedBlock>& blocks);

/// Names of the parts of a Hessian: hessian, gauss_newton, functional (the difference of the other two).
inline const std::vector<std::string> hessian_parts = {"hessian", "gauss_newton", "functional"};

/// Computes measures of a part of the Hessian and puts them among the results of a model. All members are
/// collective over the ranks of the matrix they are given; numbers are the same on all ranks.
class PartResults {
 public:
  /// Puts measures of `part` of the Hessian into `to`, which is borrowed.
  PartResults(Results& to, std::string part) : to_(to), part_(std::move(part)) {}

  /// Adds the ends of the spectrum, `request.largest` eigenvalues at either end. The Gauss-Newton part is
  /// positive semi-definite: only its upper end is computed.
  void ends(spectra::EigenSolver& solver, Mat h, spectra::EigenRequest request);
  /// Adds spectral density, trace and Frobenius norm.
  void density(Mat h, const spectra::DensitySettings& settings);
  /// Adds traces and norms of blocks.
  void blocks(Mat h, const std::vector<hessian::NamedBlock>& blocks, const spectra::ProbeSettings& settings);
  /// Adds densities of diagonal blocks and the distances between them.
  void block_densities(Mat h, const std::vector<hessian::NamedBlock>& blocks,
                       const spectra::DensitySettings& settings,
                       const hessian::SpectralComparison& comparison);
  /// Adds the eigenvalue of largest magnitude of each diagonal block.
  void block_ends(spectra::EigenSolver& solver, Mat h, const std::vector<hessian::NamedBlock>& blocks,
                  spectra::EigenRequest request);
  /// Adds the exact spectra and distances obtained from Gram matrices.
  void exact(const hessian::GramSpectra& found);

 private:
  void add(const io::Variable& variable, const std::vector<double>& values);
  Results& to_;
  std::string part_;
};

}  // namespace fluxformer
