// Every accumulator filled by several ranks gives after its reduction the result of one rank.

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "analysis/accumulator.hpp"
#include "analysis/attention/layer_attention.hpp"
#include "analysis/derivatives/layer_jacobians.hpp"
#include "analysis/derivatives/loss_gradients.hpp"
#include "analysis/information/estimates.hpp"
#include "analysis/perturbation/perturbed_model.hpp"
#include "analysis/states/model_states.hpp"
#include "base/error.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/listed_samples.hpp"
#include "tests/support/small_problem.hpp"

namespace fluxformer::test::sums_over_samples_do_not_depend_on_ranks {
namespace {

constexpr int tokens = 5, features = 3, classes = 4, layers = 2;
constexpr double rounding = 1e-12;  // products of a batch of another size

const ListedSamples& data() {
  static const auto samples = random_samples(7, tokens, 1, features, classes, 3);
  return samples;
}

ModelSpec spec_of_model() {
  auto spec = small_model(layers);
  spec.features = features;
  spec.tokens = tokens;
  spec.classes = classes;
  return spec;
}

Parameters model(std::uint64_t seed) {
  return random_parameters({.model = spec_of_model(), .kappa = 0.1, .seed = seed});
}

/// The second layer hears two tokens.
Parameters causal_model(std::uint64_t seed) {
  auto spec = spec_of_model();
  spec.causal = true;
  spec.windows = {0, 2};
  return random_parameters({.model = spec, .seed = seed});
}

/// All seven samples, distributed over the ranks of a communicator, and a model for them.
struct Shared {
  Shared(MPI_Comm comm, int at_a_time, const Parameters& parameters = model(3))
      : line(token_line(MPI_COMM_SELF, data())),
        samples(comm, line, data(), all_of(data()), at_a_time),
        probe(on_cells(parameters, layers), line, at_a_time, Precision::float64) {}
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
  const auto found = states::measure_states(on.samples, on.probe, 3);
  std::vector<double> all{found.accuracy};
  for (const auto* m : {&found.by_row, &found.by_layer}) {
    all.push_back(static_cast<double>(m->samples));
    for (const auto* one :
         {&m->norm, &m->token_variance, &m->dirichlet_energy, &m->correlation, &m->drift, &m->step_change})
      append(all, *one);
  }
  append(all, found.norm_by_sample);
  append(all, found.drift_by_sample);
  append(all, found.correct_by_sample);
  for (const double norm : found.token_norms) all.push_back(std::isnan(norm) ? -1 : norm);  // padding
  return all;
}

std::vector<double> alignment(Shared& on) {
  Shared other(on.samples.comm(), on.samples.capacity(), model(5));
  const auto meter = states::align(on.samples, on.probe, other.probe, Examples::tokens);
  auto all = meter.alignment();
  append(all, meter.unrelated());
  return all;
}

std::vector<double> attention_of(Shared& on, Shared& other) {
  const int heads = on.probe.spec().attention.heads;
  auto all = attention::attention_map(on.samples, on.probe);
  const auto pairs = attention::heads_in_order({layers, heads, heads});
  const auto found =
      attention::compare_attention(on.samples, on.probe, {&on.probe, &other.probe}, 5, {pairs, pairs});
  for (const auto& one : found.heads)
    for (int l = 0; l < layers; ++l)
      for (int h = 0; h < heads; ++h) {
        append(all, {one.entropy(l, h), one.mean_distance(l, h), one.uniform_distance(l)});
        for (int distance = 0; distance < tokens; ++distance) {
          const auto pairs_there = static_cast<double>(one.pairs(l, distance));
          all.push_back(pairs_there);
          if (pairs_there > 0) append(all, {one.weight(l, h, distance), one.uniform_weight(l, distance)});
        }
      }
  for (const auto& meter : found.scores) {
    for (const auto against :
         {attention::Against::match, attention::Against::uniform, attention::Against::permuted})
      for (const double score : meter.by_sample().of(attention::RowScore::kl, against))
        all.push_back(std::isnan(score) ? -1 : score);  // a single token
    for (int l = 0; l < layers; ++l)
      for (int h = 0; h < heads; ++h)
        append(all,
               {meter.score(attention::RowScore::kl, l, h, h),
                meter.permuted_score(attention::RowScore::js, l, h), static_cast<double>(meter.samples(l))});
  }
  return all;
}

std::vector<double> attention(Shared& on) {
  Shared other(on.samples.comm(), on.samples.capacity(), model(5));
  return attention_of(on, other);
}

std::vector<double> causal_attention(Shared& on) {
  Shared one(on.samples.comm(), on.samples.capacity(), causal_model(3)),
      other(on.samples.comm(), on.samples.capacity(), causal_model(5));
  return attention_of(one, other);
}

std::vector<double> gradients(Shared& on) {
  const auto found = derivatives::loss_gradients(on.samples, on.probe);
  auto all = found.by_row.norm;
  append(all, found.by_layer.ratio);
  append(all, found.parameters);
  append(all, found.size);
  append(all, found.norm_by_sample);
  append(all, found.size_by_sample);
  append(all, {found.loss, found.by_layer.disparity});
  return all;
}

std::vector<double> jacobians(Shared& on) {
  const auto found =
      derivatives::layer_jacobians(on.samples, on.probe.parameters(),
                                   {.steps = 4, .exponents = 2, .sweeps = 9, .tolerance = 1e-2, .seed = 1});
  auto all = found.largest;
  append(all, found.smallest);
  append(all, found.lyapunov);
  append(all, found.lyapunov_error);
  all.push_back(found.lyapunov_sweeps);
  return all;
}

std::vector<double> perturbed(Shared& on) {
  const perturbation::PerturbationPlan plan{.levels = {{"noise_level", {0.1}},
                                                       {"dropped_share", {0.5}},
                                                       {"attack_level", {0.01}},
                                                       {"feature_noise_level", {0.1}},
                                                       {"feature_attack_level", {0.01}}},
                                            .pgd_steps = 2};
  perturbation::PerturbedModel model(on.probe, plan, on.samples);
  accumulate(
      on.samples, [&](const Batch& batch) { model.show(batch); }, model);
  auto all = model.growth().growth();
  append(all, model.tangent_growth().growth());
  append(all, model.jacobian().singular_values());
  append(all, {model.jacobian().worst_sensitivity(), static_cast<double>(model.jacobian().samples())});
  const auto add = [&](const perturbation::ResponseAccumulator& meter) {
    const auto m = meter.result();
    append(all, {m.accuracy[0], m.loss[0], m.input_change[0], static_cast<double>(m.samples)});
    append(all, meter.correct_by_sample());
  };
  add(model.clean());
  EXPECT_EQ(model.curves().size(), 8u);
  for (const auto& curve : model.curves()) {
    add(curve.responses);
    all.push_back(curve.responses.result().sensitivity[0]);
  }
  return all;
}

std::vector<double> information(Shared& on) {
  std::vector<int> labels;
  for (const auto member : on.samples.members()) labels.push_back(data().label(member));
  const auto width = static_cast<std::size_t>(on.probe.spec().width);
  auto all = information::states_by_depth(on.samples, on.probe, 0);
  const auto pooled = information::states_by_depth(on.samples, on.probe, -1);
  append(all, pooled);
  // (States that differ by round-off have the same nearest neighbours, except for ties.)
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
  const std::pair<const char*, Measure> measures[] = {
      {"states", states},       {"alignment", alignment},
      {"attention", attention}, {"causal attention", causal_attention},
      {"gradients", gradients}, {"jacobians", jacobians},
      {"perturbed", perturbed}, {"information", information},
      {"tables", tables}};
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
}  // namespace fluxformer::test::sums_over_samples_do_not_depend_on_ranks
