// The cost of one Hessian product of a slab term (tangent and the adjoint's tangent) against its gradient
// (value and adjoint), both from what they keep: medians of alternating rounds of processor time.
//
//   fluxformer_second_order_cost [rounds]
//
// 1568 rows (batch 32, 49 tokens), width 64, ffn 256. Twice as many products of matrices: the ratio is 2
// where these take all the time.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/session.hpp"
#include "operators/kernels/blas.hpp"
#include "operators/reaction/reaction.hpp"

namespace {

using namespace fluxformer;

std::vector<double> waves(std::size_t count, double frequency, double size) {
  std::vector<double> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = size * std::sin(frequency * static_cast<double>(i + 1));
  return x;
}

/// Weights, states and room for the results of one term.
template <class T>
struct Network {
  static constexpr std::size_t d = 64, f = 256, count = 2 * d * f + 3 * d + f;
  TokenLine line = TokenLine::even(MPI_COMM_SELF, 7, 7);
  SlabContext context{&line, 32, static_cast<int>(d)};
  std::vector<double> point = waves(count + 1, 0.7, 0.2), direction = waves(count + 1, 1.3, 0.2);
  std::vector<T> rounded{point.begin(), point.end()}, rounded_direction{direction.begin(), direction.end()};
  std::vector<double> gradient = std::vector<double>(count + 1);
  std::vector<double> u = waves(context.size(), 0.3, 1), u_dot = waves(context.size(), 1.1, 1),
                      w = waves(context.size(), 0.9, 1), w_dot = waves(context.size(), 0.5, 1),
                      out = waves(context.size(), 0.2, 1);

  template <class P>
  static LayerWeights<P> view(P* begin, Coefficient<P>* rho) {
    P *w_1 = begin + 2 * d, *w_2 = w_1 + d * f + f;
    LayerWeights<P> weights;
    weights.reaction = {.gain = begin,
                        .bias = begin + d,
                        .w_1 = w_1,
                        .b_1 = w_1 + d * f,
                        .w_2 = w_2,
                        .b_2 = w_2 + d * f,
                        .rho = rho};
    return weights;
  }
};

double milliseconds_since(std::clock_t begin) {
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

template <class T>
void compare(const char* name, Activation activation, int rounds) {
  Network<T> n;
  Reaction<T> term(n.context, {static_cast<int>(Network<T>::f), activation, true, false});
  const auto weights = n.template view<const T>(n.rounded.data(), &n.point.back());
  const auto along = n.template view<const T>(n.rounded_direction.data(), &n.direction.back());
  const auto gradient = n.view(n.gradient.data(), &n.gradient.back());
  const auto kept = term.make_tape(Order::first), tape = term.make_tape(Order::second);
  const Point at{n.u.data(), n.u_dot.data()};
  const auto onto = [&](const std::vector<double>& base) { return Sum{1, base.data(), n.out.data()}; };
  term.apply(weights, n.u.data(), onto(n.u), tape.get());
  term.pull(weights, n.u.data(), n.w.data(), onto(n.w), &gradient, tape.get());
  std::vector<double> gradients, products, newton, ratios;
  for (int round = 0; round < rounds; ++round) {
    auto begin = std::clock();
    term.apply(weights, n.u.data(), onto(n.u), kept.get());
    term.pull(weights, n.u.data(), n.w.data(), onto(n.w), &gradient, kept.get());
    gradients.push_back(milliseconds_since(begin));
    begin = std::clock();
    term.push(weights, &along, at, onto(n.u_dot), tape.get());
    const double tangent = milliseconds_since(begin);
    term.pull_along(weights, along, at, {n.w.data(), n.w_dot.data()}, onto(n.w_dot), gradient, tape.get());
    products.push_back(milliseconds_since(begin));
    begin = std::clock();
    term.pull(weights, n.u.data(), n.w_dot.data(), onto(n.w_dot), &gradient, &tape->value());
    newton.push_back(tangent + milliseconds_since(begin));
    ratios.push_back(products.back() / gradients.back());
  }
  std::printf(
      "%-7s %-9s gradient %6.2f ms, Hessian product %6.2f ms, Gauss-Newton %6.2f ms; median ratio %.2f\n",
      name, activation == Activation::gelu_erf ? "gelu_erf" : "gelu_tanh", median(gradients),
      median(products), median(newton), median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  Session session(argc, argv);
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 101;
  std::printf("%s\n", blas_description().c_str());
  for (const Activation activation : {Activation::gelu_erf, Activation::gelu_tanh}) {
    compare<double>("double", activation, rounds);
    compare<float>("float", activation, rounds);
  }
  return 0;
}
