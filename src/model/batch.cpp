#include "model/batch.hpp"

namespace fluxformer {

Batch empty_batch(const data::Dataset& data, int capacity) {
  const auto samples = static_cast<std::size_t>(capacity);
  const auto size = static_cast<std::size_t>(data.tokens_x() * data.tokens_y() * data.features());
  Batch batch;
  batch.input.resize(samples * size);
  batch.length.resize(samples);
  batch.label.resize(samples);
  batch.weight.assign(samples, 0.0);
  batch.key.resize(samples);
  return batch;
}

void place(const data::Dataset& data, std::size_t index, long key, double weight, std::size_t slot,
           Batch& batch) {
  batch.length[slot] = data.length(index);
  batch.label[slot] = data.label(index);
  batch.weight[slot] = weight;
  batch.key[slot] = key;
}

double* tokens_of(Batch& batch, std::size_t slot) {
  return batch.input.data() + slot * (batch.input.size() / batch.label.size());
}

}  // namespace fluxformer
