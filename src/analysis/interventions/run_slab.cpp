#include "analysis/interventions/run_slab.hpp"

#include <algorithm>

#include "model/embedding.hpp"

namespace fluxformer::interventions {

RunSlab::RunSlab(const Parameters& parameters, const TokenLine& line, int runs, Precision precision,
                 const MarchMaker& march)
    : parameters_(parameters),
      context_{&line, runs, parameters.spec.width, {{}, parameters.spec.causal, {}}, nullptr},
      model_(make_depth_model(parameters, context_, precision)),
      depth_(parameters.spec.depth()),
      make_(march),
      marches_(depth_.cells),
      goal_(make_goal(parameters, context_)) {
  require_marchable(parameters.spec, depth_, 1);
}

void RunSlab::show(int length) {
  // Without padding there are no lengths, as in a pass of such data.
  context_.mask.length.clear();
  if (length < context_.line->tokens()) context_.mask.length.assign(context_.samples, length);
}

void RunSlab::embed(const Batch& batch, std::vector<double>& u) {
  show(batch.length.empty() ? context_.line->tokens() : batch.length.front());
  const Index numbers = Index{context_.line->tokens()} * parameters_.spec.input_size();
  std::vector<double> input;
  for (int run = 0; run < runs(); ++run)
    input.insert(input.end(), batch.input.begin(), batch.input.begin() + numbers);
  u.resize(size());
  fluxformer::embed(parameters_, context_, input.data(), u.data());
}

DepthMarch& RunSlab::from(int face) {
  auto& march = marches_.at(face);
  if (march == nullptr) march = make_(*model_, depth_, {face + 1, depth_.cells});
  return *march;
}

const std::vector<double>& RunSlab::run_on(int face, const Question& question, std::vector<double>& u) {
  if (face < depth_.cells) from(face).forward(u.data(), Keep::nothing, {});
  return goal_->value(question, u.data());
}

void RunSlab::put(const RowMatrix& rows, int run, std::vector<double>& slab) const {
  const Index width = context_.width;
  for (Index token = 0; token < rows.rows(); ++token)
    std::copy_n(rows.row(token).data(), width, slab.begin() + (token * runs() + run) * width);
}

RowMatrix RunSlab::get(const std::vector<double>& slab, int run) const {
  const Index width = context_.width;
  RowMatrix rows(context_.line->block().count(), width);
  for (Index token = 0; token < rows.rows(); ++token)
    std::copy_n(slab.begin() + (token * runs() + run) * width, width, rows.row(token).data());
  return rows;
}

}  // namespace fluxformer::interventions
