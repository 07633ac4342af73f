#pragma once

// Training on a handful of samples, on any number of replicas and of ranks over the tokens.

#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "model/backpropagation.hpp"
#include "model/make_depth_model.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/test_vectors.hpp"
#include "training/trainer.hpp"

namespace fluxformer::test {

/// Samples held in memory.
class ListedSamples final : public data::Dataset {
 public:
  struct Content {
    int tokens_x = 1, tokens_y = 1, features = 1, classes = 2, vocabulary = 0;
    std::vector<double> input;  ///< [sample][token][feature]
    std::vector<int> lengths, labels;
  };
  explicit ListedSamples(Content content) : c_(std::move(content)) {}

  std::string name() const override { return "listed"; }
  std::size_t size() const override { return c_.labels.size(); }
  int classes() const override { return c_.classes; }
  int label(std::size_t index) const override { return c_.labels.at(index); }
  int tokens_x() const override { return c_.tokens_x; }
  int tokens_y() const override { return c_.tokens_y; }
  int features() const override { return c_.features; }
  int length(std::size_t index) const override { return c_.lengths.at(index); }
  int vocabulary() const override { return c_.vocabulary; }
  void tokens(std::size_t index, double* out) const override {
    const std::size_t size = c_.input.size() / c_.labels.size();
    std::copy_n(c_.input.begin() + static_cast<std::ptrdiff_t>(index * size), size, out);
  }
  void variant(std::size_t index, const RandomStream& draw, double strength, double* out) const override {
    tokens(index, out);
    for (std::size_t j = 0; j < c_.input.size() / c_.labels.size(); ++j) out[j] += strength * draw.normal(j);
  }

 private:
  Content c_;
};

/// `count` samples of normal numbers; lengths and labels go through their values in turn.
inline ListedSamples random_samples(int count, int tokens_x, int tokens_y, int features, int classes,
                                    unsigned seed) {
  const int tokens = tokens_x * tokens_y;
  ListedSamples::Content c{.tokens_x = tokens_x,
                           .tokens_y = tokens_y,
                           .features = features,
                           .classes = classes,
                           .input = random_vector(static_cast<std::size_t>(count * tokens * features), seed),
                           .lengths = {},
                           .labels = {}};
  for (int b = 0; b < count; ++b) {
    c.lengths.push_back(tokens - (3 * b) % tokens);
    c.labels.push_back((b * b + b / 3) % classes);
  }
  return ListedSamples(std::move(c));
}

inline std::vector<std::size_t> all_of(const data::Dataset& data) {
  std::vector<std::size_t> members(data.size());
  for (std::size_t j = 0; j < members.size(); ++j) members[j] = j;
  return members;
}

struct TrainingSpec {
  int cells = 1;   ///< M
  int global = 1;  ///< samples in a batch
  Loss loss = {};
  TrainerSettings settings = {};
  std::uint64_t seed = 1;
  double augment = 0, dropout = 0;
};

/// The replicas of `comm`, each a token line of `ranks_token` neighbouring ranks along x. `data` is borrowed.
class TrainingRun {
 public:
  TrainingRun(MPI_Comm all, int ranks_token, const TrainingSpec& spec, const data::Dataset& data,
              Parameters start)
      : comm(all),
        replica{rank_in(all) / ranks_token, size_of(all) / ranks_token},
        batches(data, all_of(data), spec.global, replica, spec.seed, spec.augment),
        dropout(spec.dropout, spec.seed),
        parameters(std::move(start)),
        line_comm(split(all, replica.index)),
        line(TokenLine::even(line_comm, data.tokens_x(), data.tokens_y(), ranks_token)),
        context{&line, batches.capacity(), parameters.spec.width, {}, spec.dropout > 0 ? &dropout : nullptr},
        model(make_depth_model(parameters, context, Precision::dbl)),
        march(*model, {parameters.spec.layers, spec.cells}, 1),
        evaluator(parameters, context, march, spec.loss),
        trainer(all, parameters, evaluator, spec.settings) {
    if (spec.dropout > 0) evaluator.set_dropout(dropout);
  }
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// The gradient of a batch, of which each replica gives its share, on every rank.
  std::vector<double> gradient(const Batch& batch) {
    std::vector<double> share(parameters.values.size());
    evaluator.gradient(batch, share);
    return sum_over(comm, std::move(share));
  }

  MPI_Comm comm;
  Replica replica;
  Batches batches;
  Dropout dropout;
  Parameters parameters;
  Communicator line_comm;
  TokenLine line;
  SlabContext context;
  std::unique_ptr<DepthModel> model;
  Backpropagation march;
  GradientEvaluator evaluator;
  Trainer trainer;

 private:
  static Communicator split(MPI_Comm all, int colour) {
    MPI_Comm line = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(all, colour, rank_in(all), &line));
    return Communicator(line);
  }
};

/// Each number of ranks over the tokens that divides the ranks of `comm` and cuts no column.
inline std::vector<int> every_token_split(MPI_Comm comm, int tokens_x) {
  std::vector<int> splits;
  for (int ranks = 1; ranks <= tokens_x; ++ranks)
    if (size_of(comm) % ranks == 0) splits.push_back(ranks);
  return splits;
}

}  // namespace fluxformer::test
