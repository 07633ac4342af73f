#include "operators/attention/head_kernel.hpp"

#include <algorithm>
#include <limits>

#include "base/index.hpp"
#include "operators/kernels/transpose.hpp"
#include "operators/kernels/vector_math.hpp"

namespace fluxformer {

using simd::broadcast;
using simd::load;
using simd::store;
using simd::Vector;

template <class T>
template <class Start, class F>
void HeadKernel<T>::for_blocks(const Home<T>& home, const Items<T>& items, Start&& start, F&& f) const {
  // Tiles of equal size, in whole registers.
  constexpr int width = static_cast<int>(simd::lanes<T>);
  const int tiles = (home.count + most_tokens - 1) / most_tokens;
  const int even = (home.count + tiles - 1) / std::max(tiles, 1);
  const int size = (even + width - 1) / width * width;
  for (int first = 0; first < home.count; first += size) {
    const int tokens = std::min(size, home.count - first);
    start(static_cast<std::size_t>(first), tokens);
    for (int begin = 0; begin < items.count; begin += most_items) {
      const Block at = visible(home, items, static_cast<std::size_t>(first), tokens, begin);
      if (at.items() > 0) f(at);
    }
  }
}

template <class T>
template <class F>
void HeadKernel<T>::for_hidden(const Home<T>& home, const Items<T>& items, const Block& at, F&& f) const {
  for (int y = at.open; y < at.end; ++y)
    for (int lane = 0; lane < at.tokens; ++lane)
      if (items.index[y] > home.index[at.first + static_cast<std::size_t>(lane)])
        f(static_cast<std::size_t>(lane), static_cast<std::size_t>(y - at.begin));
}

/// f(first lane of a register) for all registers of `lanes` lanes.
template <class T, class F>
inline void for_registers(int lanes, F&& f) {
  for (Index x = 0; x < lanes; x += simd::lanes<T>) f(x);
}

/// Writes the lanes of a register that are below `tokens`.
template <class T>
inline void store_tokens(T* to, std::size_t x, int tokens, const simd::Vector<T>& v) {
  const auto left = static_cast<std::size_t>(tokens) - x;
  if (left >= simd::lanes<T>)
    simd::store(to + x, v);
  else
    simd::store_part<T>(to + x, v, left);
}

template <class T>
void HeadKernel<T>::reserve(std::size_t matrices, std::size_t tiles) {
  scratch_.reset(
      matrices * most_items * most_tokens + tiles * most_tokens * static_cast<std::size_t>(shape_.channels),
      matrices + tiles);
}

template <class T>
typename HeadKernel<T>::Block HeadKernel<T>::visible(const Home<T>& home, const Items<T>& items,
                                                     std::size_t first, int tokens, int begin) const {
  constexpr int width = static_cast<int>(simd::lanes<T>);
  const int end = std::min(begin + most_items, items.count);
  Block at{first, tokens, (tokens + width - 1) / width * width, begin, end, end};
  if (!shape_.causal) return at;
  const int earliest = home.index[first], latest = home.index[first + static_cast<std::size_t>(tokens) - 1];
  const int *const from = items.index + begin, *const to = items.index + end;
  at.open = begin + static_cast<int>(std::upper_bound(from, to, earliest) - from);
  at.end = begin + static_cast<int>(std::upper_bound(from, to, latest) - from);
  return at;
}

template <class T>
void HeadKernel<T>::dots(const Block& at, std::size_t item_stride, const T* of_items, std::size_t home_stride,
                         const T* of_home, InsertMode into, T* m) {
  dots_({.rows = at.items(),
         .columns = at.tokens,
         .depth = shape_.channels,
         .a_stride = static_cast<int>(item_stride),
         .b_stride = static_cast<int>(home_stride),
         .c_stride = at.lanes,
         .into = into},
        of_items + static_cast<std::size_t>(at.begin) * item_stride, of_home + at.first, m);
}

template <class T>
void HeadKernel<T>::mix(const Block& at, std::size_t item_stride, const T* of_items, const T* m,
                        std::size_t home_stride, InsertMode into, T* to) {
  mix_({.rows = shape_.channels,
        .columns = at.tokens,
        .depth = at.items(),
        .a_stride = static_cast<int>(item_stride),
        .b_stride = at.lanes,
        .c_stride = static_cast<int>(home_stride),
        .a = Stored::transposed,
        .into = into},
       of_items + static_cast<std::size_t>(at.begin) * item_stride, m, to + at.first);
}

template <class T>
void HeadKernel<T>::spread(const Block& at, const T* m, const T* tile, std::size_t item_stride, T* to) {
  spread_({.rows = at.items(),
           .columns = shape_.channels,
           .depth = at.tokens,
           .a_stride = at.lanes,
           .b_stride = shape_.channels,
           .c_stride = static_cast<int>(item_stride),
           .into = InsertMode::add},
          m, tile, to + static_cast<std::size_t>(at.begin) * item_stride);
}

template <class T>
void HeadKernel<T>::turn_tile(const T* of_home, std::size_t home_stride, std::size_t first, int tokens,
                              T* tile) const {
  const auto channels = static_cast<std::size_t>(shape_.channels);
  transpose(of_home + first, channels, static_cast<std::size_t>(tokens), home_stride, tile, channels);
}

template <class T>
void HeadKernel<T>::linear_plan(const Home<T>& home, const Items<T>& items, const Block& at, T* p, T* d) {
  dots(at, items.stride, items.b, home.stride, home.a, InsertMode::insert, p);
  const auto lanes = static_cast<std::size_t>(at.lanes);
  for (Index y = 0; y < at.items(); ++y) {
    const T beta = items.beta[static_cast<std::size_t>(at.begin) + y];
    for (std::size_t x = y * lanes; x < (y + 1) * lanes; ++x) {
      p[x] *= beta * shape_.scale;
      d[x] = beta;
    }
  }
  for_hidden(home, items, at,
             [&](std::size_t lane, std::size_t y) { p[y * lanes + lane] = d[y * lanes + lane] = T(0); });
}

template <class T>
const T* HeadKernel<T>::plan(const Home<T>& home, const Items<T>& items, const T* offset, const Block& at,
                             T* p, T* d) {
  if (shape_.linear) {
    linear_plan(home, items, at, p, d);
    return d;
  }
  dots(at, items.stride, items.b, home.stride, home.a, InsertMode::insert, p);
  // P <= 1 for visible pairs; the limit keeps hidden pairs and lanes without a token from overflowing.
  const Vector<T> limit = broadcast(T(80));
  const auto lanes = static_cast<std::size_t>(at.lanes);
  for (Index y = 0; y < at.items(); ++y) {
    const Vector<T> beta = broadcast(items.beta[static_cast<std::size_t>(at.begin) + y]);
    T* const row = p + y * lanes;
    for_registers<T>(at.lanes, [&](std::size_t x) {
      const Vector<T> logit = load(row + x) * shape_.scale + beta + load(offset + at.first + x);
      store(row + x, simd::exponential_or_zero<T>(logit > limit ? limit : logit));
    });
  }
  for_hidden(home, items, at, [&](std::size_t lane, std::size_t y) { p[y * lanes + lane] = T(0); });
  return p;
}

template <class T>
void HeadKernel<T>::stream(const Home<T>& home, const Items<T>& items, bool fresh, const RunningMix<T>& out) {
  // Finite, so that the difference of two of them is a number. A lane that has seen nothing has zero sums.
  constexpr T nothing = std::numeric_limits<T>::lowest() / 4;
  const auto channels = static_cast<std::size_t>(shape_.channels);
  if (fresh) {
    std::fill_n(out.top, home.count, shape_.linear ? T(0) : nothing);
    std::fill_n(out.sum, home.count, shape_.linear ? T(1) : T(0));
  }
  const bool values = items.v != nullptr;
  if (fresh && values && items.count == 0)
    for (std::size_t c = 0; c < channels; ++c) std::fill_n(out.mix + c * home.stride, home.count, T(0));
  reserve(2, 0);
  T *const p = take_matrix(), *const d = take_matrix();
  const auto add_mix = [&](const Block& at, bool first) {
    mix(at, items.stride, items.v, p, home.stride, first ? InsertMode::insert : InsertMode::add, out.mix);
  };
  for_blocks(
      home, items, [](std::size_t, int) {},
      [&](const Block& at) {
        const bool first = fresh && at.begin == 0;  // every token sees the first item of its own rank
        if (shape_.linear) {
          linear_plan(home, items, at, p, d);
          return add_mix(at, first);
        }
        const auto lanes = static_cast<std::size_t>(at.lanes), count = static_cast<std::size_t>(at.items());
        dots(at, items.stride, items.b, home.stride, home.a, InsertMode::insert, p);
        for_hidden(home, items, at, [&](std::size_t lane, std::size_t y) { p[y * lanes + lane] = nothing; });
        const T* const beta = items.beta + at.begin;
        T *const tops = out.top + at.first, *const sums = out.sum + at.first;
        for_registers<T>(at.lanes, [&](std::size_t x) {
          const Vector<T> old_top = load(tops + x);
          Vector<T> top = old_top;
          for (std::size_t y = 0; y < count; ++y) {
            const Vector<T> logit = load(p + y * lanes + x) * shape_.scale + beta[y];
            top = logit > top ? logit : top;
          }
          Vector<T> sum{};
          for (std::size_t y = 0; y < count; ++y) {
            T* const at_pair = p + y * lanes + x;
            const Vector<T> weight =
                simd::exponential_or_zero<T>(load(at_pair) * shape_.scale + beta[y] - top);
            store(at_pair, weight);
            sum += weight;
          }
          store_tokens<T>(tops, x, at.tokens, top);
          if (first) return store_tokens<T>(sums, x, at.tokens, sum);
          const Vector<T> keep = simd::exponential_or_zero<T>(old_top - top);
          store_tokens<T>(sums, x, at.tokens, load(sums + x) * keep + sum);
          if (!values) return;
          for (std::size_t c = 0; c < channels; ++c) {
            T* const row = out.mix + c * home.stride + at.first;
            store_tokens<T>(row, x, at.tokens, load(row + x) * keep);
          }
        });
        if (values) add_mix(at, first);
      });
}

template <class T>
void HeadKernel<T>::write_plan(const Home<T>& home, const Items<T>& items, const T* offset, double* k,
                               std::size_t row) {
  reserve(2, 0);
  T *const p = take_matrix(), *const d = take_matrix();
  for_blocks(
      home, items, [](std::size_t, int) {},
      [&](const Block& at) {
        plan(home, items, offset, at, p, d);
        for (Index lane = 0; lane < at.tokens; ++lane) {
          double* const to = k + (at.first + lane) * row;
          for (int y = 0; y < at.items(); ++y)
            to[items.index[at.begin + y]] =
                static_cast<double>(p[static_cast<std::size_t>(y * at.lanes) + lane]);
        }
      });
}

template <class T>
void HeadKernel<T>::adjoint(const Home<T>& home, const T* mix_bar, const Items<T>& items, const T* offset,
                            const T* centre, T* a_bar, const ItemBars<T>& bars) {
  reserve(3, 2);
  T *const p = take_matrix(), *const own = take_matrix(), *const s = take_matrix();
  T *const a_tile = take_tile(), *const bar_tile = take_tile();
  const bool values = items.v != nullptr;
  for_blocks(
      home, items,
      [&](std::size_t first, int tokens) {
        turn_tile(home.a, home.stride, first, tokens, a_tile);
        if (values) turn_tile(mix_bar, home.stride, first, tokens, bar_tile);
      },
      [&](const Block& at) {
        const T* const d = plan(home, items, offset, at, p, own);
        if (values) {
          dots(at, items.stride, items.v, home.stride, mix_bar, InsertMode::insert, s);
          spread(at, p, bar_tile, items.stride, bars.v);
        }
        for (Index y = 0; y < at.items(); ++y) {
          const auto row = y * static_cast<std::size_t>(at.lanes);
          Vector<T> sum{};
          for_registers<T>(at.lanes, [&](std::size_t x) {
            const Vector<T> middle = load(centre + at.first + x);
            const Vector<T> slope = load(d + row + x) * (values ? load(s + row + x) - middle : -middle);
            store(s + row + x, slope * shape_.scale);
            const auto left = static_cast<std::size_t>(at.tokens) - x;
            sum += left >= simd::lanes<T> ? slope : simd::first_lanes<T>(slope, left);
          });
          if (bars.beta != nullptr) bars.beta[static_cast<std::size_t>(at.begin) + y] += simd::sum<T>(sum);
        }
        mix(at, items.stride, items.b, s, home.stride, InsertMode::add, a_bar);
        spread(at, s, a_tile, items.stride, bars.b);
      });
}

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

template class HeadKernel<float>;
template class HeadKernel<double>;

}  // namespace fluxformer
