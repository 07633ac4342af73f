#include "operators/attention/head_kernel.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "operators/kernels/product.hpp"
#include "operators/kernels/vector_math.hpp"

namespace fluxformer {

using simd::broadcast;
using simd::load;
using simd::store;
using simd::Vector;

template <class T>
template <class Start, class F>
void HeadKernel<T>::for_blocks(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, Start&& start,
                               F&& f) const {
  // As few tiles as hold at most 128 queries each, of equal size but rounded up to whole registers. Where the
  // last query's window ends behind the first key, smaller tiles meet fewer keys that they do not see: with
  // W = 128, tiles of 32 take 0.7 of the time.
  constexpr Index width = simd::lanes<T>;
  const bool windowed =
      keys.count > 0 && keys.index[0] < queries.index[queries.count - 1] - queries.reach.behind;
  const Index most = windowed ? most_windowed : most_tokens;
  const Index tiles = (queries.count + most - 1) / most;
  const Index even = (queries.count + tiles - 1) / std::max(tiles, Index{1});
  const Index size = (even + width - 1) / width * width;
  for (Index first = 0; first < queries.count; first += size) {
    const Block tile = visible(queries, keys, first, std::min(size, queries.count - first));
    start(tile);
    Block at = tile;
    for (; at.begin < tile.end; at.begin = at.end) {
      at.end = std::min(at.begin + most_keys, tile.end);
      f(at);
    }
  }
}

template <class T>
template <class F>
void HeadKernel<T>::for_hidden(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const Block& at,
                               F&& f) {
  // Indices increase: lanes early .. late - 1 see a key, and neither falls from one key to the next.
  const int* const index = queries.index + at.first;
  Index early = 0, late = 0;
  for (Index y = at.begin; y < at.end; ++y) {
    while (early < at.tokens && index[early] + queries.reach.ahead < keys.index[y]) ++early;
    while (late < at.tokens && index[late] - queries.reach.behind <= keys.index[y]) ++late;
    for (Index lane = 0; lane < early; ++lane) f(lane, y - at.begin);
    for (Index lane = late; lane < at.tokens; ++lane) f(lane, y - at.begin);
  }
}

/// f(first lane of a register) for all registers of `lanes` lanes.
template <class T, class F>
inline void for_registers(Index lanes, F&& f) {
  for (Index x = 0; x < lanes; x += simd::lanes<T>) f(x);
}

/// Writes the lanes of a register that are below `tokens`.
template <class T>
inline void store_tokens(T* to, Index x, Index tokens, const simd::Vector<T>& v) {
  const Index left = tokens - x;
  if (left >= simd::lanes<T>)
    simd::store(to + x, v);
  else
    simd::store_part<T>(to + x, v, left);
}

template <class T>
void HeadKernel<T>::reserve(Index matrices, Index tiles) {
  scratch_.reset(matrices * most_keys * most_tokens + tiles * most_tokens * shape_.channels,
                 matrices + tiles);
}

template <class T>
typename HeadKernel<T>::Block HeadKernel<T>::visible(const QueryBlock<T>& queries,
                                                     const KeyValueBlock<T>& keys, Index first,
                                                     Index tokens) {
  constexpr Index width = simd::lanes<T>;
  const int *const from = keys.index, *const to = keys.index + keys.count;
  const Index least = queries.index[first] - queries.reach.behind,
              most = queries.index[first + tokens - 1] + queries.reach.ahead;
  return {.first = first,
          .tokens = tokens,
          .lanes = (tokens + width - 1) / width * width,
          .begin = std::lower_bound(from, to, least) - from,
          .end = std::upper_bound(from, to, most) - from};
}

template <class T>
void HeadKernel<T>::dots(const Block& at, Index key_stride, const T* of_keys, Index query_stride,
                         const T* of_queries, InsertMode into, T* m) {
  // m[y][x] = (or +=) sum_c of_keys[y][c] of_queries[c][x]
  dots_({.rows = at.keys(),
         .columns = at.tokens,
         .depth = shape_.channels,
         .a_stride = key_stride,
         .b_stride = query_stride,
         .c_stride = at.lanes,
         .into = into},
        of_keys + at.begin * key_stride, of_queries + at.first, m);
}

template <class T>
void HeadKernel<T>::mix(const Block& at, Index key_stride, const T* of_keys, const T* m, Index query_stride,
                        InsertMode into, T* to) {
  // to[c][x] = (or +=) sum_y of_keys[y][c] m[y][x]
  mix_({.rows = shape_.channels,
        .columns = at.tokens,
        .depth = at.keys(),
        .a_stride = key_stride,
        .b_stride = at.lanes,
        .c_stride = query_stride,
        .a = Stored::transposed,
        .into = into},
       of_keys + at.begin * key_stride, m, to + at.first);
}

template <class T>
void HeadKernel<T>::spread(const Block& at, const T* m, const T* tile, Index key_stride, T* to) {
  // to[y][c] += sum_x m[y][x] tile[x][c]
  spread_({.rows = at.keys(),
           .columns = shape_.channels,
           .depth = at.tokens,
           .a_stride = at.lanes,
           .b_stride = shape_.channels,
           .c_stride = key_stride,
           .into = InsertMode::add},
          m, tile, to + at.begin * key_stride);
}

template <class T>
void HeadKernel<T>::transpose_tile(const T* of_queries, Index query_stride, const Block& at, T* tile) const {
  // tile[x][c] = of_queries[c][first + x]: spread reads the queries row by row.
  if (at.keys() > 0)
    transpose(of_queries + at.first, shape_.channels, at.tokens, query_stride, tile, shape_.channels);
}

template <class T>
void HeadKernel<T>::linear_plan(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const Block& at,
                                T* p, T* d) {
  dots(at, keys.stride, keys.b, queries.stride, queries.a, InsertMode::insert, p);
  const Index lanes = at.lanes;
  // P = beta scale a . b, D = beta
  for (Index y = 0; y < at.keys(); ++y) {
    const T beta = keys.beta[at.begin + y];
    for (Index x = y * lanes; x < (y + 1) * lanes; ++x) {
      p[x] *= beta * shape_.scale;
      d[x] = beta;
    }
  }
  for_hidden(queries, keys, at,
             [&](Index lane, Index y) { p[y * lanes + lane] = d[y * lanes + lane] = T(0); });
}

template <class T>
const T* HeadKernel<T>::plan(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const T* offset,
                             const Block& at, T* p, T* d) {
  if (shape_.linear) {
    linear_plan(queries, keys, at, p, d);
    return d;
  }
  dots(at, keys.stride, keys.b, queries.stride, queries.a, InsertMode::insert, p);
  // P = exp(scale a . b + beta + offset) <= 1 for visible pairs; the limit keeps hidden pairs and lanes
  // without a token from overflowing.
  const Vector<T> limit = broadcast(T(80));
  const Index lanes = at.lanes;
  for (Index y = 0; y < at.keys(); ++y) {
    const Vector<T> beta = broadcast(keys.beta[at.begin + y]);
    T* const row = p + y * lanes;
    for_registers<T>(at.lanes, [&](Index x) {
      const Vector<T> logit = load(row + x) * shape_.scale + beta + load(offset + at.first + x);
      store(row + x, simd::exponential_or_zero<T>(logit > limit ? limit : logit));
    });
  }
  for_hidden(queries, keys, at, [&](Index lane, Index y) { p[y * lanes + lane] = T(0); });
  return p;
}

template <class T>
void HeadKernel<T>::stream(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, bool fresh,
                           const RunningMix<T>& out) {
  // The maximum of a lane that has seen nothing, finite, so that the difference of two of them is a number;
  // a hidden logit is below it, so that its weight is 0 even where a lane sees nothing but hidden keys.
  constexpr T nothing = std::numeric_limits<T>::lowest() / 4, hidden = -std::numeric_limits<T>::infinity();
  const Index channels = shape_.channels;
  if (fresh) {
    // Linear attention sums P v as it is: top = 0 and sum = 1 for good.
    std::fill_n(out.top, queries.count, shape_.linear ? T(0) : nothing);
    std::fill_n(out.sum, queries.count, shape_.linear ? T(1) : T(0));
  }
  const bool values = keys.v != nullptr;
  reserve(2, 0);
  T *const p = take_matrix(), *const d = take_matrix();
  const auto add_mix = [&](const Block& at, bool first) {
    mix(at, keys.stride, keys.v, p, queries.stride, first ? InsertMode::insert : InsertMode::add, out.mix);
  };
  bool unset = fresh;  // the sums of a tile: its first run of keys sets them
  for_blocks(
      queries, keys,
      [&](const Block& tile) {
        unset = fresh;
        if (!fresh || !values || tile.keys() > 0) return;
        for (Index c = 0; c < channels; ++c)
          std::fill_n(out.mix + c * queries.stride + tile.first, tile.tokens, T(0));
      },
      [&](const Block& at) {
        const bool first = std::exchange(unset, false);
        if (shape_.linear) {
          linear_plan(queries, keys, at, p, d);
          return add_mix(at, first);
        }
        const Index lanes = at.lanes, count = at.keys();
        dots(at, keys.stride, keys.b, queries.stride, queries.a, InsertMode::insert, p);
        for_hidden(queries, keys, at, [&](Index lane, Index y) { p[y * lanes + lane] = hidden; });
        const T* const beta = keys.beta + at.begin;
        T *const tops = out.top + at.first, *const sums = out.sum + at.first;
        for_registers<T>(at.lanes, [&](Index x) {
          // top' = max(top, logits)
          const Vector<T> old_top = load(tops + x);
          Vector<T> top = old_top;
          for (Index y = 0; y < count; ++y) {
            const Vector<T> logit = load(p + y * lanes + x) * shape_.scale + beta[y];
            top = logit > top ? logit : top;
          }
          // p = exp(logit - top'), sum' = sum exp(top - top') + sum_y p, and mix likewise
          Vector<T> sum{};
          for (Index y = 0; y < count; ++y) {
            T* const at_pair = p + y * lanes + x;
            const Vector<T> weight =
                simd::exponential_or_zero<T>(load(at_pair) * shape_.scale + beta[y] - top);
            store(at_pair, weight);
            sum += weight;
          }
          store_tokens<T>(tops, x, at.tokens, top);
          if (first) return store_tokens<T>(sums, x, at.tokens, sum);
          // What was summed so far is relative to the old top: it takes the factor exp(top - top').
          const Vector<T> keep = simd::exponential_or_zero<T>(old_top - top);
          store_tokens<T>(sums, x, at.tokens, load(sums + x) * keep + sum);
          if (!values) return;
          for (Index c = 0; c < channels; ++c) {
            T* const row = out.mix + c * queries.stride + at.first;
            store_tokens<T>(row, x, at.tokens, load(row + x) * keep);
          }
        });
        if (values) add_mix(at, first);
      });
}

template <class T>
void HeadKernel<T>::write_plan(const QueryBlock<T>& queries, const KeyValueBlock<T>& keys, const T* offset,
                               double* k, Index row) {
  reserve(2, 0);
  T *const p = take_matrix(), *const d = take_matrix();
  for_blocks(
      queries, keys, [](const Block&) {},
      [&](const Block& at) {
        plan(queries, keys, offset, at, p, d);
        // k[x][index of y] = P(x, y)
        for (Index lane = 0; lane < at.tokens; ++lane) {
          double* const to = k + (at.first + lane) * row;
          for (Index y = 0; y < at.keys(); ++y) to[keys.index[at.begin + y]] = p[y * at.lanes + lane];
        }
      });
}

template <class T>
void HeadKernel<T>::adjoint(const QueryBlock<T>& queries, const T* mix_bar, const KeyValueBlock<T>& keys,
                            const T* offset, const T* centre, T* a_bar, const KeyValueAdjoint<T>& keys_bar) {
  reserve(3, 2);
  T *const p = take_matrix(), *const own = take_matrix(), *const s = take_matrix();
  T *const a_tile = take_tile(), *const bar_tile = take_tile();
  const bool values = keys.v != nullptr;
  for_blocks(
      queries, keys,
      [&](const Block& tile) {
        transpose_tile(queries.a, queries.stride, tile, a_tile);
        if (values) transpose_tile(mix_bar, queries.stride, tile, bar_tile);
      },
      [&](const Block& at) {
        // P and D = dP/dlogit of the block, again from q, k and the offsets: P is never stored as a whole.
        const T* const d = plan(queries, keys, offset, at, p, own);
        if (values) {
          dots(at, keys.stride, keys.v, queries.stride, mix_bar, InsertMode::insert, s);
          spread(at, p, bar_tile, keys.stride, keys_bar.v);  // v_bar += P mix_bar
        }
        // s = D (mix_bar . v - centre), times scale for a and b; beta_bar += sum_x s
        for (Index y = 0; y < at.keys(); ++y) {
          const Index row = y * at.lanes;
          Vector<T> sum{};
          for_registers<T>(at.lanes, [&](Index x) {
            const Vector<T> middle = load(centre + at.first + x);
            const Vector<T> slope = load(d + row + x) * (values ? load(s + row + x) - middle : -middle);
            store(s + row + x, slope * shape_.scale);
            // Lanes behind the last token hold no query and stay out of the sum.
            const Index left = at.tokens - x;
            sum += left >= simd::lanes<T> ? slope : simd::first_lanes<T>(slope, left);
          });
          if (keys_bar.beta != nullptr) keys_bar.beta[at.begin + y] += simd::sum<T>(sum);
        }
        // a_bar_x += sum_y s b_y, b_bar_y += sum_x s a_x, with the factor scale in s
        mix(at, keys.stride, keys.b, s, queries.stride, InsertMode::add, a_bar);
        spread(at, s, a_tile, keys.stride, keys_bar.b);
      });
}

template <class T>
void HeadKernel<T>::tangent(const QueryBlock<T>& queries, const T* a_dot, const KeyValueBlock<T>& keys,
                            const KeyValueBlock<T>& keys_dot, const T* offset, T* slope, T* mixed) {
  reserve(3, 0);
  T *const p = take_matrix(), *const own = take_matrix(), *const u = take_matrix();
  for_blocks(
      queries, keys, [](const Block&) {},
      [&](const Block& at) {
        const T* const d = plan(queries, keys, offset, at, p, own);
        // a' . b + a . b'
        dots(at, keys.stride, keys.b, queries.stride, a_dot, InsertMode::insert, u);
        dots(at, keys.stride, keys_dot.b, queries.stride, queries.a, InsertMode::add, u);
        const Index lanes = at.lanes, count = at.keys();
        const T* const beta_dot = keys_dot.beta + at.begin;
        T* const slopes = slope + at.first;
        // D u, u = scale (a' . b + a . b') + beta'
        for_registers<T>(at.lanes, [&](Index x) {
          Vector<T> sum{};
          for (Index y = 0; y < count; ++y) {
            T* const pair = u + y * lanes + x;
            const Vector<T> change = load(d + y * lanes + x) * (load(pair) * shape_.scale + beta_dot[y]);
            store(pair, change);
            sum += change;
          }
          // slope += sum_y D u, by which the normalisation of the row changes
          if (!shape_.linear) store_tokens<T>(slopes, x, at.tokens, load(slopes + x) + sum);
        });
        // mixed += sum_y D u v + P v', where `u` now holds D u
        if (keys.v == nullptr) return;
        mix(at, keys.stride, keys.v, u, queries.stride, InsertMode::add, mixed);
        mix(at, keys.stride, keys_dot.v, p, queries.stride, InsertMode::add, mixed);
      });
}

template <class T>
void HeadKernel<T>::adjoint_tangent(const QueryBlock<T>& queries, const QueryTangent<T>& queries_dot,
                                    const KeyValueBlock<T>& keys, const KeyValueBlock<T>& keys_dot,
                                    T* a_bar_dot, const KeyValueAdjoint<T>& keys_bar_dot) {
  reserve(5, 4);
  T *const p = take_matrix(), *const own = take_matrix(), *const p_dot = take_matrix();
  T *const s = take_matrix(), *const s_dot = take_matrix();
  T *const a = take_tile(), *const a_dot = take_tile(), *const bar = take_tile(),
           *const bar_dot = take_tile();
  for_blocks(
      queries, keys,
      [&](const Block& tile) {
        transpose_tile(queries.a, queries.stride, tile, a);
        transpose_tile(queries_dot.a_dot, queries.stride, tile, a_dot);
        transpose_tile(queries_dot.mix_bar, queries.stride, tile, bar);
        transpose_tile(queries_dot.mix_bar_dot, queries.stride, tile, bar_dot);
      },
      [&](const Block& at) {
        const T* const d = plan(queries, keys, queries_dot.offset, at, p, own);
        // a' . b + a . b',  mix_bar . v,  mix_bar' . v + mix_bar . v'
        dots(at, keys.stride, keys.b, queries.stride, queries_dot.a_dot, InsertMode::insert, p_dot);
        dots(at, keys.stride, keys_dot.b, queries.stride, queries.a, InsertMode::add, p_dot);
        dots(at, keys.stride, keys.v, queries.stride, queries_dot.mix_bar, InsertMode::insert, s);
        dots(at, keys.stride, keys.v, queries.stride, queries_dot.mix_bar_dot, InsertMode::insert, s_dot);
        dots(at, keys.stride, keys_dot.v, queries.stride, queries_dot.mix_bar, InsertMode::add, s_dot);
        // P' = D (u - slope),  s = D (mix_bar . v - centre),  s' by the product rule
        for (Index y = 0; y < at.keys(); ++y) {
          const Index row = y * at.lanes;
          for_registers<T>(at.lanes, [&](Index x) {
            const Index lane = at.first + x, pair = row + x;
            const Vector<T> rate = load(d + pair),
                            difference = load(s + pair) - load(queries_dot.centre + lane);
            const Vector<T> change =
                rate * (load(p_dot + pair) * shape_.scale - load(queries_dot.slope + lane));
            Vector<T> change_of_s = rate * (load(s_dot + pair) - load(queries_dot.centre_dot + lane));
            // D' = P', but linear attention has D' = 0.
            if (!shape_.linear) change_of_s += change * difference;
            store(p_dot + pair, change);
            store(s + pair, rate * difference * shape_.scale);
            store(s_dot + pair, change_of_s * shape_.scale);
          });
        }
        // v_bar'_y += sum_x P' mix_bar + P mix_bar'
        // a_bar'_x += sum_y s' b + s b',  b_bar'_y += sum_x s' a + s a', with the factor scale in s and s'
        spread(at, p_dot, bar, keys.stride, keys_bar_dot.v);
        spread(at, p, bar_dot, keys.stride, keys_bar_dot.v);
        mix(at, keys.stride, keys.b, s_dot, queries.stride, InsertMode::add, a_bar_dot);
        mix(at, keys.stride, keys_dot.b, s, queries.stride, InsertMode::add, a_bar_dot);
        spread(at, s_dot, a, keys.stride, keys_bar_dot.b);
        spread(at, s, a_dot, keys.stride, keys_bar_dot.b);
      });
}

template class HeadKernel<float>;
template class HeadKernel<double>;

}  // namespace fluxformer
