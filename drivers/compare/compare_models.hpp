#pragma once

// The compared models: a trained Transformer, PDE models of it and controls, one of each per seed.

#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/model_settings.hpp"
#include "drivers/compare/model_origin.hpp"
#include "model/parameters.hpp"
#include "training/optimiser_record.hpp"

namespace fluxformer {

/// Models that an experiment can work with. classes: a Transformer, and every model has a classifier. loss:
/// every model has a classifier or guesses masked words; one model without a Transformer will do. states: the
/// same, and models without any head, too.
enum class ModelNeeds { classes, loss, states };

/// One model of one seed.
struct ComparedModel {
  Parameters parameters;
  std::string file;     ///< the file of the weights; for an inherited model, the Transformer's
  std::string trained;  ///< origin of the weights, in words
  ModelOrigin origin;
};

/// True if models of this name are PDE models trained on the labels alone.
bool is_independent(const std::string& name);

/// True if the loss of a model is that of masked words: it has a word head and no classes.
bool guesses_masked_words(const ModelSpec& spec);

/// The models of all seeds, read into the memory of every rank.
class ComparedModels {
 public:
  /// Reads the files of models.*. Collective over `comm`; throws BadInput (agreed) for files that are missing
  /// or inconsistent.
  ComparedModels(const Settings& settings, MPI_Comm comm, ModelNeeds needs);

  const std::vector<long>& seeds() const { return seeds_; }
  /// Names of the models that the deck asks for, in this order: transformer, independent, normed, distilled,
  /// linear, mlp, inherited.
  const std::vector<std::string>& names() const { return names_; }
  /// The model of a name and seed; `seed` is an index into `seeds`. All seeds of a name have the same sizes
  /// and depth cells.
  const ComparedModel& at(std::size_t seed, const std::string& name) const;
  /// Parameters from the weight snapshot of a model after an epoch (output.snapshots). Collective; throws
  /// BadInput if there is none or it belongs to another model.
  Parameters after_epoch(std::size_t seed, const std::string& name, long epoch) const;
  /// State of the optimiser in that snapshot; std::nullopt if the snapshot does not hold it, or for weights
  /// that were not trained. Collective; throws BadInput as after_epoch.
  std::optional<OptimiserRecord> optimiser_after_epoch(std::size_t seed, const std::string& name,
                                                       long epoch) const;
  /// Throws BadInput unless all models have weight snapshots of these epochs. Collective.
  void require_epochs(const std::vector<long>& epochs) const;
  /// Vocabulary (texts; empty for images) and input sizes recorded in the model files.
  KnownInput known_input() const;
  /// The data.tokens that a model was trained with, where they may differ from those of the deck (mlp) and
  /// do; else "".
  const std::string& tokens(const std::string& name) const;
  /// Throws BadInput unless the models of this name take this input, whose data are made by data.*.
  void require_input(const Settings& settings, const std::string& name, const InputShape& input) const;

 private:
  void read_files(const Settings& settings, const std::string& name);
  /// Throws BadInput if a model lacks the head that the experiment needs.
  void require_head(const std::string& key, const ModelSpec& spec) const;
  void require_alike() const;
  const ComparedModel& first() const { return models_.front().front(); }
  std::size_t place(const std::string& name) const;

  MPI_Comm comm_;
  ModelNeeds needs_;
  std::vector<long> seeds_;
  std::vector<std::string> names_, words_;
  std::vector<std::vector<ComparedModel>> models_;  // [name][seed]
  std::vector<std::string> tokens_;                 // [name]
};

/// The Transformer as a PDE model: its layers become knots with linear interpolation, on `cells_per_layer`
/// depth cells per layer. With one cell per layer the result is the Transformer. Throws BadInput for a
/// Transformer that is not an Euler step (norm post, residual off).
Parameters inherit(const Parameters& transformer, int cells_per_layer);

}  // namespace fluxformer
