// Tangent and adjoint with kept activations equal those that recompute everything, bit for bit, since the
// operations are the same.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "operators/reaction/reaction.hpp"
#include "tests/support/attention_problem.hpp"
#include "tests/support/reaction_parameters.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr double scale = -0.37;

/// A term with weights, its own context and room for all gradients.
template <class T>
struct Subject {
  SlabContext context;
  std::unique_ptr<SlabTerm<T>> term;
  LayerWeights<const T> weights;
  LayerWeights<double> gradient;
  std::vector<double>* gradient_values;

  std::vector<double> rhs(const std::vector<double>& u, std::vector<double> out) {
    term->apply(weights, u.data(), add_to(out.data(), scale), nullptr);
    return out;
  }
  std::vector<double> adjoint(const std::vector<double>& u, const std::vector<double>& w,
                              std::vector<double> bar) {
    term->pull(weights, u.data(), w.data(), add_to(bar.data(), scale), &gradient, nullptr);
    return bar;
  }
  std::vector<double> kept_rhs(const std::vector<double>& u, const std::vector<double>& base,
                               TermTape& kept) {
    std::vector<double> out(u.size(), 7.0);  // overwritten
    term->apply(weights, u.data(), {scale, base.data(), out.data()}, &kept);
    return out;
  }
  std::vector<double> kept_adjoint(const std::vector<double>& u, const std::vector<double>& w,
                                   const std::vector<double>& base, TermTape& kept) {
    std::vector<double> bar(u.size(), 7.0);
    term->pull(weights, u.data(), w.data(), {scale, base.data(), bar.data()}, &gradient, &kept);
    return bar;
  }
  std::vector<double> tangent(const std::vector<double>& u, const std::vector<double>& v,
                              std::vector<double> out) {
    term->push(weights, nullptr, {u.data(), v.data()}, add_to(out.data(), scale), nullptr);
    return out;
  }
  std::vector<double> kept_tangent(const std::vector<double>& u, const std::vector<double>& v,
                                   const std::vector<double>& base, TermTape& kept) {
    std::vector<double> out(u.size(), 7.0);
    term->push(weights, nullptr, {u.data(), v.data()}, {scale, base.data(), out.data()}, &kept);
    return out;
  }
  std::vector<double> taken_gradient() {
    const auto taken = *gradient_values;
    std::fill(gradient_values->begin(), gradient_values->end(), 0.0);
    return taken;
  }
};

/// Two states, kept at the same time; what was kept is read twice and filled twice; in place and not.
template <class T>
void expect_the_same_numbers(Subject<T>& subject) {
  const std::size_t size = subject.context.size();
  const auto w = random_vector(size, 3);
  const auto one = subject.term->make_tape(Order::first), two = subject.term->make_tape(Order::first);
  EXPECT_EQ(one->bytes(), two->bytes());
  for (const unsigned seed : {10u, 20u}) {
    const auto u = random_vector(size, seed, 1.2, 0.3), v = random_vector(size, seed + 1, 1.2, 0.3);
    EXPECT_EQ(subject.kept_rhs(u, u, *one), subject.rhs(u, u));
    EXPECT_EQ(subject.kept_rhs(v, w, *two), subject.rhs(v, w));
    for (const auto& [state, kept] : {std::pair{&u, one.get()}, {&v, two.get()}, {&u, one.get()}}) {
      subject.taken_gradient();
      const auto bar = subject.adjoint(*state, w, w);
      const auto gradient = subject.taken_gradient();
      EXPECT_EQ(subject.kept_adjoint(*state, w, w, *kept), bar);
      EXPECT_EQ(subject.taken_gradient(), gradient);
      EXPECT_GT(norm(gradient), 0);
      EXPECT_EQ(subject.kept_tangent(*state, w, w, *kept), subject.tangent(*state, w, w));
    }
    auto in_place = w;
    subject.term->pull(subject.weights, u.data(), w.data(), add_to(in_place.data(), scale), nullptr,
                       one.get());
    EXPECT_EQ(in_place, subject.adjoint(u, w, w));
    in_place = w;
    subject.term->push(subject.weights, nullptr, {u.data(), w.data()}, add_to(in_place.data(), scale),
                       one.get());
    EXPECT_EQ(in_place, subject.tangent(u, w, w));
  }
}

template <class T>
void expect_of_attention(const Size& size, const AttentionSettings& settings, Mask mask) {
  const AttentionProblem problem(size, settings, mask);
  const auto& p = problem.p;
  const auto rounded = rounded_to<T>(p.flat);
  std::vector<double> gradient(p.flat.size());
  Subject<T> subject{{&problem.line, size.samples, size.width, problem.whole.mask},
                     nullptr,
                     p.template view<const T>(rounded.data(), &p.flat.back()),
                     p.template view<double>(gradient.data(), &gradient.back()),
                     &gradient};
  subject.term = std::make_unique<Attention<T>>(subject.context, problem.settings);
  expect_the_same_numbers(subject);
}

// The second size takes several chunks of samples, the last one smaller.
TEST(KeptActivations, of_attention_give_tangent_and_adjoint_to_the_bit) {
  for (const Size& size : {odd, Size{49, 23, 32, 2}})
    for (const Kernel kernel : {Kernel::dot, Kernel::l2})
      for (const int iterations : {0, 1, 2, 3})
        for (const Mask mask : {Mask::none, Mask::both, Mask::weights_and_padding}) {
          if (iterations > 0 && mask == Mask::both) continue;
          const bool layer_norm = iterations != 1;
          expect_of_attention<double>(size, make_settings(kernel, iterations, layer_norm), mask);
          expect_of_attention<float>(size, make_settings(kernel, iterations, layer_norm), mask);
        }
}

template <class T>
void expect_of_reaction(const ReactionSettings& settings, int tokens, int samples, int width) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, tokens, 1);
  const ReactionParameters parameters({width, settings.hidden, settings.gated}, 11);
  const auto& flat = parameters.flat;
  const auto rounded = rounded_to<T>(flat);
  std::vector<double> gradient(flat.size());
  const auto view = [&]<class P>(P* begin, Coefficient<P>* rho) {
    LayerWeights<P> weights;
    weights.reaction = parameters.view<P>(begin, rho);
    return weights;
  };
  Subject<T> subject{{&line, samples, width, {}},
                     nullptr,
                     view(rounded.data(), &flat.back()),
                     view(gradient.data(), &gradient.back()),
                     &gradient};
  subject.term = std::make_unique<Reaction<T>>(subject.context, settings);
  expect_the_same_numbers(subject);
}

// 553 rows: more than one block, the last one not full.
TEST(KeptActivations, of_the_reaction_give_tangent_and_adjoint_to_the_bit) {
  for (const Activation activation :
       {Activation::gelu_erf, Activation::gelu_tanh, Activation::relu, Activation::silu})
    for (const bool layer_norm : {true, false})
      for (const bool gated : {false, true}) {
        const auto settings = [&](int hidden) {
          return ReactionSettings{
              .hidden = hidden, .activation = activation, .layer_norm = layer_norm, .gated = gated};
        };
        expect_of_reaction<double>(settings(7), 7, 79, 5);
        expect_of_reaction<float>(settings(40), 7, 79, 13);
      }
}

TEST(KeptActivations, report_the_memory_they_hold) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 49, 1);
  const SlabContext context{&line, 23, 32, {}};
  const std::size_t rows = 49 * 23, d = 32, f = 128;
  const auto reaction =
      Reaction<float>(context, {128, Activation::gelu_erf, true, false}).make_tape(Order::first);
  EXPECT_GE(reaction->bytes(), rows * (d + f) * sizeof(float));
  EXPECT_LE(reaction->bytes(), rows * (d + 2 * f) * sizeof(float));
  const auto attention =
      Attention<double>(context, make_settings(Kernel::dot, 0, true)).make_tape(Order::first);
  // N(u), q, k, v, the mix: 5 d a row, and some numbers per head; never n of them.
  EXPECT_GE(attention->bytes(), rows * 5 * d * sizeof(double));
  EXPECT_LE(attention->bytes(), rows * 6 * d * sizeof(double));
}

}  // namespace
}  // namespace fluxformer
