#include "analysis/depth/refinement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "analysis/state_examples.hpp"
#include "base/statistics.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer::depth {
namespace {

/// Log of the sum of exp z_c over the classes c != but, and its derivative, softmax over them; z_bar may be null.
double log_sum_of_others(const double* z, int classes, int but, double scale, double* z_bar) {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int c = 0; c < classes; ++c)
    if (c != but) most = std::max(most, z[c]);
  for (int c = 0; c < classes; ++c)
    if (c != but) sum += std::exp(z[c] - most);
  if (z_bar != nullptr)
    for (int c = 0; c < classes; ++c)
      if (c != but) z_bar[c] = scale * std::exp(z[c] - most) / sum;
  return most + std::log(sum);
}

/// J of one sample from its logits; z_bar := dJ/dz if not null.
double value_of(Goal goal, const double* z, int classes, int label, double* z_bar) {
  if (z_bar != nullptr) std::fill_n(z_bar, classes, 0.0);
  switch (goal) {
    case Goal::loss:
      return loss_of({}, z, classes, label, 1, z_bar);
    case Goal::margin: {
      const double others = log_sum_of_others(z, classes, label, -1, z_bar);
      if (z_bar != nullptr) z_bar[label] = 1;
      return z[label] - others;
    }
    default:
      if (z_bar != nullptr) z_bar[label] = 1;
      return z[label];
  }
}

/// to := the march from the state `from`.
void push(DepthMarch& march, const std::vector<double>& from, std::vector<double>& to) {
  to = from;
  march.forward(to.data(), Keep::nothing, {});
}

/// bar := the transposed derivative of the march at the state `from`, times bar.
void pull(DepthMarch& march, std::vector<double> from, std::vector<double>& bar) {
  march.forward(from.data(), Keep::activations, {});
  march.backward(bar.data(), {}, {});
}

/// The loss at the words to guess of a batch, with its derivative.
class WordsToGuess {
 public:
  explicit WordsToGuess(ModelProbe& probe)
      : numbers_(std::ssize(probe.parameters().values)),
        task_(
            make_task(probe.parameters(), probe.context(), {.target = LossTarget::words}, probe.precision())),
        tape_(task_->make_tape()) {}
  /// The share of a sample, of the weight 1 in place of its own.
  double loss(Batch batch, Index sample, const double* u) {
    std::erase_if(batch.targets, [&](const WordTarget& word) { return word.sample != sample; });
    return task_->value(alone(std::move(batch)), u, *tape_).loss;
  }
  /// u_bar := the derivatives of these shares.
  void derivative(Batch batch, const double* u, double* u_bar) {
    std::vector<double> of_head(numbers_);  // a gradient, of which nothing is read
    task_->gradient(alone(std::move(batch)), u, u_bar, of_head, *tape_, Task::KeepFor::nothing);
  }
  double correct(const Batch& batch, const double* u) { return task_->value(batch, u, *tape_).correct; }

 private:
  static Batch alone(Batch batch) {
    for (auto& word : batch.targets) word.weight /= batch.weight[static_cast<std::size_t>(word.sample)];
    return batch;
  }
  Index numbers_;  // of all parameters
  std::unique_ptr<Task> task_;
  std::unique_ptr<TaskTape> tape_;
};

}  // namespace

void Goals::values(ModelProbe& probe, const Batch& batch, const double* u, std::vector<double>& value) const {
  const int classes = probe.spec().classes;
  value.assign(batch.weight.size() * goals_.size(), 0.0);
  const double* const z = classes > 0 ? probe.logits(u).data() : nullptr;
  std::optional<WordsToGuess> words;
  if (classes == 0 && probe.spec().word_head.present) words.emplace(probe);
  for_each_sample(batch, [&](Index b, Index) {
    for (Index g = 0; g < count(); ++g) {
      const auto state = sample_of(probe.counted(), u, static_cast<int>(b));
      value[b * count() + g] =
          goals_[g] == Goal::norm ? state.squaredNorm() / static_cast<double>(state.size())
          : words                 ? words->loss(batch, b, u)
                                  : value_of(goals_[g], z + b * classes, classes, batch.label[b], nullptr);
    }
  });
}

void Goals::derivative(ModelProbe& probe, const Batch& batch, Index goal, const double* u,
                       double* u_bar) const {
  const auto& context = probe.counted();
  if (goals_[goal] == Goal::norm) {
    std::fill_n(u_bar, context.size(), 0.0);
    for_each_sample(batch, [&](Index b, Index) {  // dJ/du = 2 u / (n d)
      const auto state = sample_of(context, u, static_cast<int>(b));
      const double scale = 2 / static_cast<double>(state.size());
      for (Index t = 0; t < state.rows(); ++t)
        for (Index c = 0; c < state.cols(); ++c)
          u_bar[(t * context.samples + b) * context.width + c] = scale * state(t, c);
    });
    return;
  }
  const int classes = probe.spec().classes;
  if (classes == 0) return WordsToGuess(probe).derivative(batch, u, u_bar);
  const auto& z = probe.logits(u);
  std::vector<double> z_bar(z.size(), 0.0);
  for_each_sample(batch, [&](Index b, Index) {
    value_of(goals_[goal], z.data() + b * classes, classes, batch.label[b], z_bar.data() + b * classes);
  });
  probe.pull_logits(z_bar, u_bar);
}

double Goals::correct(ModelProbe& probe, const Batch& batch, const double* u) const {
  const auto& spec = probe.spec();
  if (spec.classes > 0) return correct_share(batch, probe.logits(u), spec.classes);
  return spec.word_head.present ? WordsToGuess(probe).correct(batch, u) : missing_value;
}

GoalValues::GoalValues(ModelProbe& probe, const Goals& goals, Index samples, const GoalValues* own)
    : probe_(probe), goals_(goals), own_(own), values_(samples, goals.count()) {}

void GoalValues::show(const Batch& batch) {
  Ends here;
  probe_.embed(batch, here.first);
  here.last = here.first;
  here.logits = probe_.forward(here.last);
  correct_.local()[0] += goals_.correct(probe_, batch, here.last.data());
  goals_.values(probe_, batch, here.last.data(), value_);
  for_each_sample(batch, [&](Index b, Index place) {
    std::copy_n(value_.data() + b * goals_.count(), goals_.count(), values_.row(place));
  });
  add_distances(batch, here, own_ == nullptr ? here : own_->kept_.at(shown_++));
  if (own_ == nullptr) kept_.push_back(std::move(here));
}

void GoalValues::add_distances(const Batch& batch, const Ends& here, const Ends& own) {
  const Index classes = probe_.spec().classes;
  double* const sum = distances_.local();
  for_each_sample(batch, [&](Index b, Index) {
    const auto state = [&](const std::vector<double>& u) {
      return sample_of(probe_.counted(), u.data(), static_cast<int>(b));
    };
    const auto logits = [&](const std::vector<double>& z) {
      return Eigen::Map<const Eigen::VectorXd>(z.data() + b * classes, classes);
    };
    const double moved = (state(own.last) - state(own.first)).norm();
    const double apart = (state(here.last) - state(own.last)).norm();
    sum[0] += batch.weight[b] * (apart == 0 ? 0 : apart / moved);
    sum[1] += batch.weight[b] *
              (classes > 0 ? (logits(here.logits) - logits(own.logits)).norm() / logits(own.logits).norm()
                           : missing_value);
  });
}

void GoalValues::reduce(MPI_Comm comm) {
  values_.reduce(comm);
  correct_.reduce(comm);
  distances_.reduce(comm);
}

DepthIndicators::DepthIndicators(ModelProbe& coarse, ModelProbe& fine, const Goals& goals, Weights weights,
                                 Index samples)
    : coarse_(coarse),
      fine_(fine),
      goals_(goals),
      weights_(weights),
      table_(samples, goals.count() * coarse.cells()),
      states_(coarse.depths()),
      fine_states_(coarse.depths()),
      defects_(coarse.cells()) {
  if (fine.cells() % coarse.cells() != 0 || fine.counted().samples != coarse.counted().samples)
    throw std::invalid_argument("DepthIndicators: the fine cells must divide the coarse ones");
  const int factor = fine.cells() / coarse.cells();
  for (int cell = 1; cell <= coarse.cells(); ++cell) {
    steps_.push_back(coarse.march({cell, cell}));
    fine_steps_.push_back(fine.march({(cell - 1) * factor + 1, cell * factor}));
  }
}

void DepthIndicators::add_products(const Batch& batch, Index goal, int cell, const Slab& lambda,
                                   double scale) {
  for_each_sample(batch, [&](Index b, Index place) {
    const int of_batch = static_cast<int>(b);
    const auto product = sample_of(coarse_.counted(), lambda.data(), of_batch)
                             .cwiseProduct(sample_of(coarse_.counted(), defects_[cell - 1].data(), of_batch));
    table_.row(place)[goal * coarse_.cells() + cell - 1] += scale * product.sum();
  });
}

void DepthIndicators::show(const Batch& batch) {
  Slab u;
  fine_.embed(batch, u);
  coarse_.embed(batch, u);
  states_.front() = u;
  for (int cell = 1; cell <= coarse_.cells(); ++cell)
    push(*steps_[cell - 1], states_[cell - 1], states_[cell]);
  if (weights_ == Weights::exact) return show_fan(batch);
  // d_i = u_i - G^_i(u_{i-1})
  for (int cell = 1; cell <= coarse_.cells(); ++cell) {
    auto& defect = defects_[cell - 1];
    push(*fine_steps_[cell - 1], states_[cell - 1], defect);
    for (std::size_t j = 0; j < u.size(); ++j) defect[j] = states_[cell][j] - defect[j];
  }
  show_by_adjoints(batch);
}

void DepthIndicators::show_by_adjoints(const Batch& batch) {
  const int cells = coarse_.cells();
  const bool mean = weights_ == Weights::mean;
  if (mean) {
    fine_states_.front() = states_.front();
    for (int cell = 1; cell <= cells; ++cell)
      push(*fine_steps_[cell - 1], fine_states_[cell - 1], fine_states_[cell]);
  }
  Slab lambda(states_.front().size());
  for (Index goal = 0; goal < goals_.count(); ++goal) {
    goals_.derivative(coarse_, batch, goal, states_.back().data(), lambda.data());
    for (int cell = cells; cell >= 1; --cell) {
      add_products(batch, goal, cell, lambda, mean ? 0.5 : 1);
      if (cell == 1) break;
      if (mean)
        pull(*fine_steps_[cell - 1], states_[cell - 1], lambda);
      else
        pull(*steps_[cell - 1], states_[cell - 1], lambda);
    }
    if (!mean) continue;
    goals_.derivative(fine_, batch, goal, fine_states_.back().data(), lambda.data());
    for (int cell = cells; cell >= 1; --cell) {
      add_products(batch, goal, cell, lambda, 0.5);
      if (cell > 1) pull(*fine_steps_[cell - 1], fine_states_[cell - 1], lambda);
    }
  }
}

void DepthIndicators::show_fan(const Batch& batch) {
  // J(G^_M .. G^_{i+1}(u_i)) for i = 0 .. M: the indicators are its differences.
  std::vector<double> value, before;
  Slab u, next;
  for (int i = 0; i <= coarse_.cells(); ++i) {
    u = states_[i];
    for (int cell = i + 1; cell <= coarse_.cells(); ++cell) {
      push(*fine_steps_[cell - 1], u, next);
      u.swap(next);
    }
    goals_.values(fine_, batch, u.data(), value);
    if (i > 0)
      for_each_sample(batch, [&](Index b, Index place) {
        for (Index goal = 0; goal < goals_.count(); ++goal)
          table_.row(place)[goal * coarse_.cells() + i - 1] =
              value[b * goals_.count() + goal] - before[b * goals_.count() + goal];
      });
    before.swap(value);
  }
}

std::vector<double> DepthIndicators::mean(Index goal) const {
  const Index cells = coarse_.cells();
  std::vector<double> all(cells);
  for (Index cell = 0; cell < cells; ++cell) all[cell] = table_.mean(goal * cells + cell);
  return all;
}

std::vector<double> DepthIndicators::mean_size(Index goal) const {
  const Index cells = coarse_.cells(), columns = cells * goals_.count();
  std::vector<double> all(cells, 0.0);
  const auto& numbers = table_.numbers();
  const Index samples = std::ssize(numbers) / columns;
  for (Index sample = 0; sample < samples; ++sample)
    for (Index cell = 0; cell < cells; ++cell)
      all[cell] += std::abs(numbers[sample * columns + goal * cells + cell]) / static_cast<double>(samples);
  return all;
}

}  // namespace fluxformer::depth
