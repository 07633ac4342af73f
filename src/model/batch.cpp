#include "model/batch.hpp"

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
  return batch;
}

void put_sample(const data::Dataset& data, Index index, long key, double weight, Index slot, Batch& batch) {
  batch.length[slot] = data.length(index);
  batch.label[slot] = data.label(index);
  batch.weight[slot] = weight;
  batch.key[slot] = key;
}

double* tokens_of(Batch& batch, Index slot) {
  return batch.input.data() + slot * (batch.input.size() / batch.label.size());
}

}  // namespace fluxformer
