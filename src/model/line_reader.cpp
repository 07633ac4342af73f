#include "model/line_reader.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "model/depth_march.hpp"
#include "model/model_pass.hpp"
#include "operators/kept_tokens.hpp"

namespace fluxformer {

/// A model on `count` tokens in a row.
struct LineReader::Piece {
  Piece(const LineReader& of, int tokens_in_a_row)
      : count(tokens_in_a_row),
        line(TokenLine::stretch(MPI_COMM_SELF, of.tokens_, count)),
        context{.line = &line,
                .samples = of.samples_,
                .width = of.parameters_.spec.width,
                .mask = {.length = {}, .causal = true, .weight = {}},
                .dropout = nullptr,
                .kept = of.kept_.get()},
        model(make_depth_model(of.parameters_, context, of.precision_)),
        march(*model, of.parameters_.spec.depth(), 1.0),
        pass(of.parameters_, context, march, nullptr),
        u(context.size()) {}

  int count;
  TokenLine line;
  SlabContext context;
  std::unique_ptr<DepthModel> model;
  Backpropagation march;
  ModelPass pass;
  std::vector<double> u;
};

LineReader::LineReader(const Parameters& parameters, int tokens, int samples, Precision precision,
                       EarlierTokens earlier)
    : parameters_(parameters),
      tokens_(tokens),
      samples_(samples),
      precision_(precision),
      kept_(earlier == EarlierTokens::kept ? std::make_unique<KeptTokens>(tokens, samples) : nullptr) {
  if (!parameters.spec.causal)
    throw BadInput("a token sees those behind it, so that a line cannot be read from its beginning");
}

LineReader::~LineReader() = default;

const double* LineReader::read(const Batch& batch, int count) {
  const int marched = kept_ != nullptr ? count : position_ + count;
  if (piece_ == nullptr || piece_->count != marched) {
    piece_.reset();  // first: the weights of both need not fit into the memory
    piece_ = std::make_unique<Piece>(*this, marched);
  }
  auto& [_, line, context, model, march, pass, u] = *piece_;
  line.move_to(position_ + count - marched);
  if (kept_ != nullptr) kept_->begin_march();
  pass.begin(batch, ModelPass::Mode::evaluation);
  pass.embed(batch, u.data());
  pass.forward(u.data(), Keep::nothing, {});
  position_ += count;
  marched_ += marched;
  return u.data() + context.row() * (marched - count);
}

double LineReader::bytes(const ModelSpec& spec, int tokens, int samples, Precision precision,
                         EarlierTokens earlier) {
  if (earlier == EarlierTokens::again) return 0;
  const auto depth = spec.depth();
  double all = 0;  // tokens of all cells
  for (int cell = 1; cell <= depth.cells; ++cell) {
    const int window = spec.window(depth.entry(cell).layer);
    all += window > 0 ? std::min(window - 1, tokens) : tokens;
  }
  const int evaluations = spec.subflow == SubLayerIntegrator::midpoint ? 2 : 1;
  const auto number = precision == Precision::float64 ? sizeof(double) : sizeof(float);
  const double rows = spec.transport ? 1.0 * depth.cells * spec.width : 0;
  return evaluations * samples *
         (all * 2 * spec.key_width() * static_cast<double>(number) + rows * sizeof(double));
}

}  // namespace fluxformer
