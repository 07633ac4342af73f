#include "analysis/influence/sample_gradients.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <utility>

#include "analysis/hessian/parameter_blocks.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "model/model_pass.hpp"

namespace fluxformer::influence {
namespace {

/// True for the last linear map of a model: matrix and bias.
bool of_last_map(const ParameterView& view) {
  return (view.group == "head" || view.group == "word_head") && (view.name == "W" || view.name == "b");
}

/// The ranges of the last linear map that a model's loss reads.
spectra::Block last_map(const ParameterLayout& layout) {
  const bool classifier = layout.has("head/W");
  spectra::Block entries;
  for (const auto& view : layout.views())
    if (of_last_map(view) && (view.group == "head") == classifier) {
      const PetscInt first = view.offset, size = view.size();
      entries.push_back({first, first + size});
    }
  return entries;
}

/// A batch of the sample in one slot of another, whose loss has the weight 1.
Batch alone(const Batch& batch, Index slot, Index samples) {
  const Index each = std::ssize(batch.input) / std::ssize(batch.label);
  const auto first = batch.input.begin() + slot * each;
  Batch one{.input = {first, first + each}, .length = {}, .label = {batch.label[slot]}, .weight = {1.0}};
  if (!batch.length.empty()) one.length = {batch.length[slot]};
  if (!batch.key.empty()) one.key = {batch.key[slot]};
  if (!batch.seen.empty()) one.seen = {batch.seen[slot]};
  // Weights in a set of N samples are 1/N times those of l_i.
  for (auto target : batch.targets) {
    if (target.sample != slot) continue;
    target.sample = 0;
    target.weight *= static_cast<double>(samples);
    one.targets.push_back(target);
  }
  return one;
}

}  // namespace

spectra::Block chosen_variables(const Parameters& parameters, const Trainable& trainable,
                                const std::vector<std::string>& words, const std::string& key) {
  if (words == std::vector<std::string>{"all"}) return hessian::trained_entries(trainable);
  spectra::Block entries;
  for (const auto& word : words) {
    if (word == "all") throw BadInput(key + ": all stands alone");
    const auto before = entries.size();
    if (word == "head") {
      for (const auto& range : last_map(parameters.layout)) entries.push_back(range);
    } else {
      for (const auto& block : hessian::parameter_blocks(parameters.layout, {word}, key))
        entries.insert(entries.end(), block.entries.begin(), block.entries.end());
    }
    if (entries.size() == before) throw BadInput(key + ": the model has no block '" + word + "'");
  }
  std::ranges::sort(entries, {}, &spectra::IndexRange::begin);
  // A word that was given twice counts once.
  const auto again = std::ranges::unique(entries, {}, &spectra::IndexRange::begin);
  entries.erase(again.begin(), again.end());
  spectra::check_block(entries, static_cast<PetscInt>(parameters.layout.size()));
  return entries;
}

void take_entries(std::span<const double> whole, const spectra::Block& block, std::vector<double>& own) {
  own.clear();
  for (const auto& range : block)
    own.insert(own.end(), whole.begin() + range.begin, whole.begin() + range.end);
}

void require_one_block(const SampleGradients& train, const SampleGradients& test) {
  const auto same = [](const spectra::IndexRange& a, const spectra::IndexRange& b) {
    return a.begin == b.begin && a.end == b.end;
  };
  if (!std::ranges::equal(train.block(), test.block(), same))
    throw BadInput("influence between gradients over different variables");
}

/// The model with room for one sample, and its pass.
class SampleGradients::Pass {
 public:
  Pass(const Parameters& parameters, const SampleSet& samples, const Loss& loss)
      : context_{&samples.line(), 1, parameters.spec.width, {{}, parameters.spec.causal, {}}},
        model_(make_depth_model(parameters, context_, Precision::float64)),
        loss_(loss),
        march_(*model_, parameters.spec.depth(), 1),
        pass_(parameters, context_, march_, &loss_),
        u_(context_.size()),
        u_bar_(context_.size()) {}

  /// gradient += this rank's share of that of the batch.
  Evaluation add(const Batch& batch, std::span<double> gradient) {
    pass_.begin(batch, ModelPass::Mode::evaluation);
    pass_.embed(batch, u_.data());
    pass_.forward(u_.data(), Keep::activations, {});
    // u_bar_M = dl/du_M, u_bar_{i-1} = (dG_i/du)^T u_bar_i
    const auto result = pass_.pull_task(batch, u_.data(), u_bar_.data(), gradient, Task::KeepFor::nothing);
    march_.backward(u_bar_.data(), gradient, {});
    pass_.pull_embedding(batch, u_bar_.data(), gradient, Task::KeepFor::nothing);
    return result;
  }

 private:
  SlabContext context_;
  std::unique_ptr<DepthModel> model_;
  Loss loss_;
  Backpropagation march_;
  ModelPass pass_;
  std::vector<double> u_, u_bar_;
};

SampleGradients::SampleGradients(const Parameters& parameters, const Trainable& trainable,
                                 const SampleSet& samples, const Loss& loss, const spectra::Block& block)
    : parameters_(parameters),
      trainable_(trainable),
      samples_(samples),
      block_(block),
      pass_(std::make_unique<Pass>(parameters, samples, loss)),
      whole_(parameters.layout.size()) {
  spectra::check_block(block_, static_cast<PetscInt>(parameters.layout.size()));
}

SampleGradients::~SampleGradients() = default;

bool SampleGradients::keeps() const {
  return mpi::is_root(samples_.line().comm());
}

void SampleGradients::for_each(const std::function<void(const SampleGradient&)>& visit) {
  samples_.for_batches([&](const Batch& batch) { visit_batch(batch, visit); });
}

void SampleGradients::visit_batch(const Batch& batch,
                                  const std::function<void(const SampleGradient&)>& visit) {
  for (Index slot = 0; slot < std::ssize(batch.weight); ++slot) {
    if (batch.weight[slot] == 0) continue;
    std::ranges::fill(whole_, 0.0);
    const auto result = pass_->add(alone(batch, slot, samples_.size()), whole_);
    // Ranks of a token line have parts of the gradient, and all of the loss.
    sum_over_ranks(whole_, samples_.line().comm());
    trainable_.pull(parameters_.values, whole_);  // D dl_i/dtheta
    take_entries(whole_, block_, own_);
    visit(
        {.place = Index{batch.key[slot]}, .gradient = own_, .loss = result.loss, .correct = result.correct});
  }
}

SampleNumbersOf::SampleNumbersOf(Index samples) {
  for (auto* const numbers : {&numbers_.loss, &numbers_.correct, &numbers_.norm})
    numbers->assign(samples, 0.0);
}

void SampleNumbersOf::add(const SampleGradient& sample) {
  numbers_.loss[sample.place] = sample.loss;
  numbers_.correct[sample.place] = sample.correct;
  numbers_.norm[sample.place] =
      Eigen::Map<const Eigen::VectorXd>(sample.gradient.data(), std::ssize(sample.gradient)).norm();
}

SampleNumbers SampleNumbersOf::gathered(MPI_Comm comm) {
  for (auto* const numbers : {&numbers_.loss, &numbers_.correct, &numbers_.norm})
    sum_over_ranks(*numbers, comm);
  return std::move(numbers_);
}

SampleNumbers sample_numbers(SampleGradients& gradients) {
  SampleNumbersOf numbers(gradients.samples());
  gradients.for_each([&](const SampleGradient& sample) {
    if (gradients.keeps()) numbers.add(sample);
  });
  return numbers.gathered(gradients.comm());
}

}  // namespace fluxformer::influence
