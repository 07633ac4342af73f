// The adjoint pass of one head along a direction.

#include "operators/attention/attention_kernel_run.hpp"

namespace fluxformer {

using namespace tile;

template <class T>
void adjoint_tangent_head(const HeadShape<T>& shape, const Home<T>& home, const HomeSweep<T>& sweep,
                          const Items<T>& items, const Items<T>& items_dot, T* a_bar_dot,
                          const ItemBars<T>& bars_dot) {
  for_runs(shape, home, items, [&]<int W>(Tile<T, W> at, const Run& run) {
    using V = Pack<T, W>;
    alignas(64) V p[run_length], own[run_length], p_dot[run_length], s[run_length], s_dot[run_length];
    const int count = run.size();
    const auto at_items = static_cast<std::size_t>(run.begin) * items.stride;
    const T *const b = items.b + at_items, *const b_dot = items_dot.b + at_items;
    const T *const v = items.v + at_items, *const v_dot = items_dot.v + at_items;
    const auto add_dots_of = [&](V* sums, T factor, const T* lanes, const T* channels) {
      add_head_dots(sums, count, shape.channels, factor, at, lanes, home.stride, channels, items.stride);
    };
    const auto add_mix_of = [&](const V* weights, const T* channels) {
      add_head_mix(a_bar_dot, home.stride, at, V{} + T(1), shape.scale, weights, count, shape.channels,
                   channels, items.stride);
    };
    const auto add_spread_of = [&](T* bar, const V* weights, T factor, const T* lanes) {
      add_head_spread(bar + at_items, items.stride, weights, count, shape.channels, factor, at, lanes,
                      home.stride);
    };

    const V* const d = plan_and_derivative(p, own, shape, home, at, items, run, sweep.offset);
    const V slope = at.lanes_of(sweep.slope), centre = at.lanes_of(sweep.centre),
            centre_dot = at.lanes_of(sweep.centre_dot);
    for (int y = 0; y < count; ++y) {
      p_dot[y] = -slope;
      s[y] = -centre;
      s_dot[y] = -centre_dot;
    }
    add_dots_of(p_dot, shape.scale, sweep.a_dot, b);
    add_dots_of(p_dot, shape.scale, home.a, b_dot);
    add_dots_of(s, T(1), sweep.mix_bar, v);
    add_dots_of(s_dot, T(1), sweep.mix_bar_dot, v);
    add_dots_of(s_dot, T(1), sweep.mix_bar, v_dot);
    // D' = P', but linear attention has D' = 0.
    for (int y = 0; y < count; ++y) p_dot[y] *= d[y];
    for (int y = 0; y < count; ++y) s_dot[y] *= d[y];
    if (!shape.linear)
      for (int y = 0; y < count; ++y) s_dot[y] += p_dot[y] * s[y];
    for (int y = 0; y < count; ++y) s[y] *= d[y];
    add_spread_of(bars_dot.v, p_dot, T(1), sweep.mix_bar);
    add_spread_of(bars_dot.v, p, T(1), sweep.mix_bar_dot);
    add_mix_of(s_dot, b);
    add_mix_of(s, b_dot);
    add_spread_of(bars_dot.b, s_dot, shape.scale, home.a);
    add_spread_of(bars_dot.b, s, shape.scale, sweep.a_dot);
  });
}

#define FLUXFORMER_INSTANTIATE(T)                                                              \
  template void adjoint_tangent_head(const HeadShape<T>&, const Home<T>&, const HomeSweep<T>&, \
                                     const Items<T>&, const Items<T>&, T*, const ItemBars<T>&);
FLUXFORMER_INSTANTIATE(float)
FLUXFORMER_INSTANTIATE(double)
#undef FLUXFORMER_INSTANTIATE

}  // namespace fluxformer
