#include "analysis/model_probe.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "model/depth_model.hpp"

namespace fluxformer {

std::unique_ptr<DepthMarch> layer_maps(DepthModel& model, const DepthCells& depth, DepthRange cells) {
  return std::make_unique<Backpropagation>(model, depth, 1, cells);
}

ModelProbe::ModelProbe(Parameters parameters, const TokenLine& line, int samples, Precision precision,
                       MarchMaker make)
    : parameters_(std::move(parameters)),
      context_{&line, samples, parameters_.spec.width, {{}, parameters_.spec.causal, {}}, nullptr},
      counted_(context_),
      model_(make_depth_model(parameters_, context_, precision)),
      make_(std::move(make)),
      march_(make_(*model_, parameters_.spec.depth(), all_cells(parameters_.spec.depth()))),
      pass_(parameters_, context_, *march_, nullptr),
      readout_(parameters_, context_),
      logits_(Index{samples} * parameters_.spec.classes) {}

void ModelProbe::embed(const Batch& batch, std::vector<double>& u) {
  pass_.begin(batch, ModelPass::Mode::evaluation);
  // Fillers have length 0 in counted_ only: the model itself runs on them, and needs a length of at least 1.
  counted_.mask.length = batch.length;
  if (counted_.mask.length.empty()) counted_.mask.length.assign(batch.weight.size(), context_.line->tokens());
  for (Index b = 0; b < std::ssize(batch.weight); ++b)
    if (batch.weight[b] == 0) counted_.mask.length[b] = 0;
  u.resize(context_.size());
  pass_.embed(batch, u.data());
}

void ModelProbe::embed_adjoint(const Batch& batch, std::vector<double>& u_bar, std::span<double> gradient) {
  pass_.pull_embedding(batch, u_bar.data(), gradient, Task::KeepFor::nothing);
}

const std::vector<double>& ModelProbe::forward(std::vector<double>& u, Keep keep, const RowVisitor& row) {
  pass_.forward(u.data(), keep, row);
  readout_.logits(u.data(), logits_.data(), keep == Keep::nothing ? read_ : kept_);
  return logits_;
}

void ModelProbe::adjoint(const std::vector<double>& logits_bar, std::vector<double>& u_bar,
                         std::span<double> gradient, const RowEdit& row) {
  std::fill(gradient.begin(), gradient.end(), 0.0);
  u_bar.resize(context_.size());
  // u_bar = (dz/du_M)^T z_bar, then (dG_i/du)^T from row M down to row 0
  readout_.pull(logits_bar.data(), u_bar.data(), gradient, kept_);
  pull(u_bar, gradient, row);
}

void ModelProbe::pull(std::vector<double>& u_bar, std::span<double> gradient, const RowEdit& row) {
  if (row) row(cells(), u_bar.data());
  march_->backward(u_bar.data(), gradient, [&](int i, const double*, double* bar) {
    if (row) row(i, bar);
  });
}

void ModelProbe::map(int row, const double* u, double* v) {
  model_->map(point(row), step(row), u, v, nullptr);
}

const std::vector<double>& ModelProbe::logits(const double* u) {
  readout_.logits(u, logits_.data(), read_);
  return logits_;
}

void ModelProbe::pull_logits(const std::vector<double>& logits_bar, double* u_bar) {
  readout_.pull(logits_bar.data(), u_bar, {}, read_);
}

void ModelProbe::attention(int row, const double* u, std::vector<double>& k) {
  const Index n = context_.line->tokens(), heads = spec().attention.heads;
  k.resize(context_.samples * heads * n * context_.line->block().count());
  model_->attention(point(row), step(row), u, nullptr, k.data());
}

void ModelProbe::attention_state(int row, const double* u, std::vector<double>& v) {
  v.resize(context_.size());
  model_->attention(point(row), step(row), u, v.data(), nullptr);
}

void ModelProbe::tangent(int row, const double* u, const double* v, double* out) {
  model_->push(point(row), step(row), {u, v}, {}, out, nullptr);
}

void ModelProbe::transposed(int row, const double* u, const double* w, double* out,
                            std::span<double> gradient) {
  model_->pull(point(row), step(row), u, w, out, gradient, nullptr, Order::first);
}

}  // namespace fluxformer
