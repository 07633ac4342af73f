// Every meter, filled by ranks that share the samples, holds after its reduction what one rank alone finds.

#include <gtest/gtest.h>

#include <stdexcept>

#include "analysis/accumulator.hpp"
#include "analysis/attention/attention_measures.hpp"
#include "analysis/derivatives/gradient_measures.hpp"
#include "analysis/derivatives/logit_jacobian.hpp"
#include "analysis/information/estimates.hpp"
#include "analysis/perturbation/growth_measures.hpp"
#include "analysis/perturbation/perturbations.hpp"
#include "analysis/perturbation/response_measures.hpp"
#include "analysis/state_examples.hpp"
#include "analysis/states/cka.hpp"
#include "analysis/states/state_measures.hpp"
#include "base/error.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/listed_samples.hpp"
#include "tests/support/small_problem.hpp"

namespace fluxformer::test {
namespace {

constexpr int tokens = 5, features = 3, classes = 4, layers = 2;
constexpr double rounding = 1e-12;  // products of a batch of another size

const ListedSamples& data() {
  static const auto samples = random_samples(7, tokens, 1, features, classes, 3);
  return samples;
}

Parameters model() {
  auto spec = small_model(layers);
  spec.features = features;
  spec.tokens = tokens;
  spec.classes = classes;
  return random_parameters({.model = spec, .kappa = 0.1});
}

/// All seven samples, shared by the ranks of a communicator, and a model for them.
struct Shared {
  explicit Shared(MPI_Comm comm, int at_a_time)
      : line(token_line(MPI_COMM_SELF, data())),
        samples(comm, line, data(), all_of(data()), at_a_time),
        probe(model(), line, at_a_time, layers, Precision::dbl) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  TokenLine line;
  SampleSet samples;
  ModelProbe probe;
};

void append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::vector<double> states(Shared& on) {
  states::StateMeter meter(on.probe.depths(), on.probe.counted());
  std::vector<double> u, before;
  accumulate(
      on.samples,
      [&](const Batch& batch) {
        on.probe.embed(batch, u);
        const auto first = u;
        before = u;
        on.probe.forward(u, false, [&](int row, const double* now) {
          meter.add(row, now, before.data(), first.data());
          before.assign(now, now + before.size());
        });
      },
      meter);
  const auto m = meter.measures();
  std::vector<double> all{static_cast<double>(m.samples)};
  for (const auto* one :
       {&m.norm, &m.token_variance, &m.dirichlet_energy, &m.correlation, &m.drift, &m.step_change})
    append(all, *one);
  return all;
}

std::vector<double> alignment(Shared& on) {
  states::CkaMeter meter({2, on.probe.spec().width}, {1, on.probe.spec().width});
  std::vector<double> u;
  accumulate(
      on.samples,
      [&](const Batch& batch) {
        on.probe.embed(batch, u);
        const auto first = examples_of(on.probe.counted(), u.data(), Examples::tokens);
        on.probe.forward(u);
        const auto last = examples_of(on.probe.counted(), u.data(), Examples::tokens);
        meter.add(static_cast<int>(first.rows()), {first.data(), last.data()}, {last.data()});
      },
      meter);
  auto all = meter.alignment();
  append(all, meter.unrelated());
  return all;
}

std::vector<double> attention(Shared& on) {
  const int heads = on.probe.spec().attention.heads;
  std::vector<attention::AttentionMeter> meters(2, {{1, heads, heads}, 5});
  std::vector<double> u, first, last;
  accumulate(
      on.samples,
      [&](const Batch& batch) {
        on.probe.embed(batch, u);
        on.probe.attention(0, u.data(), first);
        on.probe.attention(1, u.data(), last);
        for (std::size_t b = 0; b < batch.label.size(); ++b) {
          if (batch.weight[b] == 0 || batch.length[b] < 2) continue;
          const auto at = b * static_cast<std::size_t>(heads * tokens * tokens);
          meters[0].add(batch.key[b], 0, tokens, batch.length[b], first.data() + at, last.data() + at);
          meters[1].add(batch.key[b], 0, tokens, batch.length[b], last.data() + at, first.data() + at);
        }
      },
      meters);
  std::vector<double> all;
  for (const auto& meter : meters)
    for (int h = 0; h < heads; ++h)
      append(all,
             {meter.score(attention::RowScore::kl, 0, h, h), meter.entropy_t(0, h),
              meter.permuted_score(attention::RowScore::js, 0, h), static_cast<double>(meter.samples(0))});
  return all;
}

std::vector<double> perturbed(Shared& on) {
  ModelInput input(on.probe, InputSpace::embedded);
  derivatives::LogitJacobian jacobian(input);
  derivatives::GradientMeter gradients(on.probe.depths(), on.probe.counted());
  derivatives::JacobianMeter values(classes);
  perturbation::GrowthMeter growth(on.probe.depths(), on.probe.counted());
  perturbation::ResponseMeter responses(1, classes);
  std::vector<double> u_bar;
  accumulate(
      on.samples,
      [&](const Batch& batch) {
        input.set(batch);
        jacobian.set();
        values.add(input, jacobian);
        auto u = input.clean(), noisy = u;
        on.probe.forward(u, true);
        std::vector<double> bar(jacobian.logits().size(), 1.0);
        for (std::size_t b = 0; b < batch.weight.size(); ++b)
          if (batch.weight[b] == 0)
            std::fill_n(bar.begin() + static_cast<std::ptrdiff_t>(b) * classes, classes, 0.0);
        on.probe.adjoint(bar, u_bar, {}, [&](int row, const double* at) { gradients.add(row, at); });
        perturbation::add_noise(input, 1, 0.1, noisy);
        perturbation::add_growth(on.probe, input.clean(), noisy, growth);
        auto state = noisy;
        const auto z = on.probe.forward(state);
        responses.add(0, input, noisy, z.data(), jacobian.logits().data());
      },
      gradients, values, growth, responses);
  auto all = gradients.measures().norm;
  append(all, values.singular_values());
  append(all, {values.worst_sensitivity(), static_cast<double>(values.samples())});
  append(all, growth.growth());
  const auto m = responses.measures();
  append(all,
         {m.accuracy[0], m.loss[0], m.input_change[0], m.sensitivity[0], static_cast<double>(m.samples)});
  return all;
}

std::vector<double> information(Shared& on) {
  std::vector<int> labels;
  for (const auto member : on.samples.members()) labels.push_back(data().label(member));
  const auto width = static_cast<std::size_t>(on.probe.spec().width);
  auto all = information::states_by_depth(on.samples, on.probe, 0);
  const auto pooled = information::states_by_depth(on.samples, on.probe, -1);
  append(all, pooled);
  // (Nearest neighbours of states that differ by round-off: the same, unless two are as near.)
  const auto estimates = information::estimates_by_depth(on.samples.comm(), pooled, labels, width,
                                                         {3, 2, 0.2, 2}, RandomStream(1, "noise"));
  for (const auto& one : estimates) append(all, one);
  return all;
}

std::vector<double> tables(Shared& on) {
  Sums sum(2);
  SampleTable table(on.samples.size(), 2);
  accumulate(
      on.samples,
      [&](const Batch& batch) {
        for (std::size_t b = 0; b < batch.weight.size(); ++b) {
          if (batch.weight[b] == 0) continue;
          sum.local()[1] += batch.weight[b];
          auto* const row = table.row(static_cast<std::size_t>(batch.key[b]));
          row[0] = static_cast<double>(batch.key[b]);
          row[1] = batch.label[b];
        }
      },
      sum, table);
  std::vector<double> all{table.mean(0), table.largest(0), table.mean(1), table.largest(1)};
  append(all, table.numbers());
  append(all, sum.total());
  return all;
}

TEST(SumsOverSamples, do_not_depend_on_ranks) {
  using Measure = std::vector<double> (*)(Shared&);
  const std::pair<const char*, Measure> measures[] = {{"states", states},           {"alignment", alignment},
                                                      {"attention", attention},     {"perturbed", perturbed},
                                                      {"information", information}, {"tables", tables}};
  for (const auto& [name, measure] : measures) {
    Shared alone(MPI_COMM_SELF, 7), together(MPI_COMM_WORLD, 2);
    const auto expected = measure(alone);
    EXPECT_GT(norm(expected), 0) << name;
    const double difference = relative_difference(measure(together), expected);
    EXPECT_LT(max_over(MPI_COMM_WORLD, difference), rounding) << name;
  }
}

TEST(SumsOverSamples, cannot_be_read_before_they_are_reduced_or_filled_after) {
  Sums sums(1);
  SampleTable table(2, 1);
  sums.local()[0] = 1;
  EXPECT_THROW(sums.total(), std::logic_error);
  EXPECT_THROW(table.mean(0), std::logic_error);
  sums.reduce(MPI_COMM_WORLD);
  EXPECT_EQ(sums.total()[0], size_of(MPI_COMM_WORLD));
  EXPECT_THROW(sums.local(), std::logic_error);
  EXPECT_THROW(sums.reduce(MPI_COMM_WORLD), std::logic_error);
}

TEST(SumsOverSamples, refuse_tokens_that_are_spread_over_ranks) {
  const auto line = token_line(MPI_COMM_WORLD, random_samples(4, 12, 1, 1, 2, 1));
  const auto longer = random_samples(4, 12, 1, 1, 2, 1);
  const SampleSet samples(MPI_COMM_WORLD, line, longer, all_of(longer), 2);
  Sums sums(1);
  const auto look = [](const Batch&) {};
  if (line.size() > 1)
    EXPECT_THROW(accumulate(samples, look, sums), BadInput);
  else
    EXPECT_NO_THROW(accumulate(samples, look, sums));
}

}  // namespace
}  // namespace fluxformer::test
