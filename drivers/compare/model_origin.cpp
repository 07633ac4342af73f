#include "drivers/compare/model_origin.hpp"

#include "base/deck.hpp"
#include "base/error.hpp"
#include "io/layout.hpp"

namespace fluxformer {

ModelOrigin::ModelOrigin(const io::ArchiveReader& file) : file_(file.called()) {
  trained_ = file.has_attribute(names::experiment) && file.text(names::experiment) == "train";
  if (file.has_attribute(names::status)) status_ = file.text(names::status);
  if (!trained_ || !file.has_attribute(names::settings)) return;
  for (const auto& [name, value] : read_deck(file.text(names::settings), file.called()))
    settings_[name] = value;
}

std::string ModelOrigin::value(const std::string& key) const {
  const auto found = settings_.find(key);
  return found == settings_.end() ? std::string() : found->second;
}

double ModelOrigin::number(const std::string& key) const {
  Option of_key;
  of_key.name = key;
  of_key.fallback = 0.0;
  try {
    return std::get<double>(parse_value(of_key, value(key)));
  } catch (const BadInput& e) {
    throw BadInput(file_ + ": its settings: " + e.what());
  }
}

std::optional<ModelOrigin::Coefficients> ModelOrigin::starting_coefficients() const {
  if (!value("model.file").empty()) return {};
  for (const char* key : {"equation.kappa", "equation.alpha", "equation.rho"})
    if (value(key).empty()) return {};
  return Coefficients{number("equation.kappa"), number("equation.alpha"), number("equation.rho")};
}

std::string ModelOrigin::text() const {
  if (!trained_) return "not known";
  auto text = "trained, seed " + value("run.seed");
  if (distilled())
    text += "; distilled from " + value("distill.teacher") + ", hidden " + value("distill.hidden") +
            ", attention " + value("distill.attention");
  return text;
}

void ModelOrigin::require_comparable(const std::string& what) const {
  if (!trained_) return;
  if (!status_.empty() && status_ != names::done)
    throw BadInput(what + ": its training is not complete; its status is " + status_);
  const auto refuse = [&](const std::string& key) {
    throw BadInput(what + ": was trained with " + key + " = " + value(key) +
                   "; a comparison needs models marched from cell to cell by the layer map with equation.c = "
                   "1, on a token lattice that is not periodic");
  };
  if (!value("equation.c").empty() && number("equation.c") != 1) refuse("equation.c");
  if (value("mesh.periodic") == "true") refuse("mesh.periodic");
  if (value("train.gradient") == "adjoint" && value("adjoint.method") != "1fe") refuse("adjoint.method");
}

void ModelOrigin::require_data(const std::string& what, const Settings& settings) const {
  for (const Option& option : settings.options()->all()) {
    if (option.role != Role::data || !settings.counts(option.name) || settings.left_to_file(option.name))
      continue;
    const auto here = value_text(settings.value(option.name));
    if (const auto there = value(option.name); !there.empty() && there != here)
      throw BadInput(option.name + " = " + here + ": " + what + " was trained with " + there);
  }
}

}  // namespace fluxformer
