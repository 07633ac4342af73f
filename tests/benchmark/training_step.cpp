// Whole training steps, and the forward and backward pass of each term alone. compare_with_pytorch.py
// compares the steps with PyTorch.

#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "operators/attention/attention.hpp"
#include "operators/reaction/reaction.hpp"
#include "tests/benchmark/training_case.hpp"

namespace {

using namespace fluxformer;

const bench::Size small{};
const bench::Size large{
    .layers = 12, .columns = 16, .rows = 16, .batch = 8, .width = 128, .heads = 8, .ffn = 512};

void training_step(benchmark::State& state, const bench::Size& size, Precision precision) {
  bench::TrainingCase training(MPI_COMM_SELF, size, precision);
  training.step();  // the first step allocates
  for (auto _ : state) training.step();
  // The adjoint has two products per matrix: with the cotangent and for the gradient.
  state.counters["GFLOP/s"] =
      benchmark::Counter(3e-9 * size.flops(), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["kept MB"] = training.kept_megabytes();
}
BENCHMARK_CAPTURE(training_step, small_float, small, Precision::float32)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(training_step, small_mixed, small, Precision::mixed)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(training_step, small_double, small, Precision::float64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(training_step, large_float, large, Precision::float32)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(training_step, large_mixed, large, Precision::mixed)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(training_step, large_double, large, Precision::float64)->Unit(benchmark::kMillisecond);

/// One term's evaluation, including what it stores, and its adjoint with parameter gradients.
template <class Term>
class TermCase {
 public:
  template <class Settings>
  TermCase(const bench::Size& size, const Settings& settings)
      : line_(TokenLine::even(MPI_COMM_SELF, size.columns, size.rows)),
        context_{&line_, size.batch, size.width, {}},
        parameters_(bench::model_spec(size)),
        gradient_(parameters_.values.size()),
        weights_(parameters_),
        term_(context_, settings),
        kept_(term_.make_tape(Order::first)),
        u_(context_.size()),
        w_(context_.size()),
        out_(context_.size()) {
    initialise_standard(parameters_, 1, 0, 1, 1);
    weights_.prepare(std::vector{at_});
    for (std::size_t j = 0; j < u_.size(); ++j) u_[j] = std::sin(static_cast<double>(j)), w_[j] = 1 - u_[j];
  }
  void rhs() { term_.apply(weights_.at(at_), u_.data(), add_to(out_.data()), nullptr); }
  void keeping() { term_.apply(weights_.at(at_), u_.data(), {1, u_.data(), out_.data()}, kept_.get()); }
  void kept_adjoint() {
    const auto gradient = weights_.begin_gradient(at_, gradient_);
    term_.pull(weights_.at(at_), u_.data(), w_.data(), {1, w_.data(), out_.data()}, &gradient, kept_.get());
  }
  void adjoint() {
    const auto gradient = weights_.begin_gradient(at_, gradient_);
    term_.pull(weights_.at(at_), u_.data(), w_.data(), add_to(out_.data()), &gradient, nullptr);
  }

 private:
  static constexpr DepthPoint at_{1, 0};
  TokenLine line_;
  SlabContext context_;
  Parameters parameters_;
  std::vector<double> gradient_;
  DepthWeights<float> weights_;
  Term term_;
  std::unique_ptr<TermTape> kept_;
  std::vector<double> u_, w_, out_;
};

template <class Term, class Settings>
void register_term(const std::string& name, const bench::Size& size, const Settings& settings) {
  using Case = TermCase<Term>;
  const auto add = [&](const char* what, void (Case::*member)()) {
    benchmark::RegisterBenchmark(("term/" + name + what).c_str(), [=](benchmark::State& state) {
      Case term(size, settings);
      term.keeping();
      for (auto _ : state) (term.*member)();
    })->Unit(benchmark::kMicrosecond);
  };
  add("/rhs", &Case::rhs);
  add("/rhs_keeping", &Case::keeping);
  add("/adjoint_kept", &Case::kept_adjoint);
  add("/adjoint", &Case::adjoint);
}

const bool registered = [] {
  for (const auto& [name, size] : {std::pair{"small", small}, std::pair{"large", large}}) {
    AttentionSettings attention;
    attention.heads = size.heads;
    register_term<Attention<float>>(std::string("attention/") + name, size, attention);
    register_term<Reaction<float>>(std::string("reaction/") + name, size,
                                   ReactionSettings{size.ffn, Activation::gelu_erf, true, false});
  }
  return true;
}();

}  // namespace
