#include "model/model_pass.hpp"

#include <utility>

namespace fluxformer {
namespace {

constexpr std::uint64_t embedding_site = 0;  // the site of dropout at the embedding; layers have the others

}  // namespace

ModelPass::ModelPass(const Parameters& parameters, SlabContext& context, DepthMarch& march, const Loss* loss)
    : context_(context), march_(march) {
  if (march.range().first == 1) embedding_.emplace(parameters, context);
  if (loss == nullptr || march.range().last < march.depth().cells) return;
  task_ = make_task(parameters, context, *loss, march.model().precision());
  task_tape_ = task_->make_tape();
}

void ModelPass::set_edit(RowEdit edit) {
  edit_ = edit;
  march_.set_edit(std::move(edit));
}

void ModelPass::begin(const Batch& batch, Mode mode) {
  context_.mask.length = batch.length;
  if (dropout_ != nullptr) dropout_->set_keys(mode == Mode::training ? batch.key : std::vector<long>{});
}

void ModelPass::embed(const Batch& batch, double* u) {
  if (!embedding_) return;
  // u_0 = D e(x), with the mask D of dropout in training
  embedding_->forward(batch.input.data(), u, embedded_);
  if (dropout_ != nullptr) dropout_->apply(context_, embedding_site, u);
  if (edit_) edit_(0, u);
}

void ModelPass::forward(double* u, Keep keep, const RowVisitor& row) {
  if (row) row(march_.range().first - 1, u);
  march_.forward(u, keep, row);
}

void ModelPass::pull_embedding(const Batch& batch, double* u_bar, std::span<double> gradient,
                               Task::KeepFor keep_for) {
  if (!embedding_) return;
  // The mask is diagonal, so that it is its own transpose.
  if (dropout_ != nullptr) dropout_->apply(context_, embedding_site, u_bar);
  if (keep_for == Task::KeepFor::products)
    embedding_->adjoint(batch.input.data(), u_bar, gradient, embedded_);
  else
    embedding_->pull(batch.input.data(), u_bar, gradient, embedded_);
}

void ModelPass::push_embedding(const Batch& batch, const ParameterVector& direction, double* u_dot) {
  // u_dot_0 = (du_0/dtheta) theta_dot: the input itself does not move.
  embedding_->tangent(direction, batch.input.data(), u_dot, embedded_);
}

void ModelPass::pull_embedding_along(const Batch& batch, const ParameterVector& direction,
                                     const double* w_dot, std::span<double> product) {
  embedding_->adjoint_tangent(direction, batch.input.data(), w_dot, product, embedded_);
}

}  // namespace fluxformer
