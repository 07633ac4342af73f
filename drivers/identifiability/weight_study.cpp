#include "drivers/identifiability/weight_study.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "analysis/accumulator.hpp"
#include "analysis/identifiability/alternative_weights.hpp"
#include "analysis/identifiability/effective_attention.hpp"
#include "analysis/identifiability/identifiability_variables.hpp"
#include "analysis/identifiability/model_heads.hpp"
#include "analysis/identifiability/nullities.hpp"
#include "analysis/identifiability/weight_accumulator.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"

namespace fluxformer {

namespace stored = identifiability::variables;
using namespace identifiability;

namespace {

/// Values [layer][head] of a model with fewer heads than the axis has, filled up with NaN.
std::vector<double> padded(const std::vector<double>& values, std::size_t layers, std::size_t heads,
                           std::size_t axis, std::size_t each = 1) {
  std::vector<double> all(layers * axis * each, missing_value);
  for (std::size_t l = 0; l < layers; ++l)
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(l * heads * each), heads * each,
                all.begin() + static_cast<std::ptrdiff_t>(l * axis * each));
  return all;
}

}  // namespace

WeightStudy::WeightStudy(const Settings& settings, const CompareProblem& problem)
    : problem_(problem),
      lengths_(settings.integers("identifiability.lengths")),
      rows_(settings.count("identifiability.rows")),
      joint_tokens_(settings.count("identifiability.joint_tokens")),
      head_(settings.count("identifiability.head")),
      seed_(static_cast<std::uint64_t>(settings.integer("run.seed"))) {
  const int tokens = problem.line().tokens();
  for (const long length : lengths_)
    if (length >= tokens)
      throw BadInput("identifiability.lengths = " + value_text(settings.value("identifiability.lengths")) +
                     ": " + std::to_string(length) + " must be less than " + std::to_string(tokens) +
                     ", the tokens of a whole sample, which is always the last");
  std::ranges::sort(lengths_);
  lengths_.push_back(tokens);
  for (std::size_t k = 0; k < lengths_.size(); ++k)
    if (cut(k).size() == 0)
      throw BadInput("identifiability.lengths = " + value_text(settings.value("identifiability.lengths")) +
                     ": no sample has " + std::to_string(lengths_[k]) + " tokens");
  for (const auto& name : problem.models().names()) {
    const auto& parameters = problem.models().at(0, name).parameters;
    const ModelHeads refuses(*problem.probe(parameters, 1));
    const int heads = parameters.spec.attention.heads;
    if (head_ >= heads)
      throw BadInput("identifiability.head = " + std::to_string(head_) + ": " + name + " has " +
                     std::to_string(heads) + " heads, counted from 0");
    heads_ = std::max(heads_, static_cast<std::size_t>(heads));
  }
  words_ = word_classes(problem.samples());
}

SampleSet WeightStudy::cut(std::size_t which) const {
  const auto& samples = problem_.samples();
  if (which + 1 == lengths_.size()) return samples;
  const auto length = static_cast<int>(lengths_[which]);
  std::vector<std::size_t> members;
  for (const auto member : samples.members())
    if (samples.data().length(member) >= length) members.push_back(member);
  return samples.with(members, samples.capacity()).prepared([length](Batch& batch) {
    batch.length.assign(batch.weight.size(), length);
  });
}

void WeightStudy::begin(StudyRecord& record) {
  record.axis(stored::length, {lengths_.begin(), lengths_.end()});
  record.axis(stored::epsilon, {nullity_epsilons.begin(), nullity_epsilons.end()});
  record.axis(axes::query, 0, problem_.line().tokens() - 1);
  record.axis(axes::key, 0, problem_.line().tokens() - 1);
  record.note("", stored::map_head, static_cast<long>(head_));
  for (const auto& name : problem_.models().names()) {
    const auto& spec = problem_.models().at(0, name).parameters.spec;
    record.note(name, stored::value_width, static_cast<long>(spec.attention.channels(spec.width)));
  }
  compare::describe_first_sample(problem_, record);
}

WeightAccumulator WeightStudy::meter(const Parameters& parameters, const SampleSet& samples) const {
  const auto probe = problem_.probe(parameters, samples.capacity());
  ModelHeads heads(*probe);
  WeightAccumulator meter(heads.layers(), heads.heads(), rows_, seed_, words_);
  accumulate(
      samples,
      [&](const Batch& batch) {
        heads.show(batch);
        for (int l = 1; l <= heads.layers(); ++l) {
          heads.select(l);
          for_each_sample(batch, [&](std::size_t b, std::size_t) {
            const auto found = heads.of_sample(static_cast<int>(b));
            meter.add(
                l, found,
                {samples.member(batch.key[b]), words_of(samples.data(), batch, b, found.front().tokens())});
          });
        }
      },
      meter);
  return meter;
}

void WeightStudy::look_at_first(const Parameters& parameters, Results& to) const {
  const auto first = problem_.samples().first(1);
  const auto probe = problem_.probe(parameters, 1);
  ModelHeads heads(*probe);
  const auto layers = static_cast<std::size_t>(heads.layers()),
             count = static_cast<std::size_t>(heads.heads()),
             n = static_cast<std::size_t>(problem_.line().tokens());
  const RandomStream stream(seed_, "other attention weights");
  Sums maps(3 * layers * n * n), numbers(4 * layers * count);
  accumulate(
      first,
      [&](const Batch& batch) {
        heads.show(batch);
        for (std::size_t l = 0; l < layers; ++l) {
          heads.select(static_cast<int>(l) + 1);
          const auto all = heads.of_sample(0);
          for (std::size_t h = 0; h < count; ++h) {
            const auto other = alternative_weights(all[h], {}, stream.item(l).item(h));
            double* const number = numbers.local() + 4 * (l * count + h);
            // Joint nullity, its uncertainty (3), distance (1) and error (2) of other weights with the same
            // output.
            number[0] = number[3] = missing_value;
            if (all[h].tokens() <= joint_tokens_) {
              const auto joint = ReachableNullities(all[h]).joint();
              number[0] = joint.exact;
              number[3] = joint.certain() ? 0 : 1;
            }
            number[1] = other.mean_variation();
            number[2] = other.output_difference;
            if (h != static_cast<std::size_t>(head_)) continue;
            const std::array<Matrix, 3> shown = {
                all[h].weights, effective_attention(all[h], EffectivePart::linear), other.weights};
            for (std::size_t k = 0; k < shown.size(); ++k)
              for (Eigen::Index i = 0; i < shown[k].rows(); ++i)
                for (Eigen::Index j = 0; j < shown[k].cols(); ++j)
                  maps.local()[((k * layers + l) * n + static_cast<std::size_t>(i)) * n +
                               static_cast<std::size_t>(j)] = shown[k](i, j);
          }
        }
      },
      maps, numbers);
  const std::array shown = {stored::map_raw, stored::map_effective, stored::map_alternative};
  for (std::size_t k = 0; k < shown.size(); ++k) {
    const auto begin = maps.total().begin() + static_cast<std::ptrdiff_t>(k * layers * n * n);
    to.put(shown[k], {begin, begin + static_cast<std::ptrdiff_t>(layers * n * n)});
  }
  const std::array counted = {stored::nullity_joint, stored::alternative_distance, stored::alternative_error,
                              stored::uncertain_joint};
  for (std::size_t k = 0; k < counted.size(); ++k) {
    std::vector<double> values;
    for (std::size_t at = k; at < numbers.total().size(); at += counted.size())
      values.push_back(numbers.total()[at]);
    to.put(counted[k], padded(values, layers, count, heads_));
  }
}

std::string WeightStudy::measure(std::size_t seed, const std::string& name, Results& to) {
  const auto& parameters = problem_.models().at(seed, name).parameters;
  const auto layers = static_cast<std::size_t>(parameters.spec.layers),
             count = static_cast<std::size_t>(parameters.spec.attention.heads);
  std::vector<WeightAccumulator> meters;
  std::vector<double> tokens, sizes;
  for (std::size_t k = 0; k < lengths_.size(); ++k) {
    // `tokens` is the mean length of the samples that are at least as long, after the cut.
    const auto samples = cut(k);
    meters.push_back(meter(parameters, samples));
    double sum = 0;
    for (const auto member : samples.members())
      sum += std::min<long>(samples.data().length(member), lengths_[k]);
    tokens.push_back(sum / samples.size());
    sizes.push_back(samples.size());
  }
  const auto over_lengths = [&](const io::Variable& variable, const auto& of_meter) {
    std::vector<double> values;
    for (const auto& one : meters) {
      const std::vector<double> mine = of_meter(one);
      values.insert(values.end(), mine.begin(), mine.end());
    }
    to.put(variable, values);
  };
  for (const auto& [number, variable] : stored::of_heads)
    over_lengths(variable, [&, number = number](const WeightAccumulator& one) {
      return padded(one.of(number), layers, count, heads_);
    });
  for (const auto& [number, variable] : stored::over_epsilons)
    over_lengths(variable, [&, number = number](const WeightAccumulator& one) {
      return padded(one.over_epsilons(number), layers, count, heads_, nullity_epsilons.size());
    });
  over_lengths(stored::excess_linear, [](const WeightAccumulator& one) { return one.excess_linear(); });
  over_lengths(stored::excess_simplex, [](const WeightAccumulator& one) { return one.excess_simplex(); });
  to.put(stored::tokens_of_length, tokens);
  to.put(stored::samples_of_length, sizes);
  look_at_first(parameters, to);

  const auto mean = [&](HeadNumber number) {
    const auto values = meters.back().of(number);
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  std::ostringstream text;
  text << "free dimensions of a row " << mean(HeadNumber::nullity_simplex) << ", raw with effective weights "
       << mean(HeadNumber::correlation) << " (null " << mean(HeadNumber::correlation_null) << ")";
  return text.str();
}

std::vector<io::Variable> weight_variables() {
  std::vector<io::Variable> list;
  for (const auto* group : {&stored::of_heads, &stored::over_epsilons})
    for (const auto& one : *group) list.push_back(one.variable);
  for (const auto& one :
       {stored::excess_linear, stored::excess_simplex, stored::tokens_of_length, stored::samples_of_length,
        stored::nullity_joint, stored::uncertain_joint, stored::alternative_distance,
        stored::alternative_error, stored::map_raw, stored::map_effective, stored::map_alternative})
    list.push_back(one);
  return list;
}

}  // namespace fluxformer
