#pragma once

// Training on a few samples, with any number of replicas and of ranks over tokens.

#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/listed_samples.hpp"
#include "training/trainer.hpp"

namespace fluxformer::test {

struct TrainingSpec {
  int cells = 1;                   ///< M
  std::vector<double> edges = {};  ///< of unequal cells
  int global = 1;                  ///< samples in a batch
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
        replica(replica_of(all, ranks_token)),
        batches(data, all_of(data), spec.global, replica, spec.seed, spec.augment),
        dropout(spec.dropout, spec.seed),
        parameters(std::move(start)),
        line_comm(split(all, replica.index)),
        line(TokenLine::even(line_comm, data.tokens_x(), data.tokens_y(), ranks_token)),
        context{&line,
                batches.capacity(),
                parameters.spec.width,
                {{}, parameters.spec.causal, {}},
                spec.dropout > 0 ? &dropout : nullptr},
        model(make_depth_model(parameters, context, Precision::float64)),
        march(*model, {parameters.spec.layers, spec.cells, spec.edges}, 1),
        evaluator(parameters, context, march, spec.loss),
        trainer(TrainingRanks::without_stages(all), parameters, *model,
                Pipeline(MPI_COMM_SELF, {}, [&] { return slot(spec); }), spec.settings) {
    if (spec.dropout > 0) evaluator.set_dropout(dropout);
  }
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  SampleSet samples(const data::Dataset& data, std::vector<std::size_t> members) const {
    return {comm, line, data, std::move(members), batches.capacity()};
  }

  /// The gradient of a batch, summed over the replicas, on every rank.
  std::vector<double> gradient(const Batch& batch) {
    std::vector<double> share(parameters.values.size());
    evaluator.gradient(batch, share);
    return sum_over(comm, std::move(share));
  }

  /// The march and the evaluator of the trainer: like `march` and `evaluator`, but of its own.
  Slot slot(const TrainingSpec& spec) {
    Slot made{std::make_unique<Backpropagation>(*model, march.depth(), 1), nullptr};
    made.evaluator = std::make_unique<GradientEvaluator>(parameters, context, *made.march, spec.loss);
    if (spec.dropout > 0) made.evaluator->set_dropout(dropout);
    return made;
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

/// Every number of ranks over tokens that divides the size of `comm` and does not cut a column.
inline std::vector<int> every_token_split(MPI_Comm comm, int tokens_x) {
  std::vector<int> splits;
  for (int ranks = 1; ranks <= tokens_x; ++ranks)
    if (size_of(comm) % ranks == 0) splits.push_back(ranks);
  return splits;
}

}  // namespace fluxformer::test
