#include "drivers/evolve/inflow.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

Inflow::Inflow(const InflowPlan& plan, MPI_Comm comm)
    : source_(plan.source), samples_(plan.samples), first_(plan.first), seed_(plan.seed) {
  if (source_ == "data") {
    data_ = open_data(plan.data, plan.split, known_input(plan.data, comm), comm);
    if (first_ + static_cast<std::size_t>(samples_) > data_->size())
      throw BadInput(
          "inflow.first + inflow.samples = " + std::to_string(first_ + static_cast<std::size_t>(samples_)) +
          ": " + plan.data.set.name + " has " + std::to_string(data_->size()) + " samples");
    if (data_->padded() && plan.every > 0)
      throw BadInput("inflow.every: texts of different lengths cannot follow each other through depth");
    tokens_x_ = data_->tokens_x();
    tokens_y_ = data_->tokens_y();
  }
  const auto choose = [&](const char* key, int asked, int& tokens) {
    if (data_ != nullptr && asked > 0 && asked != tokens)
      throw BadInput(std::string(key) + " = " + std::to_string(asked) + ": the data has " +
                     std::to_string(tokens) + "; leave the key out");
    if (data_ == nullptr) tokens = std::max(1, asked);
  };
  choose("mesh.tokens_x", plan.tokens_x, tokens_x_);
  choose("mesh.tokens_y", plan.tokens_y, tokens_y_);
}

InputShape Inflow::shape() const {
  if (data_ == nullptr) return {};
  return shape_of(*data_);
}

std::vector<int> Inflow::lengths() const {
  std::vector<int> list;
  if (data_ == nullptr || !data_->padded()) return list;
  for (const auto index : indices(0)) list.push_back(data_->length(index));
  return list;
}

std::vector<std::size_t> Inflow::indices(long block) const {
  std::vector<std::size_t> list;
  for (int b = 0; b < samples_; ++b) {
    const std::size_t index = first_ + static_cast<std::size_t>(block) * static_cast<std::size_t>(samples_) +
                              static_cast<std::size_t>(b);
    list.push_back(data_ == nullptr ? index : index % data_->size());
  }
  return list;
}

void Inflow::fill(const Parameters& parameters, const SlabContext& context, long block, double* slab) const {
  const auto which = indices(block);
  if (data_ != nullptr)
    fill_with_samples(*data_, which, parameters, context, slab);
  else if (source_ == "none")
    std::fill_n(slab, context.size(), 0.0);
  else
    fill_with_noise(which, seed_, context, slab);
}

}  // namespace fluxformer
