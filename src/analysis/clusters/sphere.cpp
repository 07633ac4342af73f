#include "analysis/clusters/sphere.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/mpi.hpp"
#include "operators/kernels/product.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer::clusters {
namespace {

/// The line of the ranks that have tokens; none on the others. Collective.
std::optional<TokenLine> line_of(Index tokens, MPI_Comm comm) {
  const auto holders = static_cast<int>(std::min<Index>(tokens, mpi::size(comm)));
  const bool holds = mpi::rank(comm) < holders;
  MPI_Comm some = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, holds ? 0 : MPI_UNDEFINED, mpi::rank(comm), &some));
  if (!holds) return {};
  const Communicator own(some);
  return TokenLine::even(own, static_cast<int>(tokens), 1, holders);
}

}  // namespace

SphereAttention::SphereAttention(Index tokens, int dimension, double beta, MPI_Comm comm,
                                 Weights normalisation)
    : tokens_(tokens),
      dimension_(dimension),
      beta_(beta),
      normalisation_(normalisation),
      comm_(comm),
      line_(line_of(tokens, comm)),
      kernel_({.channels = dimension, .scale = beta}) {
  first_ = line_ ? line_->block().x0 : tokens;
  count_ = line_ ? line_->block().count() : 0;
  if (!line_) return;
  ring_.emplace(*line_);
  stride_ = count_ + simd::lanes<double>;  // a vector load may reach past the last token
  const Index most = line_->block(0).count();
  queries_.assign(stride_ * dimension_, 0.0);
  mix_ = queries_;
  top_.assign(stride_, 0.0);
  sum_ = top_;
  shift_.assign(most, -beta);
  index_.resize(most);
  std::iota(index_.begin(), index_.end(), 0);
}

void SphereAttention::attend(std::span<const double> u) {
  x_.assign(u.begin(), u.end());
  if (!line_) return;
  project_to_sphere(x_.data(), count_, dimension_);
  transpose(x_.data(), count_, dimension_, dimension_, queries_.data(), stride_);
  const QueryBlock<double> queries{
      .a = queries_.data(), .stride = stride_, .count = count_, .index = index_.data()};
  bool fresh = true;
  ring_->visit(x_.data(), dimension_, [&](int rank, const double* keys) {
    // All see all: tokens of other ranks may have the indices of this one's.
    kernel_.stream(queries,
                   {.b = keys,
                    .v = keys,
                    .stride = dimension_,
                    .beta = shift_.data(),
                    .count = line_->block(rank).count(),
                    .index = index_.data()},
                   std::exchange(fresh, false), {top_.data(), sum_.data(), mix_.data()});
  });
}

void SphereAttention::project(double* rate) const {
  for (Index i = 0; i < count_; ++i) {
    const double scale = share(i) / sum_[i];
    for (Index c = 0; c < dimension_; ++c) rate[i * dimension_ + c] = mix_[c * stride_ + i] * scale;
  }
  project_to_tangent(x_.data(), rate, count_, dimension_);
}

double SphereAttention::denominator(Index i) const {
  return sum_[i] * std::exp(top_[i]);
}

double SphereAttention::share(Index i) const {
  return normalisation_ == Weights::softmax ? 1 : denominator(i) / static_cast<double>(tokens_);
}

void SphereAttention::velocity(std::span<const double> u, std::span<double> rate) {
  attend(u);
  project(rate.data());
  for (Index i = 0; i < count_; ++i) {
    const Index at = i * dimension_;
    const double length = std::sqrt(inner_product(&u[at], &u[at], dimension_));
    for (Index c = at; c < at + dimension_; ++c) rate[c] *= length;
  }
}

SoftNumbers SphereAttention::sums(std::span<const double> u) {
  attend(u);
  std::vector<double> rate(u.size()), z(count_), gain(count_);
  project(rate.data());
  for (Index i = 0; i < count_; ++i) {
    z[i] = denominator(i);
    gain[i] = z[i] / share(i) * inner_product(&rate[i * dimension_], &rate[i * dimension_], dimension_);
  }
  const std::vector<double> weights(count_, 1.0);
  return soft_numbers({.weights = weights, .z = z, .gain = gain}, static_cast<double>(tokens_), beta_, 1,
                      comm_);
}

std::array<double, 2> degree_powers(const Tokens& tokens, MPI_Comm comm) {
  const Index n = tokens.count(), d = tokens.dimension;
  std::vector<double> sums(1 + d + d * d, 0.0);
  double* const mean = sums.data() + 1;
  double* const squares = mean + d;
  sums[0] = static_cast<double>(n);
  if (n > 0) {
    const auto x = row_major(tokens.x.data(), n, d);
    row_major(mean, 1, d) = x.colwise().sum().eval();
    set_product(row_major(squares, d, d), x.transpose(), x);
  }
  sum_over_ranks(sums, comm);
  const double n2 = sums[0] * sums[0], dimension = tokens.dimension;
  return {inner_product(mean, mean, d) / n2,
          (dimension * inner_product(squares, squares, d * d) / n2 - 1) / (dimension - 1)};
}

}  // namespace fluxformer::clusters
