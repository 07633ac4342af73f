// The owner of a context may change the lengths of its samples between calls; each call sees the current
// ones.

#include <gtest/gtest.h>

#include <vector>

#include "operators/token_diffusion.hpp"
#include "tests/support/attention_problem.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// Everything a term computes, concatenated.
std::vector<double> everything(SlabTerm<double>& term, const LayerWeights<const double>& weights,
                               const LayerWeights<double>& gradient, std::vector<double>& gradient_values,
                               const AttentionProblem& problem) {
  const auto &u = problem.u, &v = problem.v, &w = problem.w;
  std::vector<double> rhs(u.size()), tangent(u.size()), bar(u.size()), all;
  std::fill(gradient_values.begin(), gradient_values.end(), 0.0);
  term.apply(weights, u.data(), add_to(rhs.data()), nullptr);
  term.push(weights, nullptr, {u.data(), v.data()}, add_to(tangent.data()), nullptr);
  term.pull(weights, u.data(), w.data(), add_to(bar.data()), &gradient, nullptr);
  for (const auto* part : {&rhs, &tangent, &bar, &gradient_values})
    all.insert(all.end(), part->begin(), part->end());
  const auto kept = term.make_tape(Order::first);
  term.apply(weights, u.data(), {1, u.data(), rhs.data()}, kept.get());
  term.pull(weights, u.data(), w.data(), {1, w.data(), bar.data()}, nullptr, kept.get());
  for (const auto* part : {&rhs, &bar}) all.insert(all.end(), part->begin(), part->end());
  return all;
}

// Successive batches: no padding, some, different padding, none again.
const std::vector<std::vector<int>> batches = {{}, {7, 3, 1}, {2, 7, 5}, {1, 1, 1}, {}};

TEST(ChangingLengths, are_seen_by_attention_at_each_call) {
  for (const int iterations : {0, 2, 3})
    for (const bool causal : {false, true}) {
      if (causal && iterations > 0) continue;
      const AttentionProblem problem(odd, make_settings(Kernel::l2, iterations, true),
                                     causal ? Mask::causal : Mask::none);
      std::vector<double> values(problem.p.flat.size());
      const auto weights = problem.p.view<const double>(problem.p.flat.data(), &problem.p.flat.back());
      const auto gradient = problem.p.view<double>(values.data(), &values.back());
      SlabContext context{&problem.line, odd.samples, odd.width, problem.whole.mask};
      Attention<double> lasting(context, problem.settings);
      std::vector<double> before;
      for (const auto& lengths : batches) {
        context.mask.length = lengths;
        Attention<double> fresh(context, problem.settings);
        const auto found = everything(lasting, weights, gradient, values, problem);
        EXPECT_EQ(found, everything(fresh, weights, gradient, values, problem));
        EXPECT_NE(found, before);
        before = found;
      }
    }
}

TEST(ChangingLengths, are_seen_by_token_diffusion_at_each_call) {
  const AttentionProblem problem(odd, {}, Mask::none);
  const double kappa = 0.3;
  double kappa_bar = 0;
  LayerWeights<const double> weights;
  weights.diffusion.kappa = &kappa;
  LayerWeights<double> gradient;
  gradient.diffusion.kappa = &kappa_bar;
  std::vector<double> none;
  SlabContext context{&problem.line, odd.samples, odd.width, {}};
  TokenDiffusion<double> lasting(context);
  std::vector<double> before;
  for (const auto& lengths : batches) {
    context.mask.length = lengths;
    TokenDiffusion<double> fresh(context);
    const auto found = everything(lasting, weights, gradient, none, problem);
    EXPECT_EQ(found, everything(fresh, weights, gradient, none, problem));
    EXPECT_NE(found, before);
    before = found;
  }
}

}  // namespace
}  // namespace fluxformer
