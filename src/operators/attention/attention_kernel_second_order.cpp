// The passes of one head along a direction: the tangent, and the tangent of the adjoint.

#include "operators/attention/attention_kernel_block.hpp"

#include "base/index.hpp"

namespace fluxformer {

using simd::load;
using simd::store;
using simd::Vector;

template <class T>
void HeadKernel<T>::tangent(const Home<T>& home, const T* home_dot, const Items<T>& items,
                            const Items<T>& items_dot, const T* offset, T* slope, T* mixed) {
  reserve(3, 0);
  T *const p = take_matrix(), *const own = take_matrix(), *const u = take_matrix();
  for_blocks(
      home, items, [](std::size_t, int) {},
      [&](const Block& at) {
        const T* const d = plan(home, items, offset, at, p, own);
        dots(at, items.stride, items.b, home.stride, home_dot, InsertMode::insert, u);
        dots(at, items.stride, items_dot.b, home.stride, home.a, InsertMode::add, u);
        const auto lanes = static_cast<std::size_t>(at.lanes), count = static_cast<std::size_t>(at.items());
        const T* const beta_dot = items_dot.beta + at.begin;
        T* const slopes = slope + at.first;
        for_registers<T>(at.lanes, [&](std::size_t x) {
          Vector<T> sum{};
          for (std::size_t y = 0; y < count; ++y) {
            T* const pair = u + y * lanes + x;
            const Vector<T> change = load(d + y * lanes + x) * (load(pair) * shape_.scale + beta_dot[y]);
            store(pair, change);
            sum += change;
          }
          if (!shape_.linear) store_tokens<T>(slopes, x, at.tokens, load(slopes + x) + sum);
        });
        if (items.v == nullptr) return;
        mix(at, items.stride, items.v, u, home.stride, InsertMode::add, mixed);
        mix(at, items.stride, items_dot.v, p, home.stride, InsertMode::add, mixed);
      });
}

template <class T>
void HeadKernel<T>::adjoint_tangent(const Home<T>& home, const HomeSweep<T>& sweep, const Items<T>& items,
                                    const Items<T>& items_dot, T* a_bar_dot, const ItemBars<T>& bars_dot) {
  reserve(5, 4);
  T *const p = take_matrix(), *const own = take_matrix(), *const p_dot = take_matrix();
  T *const s = take_matrix(), *const s_dot = take_matrix();
  T *const a = take_tile(), *const a_dot = take_tile(), *const bar = take_tile(),
           *const bar_dot = take_tile();
  for_blocks(
      home, items,
      [&](std::size_t first, int tokens) {
        turn_tile(home.a, home.stride, first, tokens, a);
        turn_tile(sweep.a_dot, home.stride, first, tokens, a_dot);
        turn_tile(sweep.mix_bar, home.stride, first, tokens, bar);
        turn_tile(sweep.mix_bar_dot, home.stride, first, tokens, bar_dot);
      },
      [&](const Block& at) {
        const T* const d = plan(home, items, sweep.offset, at, p, own);
        dots(at, items.stride, items.b, home.stride, sweep.a_dot, InsertMode::insert, p_dot);
        dots(at, items.stride, items_dot.b, home.stride, home.a, InsertMode::add, p_dot);
        dots(at, items.stride, items.v, home.stride, sweep.mix_bar, InsertMode::insert, s);
        dots(at, items.stride, items.v, home.stride, sweep.mix_bar_dot, InsertMode::insert, s_dot);
        dots(at, items.stride, items_dot.v, home.stride, sweep.mix_bar, InsertMode::add, s_dot);
        for (Index y = 0; y < at.items(); ++y) {
          const auto row = y * static_cast<std::size_t>(at.lanes);
          for_registers<T>(at.lanes, [&](std::size_t x) {
            const std::size_t lane = at.first + x, pair = row + x;
            const Vector<T> rate = load(d + pair), difference = load(s + pair) - load(sweep.centre + lane);
            const Vector<T> change = rate * (load(p_dot + pair) * shape_.scale - load(sweep.slope + lane));
            Vector<T> change_of_s = rate * (load(s_dot + pair) - load(sweep.centre_dot + lane));
            // D' = P', but linear attention has D' = 0.
            if (!shape_.linear) change_of_s += change * difference;
            store(p_dot + pair, change);
            store(s + pair, rate * difference * shape_.scale);
            store(s_dot + pair, change_of_s * shape_.scale);
          });
        }
        spread(at, p_dot, bar, items.stride, bars_dot.v);
        spread(at, p, bar_dot, items.stride, bars_dot.v);
        mix(at, items.stride, items.b, s_dot, home.stride, InsertMode::add, a_bar_dot);
        mix(at, items.stride, items_dot.b, s, home.stride, InsertMode::add, a_bar_dot);
        spread(at, s_dot, a, items.stride, bars_dot.b);
        spread(at, s, a_dot, items.stride, bars_dot.b);
      });
}

#define FLUXFORMER_INSTANTIATE(T)                                                                            \
  template void HeadKernel<T>::tangent(const Home<T>&, const T*, const Items<T>&, const Items<T>&, const T*, \
                                       T*, T*);                                                              \
  template void HeadKernel<T>::adjoint_tangent(const Home<T>&, const HomeSweep<T>&, const Items<T>&,         \
                                               const Items<T>&, T*, const ItemBars<T>&);
FLUXFORMER_INSTANTIATE(float)
FLUXFORMER_INSTANTIATE(double)
#undef FLUXFORMER_INSTANTIATE

}  // namespace fluxformer
