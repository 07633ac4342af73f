#include "tests/support/manufactured.hpp"

#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace fluxformer {
namespace {

double square(double x) {
  return x * x;
}

}  // namespace

Manufactured::Manufactured(DepthModel& model, const EquationSpec& equation, const ManufacturedWaves& waves)
    : model_(model), equation_(equation), waves_(waves) {
  if (equation.scheme == DepthScheme::shift)
    throw BadInput("a manufactured solution belongs to the field F_s: depth.scheme = upwind or upwind2");
}

template <class Visit>
void Manufactured::over_points(Visit&& visit) const {
  const auto& context = model_.context();
  const auto& line = *context.line;
  const double pi = std::numbers::pi;
  Index index = 0;
  for (int local = 0; local < line.block().count(); ++local) {
    const int token = line.global_index(line.rank(), local);
    // x and y run over (0, 1), with the boundaries of the lattice at 0 and 1: there the waves have zero flux.
    const double x = (token % line.tokens_x() + 0.5) / line.tokens_x();
    const double y = (token / line.tokens_x() + 0.5) / line.tokens_y();
    const double wave = std::cos(pi * waves_.waves_x * x) * std::cos(pi * waves_.waves_y * y);
    for (int k = 0; k < context.samples; ++k)
      for (int j = 0; j < context.width; ++j, ++index) {
        // Other numbers for each sample and channel, so that a mix-up of indices is seen.
        const double mean = std::sin(1 + 2.0 * j + k);
        const double omega = waves_.omega * (1 + 0.3 * j - 0.2 * k);
        visit(index, mean, omega, (0.5 + 0.1 * j) * wave);
      }
  }
}

double Manufactured::laplacian() const {
  const auto& line = *model_.context().line;
  // The token waves satisfy Lap w = -pi^2 ((p / n_x)^2 + (q / n_y)^2) w in units of the token spacing.
  return -square(std::numbers::pi) * (square(static_cast<double>(waves_.waves_x) / line.tokens_x()) +
                                      square(static_cast<double>(waves_.waves_y) / line.tokens_y()));
}

void Manufactured::solution(double s, double* slab) const {
  const double from_end = s - equation_.depth.layers;
  // u*(s) = mean + amplitude cos(omega (s - S)), the token waves included in the amplitude
  over_points([&](Index i, double mean, double omega, double amplitude) {
    slab[i] = mean + amplitude * std::cos(omega * from_end);  // du*/ds = 0 at s = S
  });
}

void Manufactured::source(int cell, double* slab) const {
  const auto& depth = equation_.depth;
  const DepthPoint at = depth.exit(cell);
  const double from_end = at.s - depth.layers, diffused = model_.largest_kappa() * laplacian();
  over_points([&](Index i, double, double omega, double amplitude) {
    // c du*/ds - epsilon d2u*/ds2 - kappa Lap u*, of which each derivative but the first is a multiple of the
    // wave; alpha A and rho R are subtracted below.
    const double wave = amplitude * std::cos(omega * from_end);
    slab[i] = -equation_.speed * amplitude * omega * std::sin(omega * from_end) +
              equation_.epsilon * square(omega) * wave - diffused * wave;
  });
  std::vector<double> u(model_.context().size());
  solution(at.s, u.data());
  const FieldTermKind parts[] = {FieldTermKind::attention, FieldTermKind::reaction};
  model_.field(parts, at, -1, u.data(), slab, nullptr);
}

SourceTerm::SourceTerm(const Manufactured& manufactured, Index slab, int first, int count)
    : slab_(slab), first_(first), values_(slab * count) {
  for (int k = 0; k < count; ++k) manufactured.source(first + k, values_.data() + k * slab);
}

void SourceTerm::add_rhs(const Column<const double>&, CellRange cells, const Column<double>& out) {
  for (int i = cells.begin; i < cells.end; ++i) {
    const double* from = values_.data() + (i - first_) * slab_;
    double* to = out.at(i);
    for (Index j = 0; j < slab_; ++j) to[j] += from[j];
  }
}

}  // namespace fluxformer
