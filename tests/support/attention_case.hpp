#pragma once

// A seeded attention problem on the whole token line, and the operator on any split of it. States are global
// on every rank, so that results of different splits can be compared number by number.

#include <mpi.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "operators/attention/attention.hpp"
#include "tests/support/attention_layout.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/reference_attention.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::test {

/// Seeded parameters of a layout.
struct AttentionParameters {
  AttentionParameters(AttentionLayout of, unsigned seed) : layout(std::move(of)) {
    flat = random_vector(layout.size, seed, 1 / std::sqrt(layout.width));
    for (const char* gain : {"gain", "q_gain", "k_gain"})
      for (std::size_t j = layout.part(gain).begin; j < layout.part(gain).end; ++j) flat[j] += 1;
    flat.back() = 0.8;  // alpha
  }
  /// All arrays, of heads that share the width.
  AttentionParameters(int width, unsigned seed) : AttentionParameters(AttentionLayout(width, {}), seed) {}
  template <class P>
  LayerWeights<P> view(P* begin, Coefficient<P>* alpha) const {
    return layout.view(begin, alpha);
  }

  AttentionLayout layout;
  std::vector<double> flat;
};

/// The operator on one split of the line; calls are collective and take and return global vectors.
template <class T>
class SplitAttention {
 public:
  SplitAttention(const TokenLine& line, const reference::WholeLine& whole, const AttentionSettings& settings,
                 const AttentionArrays& arrays = {})
      : line_(line),
        context_{&line, whole.samples, whole.width, whole.mask},
        layout_(whole.width, settings, arrays),
        term_(context_, settings) {}

  std::vector<double> rhs(const AttentionParameters& p, const std::vector<double>& u, double scale = 1,
                          double start = 0) {
    std::vector<double> out(context_.size(), start);
    const auto weights = rounded_to<T>(p.flat);
    term_.apply(p.view<const T>(weights.data(), &p.flat.back()), mine(u).data(), add_to(out.data(), scale),
                nullptr);
    return everyones(out);
  }
  std::vector<double> tangent(const AttentionParameters& p, const std::vector<double>& u,
                              const std::vector<double>& v, double scale = 1) {
    std::vector<double> out(context_.size(), 0.0);
    const auto weights = rounded_to<T>(p.flat);
    term_.push(p.view<const T>(weights.data(), &p.flat.back()), nullptr, {mine(u).data(), mine(v).data()},
               add_to(out.data(), scale), nullptr);
    return everyones(out);
  }
  /// Returns u_bar; writes the gradient of all parameters to `gradient`.
  std::vector<double> adjoint(const AttentionParameters& p, const std::vector<double>& u,
                              const std::vector<double>& w, std::vector<double>& gradient, double scale = 1) {
    std::vector<double> u_bar(context_.size(), 0.0);
    gradient.assign(p.flat.size(), 0.0);
    const auto weights = rounded_to<T>(p.flat);
    const auto bars = p.view<double>(gradient.data(), &gradient.back());
    term_.pull(p.view<const T>(weights.data(), &p.flat.back()), mine(u).data(), mine(w).data(),
               add_to(u_bar.data(), scale), &bars, nullptr);
    gradient = sum_over(line_.comm(), gradient);
    return everyones(u_bar);
  }
  /// The attention matrix, [sample][head][query][key].
  std::vector<double> matrix(const AttentionParameters& p, const std::vector<double>& u, int heads) {
    const auto blocks = static_cast<std::size_t>(context_.samples * heads);
    const auto n = static_cast<std::size_t>(line_.tokens()),
               local = static_cast<std::size_t>(line_.block().count());
    std::vector<double> k(blocks * local * n, NAN), all(blocks * n * n, 0.0);
    const auto weights = rounded_to<T>(p.flat);
    term_.matrix(p.view<const T>(weights.data(), &p.flat.back()), mine(u).data(), k.data());
    for (std::size_t b = 0; b < blocks; ++b)
      for (std::size_t x = 0; x < local; ++x)
        std::copy_n(k.begin() + static_cast<std::ptrdiff_t>((b * local + x) * n), n,
                    all.begin() + static_cast<std::ptrdiff_t>((b * n + global(x)) * n));
    return sum_over(line_.comm(), all);
  }
  Attention<T>& term() { return term_; }
  const TokenLine& line() const { return line_; }
  const AttentionLayout& layout() const { return layout_; }
  /// This rank's part of a global vector, and back.
  std::vector<double> mine(const std::vector<double>& all) const {
    std::vector<double> part(context_.size());
    const std::size_t row = context_.row();
    for (std::size_t t = 0; t < part.size() / row; ++t)
      for (std::size_t i = 0; i < row; ++i) part[t * row + i] = all[global(t) * row + i];
    return part;
  }
  std::vector<double> everyones(const std::vector<double>& part) const {
    const std::size_t row = context_.row();
    std::vector<double> all(static_cast<std::size_t>(line_.tokens()) * row, 0.0);
    for (std::size_t t = 0; t < part.size() / row; ++t)
      for (std::size_t i = 0; i < row; ++i) all[global(t) * row + i] = part[t * row + i];
    return sum_over(line_.comm(), all);
  }

 private:
  std::size_t global(std::size_t local) const {
    return static_cast<std::size_t>(line_.global_index(line_.rank(), static_cast<int>(local)));
  }

  const TokenLine& line_;
  SlabContext context_;
  AttentionLayout layout_;
  Attention<T> term_;
};

}  // namespace fluxformer::test
