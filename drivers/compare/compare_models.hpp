#pragma once

// The compared models: a trained Transformer, PDE models of it and controls, one of each per seed.

#include <mpi.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "io/archive_reader.hpp"
#include "model/parameters.hpp"
#include "solvers/adjoint/adjoint_march.hpp"
#include "training/optimiser_record.hpp"

namespace fluxformer {

/// Names with a value for each.
using NamedWords = std::vector<std::pair<std::string, std::string>>;

/// The files of the compared models, and the tokens that they take.
struct ModelsPlan {
  std::vector<long> seeds;
  NamedWords files;    ///< the models with their files, in which {seed} stands for the seed
  int inherited = 0;   ///< depth cells per layer of the PDE model that is inherited; 0: none
  std::string output;  ///< the file to be written, which must be none of them
  NamedWords data;     ///< keys that determine the tokens, with the values that a training must have had
  bool first_positions = false;  ///< true if a model may have more positions than the samples have tokens
};
/// The plan by models.*, data.* and output.file. Not collective.
ModelsPlan models_plan_of(const Settings& settings);

/// Marches that an experiment can work with: those by the layer map from cell to cell, or by the method of each
/// model's training, too.
enum class Marches { layer_map, of_training };

/// The settings of the run of `train` that wrote a model file, and how far it came.
class ModelOrigin {
 public:
  /// Reads the record. Collective over the reader's communicator.
  explicit ModelOrigin(const io::ArchiveReader& file);

  /// True if `train` wrote the file; if not, everything below is unknown.
  bool trained() const { return trained_; }
  /// The value of a key of that run; "" if unknown.
  std::string value(const std::string& key) const;
  /// The value of a key as a number; throws BadInput if it is none.
  double number(const std::string& key) const;
  /// A short description of the origin.
  std::string text() const;
  /// Values of kappa, alpha, rho and nu at the start of the training.
  struct Coefficients {
    double kappa = 0, alpha = 1, rho = 1, nu = 0;
  };
  /// Coefficients at the start of the training, from its settings; std::nullopt if they are unknown or came
  /// from a file.
  std::optional<Coefficients> starting_coefficients() const;
  bool distilled() const { return !value("distill.teacher").empty(); }
  /// The sentence of the training about convergence in depth; "" if it has none.
  const std::string& depth_report() const { return depth_report_; }

  /// The method of the march that the model was trained with; 1fe if unknown.
  AdjointSettings method() const;

  /// Throws BadInput, beginning with `what`, if the training did not complete, or if its model was not the
  /// map used in comparisons: with c = 1 on a lattice that is not periodic, by these marches.
  void require_comparable(const std::string& what, Marches marches) const;
  /// True if the training found the model converged in depth.
  bool converged() const { return converged_ == "yes"; }
  /// Throws BadInput unless the model is converged, or was trained to be: on changing depth cells, or by another
  /// march than that by layer maps.
  void require_converging(const std::string& what) const;
  /// Throws BadInput for a model that was trained on tokens other than those of `wanted` (ModelsPlan::data).
  void require_data(const std::string& what, const NamedWords& wanted) const;

 private:
  std::string file_;
  bool trained_ = false;
  std::string status_, depth_report_, converged_;
  std::map<std::string, std::string> settings_;
};

/// Models that an experiment can work with.
struct ModelNeeds {
  /// A head that every model must have: a classifier, or one with a loss, which may guess words, or none.
  enum class Head { classes, loss, none };
  Head head = Head::classes;
  bool transformer = true;  ///< a Transformer must be among them; if not, one model of any kind will do
};

/// One model of one seed.
struct ComparedModel {
  Parameters parameters;
  std::string file;     ///< the file of the weights; for an inherited model, the Transformer's
  std::string trained;  ///< origin of the weights, in words
  ModelOrigin origin;
};

/// True if models of this name are PDE models trained on the labels alone.
bool is_independent(const std::string& name);

/// The models of all seeds, read into the memory of every rank.
class ComparedModels {
 public:
  /// Reads the files. Collective over `comm`; throws BadInput (agreed) for files that are missing or
  /// inconsistent.
  ComparedModels(const ModelsPlan& plan, MPI_Comm comm, ModelNeeds needs, Marches marches);

  const std::vector<long>& seeds() const { return plan_.seeds; }
  /// Names of the models that the deck asks for, in this order: transformer, independent, normed, distilled,
  /// converged, linear, mlp, inherited.
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
  /// Throws BadInput unless the models of this name take this input.
  void require_input(const std::string& name, const InputShape& input) const;
  /// Throws BadInput if one of them would take tokens of these samples for something else. Not collective.
  void require_samples(const std::string& name, const data::Dataset& data) const;

 private:
  void read_files(const std::string& name, const std::string& pattern);
  /// Throws BadInput if a model lacks the head that the experiment needs.
  void require_head(const std::string& key, const ModelSpec& spec) const;
  void require_alike() const;
  const ComparedModel& first() const { return models_.front().front(); }
  std::size_t place(const std::string& name) const;

  ModelsPlan plan_;
  MPI_Comm comm_;
  ModelNeeds needs_;
  Marches marches_;
  std::vector<std::string> names_, words_;
  std::vector<std::vector<ComparedModel>> models_;  // [name][seed]
  std::vector<std::string> tokens_;                 // [name]
};

/// The Transformer as a PDE model: its layers become knots with linear interpolation, on `cells_per_layer`
/// depth cells per layer. With one cell per layer the result is the Transformer. Throws BadInput for a
/// Transformer that is not an Euler step (norm post, residual off).
Parameters inherit(const Parameters& transformer, int cells_per_layer);

/// Parameters of `model` as a training initialises them, for this seed of the comparison. The random numbers
/// are those of no training. Not collective.
Parameters untrained(const ComparedModel& model, std::uint64_t draws, long seed);

}  // namespace fluxformer
