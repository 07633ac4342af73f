#include "drivers/train/train_checks.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <sstream>
#include <string_view>
#include <unordered_set>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"

namespace fluxformer {
void refuse_other_lattice(const SamplesPlan& plan, const data::Dataset& data) {
  const auto same = [](const char* key, int asked, int tokens) {
    if (asked > 0 && asked != tokens)
      throw BadInput(std::string(key) + " = " + std::to_string(asked) + ": the data has " +
                     std::to_string(tokens) + "; leave the key out");
  };
  same("mesh.tokens_x", plan.tokens_x, data.tokens_x());
  same("mesh.tokens_y", plan.tokens_y, data.tokens_y());
}

void require_memory_of_training(MPI_Comm comm, const TrainPlan& plan, const Parameters& parameters,
                                const KeptStates& kept) {
  // Copies of the parameters: values, gradient, variables, two moments; and the weights of another stage on
  // their way into a file.
  const double copies = kept.one_stage ? 5 : 6;
  // Bytes for the place of a cell among the weights and for what refers to its state.
  constexpr double of_each_cell = 64;
  // The states: that of a batch at the entry of every depth cell (adjoints may keep fewer: of every layer),
  // and one hidden layer of the reaction.
  const auto& spec = parameters.spec;
  const auto depth = equation_for(plan.equation, spec).depth;
  long all = plan.cells.empty() ? depth.cells : 0;  // over all meshes
  for (const int drawn : plan.cells) all += drawn;
  const int cells = static_cast<int>(kept.cells.count() * all / depth.cells),
            layers = std::max(1, static_cast<int>(static_cast<long>(cells) * depth.layers / depth.cells));
  const int rows_kept = plan.gradient.adjoint ? std::min(cells, layers) : cells;
  const double states = static_cast<double>(kept.tokens) * kept.samples *
                        (static_cast<double>(spec.width) * rows_kept * kept.micro_batches + spec.ffn);
  double bytes = sizeof(double) * copies * static_cast<double>(parameters.values.size()) +
                 sizeof(float) * states + of_each_cell * cells;
  // The word matrix and its gradient in float, while a batch is read.
  if (plan.precision != Precision::float64 && spec.guesses_words())
    bytes += 2.0 * sizeof(float) * spec.vocabulary * spec.width;
  largest_over_ranks({&bytes, 1}, comm);
  require_memory(comm, bytes,
                 "model.width = " + std::to_string(spec.width) + ", mesh.layers = " +
                     std::to_string(spec.layers) + ", mesh.cells = " + std::to_string(depth.cells) + ", " +
                     std::to_string(kept.micro_batches) + " x " + std::to_string(kept.samples) +
                     " samples of a batch and " + std::to_string(kept.tokens) + " tokens",
                 plan.memory);
}

namespace {

/// The classes that the samples `members` have.
std::set<int> classes_of(const data::Dataset& data, const std::vector<std::size_t>& members) {
  std::set<int> found;
  for (const std::size_t index : members) found.insert(data.label(index));
  return found;
}

/// The largest label of both splits and one: a model may have more outputs.
int classes_in_labels(const data::Dataset& train, const data::Dataset& test) {
  int largest = -1;
  for (const auto* data : {&train, &test})
    for (std::size_t index = 0; index < data->size(); ++index)
      largest = std::max(largest, data->label(index));
  return largest + 1;
}

}  // namespace

std::vector<std::size_t> labelled_samples(const data::Dataset& data) {
  std::vector<std::size_t> found;
  for (std::size_t index = 0; index < data.size(); ++index)
    if (data.label(index) >= 0) found.push_back(index);
  return found;
}

void refuse_unfit_labels(LossKind loss, const data::Dataset& train, const data::Dataset& test, int outputs) {
  const auto labelled = labelled_samples(train);
  const std::string set = "data.set = " + train.name() + ": ";
  if (labelled.empty())
    throw BadInput(set +
                   "the training samples have no labels, so that a classifier has nothing to learn; "
                   "give them labels, or set train.objective = masked to learn the words");
  const int classes = classes_in_labels(train, test);
  const auto used = static_cast<int>(classes_of(train, labelled).size());
  if (loss == LossKind::cross_entropy && used < 2)
    throw BadInput(set + "all labels of the training samples are " +
                   std::to_string(train.label(labelled.front())) +
                   ", so that there is nothing to learn: train.loss = cross_entropy needs two classes at "
                   "least; check the labels");
  // The other sets have classes of their own, of which their files may lack some.
  if (train.name() == "tokens" && outputs < classes && used < classes - used)
    throw BadInput(set + "only " + std::to_string(used) + " of " + std::to_string(classes) +
                   " classes have training samples; labels count the classes 0, 1, 2, ...: number them so "
                   "(years or other identifiers are no classes)");
}

std::string label_notes(const data::Dataset& train, const std::vector<std::size_t>& training,
                        const data::Dataset& test) {
  const int classes = classes_in_labels(train, test);
  const auto used = classes_of(train, training);
  std::ostringstream text;
  if (const auto empty = classes - static_cast<int>(used.size()); empty > 0) {
    constexpr int most_listed = 10;
    text << '\n' << empty << " of " << classes << " classes have no training samples:";
    int listed = 0;
    for (int c = 0; c < classes && listed < most_listed; ++c)
      if (!used.contains(c)) text << (listed++ == 0 ? " " : ", ") << c;
    if (empty > listed) text << " and " << empty - listed << " more";
    if (!used.contains(0)) text << " (labels count from 0)";
  }
  if (train.classes() > classes)
    text << "\nthe model has " << train.classes() << " outputs, the labels are " << classes - 1 << " at most";
  if (const auto wrong = std::ranges::count_if(
          training, [&train](std::size_t index) { return train.label(index) != train.right_label(index); });
      wrong > 0)
    text << '\n'
         << wrong << " of " << training.size() << " training samples have a wrong label (data.wrong_labels)";
  const auto labelled = labelled_samples(test);
  if (const auto without = test.size() - labelled.size(); without == test.size())
    text << "\nthe test samples have no labels: no test accuracy is possible";
  else if (without > 0)
    text << '\n' << without << " of " << test.size() << " test samples have no label and are left out";
  return text.str();
}

std::size_t copies_of(const data::Dataset& train, const std::vector<std::size_t>& training,
                      const data::Dataset& data, const std::vector<std::size_t>& members) {
  const auto key = [](const data::Dataset& of, std::size_t index) {
    std::vector<double> tokens(static_cast<std::size_t>(of.tokens_x() * of.tokens_y()) *
                               static_cast<std::size_t>(of.features()));
    of.tokens(index, tokens.data());
    // Padding does not count.
    const auto real = static_cast<std::size_t>(of.length(index)) * static_cast<std::size_t>(of.features());
    const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), real * sizeof(double));
    return std::hash<std::string_view>{}(bytes);  // 64 bits: two samples share one with chance 1e-19
  };
  std::unordered_set<std::size_t> known;
  for (const std::size_t index : training) known.insert(key(train, index));
  return static_cast<std::size_t>(
      std::ranges::count_if(members, [&](std::size_t index) { return known.contains(key(data, index)); }));
}

CoefficientLimits stable_coefficients(const TrainPlan& plan, const Parameters& parameters,
                                      const EquationCoefficients& of, const TokenLine& line) {
  constexpr double infinite = std::numeric_limits<double>::max();
  if (plan.gradient.implicit()) return {infinite, infinite};
  const auto equation = equation_for(plan.equation, parameters.spec);
  double longest = equation.depth.longest();
  for (const int cells : plan.cells)
    longest = std::max(longest, DepthCells{equation.depth.layers, cells}.longest());
  // (2 kappa axes + nu) h/c <= 1, of which each has a half where the model has both.
  const double share = of.kappa.largest > 0 && of.nu.largest > 0 ? 0.5 : 1;
  const double most = share * equation.speed / longest;
  const CoefficientLimits limits{.kappa = 0.5 * most / token_axes(line), .nu = most};
  for (const auto& view : parameters.layout.views()) {
    if (view.name != "kappa" && view.name != "nu") continue;
    const double largest = view.name == "nu" ? limits.nu : limits.kappa;
    for (const double value : parameters.view(view.path()))
      if (value > largest * (1 + 1e-12)) {
        std::ostringstream text;
        text << "equation." << view.name << " = " << value
             << ": explicit steps through depth are stable up to " << largest
             << " with these mesh.cells or train.cells; use more cells, or train.gradient = adjoint with "
                "adjoint.method = "
                "beuler";
        throw BadInput(text.str());
      }
  }
  return limits;
}

}  // namespace fluxformer
