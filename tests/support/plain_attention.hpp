#pragma once

// The forward pass of an attention layer and what stands around it, written as plainly as possible and for
// any type of number: with hyper-dual numbers (hyper_dual.hpp) the reference of every Hessian.

#include <cmath>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include "analysis/decoder/attention_map.hpp"
#include "tests/support/hyper_dual.hpp"

namespace fluxformer::test {

/// A matrix of numbers of any type, by rows.
template <class T>
struct Table {
  std::size_t rows = 0, cols = 0;
  std::vector<T> entries;

  Table() = default;
  Table(std::size_t r, std::size_t c) : rows(r), cols(c), entries(r * c, T(0)) {}
  explicit Table(const decoder::Matrix& a)
      : rows(static_cast<std::size_t>(a.rows())),
        cols(static_cast<std::size_t>(a.cols())),
        entries(a.data(), a.data() + a.size()) {}
  T& operator()(std::size_t i, std::size_t j) { return entries[i * cols + j]; }
  const T& operator()(std::size_t i, std::size_t j) const { return entries[i * cols + j]; }
};

/// The next r x c numbers of a flat vector, as a matrix; `position` moves behind them.
template <class T>
Table<T> take(const std::vector<T>& theta, std::size_t& position, std::size_t r, std::size_t c) {
  Table<T> taken(r, c);
  for (T& entry : taken.entries) entry = theta[position++];
  return taken;
}

template <class T>
Table<T> times(const Table<T>& a, const Table<T>& b) {
  Table<T> c(a.rows, b.cols);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t l = 0; l < a.cols; ++l)
      for (std::size_t j = 0; j < b.cols; ++j) c(i, j) += a(i, l) * b(l, j);
  return c;
}

template <class T>
Table<T> plus(const Table<T>& a, const Table<T>& b, double scale = 1) {
  Table<T> c = a;
  for (std::size_t i = 0; i < a.entries.size(); ++i) c.entries[i] += T(scale) * b.entries[i];
  return c;
}

/// A row vector added to every row.
template <class T>
Table<T> plus_row(const Table<T>& a, const Table<T>& bias) {
  Table<T> c = a;
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.cols; ++j) c(i, j) += bias(0, j);
  return c;
}

/// A V for queries, keys and values of one sequence (rows).
template <class T>
Table<T> attend(const Table<T>& q, const Table<T>& k, const Table<T>& v, const decoder::AttentionForm& form) {
  using std::exp;
  Table<T> z(q.rows, v.cols);
  for (std::size_t i = 0; i < q.rows; ++i) {
    const std::size_t seen = form.mask == decoder::Mask::causal ? i + 1 : k.rows;
    std::vector<T> a(seen, T(0));
    double largest = -1e300;
    for (std::size_t j = 0; j < seen; ++j) {
      for (std::size_t r = 0; r < q.cols; ++r) a[j] += T(form.tau) * q(i, r) * k(j, r);
      largest = std::max(largest, value_of(a[j]));
    }
    if (form.scores == decoder::Scores::softmax) {
      T sum(0);
      for (T& one : a) sum += one = exp(one - T(largest));
      for (T& one : a) one = one / sum;
    }
    for (std::size_t j = 0; j < seen; ++j)
      for (std::size_t b = 0; b < v.cols; ++b) z(i, b) += a[j] * v(j, b);
  }
  return z;
}

/// LayerNorm of the rows, without gain and bias.
template <class T>
Table<T> normed(const Table<T>& x, double epsilon) {
  using std::sqrt;
  Table<T> y = x;
  const T width(static_cast<double>(x.cols));
  for (std::size_t i = 0; i < x.rows; ++i) {
    T mean(0), square(0);
    for (std::size_t j = 0; j < x.cols; ++j) mean += x(i, j) / width;
    for (std::size_t j = 0; j < x.cols; ++j) square += (x(i, j) - mean) * (x(i, j) - mean) / width;
    for (std::size_t j = 0; j < x.cols; ++j) y(i, j) = (x(i, j) - mean) / sqrt(square + T(epsilon));
  }
  return y;
}

template <class T>
Table<T> relu(Table<T> x) {
  for (T& one : x.entries)
    if (value_of(one) <= 0) one = T(0);
  return x;
}

template <class T>
Table<T> tanh_of(Table<T> x) {
  using std::tanh;
  for (T& one : x.entries) one = tanh(one);
  return x;
}

/// c sum (y - target)^2
template <class T>
T squared_error_of(const std::vector<T>& y, const decoder::Matrix& target, double c) {
  T sum(0);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const T residual = y[i] - T(target.data()[i]);
    sum += T(c) * residual * residual;
  }
  return sum;
}

/// Sum over rows of -weight ln softmax(row)[label]; y has labels.size() rows.
template <class T>
T cross_entropy_of(const std::vector<T>& y, const std::vector<int>& labels, double weight) {
  using std::exp;
  using std::log;
  const std::size_t classes = y.size() / labels.size();
  T sum(0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    T total(0);
    for (std::size_t j = 0; j < classes; ++j) total += exp(y[i * classes + j]);
    sum += T(weight) * (log(total) - y[i * classes + static_cast<std::size_t>(labels[i])]);
  }
  return sum;
}

}  // namespace fluxformer::test
