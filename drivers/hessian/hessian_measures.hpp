#pragma once

// The measures of one part of a model's Hessian, put into the record.

#include <string>
#include <vector>

#include "analysis/hessian/block_spectra.hpp"
#include "analysis/hessian/gauss_newton_gram.hpp"
#include "analysis/hessian/parameter_blocks.hpp"
#include "drivers/compare/study_record.hpp"
#include "io/variable.hpp"
#include "solvers/spectra/eigenvalues.hpp"
#include "solvers/spectra/trace.hpp"

namespace fluxformer {

/// The ranges of named blocks.
std::vector<spectra::Block> entries_of(const std::vector<hessian::NamedBlock>& blocks);

/// The parts of a Hessian by name: hessian, gauss_newton, functional (their difference).
inline const std::vector<std::string> hessian_parts = {"hessian", "gauss_newton", "functional"};

/// Where the measures of a part go. All members are collective over the ranks of the matrix they are given;
/// numbers are the same on all ranks.
class PartRecord {
 public:
  /// `record` is borrowed.
  PartRecord(StudyRecord& record, std::string model, std::string part)
      : record_(record), model_(std::move(model)), part_(std::move(part)) {}

  /// The ends of the spectrum, `request.largest` at either end; of the Gauss-Newton part, which is positive
  /// semi-definite, the upper one. Returns them.
  spectra::ExtremeEigenvalues ends(spectra::EigenSolver& solver, Mat h, spectra::EigenRequest request);
  /// Spectral density, trace and Frobenius norm.
  void density(Mat h, const spectra::DensitySettings& settings);
  /// Traces and norms of blocks.
  void blocks(Mat h, const std::vector<hessian::NamedBlock>& blocks, const spectra::ProbeSettings& settings);
  /// Densities of diagonal blocks and the distances between them.
  void block_densities(Mat h, const std::vector<hessian::NamedBlock>& blocks,
                       const spectra::DensitySettings& settings,
                       const hessian::SpectralComparison& comparison);
  /// The eigenvalue of largest magnitude of each diagonal block.
  void block_ends(spectra::EigenSolver& solver, Mat h, const std::vector<hessian::NamedBlock>& blocks,
                  spectra::EigenRequest request);
  /// What Gram matrices tell.
  void exact(const hessian::GramSpectra& found);

 private:
  void add(const io::Variable& variable, const std::vector<double>& values);
  StudyRecord& record_;
  std::string model_, part_;
};

}  // namespace fluxformer
