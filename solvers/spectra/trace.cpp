#include "solvers/spectra/trace.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/spectra/orthonormal_basis.hpp"
#include "solvers/spectra/spectral_density.hpp"

namespace fluxformer::spectra {
namespace {

void require_two(int probes) {
  if (probes < 2) throw BadInput(std::to_string(probes) + " probes: a standard error needs at least 2");
}

double dot(Vec x, Vec y) {
  double product = 0;
  check(VecDot(x, y, &product));
  // A product H v that overflows must not end in a mean.
  if (!std::isfinite(product)) throw NumericalFailure("a product with the operator is not finite");
  return product;
}

std::vector<Estimate> estimates_of(std::vector<std::vector<double>> samples) {
  std::vector<Estimate> estimates;
  estimates.reserve(samples.size());
  for (auto& one : samples) estimates.push_back(estimate_of(std::move(one)));
  return estimates;
}

/// A probe v and its product H v.
struct Pair {
  explicit Pair(Mat h) { check(MatCreateVecs(h, v.out(), hv.out())); }
  VecHandle v, hv;
};

OrthonormalBasis range_of(Mat h, Pair& pair, const TraceSettings& settings) {
  PetscInt rows = 0;
  check(MatGetSize(h, &rows, nullptr));
  const PetscInt most = std::min<PetscInt>(settings.sketch, rows);
  OrthonormalBasis basis(pair.v, std::max<PetscInt>(most, 1));
  const RandomStream stream(settings.seed, "sketch of a trace");
  // Q: an orthonormal basis of H S, where the columns of S are random signs.
  for (PetscInt k = 0; k < most; ++k) {
    fill_probe(pair.v, Probe::rademacher, stream.item(k));
    check(MatMult(h, pair.v, pair.hv));
    const double length = basis.orthogonalise(pair.hv);
    if (length > 0) basis.append(pair.hv, length);
  }
  return basis;
}

/// The part of each block that lies in the rows of this rank, counted from its first row.
std::vector<Block> own_parts(Mat h, std::span<const Block> blocks) {
  PetscInt rows = 0, first = 0, last = 0;
  check(MatGetSize(h, &rows, nullptr));
  check(MatGetOwnershipRange(h, &first, &last));
  std::vector<Block> parts;
  for (const auto& block : blocks) {
    check_block(block, rows);
    parts.push_back(common(block, first, last));
    for (auto& [begin, end] : parts.back()) {
      begin -= first;
      end -= first;
    }
  }
  return parts;
}

MPI_Comm comm_of(Mat h) {
  MPI_Comm comm = MPI_COMM_NULL;
  check(PetscObjectGetComm(reinterpret_cast<PetscObject>(h), &comm));
  return comm;
}

/// sum x_i y_i over each block, of whose rows `parts` are this rank's. Collective.
std::vector<double> dots(const std::vector<Block>& parts, Vec x, Vec y, MPI_Comm comm) {
  std::vector<double> sums;
  {
    const ReadArray a(x), b(y);
    for (const auto& part : parts) {
      double sum = 0;
      for (const auto& [begin, end] : part)
        for (PetscInt i = begin; i < end; ++i) sum += a.values[i] * b.values[i];
      sums.push_back(sum);
    }
  }
  sum_over_ranks(sums, comm);
  return sums;
}

/// Sets to 0 what lies outside of the part of a block.
void keep_only(const Block& part, Vec v) {
  PetscInt rows = 0;
  check(VecGetLocalSize(v, &rows));
  const WriteArray own(v);
  // The gaps between the ranges of the block, and what follows the last.
  PetscInt from = 0;
  for (const auto& [begin, end] : part) {
    std::fill(own.values + from, own.values + begin, 0.0);
    from = end;
  }
  std::fill(own.values + from, own.values + rows, 0.0);
}

}  // namespace

TraceEstimate hutch_plus_plus(Mat h, const TraceSettings& settings) {
  require_two(settings.probes);
  if (settings.sketch < 0) throw BadInput("a sketch of " + std::to_string(settings.sketch) + " vectors");
  Pair pair(h);
  OrthonormalBasis basis = range_of(h, pair, settings);
  // tr H = tr Q^T H Q + tr (1 - Q Q^T) H (1 - Q Q^T). The first is summed vector by vector, q_k . H q_k; the
  // second, without the largest directions, is the mean of g^T H g over the probes.
  TraceEstimate estimate;
  for (PetscInt k = 0; k < basis.size(); ++k) {
    basis.multiply(h, k, pair.hv);
    estimate.captured += basis.dot(k, pair.hv);
  }
  const RandomStream stream(settings.seed, "probes of a trace");
  std::vector<double> samples;
  for (int k = 0; k < settings.probes; ++k) {
    fill_probe(pair.v, Probe::rademacher, stream.item(k));
    // g^T H g with g = (1 - Q Q^T) v, v of random signs
    basis.orthogonalise(pair.v);
    check(MatMult(h, pair.v, pair.hv));
    samples.push_back(dot(pair.v, pair.hv));
  }
  estimate.rest = estimate_of(std::move(samples));
  return estimate;
}

HutchinsonEstimates hutchinson(Mat h, std::span<const Block> blocks, const ProbeSettings& settings) {
  require_two(settings.probes);
  const auto parts = own_parts(h, blocks);
  Pair pair(h);
  const RandomStream stream(settings.seed, "probes of a norm");
  std::vector<double> squares;
  std::vector<std::vector<double>> traces(blocks.size());
  for (int k = 0; k < settings.probes; ++k) {
    fill_probe(pair.v, Probe::rademacher, stream.item(k));
    check(MatMult(h, pair.v, pair.hv));
    // E |H v|^2 = ||H||_F^2, and E sum_{i in block} v_i (H v)_i is the trace of the block
    squares.push_back(dot(pair.hv, pair.hv));
    const auto sums = dots(parts, pair.v, pair.hv, comm_of(h));
    for (Index b = 0; b < std::ssize(sums); ++b) traces[b].push_back(sums[b]);
  }
  return {estimate_of(std::move(squares)), estimates_of(std::move(traces))};
}

BlockEstimates block_norms(Mat h, std::span<const Block> blocks, const ProbeSettings& settings) {
  require_two(settings.probes);
  const auto parts = own_parts(h, blocks);
  const Index count = blocks.size();
  Pair pair(h);
  const RandomStream stream(settings.seed, "probes of blocks");
  std::vector<std::vector<double>> traces(count);
  std::vector<std::vector<std::vector<double>>> squares(count, traces);  // [rows][columns][probe]
  for (int k = 0; k < settings.probes; ++k)
    for (Index columns = 0; columns < count; ++columns) {
      fill_probe(pair.v, Probe::rademacher, stream.item(k));
      // With v = 0 outside of block c: E |(H v)_r|^2 = ||H_rc||_F^2, E v^T H v = trace H_cc
      keep_only(parts[columns], pair.v);
      check(MatMult(h, pair.v, pair.hv));
      traces[columns].push_back(dot(pair.v, pair.hv));
      const auto sums = dots(parts, pair.hv, pair.hv, comm_of(h));
      for (Index rows = 0; rows < count; ++rows) squares[rows][columns].push_back(sums[rows]);
    }
  BlockEstimates estimates;
  for (auto& row : squares) estimates.frobenius_squared.push_back(estimates_of(std::move(row)));
  estimates.traces = estimates_of(std::move(traces));
  return estimates;
}

}  // namespace fluxformer::spectra
