#include "training/pipeline.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/phases.hpp"

namespace fluxformer {
namespace {

constexpr int state_tag = 1, adjoint_tag = 2;

template <class T>
std::vector<T> part(const std::vector<T>& all, std::size_t first, std::size_t count) {
  if (all.empty()) return {};
  const auto begin = all.begin() + first;
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

/// Lengthens a list to `count` by copies of its last entry.
template <class T>
void fill_up(std::vector<T>& list, std::size_t count) {
  if (!list.empty()) list.resize(count, list.back());
}

}  // namespace

int micro_batch_size(int samples, int micro_batches) {
  return (samples + micro_batches - 1) / micro_batches;
}

std::vector<Batch> cut_batch(const Batch& batch, int micro_batches) {
  const std::size_t samples = batch.label.size(), each = batch.input.size() / samples;
  if (static_cast<std::size_t>(micro_batches) > samples)
    throw std::invalid_argument("more micro-batches than samples");
  const auto size = static_cast<std::size_t>(micro_batch_size(static_cast<int>(samples), micro_batches));
  std::vector<Batch> cut;
  for (int k = 0; k < micro_batches; ++k) {
    const auto shard = data::balanced_shard(samples, k, micro_batches);
    Batch micro{.input = part(batch.input, shard.first * each, shard.count * each),
                .length = part(batch.length, shard.first, shard.count),
                .label = part(batch.label, shard.first, shard.count),
                .weight = part(batch.weight, shard.first, shard.count),
                .key = part(batch.key, shard.first, shard.count)};
    for (auto word : batch.masked) {
      const auto slot = static_cast<std::size_t>(word.sample);
      if (slot < shard.first || slot >= shard.first + shard.count) continue;
      word.sample -= static_cast<int>(shard.first);
      micro.masked.push_back(word);
    }
    while (micro.label.size() < size) {
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

Pipeline::Neighbour::Neighbour(MPI_Comm comm, int rank, int tag_in, int tag_out, std::size_t slots,
                               std::size_t size)
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
    check_mpi(MPI_Irecv(next_.data(), static_cast<int>(next_.size()), MPI_DOUBLE, rank_, tag_in_, comm_,
                        &request_));
}

void Pipeline::Neighbour::take(std::vector<double>& slab) {
  if (!exists()) return;
  const InPhase phase(Phase::pipeline);
  check_mpi(MPI_Wait(&request_, MPI_STATUS_IGNORE));
  std::swap(slab, next_);
  --coming_;
  post();
}

void Pipeline::Neighbour::send(std::size_t slot, const std::vector<double>& slab) {
  if (!exists()) return;
  const InPhase phase(Phase::pipeline);
  check_mpi(MPI_Isend(slab.data(), static_cast<int>(slab.size()), MPI_DOUBLE, rank_, tag_out_, comm_,
                      &sent_[slot]));
  count_message(slab.size() * sizeof(double));
}

void Pipeline::Neighbour::release(std::size_t slot) {
  if (!exists()) return;
  const InPhase phase(Phase::pipeline);
  check_mpi(MPI_Wait(&sent_[slot], MPI_STATUS_IGNORE));
}

Pipeline::Pipeline(MPI_Comm depth, std::vector<GradientEvaluator*> slots, PipelineSettings settings)
    : settings_(settings),
      slots_(std::move(slots)),
      passes_(passes_of(settings.schedule, mpi::rank(depth), mpi::size(depth), settings.micro_batches)),
      below_(depth, mpi::is_root(depth) ? MPI_PROC_NULL : mpi::rank(depth) - 1, state_tag, adjoint_tag,
             slots_.size(), slots_.front()->u().size()),
      above_(depth, mpi::rank(depth) + 1 == mpi::size(depth) ? MPI_PROC_NULL : mpi::rank(depth) + 1,
             adjoint_tag, state_tag, slots_.size(), slots_.front()->u().size()) {}

void Pipeline::run(const Pass& pass, const Batch& batch, std::span<double> gradient,
                   const GradientReady& ready) {
  const auto slot = static_cast<std::size_t>(pass.micro_batch) % slots_.size();
  auto& evaluator = *slots_[slot];
  const bool forward = pass.way == Pass::Way::forward;
  auto &from = forward ? below_ : above_, &to = forward ? above_ : below_;
  to.release(slot);
  from.take(forward ? evaluator.u() : evaluator.u_bar());
  if (failure_ == nullptr) {
    try {
      if (forward) {
        evaluator.forward(batch);
      } else {
        const auto part = evaluator.backward(batch, gradient, ready);
        sum_.loss += part.loss;
        sum_.depth_loss += part.depth_loss;
        sum_.correct += part.correct;
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
  } else if (ready) {
    evaluator.pass_on(ready);
  }
  to.send(slot, forward ? evaluator.u() : evaluator.u_bar());
}

Evaluation Pipeline::gradient(const Batch& batch, std::span<double> gradient, const GradientReady& ready) {
  std::fill(gradient.begin(), gradient.end(), 0.0);
  const int parts = settings_.micro_batches;
  below_.expect(parts);
  above_.expect(parts);
  sum_ = {};
  failure_ = nullptr;
  std::vector<Batch> cut;
  try {
    if (parts > 1) cut = cut_batch(batch, parts);
  } catch (...) {
    failure_ = std::current_exception();
  }
  for (const auto& pass : passes_) {
    const bool final = pass.way == Pass::Way::backward && pass.micro_batch + 1 == parts;
    const auto& micro = cut.empty() ? batch : cut[pass.micro_batch];
    run(pass, micro, gradient, final ? ready : GradientReady{});
  }
  settle();
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  return sum_;
}

Evaluation Pipeline::evaluate(const Batch& batch) {
  auto& evaluator = *slots_.front();
  above_.release(0);
  below_.expect(1);
  below_.take(evaluator.u());
  Evaluation result;
  failure_ = nullptr;
  try {
    result = evaluator.evaluate(batch, LossTerms::labels);
  } catch (...) {
    failure_ = std::current_exception();
  }
  above_.send(0, evaluator.u());
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  return result;
}

void Pipeline::pass_on() {
  above_.release(0);
  below_.expect(1);
  below_.take(slots_.front()->u());
  above_.send(0, slots_.front()->u());
}

void Pipeline::settle() {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    below_.release(slot);
    above_.release(slot);
  }
}

}  // namespace fluxformer
