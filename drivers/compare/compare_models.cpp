#include "drivers/compare/compare_models.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/deck.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "data/images/image_tokens.hpp"
#include "drivers/common/data_options.hpp"
#include "io/archive_reader.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"
#include "model/depth_march.hpp"
#include "model/initialise.hpp"
#include "model/model_file.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {
namespace {

constexpr const char* transformer = "transformer";

std::string with_seed(std::string pattern, long seed) {
  const std::string place = "{seed}";
  for (auto at = pattern.find(place); at != std::string::npos; at = pattern.find(place))
    pattern.replace(at, place.size(), std::to_string(seed));
  return pattern;
}

std::string snapshot_path(const std::string& file, long epoch) {
  return io::weights_path(file, "epoch" + std::to_string(epoch));
}

/// Checks that a PDE model was trained on labels only, or distilled, as its key says.
void require_making(const std::string& key, const std::string& name, const ModelOrigin& origin) {
  if (!origin.trained()) return;
  if (is_independent(name) && origin.distilled()) throw BadInput(key + ": was " + origin.text());
  if (name == "distilled" && !origin.distilled()) throw BadInput(key + ": was trained on labels only");
}

/// Checks that a PDE model was made from the same samples in the same order as this Transformer.
void require_coupling(const std::string& key, const std::string& name, const ModelOrigin& origin,
                      const ComparedModel& teacher) {
  if (!origin.trained()) return;
  const auto file_name = [](const std::string& path) { return std::filesystem::path(path).filename(); };
  const auto taught_by = origin.value("distill.teacher");
  if (name == "distilled" && file_name(taught_by) != file_name(teacher.file))
    throw BadInput(key + ": was distilled from " + taught_by + ", not from " + teacher.file);
  if (!teacher.origin.trained()) return;
  if (origin.value("run.seed") != teacher.origin.value("run.seed"))
    throw BadInput(key + ": was trained on samples in a different order than " + teacher.file +
                   " (run.seed = " + origin.value("run.seed") + " and " + teacher.origin.value("run.seed") +
                   ")");
  if (is_independent(name) && origin.value("model.file").empty() &&
      origin.value("model.seed") == teacher.origin.value("model.seed"))
    throw BadInput(key + ": was initialised with the same random numbers as " + teacher.file +
                   " (model.seed = " + origin.value("model.seed") + "), so it is not independent of it");
}

/// Checks that the model of a control, or of a PDE model with normalisation, is what its key says.
void require_name(const std::string& key, const std::string& name, const Parameters& parameters) {
  const auto& spec = parameters.spec;
  if (name == "normed" && spec.norm == Norm::none)
    throw BadInput(key + ": has no normalisation (depth.norm of train)");
  if (name == "linear" && spec.attention.normalisation != Normalisation::linear)
    throw BadInput(key + ": its attention is not linear (attention.normalisation of train)");
  if (name != "mlp") return;
  for (const auto& view : parameters.layout.views())
    if (view.name == "alpha")
      for (const double alpha : parameters.view(view.path()))
        if (alpha != 0) throw BadInput(key + ": is not an MLP: its attention acts (equation.alpha of train)");
}

/// Replaces data.tokens in `wanted` (ModelsPlan::data) by those that a model was trained with, and returns
/// these if they differ; else "".
std::string take_other_tokens(const std::string& key, const ModelOrigin& origin, NamedWords& wanted) {
  const auto here = std::ranges::find(wanted, "data.tokens", &NamedWords::value_type::first);
  auto tokens = origin.value("data.tokens");
  if (tokens.empty() || here == wanted.end() || tokens == here->second) return "";
  try {
    data::token_layout(tokens);
  } catch (const BadInput& e) {
    throw BadInput(key + ": its settings: " + e.what());
  }
  return here->second = tokens;
}

}  // namespace

bool is_independent(const std::string& name) {
  return name == "independent" || name == "normed" || name == "converged";
}

Parameters inherit(const Parameters& teacher, int cells_per_layer) {
  auto spec = teacher.spec;
  if (!spec.depth().equal()) throw BadInput("its depth cells are of unequal length");
  spec.kind = ModelKind::pde;
  spec.variation = DepthVariation::linear;
  spec.knots = spec.layers;
  spec.set_depth({spec.layers, spec.layers * cells_per_layer});
  spec.validate();
  Parameters parameters(spec);
  for (const auto& view : parameters.layout.views())
    std::ranges::copy(teacher.view(view.path()), parameters.view(view.path()).begin());
  require_marchable(spec, spec.depth(), 1);
  return parameters;
}

ModelsPlan models_plan_of(const Settings& settings) {
  ModelsPlan plan{.seeds = settings.integers("models.seeds"),
                  .files = {},
                  .inherited = settings.count("models.inherited"),
                  .output = settings.word("output.file"),
                  .data = {},
                  .first_positions = takes_first_positions(settings)};
  for (const std::string name :
       {transformer, "independent", "normed", "distilled", "converged", "linear", "mlp"}) {
    const auto key = "models." + name;  // the controls are not known to every experiment
    if (settings.options()->find(key) != nullptr && !settings.word(key).empty())
      plan.files.emplace_back(name, settings.word(key));
  }
  for (const Option& option : settings.options()->all())
    if (option.role == Role::data && settings.counts(option.name) && !settings.left_to_file(option.name))
      plan.data.emplace_back(option.name, value_text(settings.value(option.name)));
  return plan;
}

ComparedModels::ComparedModels(const ModelsPlan& plan, MPI_Comm comm, ModelNeeds needs, Marches marches)
    : plan_(plan), comm_(comm), needs_(needs), marches_(marches) {
  const bool first_is_transformer = !plan.files.empty() && plan.files.front().first == transformer;
  if (!first_is_transformer && needs.transformer) throw BadInput("models.transformer: no file given");
  for (const auto& [name, pattern] : plan.files) read_files(name, pattern);
  if (names_.empty())
    throw BadInput(
        "models.transformer: no file given; this experiment also takes a PDE model alone, as "
        "models.independent, models.normed, models.distilled or models.converged");
  if (const int cells = plan.inherited; cells > 0) {
    if (!first_is_transformer) throw BadInput("models.inherited: needs models.transformer");
    std::vector<ComparedModel> inherited;
    for (const auto& one : models_.front()) {
      try {
        one.origin.require_comparable("the Transformer", Marches::layer_map);
        inherited.push_back({inherit(one.parameters, cells), one.file, "not trained: inherited", one.origin});
      } catch (const BadInput& e) {
        throw BadInput("models.inherited = " + std::to_string(cells) + ": " + one.file + ": " + e.what());
      }
    }
    names_.emplace_back("inherited");
    tokens_.emplace_back();
    models_.push_back(std::move(inherited));
  }
  require_alike();
}

void ComparedModels::read_files(const std::string& name, const std::string& pattern) {
  if (seeds().size() > 1 && with_seed(pattern, 0) == pattern)
    throw BadInput("models." + name + " = " + pattern +
                   ": the same file for every seed; write {seed} where they differ");
  names_.push_back(name);
  tokens_.emplace_back();
  auto& list = models_.emplace_back();
  for (const long seed : seeds()) {
    const auto path = with_seed(pattern, seed);
    const auto key = "models." + name + " = " + path;
    collectively(comm_, [&] {
      std::error_code not_there;
      if (std::filesystem::equivalent(path, plan_.output, not_there))
        throw BadInput(key + ": is output.file, too, which would replace the model");
    });
    const io::ArchiveReader file(comm_, path, "models." + name + " = ");
    const ModelOrigin origin(file);
    ComparedModel model{read_model(file), path, origin.text(), origin};
    auto& spec = model.parameters.spec;
    const bool control = name == "linear" || name == "mlp";
    if ((spec.kind == ModelKind::transformer) != (name == transformer || control))
      throw BadInput(key + ": is the model of a " + to_word(spec.kind));
    require_head(key, spec);
    origin.require_comparable(key, marches_);
    auto wanted = plan_.data;
    if (name == "mlp") tokens_.back() = take_other_tokens(key, origin, wanted);
    origin.require_data(key, wanted);
    require_name(key, name, model.parameters);
    if (name == "converged") origin.require_converging(key);
    require_making(key, name, origin);
    if (name != transformer && names_.front() == transformer)
      require_coupling(key, name, origin, models_.front().at(list.size()));
    if (spec.cells == 0) spec.cells = spec.layers;
    if (file.has(model_file::embedding_vocabulary)) {
      const auto words = file.words(model_file::embedding_vocabulary);
      if (words_.empty()) words_ = words;
      if (words != words_)
        throw BadInput(key + ": has a different vocabulary than " + models_.front().front().file);
    }
    list.push_back(std::move(model));
  }
}

void ComparedModels::require_head(const std::string& key, const ModelSpec& spec) const {
  if (spec.classes > 0 || needs_.head == ModelNeeds::Head::none) return;
  if (!spec.word_head.present)
    throw BadInput(key + ": has no classes" +
                   (needs_.head == ModelNeeds::Head::loss ? " and guesses no words" : "") +
                   ", and so no loss");
  if (needs_.head == ModelNeeds::Head::classes)
    throw BadInput(key +
                   ": has no classes; models that guess words cannot be compared by this experiment, "
                   "which needs classifiers: `train` with this model.file makes one");
}

void ComparedModels::require_alike() const {
  const auto& first = this->first().parameters.spec;
  for (const auto& list : models_)
    for (const auto& one : list) {
      const auto& spec = one.parameters.spec;
      if (spec.layers != first.layers)
        throw BadInput(one.file + ": has " + std::to_string(spec.layers) + " layers, " + this->first().file +
                       " has " + std::to_string(first.layers));
      const auto& same = list.front().parameters;
      if (spec.causal != first.causal)
        throw BadInput(one.file +
                       ": its attention is causal and that of the first model is not, or vice versa");
      if (spec.depth() != same.spec.depth())
        throw BadInput(one.file + ": has " + std::to_string(spec.cells) + " depth cells, " +
                       list.front().file + " has " + std::to_string(same.spec.cells) +
                       (spec.cells == same.spec.cells ? " of other lengths" : ""));
      if (spec.knots != same.spec.knots || spec.width != same.spec.width ||
          spec.attention.heads != same.spec.attention.heads ||
          one.parameters.values.size() != same.values.size())
        throw BadInput(one.file + ": differs in size from " + list.front().file);
      const auto mine = one.origin.method(), other = list.front().origin.method();
      if (mine.method != other.method || mine.theta != other.theta)
        throw BadInput(one.file + ": was trained by another adjoint.method than " + list.front().file);
    }
}

KnownInput ComparedModels::known_input() const {
  KnownInput known{words_, {}};
  const auto& first = this->first().parameters.spec;
  known.sizes = {.vocabulary = first.vocabulary,
                 .segments = first.segments,
                 .tokens = first.tokens,
                 .classes = first.classes};
  return known;
}

void ComparedModels::require_input(const std::string& name, const InputShape& input) const {
  for (const auto& one : models_.at(place(name))) {
    const auto& spec = one.parameters.spec;
    if (spec.features != input.features || spec.vocabulary != input.vocabulary ||
        spec.segments != input.segments ||
        (plan_.first_positions ? spec.tokens > 0 && spec.tokens < input.tokens
                               : spec.tokens != 0 && spec.tokens != input.tokens) ||
        (spec.classes != input.classes && !(needs_.head != ModelNeeds::Head::classes && spec.classes == 0)))
      throw BadInput(one.file + ": was trained on tokens or classes other than those of data.set");
  }
}

void ComparedModels::require_samples(const std::string& name, const data::Dataset& data) const {
  for (const auto& one : models_.at(place(name))) require_real_tokens(data, one.parameters.spec);
}

std::size_t ComparedModels::place(const std::string& name) const {
  return static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
}

const std::string& ComparedModels::tokens(const std::string& name) const {
  return tokens_.at(place(name));
}

const ComparedModel& ComparedModels::at(std::size_t seed, const std::string& name) const {
  return models_.at(place(name)).at(seed);
}

Parameters ComparedModels::after_epoch(std::size_t seed, const std::string& name, long epoch) const {
  const auto& now = at(seed, name);
  const bool inherited = name == "inherited";
  auto parameters =
      read_model(io::ArchiveReader(comm_, snapshot_path(now.file, epoch), "models." + name + ": "));
  const auto& whole = inherited ? at(seed, transformer).parameters : now.parameters;
  if (parameters.values.size() != whole.values.size() || parameters.spec.knots != whole.spec.knots)
    throw BadInput(snapshot_path(now.file, epoch) + ": is not the same model as " + now.file);
  if (inherited) return inherit(parameters, now.parameters.spec.cells / now.parameters.spec.layers);
  parameters.spec.set_depth(now.parameters.spec.depth());
  return parameters;
}

std::optional<OptimiserRecord> ComparedModels::optimiser_after_epoch(std::size_t seed,
                                                                     const std::string& name,
                                                                     long epoch) const {
  if (name == "inherited") return {};
  const auto& now = at(seed, name);
  return read_optimiser(io::ArchiveReader(comm_, snapshot_path(now.file, epoch), "models." + name + ": "),
                        now.parameters.values.size());
}

void ComparedModels::require_epochs(const std::vector<long>& epochs) const {
  for (std::size_t k = 0; k < seeds().size(); ++k)
    for (const auto& name : names_)
      for (const long epoch : epochs) after_epoch(k, name, epoch);
}

ModelOrigin::ModelOrigin(const io::ArchiveReader& file) : file_(file.called()) {
  trained_ = file.has_attribute(names::experiment) && file.text(names::experiment) == "train";
  if (file.has_attribute(names::status)) status_ = file.text(names::status);
  if (!trained_ || !file.has_attribute(names::settings)) return;
  for (const auto& [name, value] : read_deck(file.text(names::settings), file.called()))
    settings_[name] = value;
  depth_report_ = depth_report_in(file);
  using namespace model_file;
  if (!depth_report_.empty() && file.has_attribute(depth_converged, training))
    converged_ = file.text(depth_converged, training);
}

std::string ModelOrigin::value(const std::string& key) const {
  const auto found = settings_.find(key);
  return found == settings_.end() ? std::string() : found->second;
}

double ModelOrigin::number(const std::string& key) const {
  Option of_key;
  of_key.name = key;
  of_key.fallback = 0.0;
  try {
    return std::get<double>(parse_value(of_key, value(key)));
  } catch (const BadInput& e) {
    throw BadInput(file_ + ": its settings: " + e.what());
  }
}

std::optional<ModelOrigin::Coefficients> ModelOrigin::starting_coefficients() const {
  if (!value("model.file").empty()) return {};
  for (const char* key : {"equation.kappa", "equation.alpha", "equation.rho"})
    if (value(key).empty()) return {};
  // Trainings of before there was transport do not name it.
  const double nu = value("equation.nu").empty() ? 0 : number("equation.nu");
  return Coefficients{number("equation.kappa"), number("equation.alpha"), number("equation.rho"), nu};
}

std::string ModelOrigin::text() const {
  if (!trained_) return "not known";
  auto text = "trained, seed " + value("run.seed");
  if (distilled())
    text += "; distilled from " + value("distill.teacher") + ", hidden " + value("distill.hidden") +
            ", attention " + value("distill.attention");
  return text;
}

AdjointSettings ModelOrigin::method() const {
  AdjointSettings settings;
  if (value("train.gradient") == "adjoint") settings.method = value("adjoint.method");
  if (!value("adjoint.theta").empty()) settings.theta = number("adjoint.theta");
  return settings;
}

void ModelOrigin::require_comparable(const std::string& what, Marches marches) const {
  if (!trained_) return;
  if (!status_.empty() && status_ != names::done)
    throw BadInput(what + ": its training is not complete; its status is " + status_);
  const auto refuse = [&](const std::string& key) {
    throw BadInput(what + ": was trained with " + key + " = " + value(key) +
                   "; a comparison needs models marched from cell to cell by the layer map with equation.c = "
                   "1, on a token lattice that is not periodic");
  };
  if (!value("equation.c").empty() && number("equation.c") != 1) refuse("equation.c");
  if (value("mesh.periodic") == "true") refuse("mesh.periodic");
  if (marches == Marches::layer_map && !method().layer_map()) refuse("adjoint.method");
}

void ModelOrigin::require_converging(const std::string& what) const {
  const bool drawn = value("train.cells").find(',') != std::string::npos;  // of several numbers of cells
  if (converged() || drawn || !method().layer_map()) return;
  throw BadInput(what +
                 ": is not known to be converged in depth, nor trained to be (several train.cells, or a "
                 "Runge-Kutta method as adjoint.method); " +
                 (!trained_               ? "no training wrote it"
                  : depth_report_.empty() ? "its training says nothing (train.report_depth)"
                                          : "its training says: " + depth_report_));
}

void ModelOrigin::require_data(const std::string& what, const NamedWords& wanted) const {
  for (const auto& [key, here] : wanted)
    if (const auto there = value(key); !there.empty() && there != here)
      throw BadInput(key + " = " + here + ": " + what + " was trained with " + there);
}

Parameters untrained(const ComparedModel& model, std::uint64_t draws, long seed) {
  Parameters fresh(model.parameters.spec);
  // A separate stream, so that no trained model was initialised with these numbers.
  const auto draw = RandomStream(draws, "untrained models").bits(static_cast<std::uint64_t>(seed));
  const auto start = model.origin.starting_coefficients();
  const auto [kappa, alpha, rho, nu] = start.value_or(ModelOrigin::Coefficients{});
  initialise_standard(fresh, (std::uint64_t{draw[0]} << 32) | draw[1], kappa, alpha, rho, nu);
  if (!start)
    for (const auto& view : fresh.layout.views())
      if (view.name == "kappa" || view.name == "nu" || view.group == "equation")
        std::ranges::copy(model.parameters.view(view.path()), fresh.view(view.path()).begin());
  return fresh;
}

}  // namespace fluxformer
