#include "training/pipeline.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/phases.hpp"

namespace fluxformer {
namespace {

/// Number of forward passes before the first backward pass, without the one of that micro-batch itself.
int warm_up(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  // 1F1B: stage p of P, counted from 0, has P - 1 - p stages above it. So many micro-batches go up before it
  // takes one up and one down in turns.
  return schedule == PipelineSchedule::gpipe ? micro_batches : std::min(micro_batches, stages - 1 - stage);
}

}  // namespace

std::vector<Pass> passes_of(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  std::vector<Pass> passes;
  // Forward passes to fill the pipeline, then one forward and one backward in turns until no micro-batch is
  // left.
  const int ahead = warm_up(schedule, stage, stages, micro_batches);
  int next = 0;
  for (; next < ahead; ++next) passes.push_back({Pass::Way::forward, next});
  for (int back = 0; back < micro_batches; ++back) {
    if (next < micro_batches) passes.push_back({Pass::Way::forward, next++});
    passes.push_back({Pass::Way::backward, back});
  }
  return passes;
}

int most_in_flight(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  // A slot is free again after the backward pass of its micro-batch, which the next forward pass waits for.
  return std::min(micro_batches, warm_up(schedule, stage, stages, micro_batches) + 1);
}

double bubble(int stages, int micro_batches) {
  // The first stage idles for stages - 1 of micro_batches + stages - 1 slots of time.
  return static_cast<double>(stages - 1) / (micro_batches + stages - 1);
}

PipelineSchedule pipeline_schedule_named(const std::string& word) {
  if (word == "1f1b") return PipelineSchedule::one_f_one_b;
  if (word == "gpipe") return PipelineSchedule::gpipe;
  throw BadInput("train.pipeline = " + word + ": 1f1b or gpipe");
}

namespace {

constexpr int state_tag = 1, adjoint_tag = 2;

template <class T>
std::vector<T> part(const std::vector<T>& all, Index first, Index count) {
  if (all.empty()) return {};
  const auto begin = all.begin() + first;
  return {begin, begin + count};
}

/// Lengthens a list to `count` by copies of its last entry.
template <class T>
void fill_up(std::vector<T>& list, Index count) {
  if (!list.empty()) list.resize(count, list.back());
}

}  // namespace

int micro_batch_size(int samples, int micro_batches) {
  // ceil(samples / micro_batches)
  return (samples + micro_batches - 1) / micro_batches;
}

std::vector<Batch> cut_batch(const Batch& batch, int micro_batches) {
  const Index samples = batch.label.size(), each = batch.input.size() / samples;
  if (micro_batches > samples) throw std::invalid_argument("more micro-batches than samples");
  const Index size = micro_batch_size(samples, micro_batches);
  std::vector<Batch> cut;
  for (int k = 0; k < micro_batches; ++k) {
    // Micro-batch k has the samples first .. first + count - 1, of which `each` numbers are the tokens.
    const auto shard = data::balanced_shard(samples, k, micro_batches);
    const Index first = shard.first, count = shard.count;
    Batch micro{.input = part(batch.input, first * each, count * each),
                .length = part(batch.length, first, count),
                .label = part(batch.label, first, count),
                .weight = part(batch.weight, first, count),
                .key = part(batch.key, first, count)};
    for (auto word : batch.targets) {
      const Index slot = word.sample;
      if (slot < first || slot >= first + count) continue;
      // A word to guess goes with its sample, which is counted from the first of the micro-batch.
      word.sample -= first;
      micro.targets.push_back(word);
    }
    // Copies of the last sample with weight 0: all micro-batches have one size.
    while (std::ssize(micro.label) < size) {
      const std::vector<double> last(micro.input.end() - each, micro.input.end());
      micro.input.insert(micro.input.end(), last.begin(), last.end());
      micro.label.push_back(micro.label.back());
      micro.weight.push_back(0);
    }
    fill_up(micro.length, size);
    fill_up(micro.key, size);
    cut.push_back(std::move(micro));
  }
  return cut;
}

Pipeline::Neighbour::Neighbour(MPI_Comm comm, int rank, int tag_in, int tag_out, Index slots, Index size)
    : comm_(comm), rank_(rank), tag_in_(tag_in), tag_out_(tag_out), sent_(slots, MPI_REQUEST_NULL) {
  if (exists()) next_.resize(size);
}

void Pipeline::Neighbour::expect(int slabs) {
  if (!exists()) return;
  coming_ = slabs;
  post();
}

void Pipeline::Neighbour::post() {
  if (coming_ > 0)
    check_mpi(MPI_Irecv(next_.data(), next_.size(), MPI_DOUBLE, rank_, tag_in_, comm_, &request_));
}

void Pipeline::Neighbour::take(std::vector<double>& slab) {
  if (!exists()) return;
  const InPhase phase(Phase::pipeline);
  // The two buffers change places, so that nothing is copied; the next receive is posted at once.
  check_mpi(MPI_Wait(&request_, MPI_STATUS_IGNORE));
  std::swap(slab, next_);
  --coming_;
  post();
}

void Pipeline::Neighbour::send(Index slot, const std::vector<double>& slab) {
  if (!exists()) return;
  const InPhase phase(Phase::pipeline);
  check_mpi(MPI_Isend(slab.data(), slab.size(), MPI_DOUBLE, rank_, tag_out_, comm_, &sent_[slot]));
  count_message(slab.size() * sizeof(double));
}

void Pipeline::Neighbour::release(Index slot) {
  if (!exists()) return;
  const InPhase phase(Phase::pipeline);
  check_mpi(MPI_Wait(&sent_[slot], MPI_STATUS_IGNORE));
}

namespace {

std::vector<Slot> make_slots(int count, const std::function<Slot()>& make_slot) {
  std::vector<Slot> slots(count);
  std::ranges::generate(slots, make_slot);
  return slots;
}

}  // namespace

Pipeline::Pipeline(MPI_Comm depth, PipelineSettings settings, const std::function<Slot()>& make_slot)
    : settings_(settings),
      passes_(passes_of(settings.schedule, mpi::rank(depth), mpi::size(depth), settings.micro_batches)),
      slots_(make_slots(
          most_in_flight(settings.schedule, mpi::rank(depth), mpi::size(depth), settings.micro_batches),
          make_slot)),
      below_(depth, mpi::is_root(depth) ? MPI_PROC_NULL : mpi::rank(depth) - 1, state_tag, adjoint_tag,
             slots_.size(), slots_.front().evaluator->u().size()),
      above_(depth, mpi::rank(depth) + 1 == mpi::size(depth) ? MPI_PROC_NULL : mpi::rank(depth) + 1,
             adjoint_tag, state_tag, slots_.size(), slots_.front().evaluator->u().size()) {}

void Pipeline::run(const Pass& pass, const Batch& batch, std::span<double> gradient,
                   const GradientReady& ready) {
  // A slot keeps the activations of a micro-batch from its forward to its backward pass.
  const Index slot = pass.micro_batch % slots_.size();
  auto& evaluator = *slots_[slot].evaluator;
  const bool forward = pass.way == Pass::Way::forward;
  auto &from = forward ? below_ : above_, &to = forward ? above_ : below_;
  // A state comes from below and goes up, an adjoint comes from above and goes down. The slot is free once
  // its last message has left.
  to.release(slot);
  from.take(forward ? evaluator.u() : evaluator.u_bar());
  if (failure_.failed()) {
    if (ready) evaluator.report_all(ready);
  } else if (forward) {
    failure_.attempt([&] { evaluator.forward(batch); });
  } else {
    failure_.attempt([&] {
      const auto part = evaluator.backward(batch, gradient, ready);
      sum_.loss += part.loss;
      sum_.depth_loss += part.depth_loss;
      sum_.correct += part.correct;
    });
  }
  to.send(slot, forward ? evaluator.u() : evaluator.u_bar());
}

Evaluation Pipeline::gradient(const Batch& batch, std::span<double> gradient, const GradientReady& ready) {
  std::fill(gradient.begin(), gradient.end(), 0.0);
  const int parts = settings_.micro_batches;
  below_.expect(parts);
  above_.expect(parts);
  sum_ = {};
  // After a failure this stage computes nothing, but sends and receives as before.
  failure_ = {};
  std::vector<Batch> cut;
  failure_.attempt([&] {
    if (parts > 1) cut = cut_batch(batch, parts);
  });
  // The gradient is complete with the last backward pass: only this one reports its pieces.
  for (const auto& pass : passes_) {
    const bool final = pass.way == Pass::Way::backward && pass.micro_batch + 1 == parts;
    const auto& micro = cut.empty() ? batch : cut[pass.micro_batch];
    run(pass, micro, gradient, final ? ready : GradientReady{});
  }
  wait_all();
  failure_.rethrow();
  return sum_;
}

Evaluation Pipeline::evaluate(const Batch& batch) {
  auto& evaluator = *slots_.front().evaluator;
  // One slot: the state of the batch before must have left it.
  above_.release(0);
  below_.expect(1);
  below_.take(evaluator.u());
  Evaluation result;
  failure_ = {};
  failure_.attempt([&] { result = evaluator.evaluate(batch, LossTerms::labels); });
  above_.send(0, evaluator.u());
  failure_.rethrow();
  return result;
}

void Pipeline::forward_only() {
  auto& u = slots_.front().evaluator->u();
  above_.release(0);
  below_.expect(1);
  below_.take(u);
  above_.send(0, u);
}

void Pipeline::wait_all() {
  for (Index slot = 0; slot < std::ssize(slots_); ++slot) {
    below_.release(slot);
    above_.release(slot);
  }
}

}  // namespace fluxformer
