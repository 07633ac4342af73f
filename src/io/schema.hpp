#pragma once

// The one place that spells a path or an attribute name of the files. docs/output-format.md holds the same
// table, and a test keeps the two in step.

#include <span>
#include <string>
#include <string_view>

#include "io/axis.hpp"

namespace fluxformer {

/// Raised when a reader of older files would be misled.
inline constexpr long schema_version = 1;

/// One line of the table. `<...>` in a name stands for what varies.
struct SchemaEntry {
  std::string_view name;        ///< absolute path, or path@attribute
  std::string_view dimensions;  ///< "" for a scalar, an attribute or a group
  std::string_view unit;        ///< "" for a pure number, a text or a group
  std::string_view doc;         ///< long_name of a dataset, else what it holds
};

std::span<const SchemaEntry> schema();
/// The entry of that name; std::logic_error if there is none.
const SchemaEntry& schema_entry(std::string_view name);
/// What the table says of that dataset, for whoever writes it.
io::Meaning meaning_of(std::string_view path);
/// The table as docs/output-format.md shows it.
std::string schema_table();

namespace names {

inline std::string in(std::string_view group, std::string_view leaf) {
  return std::string(group) + "/" + std::string(leaf);
}

/// The path of an axis.
inline std::string root(std::string_view leaf) {
  return in("", leaf);
}

// Attributes of the root.
inline constexpr const char *version = "schema_version", *experiment = "experiment", *created = "created",
                            *git_revision = "git_revision", *git_dirty = "git_dirty",
                            *command_line = "command_line", *deck = "deck", *settings = "settings",
                            *seed = "seed", *ranks = "ranks", *compiler = "compiler", *petsc = "petsc",
                            *hdf5 = "hdf5", *mpi = "mpi", *blas = "blas", *host = "host", *cites = "cites",
                            *status = "status", *message = "message";
inline constexpr const char *running = "running", *done = "done", *failed = "failed",
                            *interrupted = "interrupted";
// Attributes of datasets and of the timing group.
inline constexpr const char *unit = "unit", *long_name = "long_name", *statistics = "statistics",
                            *tokens_x = "tokens_x", *tokens_y = "tokens_y";

// Axes (datasets at the root).
inline constexpr const char *depth = "depth", *token = "token", *token_x = "token_x", *token_y = "token_y",
                            *stored_depth = "stored_depth", *time = "time", *step = "step",
                            *sample = "sample", *channel = "channel", *layer = "layer", *head = "head",
                            *query = "query", *key = "key", *epoch = "epoch";
/// The axis of a dimension that has no coordinate.
std::string anonymous_axis(std::size_t size, std::size_t use);

// Groups.
inline constexpr const char *field = "/field", *history = "/history", *evolve = "/analysis/evolve",
                            *attention = "/attention", *analysis = "/analysis", *training = "/training",
                            *timing = "/timing", *model = "/model", *state = "/state";
inline constexpr const char* hidden_state = "u";
inline constexpr const char* attention_weights = "/attention/weights";

// /history/<name>: [step], and from norm on [step, depth].
inline constexpr const char *history_time = "time", *step_size = "step_size", *cfl = "cfl",
                            *wall_time = "wall_time", *state_norm = "norm", *rate = "rate",
                            *distance = "distance", *token_variance = "token_variance",
                            *dirichlet_energy = "dirichlet_energy", *flux = "flux";
// /analysis/evolve/<name>
inline constexpr const char *arrival_time = "arrival_time", *attention_entropy = "attention_entropy";

// /training/<name>: [step] up to samples_per_second, then (with wall_time) [epoch].
inline constexpr const char *loss = "loss", *depth_loss = "depth_loss", *penalty = "penalty",
                            *batch_accuracy = "batch_accuracy", *gradient_norm = "gradient_norm",
                            *learning_rate = "learning_rate", *samples_per_second = "samples_per_second",
                            *train_loss = "train_loss", *train_accuracy = "train_accuracy",
                            *validation_loss = "validation_loss",
                            *validation_accuracy = "validation_accuracy", *test_loss = "test_loss",
                            *test_accuracy = "test_accuracy";
// /training: attributes.
inline constexpr const char *samples = "samples", *validation_samples = "validation_samples",
                            *test_samples = "test_samples", *trained_parameters = "trained_parameters",
                            *baseline_accuracy = "baseline_accuracy";

// /model: attributes.
inline constexpr const char *kind = "kind", *layers = "layers", *knots = "knots", *width = "width",
                            *heads = "heads", *ffn = "ffn", *activation = "activation", *norm = "norm",
                            *order = "order", *residual = "residual", *causal = "causal", *cells = "cells",
                            *kernel = "kernel", *weights = "weights", *normalisation = "normalisation",
                            *iterations = "iterations", *subflow = "subflow";
// /model: datasets.
/// Group of layer (or knot) `l`, counted from 1.
std::string model_layer(int l);
inline constexpr const char *W_Q = "W_Q", *b_Q = "b_Q", *W_K = "W_K", *b_K = "b_K", *W_V = "W_V",
                            *b_V = "b_V", *W_O = "W_O", *b_O = "b_O", *W_1 = "W_1", *b_1 = "b_1",
                            *W_2 = "W_2", *b_2 = "b_2", *norm1_gain = "norm1_gain",
                            *norm1_bias = "norm1_bias", *norm2_gain = "norm2_gain",
                            *norm2_bias = "norm2_bias", *kappa = "kappa";
inline constexpr const char *embedding_W = "/model/embedding/W", *embedding_b = "/model/embedding/b",
                            *embedding_words = "/model/embedding/words",
                            *embedding_vocabulary = "/model/embedding/vocabulary",
                            *embedding_position = "/model/embedding/position",
                            *final_norm_gain = "/model/final_norm/gain",
                            *final_norm_bias = "/model/final_norm/bias", *head_W = "/model/head/W",
                            *head_b = "/model/head/b";

// /state of a checkpoint file.
inline constexpr const char* complete = "complete";

}  // namespace names

/// "out/evolve.h5" -> "out/evolve.checkpoint.h5", and the generation before it.
std::string checkpoint_path(const std::string& output);
std::string previous_checkpoint_path(const std::string& output);
/// "out/evolve.h5" -> "out/evolve.xdmf".
std::string side_car_path(const std::string& output);
/// "out/train.h5" -> "out/train.history.h5".
std::string history_path(const std::string& output);
/// "out/train.h5", "best" -> "out/train.best.h5".
std::string weights_path(const std::string& output, const std::string& what);

}  // namespace fluxformer
