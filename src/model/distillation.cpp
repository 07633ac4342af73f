#include "model/distillation.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"
#include "model/depth_model.hpp"
#include "model/embedding.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstRows = Eigen::Map<const Matrix>;

/// visit(sample, place of the row's first number in a slab) over this rank's real tokens.
template <class Visit>
void over_real_rows(const SlabContext& context, Visit&& visit) {
  const auto& line = *context.line;
  for (int local = 0; local < line.block().count(); ++local) {
    const int token = line.global_index(line.rank(), local);
    for (int sample = 0; sample < context.samples; ++sample)
      if (context.mask.real(sample, token))
        visit(sample, Index{local * context.samples + sample} * context.width);
  }
}

}  // namespace

Teacher::Teacher(Parameters parameters, const SlabContext& context, Precision precision)
    : parameters_(std::move(parameters)), context_(context) {
  const auto& s = parameters_.spec;
  if (s.variation != DepthVariation::constant)
    throw BadInput("distill.teacher: its weights must be one set per layer, as those of a transformer");
  context_.width = s.width;
  context_.mask.causal = s.causal;
  context_.dropout = nullptr;
  model_ = make_depth_model(parameters_, context_, precision);
  const Index layers = s.layers;
  if (s.cells != 0 && s.depth() != DepthCells{s.layers, s.layers})
    throw BadInput("distill.teacher: was trained on " + std::to_string(s.cells) + " depth cells for " +
                   std::to_string(s.layers) +
                   " layers; the states of a teacher are those of one step a layer");
  states_.assign(layers + 1, std::vector<double>(context_.size()));
  attention_.resize(layers);
}

void Teacher::observe(const Batch& batch, bool attention, int last) {
  context_.mask.length = batch.length;
  const auto& s = parameters_.spec;
  const Index n = context_.line->tokens();
  // Numbers of K_l on this rank, [sample][head][local query][global key].
  const Index plans = context_.samples * s.attention.heads * Index{context_.line->block().count()} * n;
  embed(parameters_, context_, batch.input.data(), states_[0].data());
  // U(l) = G_l(U(l-1); 1), where U(0) is the teacher's own embedding of the input
  for (int layer = 1; layer <= last; ++layer) {
    const Index l = layer;
    const DepthPoint at{layer, layer - 1.0};
    states_[l].resize(states_[l - 1].size());
    model_->map(at, 1.0, states_[l - 1].data(), states_[l].data(), nullptr);
    if (!attention) continue;
    // K_l is the attention within layer l, at its input U(l-1).
    attention_[l - 1].resize(plans);
    model_->attention(at, 1.0, states_[l - 1].data(), nullptr, attention_[l - 1].data());
  }
  find_squares(last);
}

void Teacher::find_squares(int last) {
  // |U(l)|^2 of each sample over its real tokens, summed over the ranks of the line.
  squares_.assign(states_.size() * context_.samples, 0.0);
  for (Index l = 0; l <= last; ++l)
    over_real_rows(context_, [&](int sample, Index first) {
      double& square = squares_[l * context_.samples + sample];
      for (int j = 0; j < context_.width; ++j) {
        const double value = states_[l][first + j];
        square += value * value;
      }
    });
  sum_over_ranks(squares_, context_.line->comm());
}

/// Distance of attention from a target, and its gradient:
///
///   L = sum over samples b of weight_b / (H n_b) sum over heads and queries x of KL(target(x, .) || k(x, .))
///
/// with H heads, KL(p || q) = sum_y p_y log(p_y / q_y), n_b the real tokens of the sample, k the dot-product
/// soft-max kernel of attention.hpp. In double, a head at a time; the tokens are all on one rank.
class AttentionMatch {
 public:
  /// Throws BadInput for another kernel or normalisation, a causal mask, and tokens spread over ranks.
  /// `context` is borrowed; its lengths may change.
  AttentionMatch(const SlabContext& context, const AttentionSettings& settings);

  /// Returns L; `target` is [sample][head][query][key] as Attention::matrix gives it, weight_b is `weight`.
  /// u_bar (if not null) += dL/du, gradient (then not null) += dL/d(W_Q, W_K, b_Q, b_K and the LayerNorm).
  double add(const LayerWeights<const double>& weights, const double* target,
             const std::vector<double>& weight, const double* u, double* u_bar,
             const LayerWeights<double>* gradient);

 private:
  const SlabContext& context_;
  AttentionSettings settings_;
};

namespace {

/// Rows := logarithm of the soft-max of the rows, log p = logit - log sum exp(logit), from logits less their
/// maximum.
void log_soft_max(Matrix& logits) {
  logits.colwise() -= logits.rowwise().maxCoeff().eval();
  const Matrix powers = logits.array().exp();
  for (Index r = 0; r < logits.rows(); ++r) logits.row(r).array() -= std::log(powers.row(r).sum());
}

/// sum p (log p - log_q), with 0 log 0 = 0; finite also where q is too small for a double.
double divergence(const Matrix& p, const Matrix& log_q) {
  return (p.array() > 0).select(p.array() * (p.array().log() - log_q.array()), 0.0).sum();
}

}  // namespace

AttentionMatch::AttentionMatch(const SlabContext& context, const AttentionSettings& settings)
    : context_(context), settings_(settings) {
  if (settings.kernel != Kernel::dot || settings.normalisation != Normalisation::softmax ||
      context.mask.causal)
    throw BadInput(
        "distill.attention: is defined for attention.kernel = dot, attention.normalisation = softmax and "
        "attention.causal = false");
  if (context.line->size() > 1) throw BadInput("distill.attention: needs mesh.ranks_token = 1");
}

double AttentionMatch::add(const LayerWeights<const double>& weights, const double* target,
                           const std::vector<double>& weight, const double* u, double* u_bar,
                           const LayerWeights<double>* gradient) {
  const auto& theta = weights.attention;
  const Index d = context_.width, heads = settings_.heads, channels = d / heads, n = context_.line->tokens();
  const double scale = 1 / std::sqrt(static_cast<double>(channels));
  const ConstRows w_qk(theta.w_qkv, 2 * d, d);
  const Eigen::Map<const Eigen::RowVectorXd> b_qk(theta.b_qkv, 2 * d);
  const Eigen::OuterStride<> token(context_.row());
  double value = 0;
  for (Index b = 0; b < context_.samples; ++b) {
    if (weight[b] == 0) continue;
    const Index real = context_.real_tokens(static_cast<int>(b));
    const double share = weight[b] / (heads * real);
    Matrix x(real, d);  // N(u)
    if (settings_.layer_norm)
      layer_norm<double>(u + b * d, context_.row(), real, d, theta.norm, theta.gain, theta.bias, x.data(), d);
    else
      x = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>(u + b * d, real, d, token);
    Matrix qk = x * w_qk.transpose();
    qk.rowwise() += b_qk;
    Matrix qk_bar(real, 2 * d);
    for (Index head = 0; head < heads; ++head) {
      const auto q = qk.middleCols(head * channels, channels);
      const auto k = qk.middleCols(d + head * channels, channels);
      Matrix log_p = scale * q * k.transpose();
      log_soft_max(log_p);
      const Matrix wanted = ConstRows(target + (b * heads + head) * n * n, n, n).topLeftCorner(real, real);
      value += share * divergence(wanted, log_p);
      if (u_bar == nullptr) continue;
      // The derivative of KL(target || p) in the logits of a row is p - target.
      const Matrix p = log_p.array().exp();
      const Matrix logits_bar = share * scale * (p - wanted);
      qk_bar.middleCols(head * channels, channels).noalias() = logits_bar * k;
      qk_bar.middleCols(d + head * channels, channels).noalias() = logits_bar.transpose() * q;
    }
    if (u_bar == nullptr) continue;
    // q, k = W_{Q,K} N(u) + b_{Q,K}
    const auto& to = gradient->attention;
    Eigen::Map<Matrix>(to.w_qkv, 2 * d, d).noalias() += qk_bar.transpose() * x;
    // (Eigen's colwise().sum() adds in an order that depends on where the sums lie in memory.)
    simd::add_rows(qk_bar.data(), real, 2 * d, to.b_qkv);
    const Matrix x_bar = qk_bar * w_qk;
    if (settings_.layer_norm)
      layer_norm_adjoint<double>(u + b * d, context_.row(), x_bar.data(), d, real, d, theta.norm, theta.gain,
                                 1.0, u_bar + b * d, to.gain, to.bias);
    else
      Eigen::Map<Matrix, 0, Eigen::OuterStride<>>(u_bar + b * d, real, d, token) += x_bar;
  }
  return value;
}

Distillation::Distillation(Teacher& teacher, const Parameters& student, const SlabContext& context,
                           const DepthCells& depth, Weights weights, DepthRange cells)
    : teacher_(teacher),
      context_(context),
      depth_(depth),
      weights_(weights),
      layer_rows_(depth.layer_rows("with distill.teacher")),
      last_layer_(depth.entry(cells.last).layer),
      student_(student) {
  const auto &mine = student.spec, &theirs = teacher.spec();
  const auto same = [](const char* key, int student_has, int teacher_has) {
    if (student_has != teacher_has)
      throw BadInput(std::string("distill.teacher: ") + key + " = " + std::to_string(teacher_has) +
                     " there, but " + std::to_string(student_has) + " here");
  };
  same("mesh.layers", depth.layers, theirs.layers);
  if (weights.hidden > 0) same("model.width", mine.width, theirs.width);
  if (weights.attention == 0) return;
  same("attention.heads", mine.attention.heads, theirs.attention.heads);
  if (mine.order == SubLayerOrder::macaron)
    throw BadInput("distill.attention: is not defined for depth.order = macaron");
  const auto& attention = theirs.attention;
  if (attention.kernel != mine.attention.kernel || attention.normalisation != mine.attention.normalisation ||
      theirs.causal != mine.causal)
    throw BadInput(
        "distill.attention: the teacher's attention has a different kernel, normalisation or mask");
  for (const auto* spec : {&mine, &theirs})
    if (spec->attention.key_groups() != spec->attention.heads || spec->attention.head_width > 0 ||
        spec->attention.qk_norm || spec->attention.rotary.layout != RotaryLayout::none ||
        !spec->windows.empty() || !spec->qkv_have_biases() || !spec->first_norm)
      throw BadInput(
          "distill.attention: is defined for attention with biases, a group of keys for each head, and no "
          "attention.head_width, qk_norm, rotary or window");
  match_ = std::make_unique<AttentionMatch>(context, mine.attention);
}

Distillation::~Distillation() = default;

double Distillation::add(int row, const Batch& batch, const double* u, double* u_bar,
                         std::span<double> gradient) {
  const int layer = layer_ending_at(row, layer_rows_);
  double value = 0;
  if (weights_.hidden > 0 && layer > 0) value += add_hidden(layer, batch, u, u_bar);
  if (match_ && layer < depth_.layers) value += add_attention(layer + 1, batch, u, u_bar, gradient);
  return value;
}

double Distillation::add_hidden(int layer, const Batch& batch, const double* u, double* u_bar) const {
  // value = (weight / S) sum_b w_b |u_b(l) - U_b(l)|^2 / |U_b(l)|^2 over the samples b (docs/model.md,
  // section 7), where |U_b|^2 is over all real tokens of the line;
  // u_bar_b += 2 (weight / S) w_b (u_b - U_b) / |U_b|^2
  const auto& target = teacher_.state(layer);
  double value = 0;
  over_real_rows(context_, [&](int sample, Index first) {
    const double share =
        weights_.hidden * batch.weight[sample] / (depth_.layers * teacher_.square(layer, sample));
    for (Index j = first; j < first + context_.width; ++j) {
      const double error = u[j] - target[j];
      value += share * error * error;
      if (u_bar != nullptr) u_bar[j] += 2 * share * error;
    }
  });
  return value;
}

double Distillation::add_attention(int layer, const Batch& batch, const double* u, double* u_bar,
                                   std::span<double> gradient) {
  const DepthPoint at{layer, layer - 1.0};
  // value = (weight / S) sum_b w_b KL(K_l || k_l) over the samples b, the mean over heads and queries; k_l is
  // the student's attention at the entry of the layer, s = l - 1.
  auto weight = batch.weight;
  for (double& w : weight) w *= weights_.attention / depth_.layers;
  const auto weights = student_.at(at);
  if (u_bar == nullptr)
    return match_->add(weights, teacher_.attention(layer).data(), weight, u, nullptr, nullptr);
  const auto collected = student_.begin_gradient(at, gradient);
  const double value = match_->add(weights, teacher_.attention(layer).data(), weight, u, u_bar, &collected);
  student_.finish_gradient(at, gradient);
  return value;
}

}  // namespace fluxformer
