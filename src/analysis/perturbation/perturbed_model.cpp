#include "analysis/perturbation/perturbed_model.hpp"

#include "analysis/perturbation/perturbations.hpp"

namespace fluxformer::perturbation {

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
    const auto levels = static_cast<int>(plan.levels.at(kind.axis.name).size());
    if (levels == 0 || (kind.name.ends_with("pgd") && plan.pgd_steps == 0) ||
        (kind.name == "worst" && !plan.jacobian))
      continue;
    curves_.push_back({kind, ResponseMeter(levels, probe.spec().classes, samples.size())});
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

void PerturbedModel::add(ResponseMeter& to, int level, const std::vector<double>& u,
                         const double* logits) const {
  to.add(level, embedded_, places_, u, logits, clean_logits_.data());
}

void PerturbedModel::follow(const std::string& kind, const Perturb& perturb) {
  for (auto& curve : curves_) {
    if (curve.kind.name != kind) continue;
    const auto& levels = plan_.levels.at(curve.kind.axis.name);
    for (std::size_t j = 0; j < levels.size(); ++j) {
      perturb(levels[j], moved_);
      state_ = moved_;
      const auto& logits = probe_.forward(state_);
      add(curve.responses, static_cast<int>(j), moved_, logits.data());
    }
  }
}

void PerturbedModel::attack(const std::string& fgsm_kind, const std::string& pgd_kind, ModelInput& input,
                            Adversary& adversary) {
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
  const auto& u = embedded_.clean();
  moved_ = u;
  add_noise(embedded_, plan_.seed, plan_.growth, moved_);
  add_growth(probe_, u, moved_, growth_);
  for (std::size_t j = 0; j < u.size(); ++j) moved_[j] -= u[j];
  add_tangent_growth(probe_, u, moved_, tangent_growth_);
}

void PerturbedModel::show(const Batch& shown) {
  places_ = shown.key;
  auto batch = shown;
  for (long& key : batch.key) key = static_cast<long>(samples_.member(key));
  embedded_.set(batch);
  if (plan_.jacobian) {
    jacobian_.set();
    jacobian_meter_.add(embedded_, jacobian_);
  }
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
