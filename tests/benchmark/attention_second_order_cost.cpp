// A product with the Hessian of attention against a gradient, with all tapes kept: push and
// pull_along against apply and pull. Medians of many, in turns.
//
//   fluxformer_attention_second_order_cost [repeats]
//
// Batch 32, 49 tokens, width 64, 4 heads, double, LayerNorm inside; one rank.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/session.hpp"
#include "operators/attention/attention.hpp"
#include "tests/support/attention_case.hpp"

namespace {

using namespace fluxformer;

/// Milliseconds of processor time (the machine may be shared).
template <class F>
double time_of(F&& f) {
  const auto begin = std::clock();
  f();
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void compare(int repeats) {
  constexpr int tokens = 49, samples = 32, width = 64;
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 7, 7);
  const SlabContext context{&line, samples, width, {}};
  AttentionSettings settings;
  settings.heads = 4;
  Attention<double> attention(context, settings);
  test::AttentionParameters p(width, 1), p_dot(width, 2);
  std::vector<double> bar(p.flat.size()), bar_dot(p.flat.size());
  const auto weights = p.view<const double>(p.flat.data(), &p.flat.back()),
             weights_dot = p.view<const double>(p_dot.flat.data(), &p_dot.flat.back());
  const auto gradient = p.view<double>(bar.data(), &bar.back()),
             gradient_dot = p.view<double>(bar_dot.data(), &bar_dot.back());
  const auto u = test::random_vector(context.size(), 3), u_dot = test::random_vector(context.size(), 4),
             w = test::random_vector(context.size(), 5), w_dot = test::random_vector(context.size(), 6);
  std::vector<double> out(context.size());
  const auto tape = attention.make_tape(Order::second);
  const Point at{u.data(), u_dot.data()};

  std::vector<double> rhs, adjoint, tangent, adjoint_tangent, whole, product;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    rhs.push_back(time_of([&] {
      attention.apply(weights, u.data(), {0.5, u.data(), out.data()}, &tape->value());
    }));
    adjoint.push_back(time_of([&] {
      attention.pull(weights, u.data(), w.data(), {0.5, w.data(), out.data()}, &gradient, &tape->value());
    }));
    attention.pull(weights, u.data(), w.data(), {0.5, w.data(), out.data()}, &gradient, tape.get());
    tangent.push_back(time_of([&] {
      attention.push(weights, &weights_dot, at, {0.5, u_dot.data(), out.data()}, tape.get());
    }));
    adjoint_tangent.push_back(time_of([&] {
      attention.pull_along(weights, weights_dot, at, {w.data(), w_dot.data()},
                           {0.5, w_dot.data(), out.data()}, gradient_dot, tape.get());
    }));
    whole.push_back(rhs.back() + adjoint.back());
    product.push_back(tangent.back() + adjoint_tangent.back());
  }
  std::printf("%d tokens, batch %d, width %d: medians of %d\n", tokens, samples, width, repeats);
  std::printf("evaluation        %8.3f ms\nadjoint           %8.3f ms\n", median(rhs), median(adjoint));
  std::printf("tangent           %8.3f ms\nadjoint's tangent %8.3f ms\n", median(tangent),
              median(adjoint_tangent));
  std::printf("gradient %.3f ms, Hessian product %.3f ms: %.3f gradients\n", median(whole), median(product),
              median(product) / median(whole));
}

}  // namespace

int main(int argc, char** argv) {
  const Session session(argc, argv);
  compare(argc > 1 ? std::atoi(argv[1]) : 201);
  return 0;
}
