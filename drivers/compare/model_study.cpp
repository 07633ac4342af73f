#include "drivers/compare/model_study.hpp"

#include <limits>
#include <set>

#include "base/error.hpp"
#include "base/index.hpp"
#include "data/text/words_of.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/run_options.hpp"
#include "io/axes.hpp"
#include "io/digest.hpp"
#include "model/model_file.hpp"

namespace fluxformer {

study::Contents compare::with_models(study::Contents contents) {
  contents.coordinates.insert(contents.coordinates.begin(), axes::model_depth);
  contents.model_notes.insert(contents.model_notes.begin(), {files, parameters, trained, norm, knots});
  return contents;
}

void compare::describe_first_sample(const CompareProblem& problem, StudyRecord& record) {
  const auto& data = problem.data();
  const auto first = problem.members().front();
  if (auto words = data::named_words_of(data, {&first, 1}); !words.empty()) {
    words.resize(data.length(first));
    for (auto& word : words)  // a word may be the end of a line
      for (std::size_t at; (at = word.find('\n')) != std::string::npos;) word.replace(at, 1, "↵");
    record.note("", sample_words, as_lines(words));
    return;
  }
  std::vector<double> features(Index{problem.line().tokens()} * data.features());
  data.tokens(first, features.data());
  record.axis(axes::feature, 0, data.features() - 1);
  record.array(sample_features, std::move(features));
}

namespace {

void declare_models(Options& options) {
  options.declare("models.seeds", std::vector<long>{1},
                  "seeds of the trained models, e.g. 1, 2, 3; each replaces {seed} in the file names",
                  {.minimum = 0, .maximum = std::numeric_limits<int>::max(), .not_empty = true});
  options.declare("models.transformer", "",
                  "HDF5 file of the trained Transformer, e.g. out/transformer_{seed}.h5");
  options.declare("models.independent", "", "HDF5 file of a PDE model trained on labels only; empty: none");
  options.declare("models.normed", "",
                  "HDF5 file of a PDE model trained on labels only, with normalisation (depth.norm of "
                  "train); empty: none");
  options.declare(
      "models.distilled", "",
      "HDF5 file of a PDE model distilled from the Transformer (distill.* of train); empty: none");
  options.declare(
      "models.converged", "",
      "HDF5 file of a PDE model that was trained to be converged in depth (several train.cells, or a "
      "Runge-Kutta method as adjoint.method), or is by the last line of its training; empty: none");
  options.declare("models.inherited", 0L,
                  "depth cells per layer of a PDE model that takes the Transformer's own weights, "
                  "interpolated in depth; 1: the Transformer itself, 0: none",
                  {.unit = "cells", .minimum = 0});
}

}  // namespace

void declare_compared(Options& options) {
  declare_models(options);
  options.declare("samples.count", 1000L, "number of test samples used, drawn with run.seed; 0: all",
                  {.minimum = 0});
  options.declare("samples.batch", 32L, "samples per batch on each rank", {.unit = "samples", .minimum = 1});
  declare_data_options(options);
  options.declare(precision_option());
  options.declare(seed_option("seed of the built-in data, of the choice of samples and of all random draws"));
}

Option epochs_option(const std::string& name) {
  return {.name = name,
          .fallback = std::vector<long>{},
          .doc =
              "training epochs whose weight snapshots (output.snapshots of train) are analysed too, e.g. 0, "
              "1, 2; empty: none",
          .minimum = 0,
          .maximum = std::numeric_limits<int>::max()};
}

std::vector<Place> ModelStudy::places() const {
  const auto& models = problem_.models();
  std::vector<Place> all;
  for (std::size_t seed = 0; seed < models.seeds().size(); ++seed)
    for (const auto& name : models.names())
      all.push_back({.group = name,
                     .name = name + ", seed " + std::to_string(models.seeds()[seed]),
                     .index = {{axes::seed.name, seed}}});
  return all;
}

std::vector<Study::Source> ModelStudy::sources() const {
  const auto& models = problem_.models();
  const auto digest = [](const Parameters& parameters) {
    return digest_of(parameters.spec) +
           io::digest_of(parameters.values.data(), std::ssize(parameters.values));
  };
  std::vector<Source> all;
  for (std::size_t seed = 0; seed < models.seeds().size(); ++seed)
    for (const auto& name : models.names()) {
      const auto& model = models.at(seed, name);
      const auto called = "models." + name + " = " + model.file;
      all.push_back({.called = called, .digest = digest(model.parameters)});
      for (const long epoch : epochs())
        all.push_back({.called = called + ", its weights after epoch " + std::to_string(epoch),
                       .digest = digest(models.after_epoch(seed, name, epoch))});
    }
  std::set<const ComparedInput*> inputs;  // models share them unless they split samples differently
  for (const auto& name : models.names())
    if (const auto& input = problem_.input_of(name); inputs.insert(&input).second)
      all.push_back({.called = "data.set = " + problem_.data().name(), .digest = input.digest()});
  return all;
}

void ModelStudy::require_layer_ends(const std::string& name) const {
  const auto& model = problem_.models().at(0, name);
  try {
    static_cast<void>(model.parameters.spec.depth().layer_rows("for a measurement by layer"));
  } catch (const BadInput& e) {
    throw BadInput("models." + name + " = " + model.file + ": " + e.what());
  }
}

void ModelStudy::begin(StudyRecord& record) {
  problem_.describe(record);
  add_axes(record);
}

void ModelStudy::measure(const Place& place, Results& to) {
  measure_model(place.along(axes::seed), place.group, to);
}

}  // namespace fluxformer
