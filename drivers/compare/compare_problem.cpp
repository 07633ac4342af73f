#include "drivers/compare/compare_problem.hpp"

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "base/random.hpp"
#include "drivers/compare/model_study.hpp"
#include "io/axes.hpp"

namespace fluxformer {
namespace {

// Ranks over the tokens of a sample: only `hessian_spectrum` has the key.
int ranks_token(const Settings& settings) {
  const char* const key = "mesh.ranks_token";
  return settings.options()->find(key) != nullptr ? settings.count(key) : 1;
}

// The split that samples are drawn from. Only `hessian_spectrum` can choose: the loss of the training is
// minimised on its own samples.
std::string split_of(const Settings& settings) {
  return settings.options()->find("data.split") != nullptr ? settings.word("data.split") : "test";
}

}  // namespace

ComparePlan compare_plan_of(const Settings& settings) {
  return {.precision = precision_of(settings),
          .models = models_plan_of(settings),
          .input = {.data = data_plan(settings),
                    .split = split_of(settings),
                    .count = settings.integer("samples.count"),
                    .batch = settings.count("samples.batch"),
                    .seed = static_cast<std::uint64_t>(settings.integer("run.seed"))},
          .ranks_token = ranks_token(settings)};
}

CompareProblem::CompareProblem(const ComparePlan& plan, MPI_Comm comm, ModelNeeds needs, Marches marches)
    : comm_(comm),
      precision_(plan.precision),
      models_(plan.models, comm, needs, marches),
      ranks_(comm, plan.ranks_token),
      input_(std::make_unique<ComparedInput>(plan.input, comm, ranks_.line, models_.known_input())) {
  for (const auto& name : models_.names()) {
    const auto& tokens = models_.tokens(name);
    if (!tokens.empty() && !other_inputs_.contains(tokens)) {
      auto other = plan.input;
      other.data.set.tokens = tokens;
      other_inputs_[tokens] =
          std::make_unique<ComparedInput>(other, comm, ranks_.line, models_.known_input());
    }
    models_.require_input(name, input_of(name).samples().shape());
    collectively(comm, [&] { models_.require_samples(name, input_of(name).samples().data()); });
  }
}

const ComparedInput& CompareProblem::input_of(const std::string& model) const {
  const auto& tokens = models_.tokens(model);
  return tokens.empty() ? *input_ : *other_inputs_.at(tokens);
}

std::unique_ptr<ModelProbe> CompareProblem::probe(const Parameters& parameters, int capacity,
                                                  MarchMaker march) const {
  return std::make_unique<ModelProbe>(parameters, line(), capacity, precision_, std::move(march));
}

MarchMaker CompareProblem::march_of(const ComparedModel& model) const {
  auto method = model.origin.method();
  if (method.layer_map()) return layer_maps;
  method.tolerate_round_off_of(precision_);
  return [method](DepthModel& of, const DepthCells& depth, DepthRange cells) {
    return std::make_unique<AdjointMarch>(of, depth, 1, method, cells);
  };
}

void CompareProblem::require_labels(const std::string& purpose, const SampleSet& samples) const {
  const auto without =
      std::ranges::count_if(samples.members(), [&](std::size_t member) { return data().label(member) < 0; });
  if (without > 0)
    throw BadInput("data.set = " + data().name() + ": " + std::to_string(without) + " of " +
                   std::to_string(samples.size()) + " samples have no label, which " + purpose +
                   " needs; give the samples labels");
}

void CompareProblem::require_classes(const std::string& purpose) const {
  require_labels(purpose, samples());
  if (data().classes() < 2)
    throw BadInput("data.set = " + data().name() + ": there is a single class, so that " + purpose +
                   " says nothing; check the labels");
}

void CompareProblem::describe(StudyRecord& record) const {
  record.seeds(models_.seeds());
  record.note("", study::samples, samples().size());
  for (const auto& name : models_.names()) {
    const auto& first = models_.at(0, name).parameters;
    std::vector<double> depth;
    for (int i = 0; i <= first.spec.cells; ++i) depth.push_back(first.spec.depth().depth(i));
    auto coordinate = axes::model_depth;
    coordinate.name.replace(0, std::string("<model>").size(), name);
    record.axis(coordinate, std::move(depth));
    std::string files, trained;
    for (std::size_t k = 0; k < models_.seeds().size(); ++k) {
      files += (k > 0 ? "\n" : "") + models_.at(k, name).file;
      trained += (k > 0 ? "\n" : "") + models_.at(k, name).trained;
    }
    record.note(name, compare::files, files);
    record.note(name, compare::trained, trained);
    record.note(name, compare::parameters, first.layout.size());
    record.note(name, compare::norm, to_word(first.spec.norm));
    record.note(name, compare::knots, static_cast<long>(first.spec.knots));
  }
}

std::string CompareProblem::describe() const {
  std::ostringstream text;
  text << models_.seeds().size() << " seed(s); " << input_->describe();
  for (const auto& name : models_.names()) {
    const auto& one = models_.at(0, name).parameters;
    text << '\n'
         << name << ": " << one.spec.layers << " layers on " << one.spec.cells << " depth cells, "
         << one.spec.knots << " sets of weights, norm " << to_word(one.spec.norm) << ", " << one.values.size()
         << " parameters; " << models_.at(0, name).trained;
    if (const auto& report = models_.at(0, name).origin.depth_report();
        !report.empty() && name != "inherited")
      text << "\n  depth: " << report;
    if (name != "converged") continue;
    const auto seeds = models_.seeds().size();
    std::size_t converged = 0;
    for (std::size_t k = 0; k < seeds; ++k) converged += models_.at(k, name).origin.converged() ? 1 : 0;
    if (converged < seeds)
      text << "\n  " << converged << " of " << seeds
           << " seeds are converged in depth, as their trainings say";
  }
  return text.str();
}

namespace {

/// The order in which `train` draws its samples, and in which comparisons draw test samples.
std::vector<std::size_t> drawing_order(const InputPlan& plan, std::size_t size) {
  return shuffled(size, plan.seed, plan.split == "train" ? "training" : "compared", 0);
}

}  // namespace

ComparedInput::ComparedInput(const InputPlan& plan, MPI_Comm comm, MPI_Comm line, const KnownInput& known)
    : plan_(plan),
      data_(open_data(plan.data, plan.split, known, comm)),
      line_(token_line(line, *data_)),
      drawn_(drawing_order(plan, data_->size())),
      samples_(choose(comm)) {}

SampleSet ComparedInput::choose(MPI_Comm comm) const {
  const Index wanted = plan_.count;
  if (wanted > std::ssize(drawn_))
    throw BadInput("samples.count = " + std::to_string(wanted) + ": " + data_->name() + " has " +
                   std::to_string(drawn_.size()) + " " + plan_.split + " samples");
  const SampleSet all(comm, line_, *data_, drawn_, plan_.batch);
  return all.first(wanted > 0 ? wanted : all.size());
}

SampleSet ComparedInput::other_samples(long count, const std::string& key) const {
  if (count > std::ssize(drawn_) - samples_.size())
    throw BadInput(key + " = " + std::to_string(count) + ": " + data_->name() + " has only " +
                   std::to_string(drawn_.size() - samples_.size()) + " " + plan_.split +
                   " samples besides those of samples.count");
  others_ = std::max(others_, count);
  const auto first = drawn_.begin() + samples_.size();
  return samples_.with({first, first + count}, samples_.capacity());
}

std::uint64_t ComparedInput::digest() const {
  return digest_of_samples(*data_, std::span(drawn_).first(samples_.size() + others_));
}

std::string ComparedInput::describe() const {
  std::ostringstream text;
  text << data_->name() << ": " << samples_.size() << ' ' << plan_.split << " samples, " << line_.tokens_x()
       << " x " << line_.tokens_y() << " tokens; " << samples_.replica().count * line_.size()
       << " rank(s), up to " << samples_.capacity() << " samples each at a time";
  return text.str();
}

}  // namespace fluxformer
