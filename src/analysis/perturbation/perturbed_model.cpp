#include "analysis/perturbation/perturbed_model.hpp"

#include <cmath>
#include <cstddef>

#include "analysis/dense_matrices.hpp"
#include "analysis/perturbation/perturbations.hpp"
#include "analysis/state_examples.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer::perturbation {

namespace {

/// Sums of one level.
namespace response_sum {
enum : Index { samples, correct, loss, not_finite, change, sensitivity, insensible, per_level };
}

using Logits = Eigen::Map<const Eigen::VectorXd>;

}  // namespace

ResponseAccumulator::ResponseAccumulator(int levels, int classes, Index samples)
    : classes_(classes), sums_(levels * response_sum::per_level), each_(samples, levels) {}

void ResponseAccumulator::add(int level, const ModelInput& input, std::span<const long> places,
                              const std::vector<double>& u, const double* logits,
                              const double* clean_logits) {
  using namespace response_sum;
  double* const s = sums_.local() + level * per_level;
  const auto& batch = input.batch();
  for (int b = 0; b < input.samples(); ++b) {
    const auto clean = input.slab_block(input.clean_embedded(), b);
    if (clean.rows() == 0) continue;
    const int label = batch.label[b];
    const Logits z(clean_logits + Index{b} * classes_, classes_);
    const Logits moved(logits + Index{b} * classes_, classes_);
    // |du_0| / |u_0| and |dz| / |z|. Their quotient is not finite where nothing moved (0/0), for z = 0 and
    // for logits that are not finite.
    const double dx = (input.slab_block(u, b) - clean).norm() / clean.norm();
    const double dz = (moved - z).norm() / z.norm();
    s[samples] += 1;
    s[change] += dx;
    if (moved.allFinite()) {
      const double right = most_likely(moved.data(), classes_) == label ? 1 : 0;
      s[correct] += right;
      each_.row(places[b])[level] = right;
      s[loss] += loss_of({}, moved.data(), classes_, label, 0.0, nullptr);
    } else {
      s[not_finite] += 1;
    }
    if (std::isfinite(dz / dx))
      s[sensitivity] += dz / dx;
    else
      s[insensible] += 1;
  }
}

void ResponseAccumulator::reduce(MPI_Comm comm) {
  sums_.reduce(comm);
  each_.reduce(comm);
}

ResponseResult ResponseAccumulator::result() const {
  using namespace response_sum;
  ResponseResult m;
  for (Index at = 0; at < sums_.size(); at += per_level) {
    const double* const s = sums_.total().data() + at;
    // Logits that are not finite count as wrong, and not in the loss. The sensitivity is the mean over the
    // samples for which it exists.
    m.accuracy.push_back(s[correct] / s[samples]);
    m.loss.push_back(s[loss] / (s[samples] - s[not_finite]));
    m.input_change.push_back(s[change] / s[samples]);
    m.sensitivity.push_back(s[sensitivity] / (s[samples] - s[insensible]));
    m.not_finite.push_back(std::lround(s[not_finite]));
    if (at == 0) m.samples = std::lround(s[samples]);
  }
  return m;
}

GrowthAccumulator::GrowthAccumulator(int depths, const SlabContext& context)
    : Accumulator(depths + 1), context_(context) {
  need_whole_line(*context.line, "growth of perturbations");
}

void GrowthAccumulator::add(int depth, const double* du) {
  double* const sums = local();
  if (depth == 0) start_.assign(context_.samples, 0.0);
  for (int b = 0; b < context_.samples; ++b) {
    // |du(s)| / |du(0)|, with |du(0)| kept from the first row
    const double norm = sample_of(context_, du, b).norm();
    double& start = start_[b];
    if (depth == 0) start = norm;
    if (start == 0) continue;
    if (depth == 0) sums[size() - 1] += 1;
    sums[depth] += norm / start;
  }
}

std::vector<double> GrowthAccumulator::growth() const {
  // The last sum is the number of samples.
  std::vector<double> mean(total().begin(), total().end() - 1);
  for (double& value : mean) value /= total().back();
  return mean;
}

long GrowthAccumulator::samples() const {
  return std::lround(total().back());
}

void add_growth(ModelProbe& probe, const std::vector<double>& u, const std::vector<double>& moved,
                GrowthAccumulator& meter) {
  // du(s) = u(s; u_0 + du_0) - u(s; u_0): all rows of the unperturbed march are kept for the difference.
  std::vector<std::vector<double>> rows;
  auto state = u;
  probe.forward(state, Keep::nothing,
                [&](int, const double* row) { rows.emplace_back(row, row + u.size()); });
  state = moved;
  std::vector<double> du(u.size());
  probe.forward(state, Keep::nothing, [&](int i, const double* row) {
    const auto& from = rows[i];
    for (std::size_t j = 0; j < du.size(); ++j) du[j] = row[j] - from[j];
    meter.add(i, du.data());
  });
}

void add_tangent_growth(ModelProbe& probe, const std::vector<double>& u, const std::vector<double>& v,
                        GrowthAccumulator& meter) {
  // du_{i+1} = (dG/du) du_i at the state u_i, where G is the layer map of the cell after row i
  auto state = u, du = v, next = v;
  probe.forward(state, Keep::nothing, [&](int i, const double* row) {
    meter.add(i, du.data());
    if (i == probe.cells()) return;
    probe.tangent(i, row, du.data(), next.data());
    du.swap(next);
  });
}

void LogitJacobian::set() {
  auto& probe = input_.probe();
  const int classes = probe.spec().classes, samples = input_.samples();
  auto u = input_.clean_embedded();
  logits_ = probe.forward(u, Keep::activations);
  rows_.resize(classes);
  // Row c of J is (J^T e_c)^T. A backward pass from e_c for all samples gives that row of each, because the
  // logits of a sample do not depend on the others.
  for (int c = 0; c < classes; ++c) {
    std::vector<double> one(logits_.size(), 0.0);
    for (int b = 0; b < samples; ++b) one[b * classes + c] = 1;
    probe.adjoint(one, rows_[c]);
  }
  values_.assign(samples, {});
  left_.assign(samples, {});
  for (int b = 0; b < samples; ++b) {
    if (input_.slab_block(u, b).rows() == 0) continue;
    // (J J^T)_ij is the inner product of rows i and j of J. With J = U diag(sigma) V^T it is
    // U diag(sigma^2) U^T: eigenvalues that round-off made negative are 0.
    Eigen::MatrixXd gram(classes, classes);
    for (int i = 0; i < classes; ++i)
      for (int j = 0; j <= i; ++j)
        gram(i, j) = gram(j, i) =
            input_.slab_block(rows_[i], b).cwiseProduct(input_.slab_block(rows_[j], b)).sum();
    const SymmetricEigen eigen = symmetric_eigen(gram);  // in ascending order
    values_[b] = eigen.values.reverse().cwiseMax(0).cwiseSqrt();
    left_[b] = eigen.vectors.col(classes - 1);
  }
}

void LogitJacobian::worst_direction(std::vector<double>& v) const {
  const int classes = input_.probe().spec().classes;
  v.assign(input_.clean_embedded().size(), 0.0);
  for (int b = 0; b < input_.samples(); ++b) {
    if (values_[b].size() == 0 || !(values_[b][0] > 0)) continue;
    Eigen::VectorXd slope(classes);
    loss_of({}, logits_.data() + b * classes, classes, input_.batch().label[b], 1.0, slope.data());
    // v = J^T left / sigma. Along it the loss changes by slope . J v = sigma slope . left, whose sign v
    // takes: the loss increases.
    const double scale = std::copysign(1 / values_[b][0], slope.dot(left_[b]));
    for (int c = 0; c < classes; ++c)
      input_.slab_block(v, b) += scale * left_[b][c] * input_.slab_block(rows_[c], b);
  }
}

// The sums are those of each singular value and of the worst sensitivity, then the number of samples that
// have a worst sensitivity, and of all samples.

void JacobianAccumulator::add(const ModelInput& input, const LogitJacobian& jacobian) {
  const Index classes = size() - 3;
  double *const sums = local(), *const worst = sums + classes;
  for (int b = 0; b < input.samples(); ++b) {
    const auto& values = jacobian.singular_values(b);
    if (values.size() == 0) continue;
    worst[2] += 1;
    for (Index c = 0; c < classes; ++c) sums[c] += values[c];
    const Logits z(jacobian.logits().data() + b * classes, classes);
    if (z.norm() == 0) continue;
    // max over v of (|J v| / |z|) / (|v| / |u_0|) = sigma_1 |u_0| / |z|
    worst[0] += values[0] * input.slab_block(input.clean_embedded(), b).norm() / z.norm();
    worst[1] += 1;
  }
}

long JacobianAccumulator::samples() const {
  return std::lround(total().back());
}

std::vector<double> JacobianAccumulator::singular_values() const {
  std::vector<double> mean(total().begin(), total().end() - 3);
  for (double& value : mean) value /= total().back();
  return mean;
}

double JacobianAccumulator::worst_sensitivity() const {
  const double* const worst = total().data() + size() - 3;
  return worst[0] / worst[1];
}

PerturbedModel::PerturbedModel(ModelProbe& probe, const PerturbationPlan& plan, const SampleSet& samples)
    : probe_(probe),
      plan_(plan),
      samples_(samples),
      embedded_(probe, InputSpace::embedded),
      jacobian_(embedded_),
      clean_(1, probe.spec().classes, samples.size()),
      growth_(probe.depths(), probe.counted()),
      tangent_growth_(growth_),
      jacobian_meter_(probe.spec().classes) {
  for (const auto& kind : variables::kinds()) {
    const int levels = std::ssize(plan.levels.at(kind.axis.name));
    if (levels == 0 || (kind.name.ends_with("pgd") && plan.pgd_steps == 0) ||
        (kind.name == "worst" && !plan.jacobian))
      continue;
    curves_.push_back({kind, ResponseAccumulator(levels, probe.spec().classes, samples.size())});
    if (kind.name.starts_with("feature") && features_ == nullptr)
      features_ = std::make_unique<ModelInput>(probe, InputSpace::features);
  }
}

void PerturbedModel::reduce(MPI_Comm comm) {
  for (auto& curve : curves_) curve.responses.reduce(comm);
  clean_.reduce(comm);
  growth_.reduce(comm);
  tangent_growth_.reduce(comm);
  jacobian_meter_.reduce(comm);
}

void PerturbedModel::add(ResponseAccumulator& to, int level, const std::vector<double>& u,
                         const double* logits) const {
  to.add(level, embedded_, places_, u, logits, clean_logits_.data());
}

void PerturbedModel::follow(const std::string& kind, const Perturb& perturb) {
  for (auto& curve : curves_) {
    if (curve.kind.name != kind) continue;
    const auto& levels = plan_.levels.at(curve.kind.axis.name);
    for (int j = 0; j < std::ssize(levels); ++j) {
      // The march overwrites its state, while moved_ stays for |du_0|.
      perturb(levels[j], moved_);
      state_ = moved_;
      const auto& logits = probe_.forward(state_);
      add(curve.responses, j, moved_, logits.data());
    }
  }
}

void PerturbedModel::attack(const std::string& fgsm_kind, const std::string& pgd_kind, ModelInput& input,
                            Adversary& adversary) {
  // FGSM and PGD take the gradient at the clean input from here.
  adversary.begin();
  const auto by = [&](const Attack& how, std::vector<double>& u) {
    adversary.attack(how, x_);
    input.embed(x_, u);
  };
  follow(fgsm_kind, [&](double level, std::vector<double>& u) { by(fgsm(level), u); });
  follow(pgd_kind, [&](double level, std::vector<double>& u) {
    auto how = pgd(level, plan_.pgd_steps);
    how.random_start = plan_.random_start;
    how.seed = plan_.seed;
    by(how, u);
  });
}

void PerturbedModel::follow_growth() {
  // The tangent starts from the same du_0 as the finite perturbation, so that both growths can be compared.
  const auto& u = embedded_.clean();
  moved_ = u;
  add_noise(embedded_, plan_.seed, plan_.growth, moved_);
  add_growth(probe_, u, moved_, growth_);
  for (std::size_t j = 0; j < u.size(); ++j) moved_[j] -= u[j];  // the perturbation alone
  add_tangent_growth(probe_, u, moved_, tangent_growth_);
}

void PerturbedModel::show(const Batch& shown) {
  // The keys of a batch are places in the list of samples. Draws are keyed by the member of the data set.
  places_ = shown.key;
  auto batch = shown;
  for (long& key : batch.key) key = samples_.member(key);
  embedded_.set(batch);
  if (plan_.jacobian) {
    jacobian_.set();
    jacobian_meter_.add(embedded_, jacobian_);
  }
  // Responses are compared with the logits of the clean input.
  state_ = embedded_.clean();
  clean_logits_ = probe_.forward(state_);
  add(clean_, 0, embedded_.clean(), clean_logits_.data());
  follow_growth();

  follow("noise", [&](double level, std::vector<double>& u) {
    u = embedded_.clean();
    add_noise(embedded_, plan_.seed, level, u);
  });
  follow("dropped", [&](double share, std::vector<double>& u) {
    probe_.embed(drop_tokens(probe_.spec(), batch, plan_.seed, share, samples_.data().unknown_word()), u);
  });
  follow("worst", [&](double level, std::vector<double>& u) {
    // u_0 + level |u_0| v with |v| = 1 for each sample
    jacobian_.worst_direction(x_);
    u = embedded_.clean();
    for (int b = 0; b < embedded_.samples(); ++b)
      embedded_.block(u, b) += level * embedded_.block(embedded_.clean(), b).norm() * embedded_.block(x_, b);
  });
  if (!plan_.levels.at(variables::attack_level.name).empty()) {
    Adversary adversary(embedded_);
    attack("fgsm", "pgd", embedded_, adversary);
  }
  if (features_ == nullptr) return;
  features_->set(batch);
  follow("feature_noise", [&](double level, std::vector<double>& u) {
    // u_0 = W_E x + b_E + p of the noisy features
    x_ = features_->clean();
    add_noise(*features_, plan_.seed, level, x_);
    features_->embed(x_, u);
  });
  if (!plan_.levels.at(variables::feature_attack_level.name).empty()) {
    Adversary adversary(*features_, plan_.range);
    attack("feature_fgsm", "feature_pgd", *features_, adversary);
  }
}

}  // namespace fluxformer::perturbation
