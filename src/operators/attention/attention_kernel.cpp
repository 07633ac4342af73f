#include "operators/attention/attention_kernel.hpp"

#include <limits>

#include "operators/attention/attention_kernel_run.hpp"

namespace fluxformer {

using namespace tile;

namespace {

/// stream_head of linear attention.
template <class T>
void stream_linear_head(const HeadShape<T>& shape, const Home<T>& home, const Items<T>& items, bool fresh,
                        const RunningMix<T>& out) {
  if (fresh) {
    std::fill_n(out.top, home.count, T(0));
    std::fill_n(out.sum, home.count, T(1));
    for (int c = 0; c < shape.channels; ++c)
      std::fill_n(out.mix + static_cast<std::size_t>(c) * home.stride, home.count, T(0));
  }
  for_runs(shape, home, items, [&]<int W>(Tile<T, W> at, const Run& run) {
    alignas(64) Pack<T, W> p[run_length], d[run_length];
    linear_plan(p, d, shape, home, at, items, run);
    add_head_mix(out.mix, home.stride, at, Pack<T, W>{} + T(1), T(1), p, run.size(), shape.channels,
                 items.v + static_cast<std::size_t>(run.begin) * items.stride, items.stride);
  });
}

}  // namespace

template <class T>
void stream_head(const HeadShape<T>& shape, const Home<T>& home, const Items<T>& items, bool fresh,
                 const RunningMix<T>& out) {
  if (shape.linear) return stream_linear_head(shape, home, items, fresh, out);
  // Finite, so that the difference of two of them is a number. A lane that has seen nothing has zero sums.
  constexpr T nothing = std::numeric_limits<T>::lowest() / 4;
  if (fresh) {
    std::fill_n(out.top, home.count, nothing);
    std::fill_n(out.sum, home.count, T(0));
    if (items.v != nullptr)
      for (int c = 0; c < shape.channels; ++c)
        std::fill_n(out.mix + static_cast<std::size_t>(c) * home.stride, home.count, T(0));
  }
  for_runs(shape, home, items, [&]<int W>(Tile<T, W> at, const Run& run) {
    using V = Pack<T, W>;
    alignas(64) V p[run_length];
    logits(p, shape, home, at, items, run);
    for_hidden(home, at, items, run, [&](int lane, int y) { p[y][lane] = nothing; });

    const V old_top = at.lanes_of(out.top);
    V top = old_top;
    for (int y = 0; y < run.size(); ++y) top = p[y] > top ? p[y] : top;
    exponentials(at, p, run.size(), top);
    V keep[1] = {old_top};
    exponentials(at, keep, 1, top);

    V sum = {};
    for (int y = 0; y < run.size(); ++y) sum += p[y];
    at.store_lanes(out.top, top);
    at.store_lanes(out.sum, at.lanes_of(out.sum) * keep[0] + sum);
    if (items.v != nullptr)
      add_head_mix(out.mix, home.stride, at, keep[0], T(1), p, run.size(), shape.channels,
                   items.v + static_cast<std::size_t>(run.begin) * items.stride, items.stride);
  });
}

template <class T>
void write_plan(const HeadShape<T>& shape, const Home<T>& home, const Items<T>& items, const T* offset,
                double* k, std::size_t row) {
  for_runs(shape, home, items, [&]<int W>(Tile<T, W> at, const Run& run) {
    alignas(64) Pack<T, W> p[run_length], d[run_length];
    plan_and_derivative(p, d, shape, home, at, items, run, offset);
    for (int lane = 0; lane < at.valid; ++lane) {
      double* const to = k + (at.first + static_cast<std::size_t>(lane)) * row;
      for (int y = 0; y < run.size(); ++y) to[items.index[run.begin + y]] = static_cast<double>(p[y][lane]);
    }
  });
}

template <class T>
void tangent_head(const HeadShape<T>& shape, const Home<T>& home, const T* home_dot, const Items<T>& items,
                  const Items<T>& items_dot, const T* offset, T* slope, T* mix) {
  for_runs(shape, home, items, [&]<int W>(Tile<T, W> at, const Run& run) {
    using V = Pack<T, W>;
    alignas(64) V p[run_length], own[run_length], u[run_length];
    const auto at_items = static_cast<std::size_t>(run.begin) * items.stride;
    const V* const d = plan_and_derivative(p, own, shape, home, at, items, run, offset);
    const T* const beta_dot = items_dot.beta + run.begin;
    for (int y = 0; y < run.size(); ++y) u[y] = V{} + beta_dot[y];
    add_head_dots(u, run.size(), shape.channels, shape.scale, at, home_dot, home.stride, items.b + at_items,
                  items.stride);
    add_head_dots(u, run.size(), shape.channels, shape.scale, at, home.a, home.stride, items_dot.b + at_items,
                  items.stride);
    V sum = {};
    for (int y = 0; y < run.size(); ++y) {
      u[y] *= d[y];
      sum += u[y];
    }
    if (!shape.linear) at.store_lanes(slope, at.lanes_of(slope) + sum);
    if (items.v == nullptr) return;
    const V one = V{} + T(1);
    add_head_mix(mix, home.stride, at, one, T(1), u, run.size(), shape.channels, items.v + at_items,
                 items.stride);
    add_head_mix(mix, home.stride, at, one, T(1), p, run.size(), shape.channels, items_dot.v + at_items,
                 items.stride);
  });
}

template <class T>
void adjoint_head(const HeadShape<T>& shape, const Home<T>& home, const T* mix_bar, const Items<T>& items,
                  const T* offset, const T* centre, T* a_bar, const ItemBars<T>& bars) {
  for_runs(shape, home, items, [&]<int W>(Tile<T, W> at, const Run& run) {
    using V = Pack<T, W>;
    alignas(64) V p[run_length], own[run_length], s[run_length];
    const auto at_items = static_cast<std::size_t>(run.begin) * items.stride;
    const V* const d = plan_and_derivative(p, own, shape, home, at, items, run, offset);
    const V middle = at.lanes_of(centre);
    for (int y = 0; y < run.size(); ++y) s[y] = -middle;
    if (items.v != nullptr) {
      add_head_dots(s, run.size(), shape.channels, T(1), at, mix_bar, home.stride, items.v + at_items,
                    items.stride);
      add_head_spread(bars.v + at_items, items.stride, p, run.size(), shape.channels, T(1), at, mix_bar,
                      home.stride);
    }
    for (int y = 0; y < run.size(); ++y) s[y] *= d[y];
    if (bars.beta != nullptr)
      for (int y = 0; y < run.size(); ++y) {
        T sum = 0;
        for (int lane = 0; lane < W; ++lane) sum += s[y][lane];
        bars.beta[run.begin + y] += sum;
      }
    add_head_mix(a_bar, home.stride, at, V{} + T(1), shape.scale, s, run.size(), shape.channels,
                 items.b + at_items, items.stride);
    add_head_spread(bars.b + at_items, items.stride, s, run.size(), shape.channels, shape.scale, at, home.a,
                    home.stride);
  });
}

#define FLUXFORMER_INSTANTIATE(T)                                                                      \
  template void stream_head(const HeadShape<T>&, const Home<T>&, const Items<T>&, bool,                \
                            const RunningMix<T>&);                                                     \
  template void write_plan(const HeadShape<T>&, const Home<T>&, const Items<T>&, const T*, double*,    \
                           std::size_t);                                                               \
  template void tangent_head(const HeadShape<T>&, const Home<T>&, const T*, const Items<T>&,           \
                             const Items<T>&, const T*, T*, T*);                                       \
  template void adjoint_head(const HeadShape<T>&, const Home<T>&, const T*, const Items<T>&, const T*, \
                             const T*, T*, const ItemBars<T>&);
FLUXFORMER_INSTANTIATE(float)
FLUXFORMER_INSTANTIATE(double)
#undef FLUXFORMER_INSTANTIATE

}  // namespace fluxformer
