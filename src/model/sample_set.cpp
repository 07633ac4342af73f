#include "model/sample_set.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"

namespace fluxformer {

Batch empty_batch(const data::Dataset& data, int capacity) {
  const Index samples = capacity;
  const Index size = data.tokens_x() * data.tokens_y() * data.features();
  Batch batch;
  batch.input.resize(samples * size);
  batch.length.resize(samples);
  batch.label.resize(samples);
  batch.weight.assign(samples, 0.0);
  batch.key.resize(samples);
  batch.seen.resize(samples);
  return batch;
}

void put_sample(const data::Dataset& data, Index index, long key, double weight, Index slot, Batch& batch) {
  batch.length[slot] = data.length(index);
  batch.label[slot] = data.label(index);
  batch.weight[slot] = weight;
  batch.key[slot] = key;
  batch.seen[slot] = data.seen(index);
}

double* tokens_of(Batch& batch, Index slot) {
  return batch.input.data() + slot * (batch.input.size() / batch.label.size());
}

int Replica::largest_share(Index samples) const {
  const Index replicas = count;
  // ceil(samples / replicas)
  return (samples + replicas - 1) / replicas;
}

Replica replica_of(MPI_Comm comm, int ranks) {
  const int rank = mpi::rank(comm), size = mpi::size(comm);
  if (ranks < 1 || size % ranks != 0)
    throw std::invalid_argument("replicas of " + std::to_string(ranks) + " of " + std::to_string(size) +
                                " ranks");
  return {rank / ranks, size / ranks};
}

TokenLine token_line(MPI_Comm comm, const data::Dataset& data, bool periodic) {
  const int ranks = mpi::size(comm);
  const bool rows = data.tokens_y() >= ranks;
  return TokenLine::even(comm, data.tokens_x(), data.tokens_y(), rows ? 1 : ranks, rows ? ranks : 1,
                         periodic);
}

InputShape shape_of(const data::Dataset& data) {
  const bool words = data.vocabulary() > 0;
  return {words ? 0 : data.features(), data.vocabulary(), data.tokens_x() * data.tokens_y(), data.classes(),
          data.segments()};
}

namespace {

/// Throws BadInput if the word `pad` is among the `real` tokens of sample `index`, which are `tokens`.
void refuse_word(const data::Dataset& data, std::size_t index, int pad, std::span<const double> tokens) {
  const std::size_t size = data.features();
  for (std::size_t at = 0; at < tokens.size(); at += size) {
    if (tokens[at] != pad) continue;
    const auto words = data.words();
    const auto word = std::to_string(pad) + (words.empty() ? "" : " ('" + words.at(pad) + "')");
    throw BadInput("data.set = " + data.title() + ": sample " + std::to_string(index) + " has the pad word " +
                   word + " as token " + std::to_string(at / size) +
                   ", a real one: the published model would number the positions of all tokens behind it "
                   "otherwise; lengths ends a sample in front of its padding");
  }
}

}  // namespace

void require_real_tokens(const data::Dataset& data, const ModelSpec& spec) {
  const bool words = data.vocabulary() > 0 && spec.pad_word >= 0;
  if (!words && spec.class_tokens <= 1) return;  // a sample has a token
  std::vector<double> tokens(Index{data.tokens_x()} * data.tokens_y() * data.features());
  for (std::size_t index = 0; index < data.size(); ++index) {
    const int real = data.length(index);
    if (real < spec.class_tokens)
      throw BadInput("data.set = " + data.title() + ": sample " + std::to_string(index) + " has " +
                     std::to_string(real) + " real token(s), the model puts " +
                     std::to_string(spec.class_tokens) + " class tokens in the place of the first ones");
    if (!words) continue;
    data.tokens(index, tokens.data());
    refuse_word(data, index, spec.pad_word, std::span(tokens).first(Index{real} * data.features()));
  }
}

SampleSet::SampleSet(MPI_Comm comm, const TokenLine& line, const data::Dataset& data,
                     std::vector<std::size_t> members, int capacity)
    : comm_(comm),
      line_(&line),
      data_(&data),
      members_(std::move(members)),
      capacity_(capacity),
      replica_(replica_of(comm, line.size())) {}

SampleSet SampleSet::prepared(std::function<void(Batch&)> change) const {
  auto set = *this;
  set.change_ = std::move(change);
  return set;
}

SampleSet SampleSet::with(std::vector<std::size_t> others, int capacity) const {
  return {comm_, *line_, *data_, std::move(others), capacity};
}

SampleSet SampleSet::first(Index count) const {
  return with({members_.begin(), members_.begin() + count},
              std::min(capacity_, replica_.largest_share(count)))
      .prepared(change_);
}

Index SampleSet::batches() const {
  const Index step = capacity_;
  return (data::balanced_shard(size(), replica_.index, replica_.count).count + step - 1) / step;
}

void SampleSet::for_batches(const std::function<void(const Batch&)>& visit) const {
  const auto shard = data::balanced_shard(size(), replica_.index, replica_.count);
  const Index step = capacity_;
  // Each sample has the weight 1/N: the sum over all batches of all replicas is the mean over the N samples.
  const double weight = 1.0 / size();
  collectively(comm_, [&] {
    const Index count = shard.count;
    for (Index first = 0; first < count; first += step) {
      auto batch = empty_batch(*data_, capacity_);
      for (Index slot = 0; slot < step; ++slot) {
        // The last batch is filled up by copies of its first sample with the weight 0.
        const bool filler = first + slot >= count;
        const Index position = shard.first + first + (filler ? 0 : slot);
        put_sample(*data_, members_[position], position, filler ? 0.0 : weight, slot, batch);
        data_->tokens(members_[position], tokens_of(batch, slot));
      }
      if (change_) change_(batch);
      visit(batch);
    }
  });
}

}  // namespace fluxformer
