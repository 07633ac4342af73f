#include "operators/attention/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace fluxformer {

template <class T>
void RotaryTurn<T>::set(const double* theta) {
  if (is_identity()) return;
  if (theta == nullptr) throw std::logic_error("rotary positions without angles");
  const Index pairs = rotary_.channels / 2;
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Angles& one) {
    return std::equal(one.theta.begin(), one.theta.end(), theta);
  });
  current_ = static_cast<std::size_t>(found - known_.begin());
  if (found != known_.end()) return;
  Angles angles{std::vector<double>(theta, theta + pairs), {}, {}};
  for (const int x : tokens_)
    for (const double per_token : angles.theta) {
      // In double also for float: x theta_j is large, and its error is that of the cosine.
      angles.cos.push_back(static_cast<T>(rotary_.scale * std::cos(x * per_token)));
      angles.sin.push_back(static_cast<T>(rotary_.scale * std::sin(x * per_token)));
    }
  known_.push_back(std::move(angles));
}

/// pair(a, b, cos, sin) for all pairs of all rows.
template <class T>
template <class Pair>
void RotaryTurn<T>::for_pairs(T* rows, Index count, Index heads, Pair&& pair) const {
  if (is_identity()) return;
  const Angles& angles = known_[current_];
  const Index pairs = rotary_.channels / 2, tokens = std::ssize(tokens_);
  for (Index i = 0; i < count; ++i) {
    const T *const cos = angles.cos.data() + i % tokens * pairs, *const sin =
                                                                     angles.sin.data() + i % tokens * pairs;
    for (Index h = 0; h < heads; ++h) {
      T* const head = rows + (i * heads + h) * channels_;
      if (rotary_.layout == RotaryLayout::half)
        for (Index j = 0; j < pairs; ++j) pair(head[j], head[j + pairs], cos[j], sin[j]);
      else
        for (Index j = 0; j < pairs; ++j) pair(head[2 * j], head[2 * j + 1], cos[j], sin[j]);
    }
  }
}

template <class T>
void RotaryTurn<T>::turn(T* rows, Index count, Index heads) const {
  for_pairs(rows, count, heads, [](T& a, T& b, T cos, T sin) {
    const T before = a;
    a = before * cos - b * sin;
    b = b * cos + before * sin;
  });
}

template <class T>
void RotaryTurn<T>::turn_back(T* rows, Index count, Index heads) const {
  for_pairs(rows, count, heads, [](T& a, T& b, T cos, T sin) {
    const T before = a;
    a = before * cos + b * sin;
    b = b * cos - before * sin;
  });
}

template <class T>
std::size_t RotaryTurn<T>::bytes() const {
  std::size_t total = 0;
  for (const Angles& one : known_)
    total += one.theta.capacity() * sizeof(double) + (one.cos.capacity() + one.sin.capacity()) * sizeof(T);
  return total;
}

template class RotaryTurn<float>;
template class RotaryTurn<double>;

}  // namespace fluxformer
