#include "drivers/interventions/pairs.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer::interventions {

SampleRuns::SampleRuns(const ComparedModel& model, const data::Dataset& data, int runs, SiteScope scope)
    : parameters_(model.parameters),
      data_(data),
      line_(TokenLine::even(MPI_COMM_SELF, data.tokens_x(), data.tokens_y())),
      patches_(parameters_, line_, runs, Precision::float64, scope) {}

Run SampleRuns::run(std::size_t sample) {
  Batch batch = empty_batch(data_, 1);
  put_sample(data_, static_cast<Index>(sample), 0, 1, 0, batch);
  data_.tokens(sample, tokens_of(batch, 0));
  return patches_.run(batch);
}

int SampleRuns::token_of(int length, int asked) const {
  if (!spec().guesses_words()) return 0;
  return asked < 0 ? length - 1 : asked;
}

namespace {

/// A sample with the model's answer.
struct Answered {
  std::size_t sample;
  int answer, length;
  bool taken = false;
};

Answered answered(SampleRuns& runs, std::size_t sample, const PairPlan& plan) {
  const auto run = runs.run(sample);
  const int token = runs.token_of(run.length, plan.token);
  const auto z = runs.patches().logits(run, {.kind = GoalKind::logit, .a = 0, .b = 0, .token = token});
  return {sample, most_likely(z.data(), static_cast<int>(z.size())), run.length};
}

SamplePair pair_of(const SampleRuns& runs, const Answered& clean, const Answered& donor,
                   const PairPlan& plan) {
  return {.clean = clean.sample,
          .donor = donor.sample,
          .question = {.kind = plan.goal,
                       .a = clean.answer,
                       .b = donor.answer,
                       .token = runs.token_of(clean.length, plan.token)},
          .length = clean.length};
}

std::vector<SamplePair> given_pairs(const PairPlan& plan, SampleRuns& runs) {
  std::vector<SamplePair> pairs;
  for (std::size_t k = 0; k + 1 < plan.indices.size(); k += 2) {
    const auto clean = answered(runs, plan.indices[k], plan),
               donor = answered(runs, plan.indices[k + 1], plan);
    if (clean.length != donor.length)
      throw BadInput("interventions.indices: samples " + std::to_string(clean.sample) + " and " +
                     std::to_string(donor.sample) + " have " + std::to_string(clean.length) + " and " +
                     std::to_string(donor.length) + " tokens; states are put where both have one");
    if (clean.answer == donor.answer)
      throw BadInput("interventions.indices: the model gives samples " + std::to_string(clean.sample) +
                     " and " + std::to_string(donor.sample) + " the same answer");
    pairs.push_back(pair_of(runs, clean, donor, plan));
  }
  return pairs;
}

std::vector<SamplePair> found_pairs(const PairPlan& plan, SampleRuns& runs,
                                    const std::vector<std::size_t>& members) {
  std::vector<Answered> seen;
  std::vector<SamplePair> pairs;
  for (const auto member : members) {
    if (pairs.size() == plan.count) return pairs;
    const auto now = answered(runs, member, plan);
    if (now.length < 1 || (!runs.spec().guesses_words() && now.answer != runs.data().label(member))) continue;
    seen.push_back(now);
    auto& donor = seen.back();
    const auto clean = std::ranges::find_if(seen, [&](const Answered& other) {
      return !other.taken && other.length == donor.length && other.answer != donor.answer;
    });
    if (clean == seen.end()) continue;
    clean->taken = donor.taken = true;
    pairs.push_back(pair_of(runs, *clean, donor, plan));
  }
  return pairs;
}

}  // namespace

std::vector<SamplePair> choose_pairs(const PairPlan& plan, SampleRuns& runs,
                                     const std::vector<std::size_t>& members, const std::string& called,
                                     MPI_Comm comm) {
  return collectively(comm, [&] {
    for (const auto index : plan.indices)
      if (index >= runs.data().size())
        throw BadInput("interventions.indices = " + std::to_string(index) + ": there are " +
                       std::to_string(runs.data().size()) + " samples");
    if (!plan.indices.empty()) return given_pairs(plan, runs);
    auto pairs = found_pairs(plan, runs, members);
    if (pairs.size() < plan.count)
      throw BadInput(called + ": interventions.pairs = " + std::to_string(plan.count) + ", but only " +
                     std::to_string(pairs.size()) +
                     " pairs of one length and different answers were found among " +
                     std::to_string(members.size()) + " samples; raise samples.count");
    return pairs;
  });
}

}  // namespace fluxformer::interventions
