#include "analysis/states/cka.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "analysis/state_examples.hpp"
#include "base/error.hpp"

namespace fluxformer::states {
namespace {

using Matrix = Eigen::Map<RowMatrix>;
using ConstMatrix = Eigen::Map<const RowMatrix>;
using ConstVector = Eigen::Map<const Eigen::VectorXd>;

/// A variance below this fraction of the mean square is round-off.
constexpr double round_off = 1e-13;

std::size_t at(std::size_t first, int index, int size) {
  return first + static_cast<std::size_t>(index) * static_cast<std::size_t>(size);
}

/// Norm and trace of the centred X^T X.
struct Own {
  double norm, trace;
};

Own own(const double* moments, const double* sum, int width, double examples) {
  const ConstMatrix raw(moments, width, width);
  const ConstVector s(sum, width);
  const RowMatrix centred = raw - s * s.transpose() / examples;
  const bool varies = centred.trace() > round_off * raw.trace();
  return {varies ? centred.norm() : std::numeric_limits<double>::quiet_NaN(), centred.trace()};
}

void add_side(int examples, const std::vector<const double*>& x, int width, double* sums, double* moments) {
  for (const double* const values : x) {
    const ConstMatrix rows(values, examples, width);
    Eigen::Map<Eigen::RowVectorXd>(sums, width) += rows.colwise().sum();
    Matrix(moments, width, width).noalias() += rows.transpose() * rows;
    sums += width;
    moments += static_cast<std::ptrdiff_t>(width) * width;
  }
}

std::vector<Own> all_own(const double* moments, const double* sum, int depths, int width, double examples) {
  std::vector<Own> out;
  out.reserve(depths);
  for (int i = 0; i < depths; ++i)
    out.push_back(own(moments + at(0, i, width * width), sum + at(0, i, width), width, examples));
  return out;
}

}  // namespace

CkaMeter::CkaMeter(Side a, Side b) : a_(a), b_(b) {
  for (const int count : {a.depths, a.width, b.depths, b.width})
    if (count < 1)
      throw BadInput("linear CKA: a model of " + std::to_string(count) + " depths or channels; at least 1");
  mean_a_ = 1;
  mean_b_ = at(mean_a_, a.depths, a.width);
  own_a_ = at(mean_b_, b.depths, b.width);
  own_b_ = at(own_a_, a.depths, a.width * a.width);
  cross_ = at(own_b_, b.depths, b.width * b.width);
  set_size(at(cross_, a.depths * b.depths, a.width * b.width));
}

void CkaMeter::add(int examples, const std::vector<const double*>& a, const std::vector<const double*>& b) {
  if (examples == 0) return;
  double* const sums = local();
  sums[0] += examples;
  add_side(examples, a, a_.width, sums + mean_a_, sums + own_a_);
  add_side(examples, b, b_.width, sums + mean_b_, sums + own_b_);
  double* cross = sums + cross_;
  for (const double* const x : a)
    for (const double* const y : b) {
      Matrix(cross, b_.width, a_.width).noalias() +=
          ConstMatrix(y, examples, b_.width).transpose() * ConstMatrix(x, examples, a_.width);
      cross += static_cast<std::ptrdiff_t>(a_.width) * b_.width;
    }
}

std::vector<double> CkaMeter::table(bool unrelated) const {
  const double* const s = total().data();
  const double n = s[0];
  const auto own_a = all_own(s + own_a_, s + mean_a_, a_.depths, a_.width, n);
  const auto own_b = all_own(s + own_b_, s + mean_b_, b_.depths, b_.width, n);
  std::vector<double> out;
  const double* cross = s + cross_;
  for (int i = 0; i < a_.depths; ++i)
    for (int j = 0; j < b_.depths; ++j, cross += static_cast<std::ptrdiff_t>(a_.width) * b_.width) {
      const Own &x = own_a[i], &y = own_b[j];
      const ConstVector sum_x(s + at(mean_a_, i, a_.width), a_.width),
          sum_y(s + at(mean_b_, j, b_.width), b_.width);
      const double shared =
          unrelated ? x.trace * y.trace / (n - 1)
                    : (ConstMatrix(cross, b_.width, a_.width) - sum_y * sum_x.transpose() / n).squaredNorm();
      out.push_back(shared / (x.norm * y.norm));
    }
  return out;
}

}  // namespace fluxformer::states
