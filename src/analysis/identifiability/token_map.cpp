#include "analysis/identifiability/token_map.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"
#include "base/random.hpp"
#include "training/optimiser.hpp"
#include "training/schedule.hpp"

namespace fluxformer::identifiability {

using Eigen::MatrixXd;
using Eigen::RowVectorXd;
using Eigen::VectorXd;

Matrix LinearMap::operator()(const Matrix& states) const {
  Matrix g(states.rows(), slope.cols());
  // States are rows: row i of the result is u_i^T G + b.
  g.noalias() = states * slope;
  g.rowwise() += offset;
  return g;
}

RidgeSums::RidgeSums(int width, int described)
    : RidgeSums(RowVectorXd::Zero(width).eval(), RowVectorXd::Zero(described).eval()) {}

RidgeSums::RidgeSums(RowVectorXd states, RowVectorXd descriptions)
    : state_(std::move(states)), description_(std::move(descriptions)) {
  const Index d = state_.size(), m = description_.size();
  // The sums stand one after the other: tokens (1), u (d), x (m), |x|^2 (1), u u^T (d x d), u x^T (d x m).
  described_ = 1 + d;
  squares_ = described_ + m;
  own_ = squares_ + 1;
  cross_ = own_ + d * d;
  set_size(cross_ + d * m);
}

void RidgeSums::add(const Matrix& states, const Matrix& descriptions) {
  const Index d = state_.size(), m = description_.size();
  if (states.rows() != descriptions.rows() || states.cols() != d || descriptions.cols() != m)
    throw BadInput("states and descriptions of a sample do not have the shapes of the regression");
  // Moments are taken about the references, best near the means: differences of large sums would cancel.
  const Matrix u = states.rowwise() - state_, x = descriptions.rowwise() - description_;
  double* const s = local();
  s[0] += u.rows();
  // Sums of rows have memory of their own at first: their order depends on where they lie.
  Eigen::Map<RowVectorXd>(s + 1, d) += u.colwise().sum().eval();
  Eigen::Map<RowVectorXd>(s + described_, m) += x.colwise().sum().eval();
  s[squares_] += x.squaredNorm();
  // sum u u^T (d x d) and sum u x^T (d x m) over the tokens, which are rows here
  Eigen::Map<Matrix>(s + own_, d, d).noalias() += u.transpose() * u;
  Eigen::Map<Matrix>(s + cross_, d, m).noalias() += u.transpose() * x;
}

RowVectorXd RidgeSums::mean_state() const {
  return state_ + sum(1, state_.size()) / tokens();
}

RowVectorXd RidgeSums::mean_description() const {
  return description_ + sum(described_, description_.size()) / tokens();
}

double RidgeSums::state_variance() const {
  const Index d = state_.size();
  const Eigen::Map<const Matrix> own(total().data() + own_, d, d);
  // tr(C)/d = (mean |u|^2 - |mean u|^2)/d, with u less the reference
  const double moved = (sum(1, d) / tokens()).squaredNorm();
  return (own.trace() / tokens() - moved) / d;
}

double RidgeSums::description_variance() const {
  const Index m = description_.size();
  // (mean |x|^2 - |mean x|^2)/m, with x less the reference
  const double moved = (sum(described_, m) / tokens()).squaredNorm();
  return (total()[squares_] / tokens() - moved) / m;
}

std::vector<LinearMap> RidgeSums::solve(const std::vector<double>& lambdas) const {
  const Index d = state_.size(), m = description_.size();
  if (tokens() == 0) throw NumericalFailure("a linear map is fitted to no tokens");
  const RowVectorXd u = sum(1, d) / tokens(), x = sum(described_, m) / tokens();
  // C = mean(u u^T) - mean(u) mean(u)^T, B = mean(u x^T) - mean(u) mean(x)^T
  const MatrixXd c = Eigen::Map<const Matrix>(total().data() + own_, d, d) / tokens() - u.transpose() * u;
  const MatrixXd b = Eigen::Map<const Matrix>(total().data() + cross_, d, m) / tokens() - u.transpose() * x;
  if (!c.allFinite() || !b.allFinite())
    throw NumericalFailure("a linear map is fitted to states that are not finite");
  const auto spectrum = symmetric_eigen(c);
  if (!spectrum.converged) throw NumericalFailure("the spectrum of the states did not converge");

  // C = V diag(w) V^T serves all lambda: tr(C)/d is the mean of w, and V^T B is made once.
  const VectorXd w = spectrum.values.cwiseMax(0);
  const double least = d * std::numeric_limits<double>::epsilon() * w.maxCoeff();
  const MatrixXd projected = spectrum.vectors.transpose() * b;
  const RowVectorXd mean_u = mean_state(), mean_x = mean_description();
  std::vector<LinearMap> maps;
  for (const double lambda : lambdas) {
    if (!(lambda >= 0)) throw BadInput("the ridge parameter lambda must not be negative");
    // G = V diag(1/(w + lambda tr(C)/d)) V^T B, b = mean(x) - G^T mean(u)
    const double ridge = lambda * w.mean();
    VectorXd factor(d);
    // Eigenvalues that are round-off have no direction: G is 0 there.
    for (Index k = 0; k < d; ++k) factor[k] = std::max(w[k], ridge) > least ? 1 / (w[k] + ridge) : 0;
    LinearMap map;
    map.slope = spectrum.vectors * factor.asDiagonal() * projected;
    map.offset = mean_x - mean_u * map.slope;
    maps.push_back(std::move(map));
  }
  return maps;
}

namespace {

using Eigen::RowVectorXd;

std::size_t entries(Index rows, Index columns) {
  return rows * columns;
}

/// Root of a variance, but 1 where all numbers are equal: only differences of round-off would be scaled up.
double scale_of(double variance) {
  return variance > 0 ? std::sqrt(variance) : 1;
}

}  // namespace

MlpMap::MlpMap(const RidgeSums& moments, int hidden, std::uint64_t seed)
    : mean_state_(moments.mean_state()),
      mean_description_(moments.mean_description()),
      state_scale_(scale_of(moments.state_variance())),
      description_scale_(scale_of(moments.description_variance())),
      width_(mean_state_.size()),
      hidden_(hidden),
      described_(mean_description_.size()),
      weights_(0) {
  if (hidden < 1) throw BadInput("a map with a hidden layer needs at least one hidden unit");
  weights_.assign(entries(width_ + 1, hidden_) + entries(hidden_ + 1, described_), 0.0);
  // [W_1: d x h | b_1: h | W_2: h x m | b_2: m]. W_1 is normal with variance 1/d, W_2 with 1/h; biases are 0.
  const RandomStream stream(seed, "weights of a token map");
  const auto draw = [&](std::size_t first, std::size_t count, Index inputs) {
    for (std::size_t k = first; k < first + count; ++k) weights_[k] = stream.normal(k) / std::sqrt(inputs);
  };
  draw(0, entries(width_, hidden_), width_);
  draw(entries(width_ + 1, hidden_), entries(hidden_, described_), hidden_);
}

MlpMap::Weights MlpMap::block(std::size_t first, Index rows, Index columns) const {
  return {weights_.data() + first, rows, columns};
}

Matrix MlpMap::hidden_of(const Matrix& scaled) const {
  Matrix h(scaled.rows(), hidden_);
  h.noalias() = scaled * block(0, width_, hidden_);
  // h = tanh(((u - mean u)/s_u) W_1 + b_1), n x hidden units
  h.rowwise() += block(entries(width_, hidden_), 1, hidden_).row(0);
  return h.array().tanh();
}

Matrix MlpMap::output_of(const Matrix& hidden) const {
  // g = mean x + s_x (h W_2 + b_2)
  const std::size_t second = entries(width_ + 1, hidden_);
  Matrix g(hidden.rows(), described_);
  g.noalias() = hidden * block(second, hidden_, described_);
  g.rowwise() += block(second + entries(hidden_, described_), 1, described_).row(0);
  return (description_scale_ * g).rowwise() + mean_description_;
}

Matrix MlpMap::operator()(const Matrix& states) const {
  return output_of(hidden_of((states.rowwise() - mean_state_) / state_scale_));
}

double MlpMap::loss_of(const Matrix& g, const Matrix& x, TokenDistance distance, Matrix* derivative) const {
  if (distance == TokenDistance::l2) {
    // |g - x|^2/(m s_x^2)
    const double unit = described_ * description_scale_ * description_scale_;
    // 2 (g - x)/(m s_x^2)
    if (derivative) *derivative = (2 / unit) * (g - x);
    return (g - x).squaredNorm() / unit;
  }
  double sum = 0;
  if (derivative) derivative->setZero(g.rows(), g.cols());
  for (Index i = 0; i < g.rows(); ++i) {
    const double length = g.row(i).norm(), other = x.row(i).norm();
    sum += 1;  // cos = 0 where a length is 0
    if (length == 0 || other == 0) continue;
    // 1 - cos(g, x), derivative (cos g/|g| - x/|x|)/|g|
    const double cosine = g.row(i).dot(x.row(i)) / (length * other);
    sum -= cosine;
    if (derivative)
      derivative->row(i) = (cosine / (length * length)) * g.row(i) - x.row(i) / (length * other);
  }
  return sum;
}

double MlpMap::loss(const TokenExample& sample, TokenDistance distance) const {
  return loss_of((*this)(sample.states), sample.descriptions, distance, nullptr);
}

double MlpMap::add_gradient(const TokenExample& sample, TokenDistance distance,
                            std::vector<double>& gradient) const {
  const Matrix scaled = (sample.states.rowwise() - mean_state_) / state_scale_;
  const Matrix h = hidden_of(scaled);
  Matrix by_g;
  const double sum = loss_of(output_of(h), sample.descriptions, distance, &by_g);
  by_g *= description_scale_;

  const std::size_t bias = entries(width_, hidden_), second = entries(width_ + 1, hidden_),
                    last = second + entries(hidden_, described_);
  const auto part = [&](std::size_t first, Index rows, Index columns) {
    return Eigen::Map<Matrix>(gradient.data() + first, rows, columns);
  };
  // With Z = h W_2 + b_2, g = mean x + s_x Z, and `by_g` = dloss/dZ = s_x dloss/dg:
  //     dloss/dW_2 = h^T by_g,           dloss/db_2 = sum over tokens of by_g,
  //     by_h = (by_g W_2^T) o (1 - h^2),
  //     dloss/dW_1 = scaled^T by_h,      dloss/db_1 = sum over tokens of by_h.
  part(second, hidden_, described_).noalias() += h.transpose() * by_g;
  // (Sums of rows have memory of their own at first: their order depends on where they lie.)
  part(last, 1, described_) += by_g.colwise().sum().eval();
  Matrix by_h(h.rows(), hidden_);
  by_h.noalias() = by_g * block(second, hidden_, described_).transpose();
  by_h.array() *= 1 - h.array().square();
  part(0, width_, hidden_).noalias() += scaled.transpose() * by_h;
  part(bias, 1, hidden_) += by_h.colwise().sum().eval();
  return sum;
}

std::vector<char> MlpMap::decays() const {
  std::vector<char> all(size(), 1);
  const auto none = [&](std::size_t first, Index count) { std::fill_n(all.begin() + first, count, char{0}); };
  none(entries(width_, hidden_), hidden_);
  none(entries(width_ + 1, hidden_) + entries(hidden_, described_), described_);
  return all;
}

namespace {

/// One rank's part of a training.
class MlpTrainer {
 public:
  MlpTrainer(const TokenExamples& training, const TokenExamples& validation, TokenDistance distance,
             const MlpSettings& settings, MPI_Comm comm, MlpMap& map)
      : training_(training),
        validation_(validation),
        distance_(distance),
        settings_(settings),
        comm_(comm),
        map_(map) {
    for (const auto& sample : training.samples) here_.emplace(sample.place, &sample);
    // Behind the gradient stand the sums of losses and of tokens: one message carries all.
    gradient_.resize(map.size() + 2);
  }

  long steps_per_epoch() const { return (training_.count + settings_.batch - 1) / settings_.batch; }

  /// Takes the steps of an epoch; returns its mean loss per token.
  double epoch(int number, Optimiser& optimiser, const Schedule& schedule) {
    // Whole samples in the random order of (seed, epoch): the same batches on any ranks
    const auto order = shuffled(training_.count, settings_.seed, "batches of a token map", number);
    const std::size_t batch = settings_.batch;
    double sum = 0, tokens = 0;
    for (std::size_t first = 0; first < order.size(); first += batch) {
      std::fill(gradient_.begin(), gradient_.end(), 0.0);
      double& loss = gradient_[map_.size()];
      double& count = gradient_[map_.size() + 1];
      for (std::size_t at = first; at < std::min(first + batch, order.size()); ++at)
        if (const auto found = here_.find(order[at]); found != here_.end()) {
          loss += map_.add_gradient(*found->second, distance_, gradient_);
          count += found->second->states.rows();
        }
      sum_over_ranks(gradient_, comm_);
      if (!std::isfinite(loss)) throw NumericalFailure("the loss of a token map is not finite");
      sum += loss, tokens += count;
      if (count == 0) continue;  // only samples without tokens
      const std::span<double> g(gradient_.data(), map_.size());
      // Mean over the tokens of the batch, on all ranks
      for (double& value : g) value /= count;
      optimiser.step(schedule.rate(optimiser.state().steps), g, map_.weights());
    }
    return sum / tokens;
  }

  double validation_loss() const {
    std::vector<double> sums(2, 0.0);
    for (const auto& sample : validation_.samples) {
      sums[0] += map_.loss(sample, distance_);
      sums[1] += sample.states.rows();
    }
    sum_over_ranks(sums, comm_);
    if (!std::isfinite(sums[0] / sums[1]))
      throw NumericalFailure("the loss of a token map on the validation samples is not finite");
    return sums[0] / sums[1];
  }

 private:
  const TokenExamples& training_;
  const TokenExamples& validation_;
  TokenDistance distance_;
  const MlpSettings& settings_;
  MPI_Comm comm_;
  MlpMap& map_;
  std::unordered_map<std::size_t, const TokenExample*> here_;
  std::vector<double> gradient_;  // and the sums of losses and tokens, for one message
};

void need_settings(const MlpSettings& settings, const TokenExamples& training,
                   const TokenExamples& validation) {
  if (settings.batch < 1 || settings.epochs < 1 || settings.patience < 1)
    throw BadInput(
        "the training of a token map needs at least one sample in a batch, one epoch and a patience of one");
  if (training.count == 0 || validation.count == 0)
    throw BadInput("the training of a token map needs samples for training and for validation");
}

RidgeSums moments_of(const TokenExamples& training, MPI_Comm comm) {
  // A rank may hold no sample; it learns the shapes from the others.
  std::vector<double> shape(2, 0.0);
  for (const auto& sample : training.samples) {
    shape[0] = sample.states.cols();
    shape[1] = sample.descriptions.cols();
  }
  largest_over_ranks(shape, comm);
  RidgeSums moments(static_cast<int>(shape[0]), static_cast<int>(shape[1]));
  collectively(comm, [&] {
    for (const auto& sample : training.samples) moments.add(sample.states, sample.descriptions);
  });
  moments.reduce(comm);
  if (moments.tokens() == 0) throw BadInput("the training of a token map needs samples with tokens");
  return moments;
}

}  // namespace

MlpTraining train_token_mlp(const TokenExamples& training, const TokenExamples& validation,
                            TokenDistance distance, const MlpSettings& settings, MPI_Comm comm) {
  need_settings(settings, training, validation);
  MlpMap map(moments_of(training, comm), settings.hidden, settings.seed);
  MlpTrainer trainer(training, validation, distance, settings, comm, map);
  OptimiserSettings method;
  method.decay = settings.decay;
  Optimiser optimiser(method, map.decays());
  Schedule schedule;
  schedule.peak = settings.rate;
  schedule.steps = settings.epochs * trainer.steps_per_epoch();

  MlpTraining result{map, 0, 0, std::numeric_limits<double>::quiet_NaN(), trainer.validation_loss()};
  while (result.epochs < settings.epochs && result.epochs - result.best < settings.patience) {
    // Ends when the validation loss has not fallen for `patience` epochs.
    const double loss = trainer.epoch(result.epochs++, optimiser, schedule);
    if (const double now = trainer.validation_loss(); now < result.validation) {
      result.map = map;
      result.best = result.epochs;
      result.training = loss;
      result.validation = now;
    }
  }
  return result;
}

}  // namespace fluxformer::identifiability
