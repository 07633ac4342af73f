#include "model/equation.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.hpp"
#include "operators/depth_terms.hpp"

namespace fluxformer {
namespace {

constexpr double round_off = 1e-12;  // limits are inclusive: dt = h/c itself is stable

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw BadInput(text.str());
}

}  // namespace

std::string to_word(DepthScheme scheme) {
  switch (scheme) {
    case DepthScheme::shift:
      return "shift";
    case DepthScheme::upwind:
      return "upwind";
    case DepthScheme::upwind2:
      break;
  }
  return "upwind2";
}

Equation::Equation(DepthModel& model, const EquationSpec& spec) : model_(model), spec_(spec) {
  check_combination();
  const auto depth = spec_.depth;
  const double h = depth.spacing();
  // docs/model.md, section 3: shift is the one term (c/h)(G_i(u_{i-1}; h/c) - u_i). upwind and upwind2 have
  // one for the transport and one for each part of F_i(u_i) = kappa Lap u_i + alpha A_i(u_i) + rho R_i(u_i).
  if (spec_.scheme == DepthScheme::shift) {
    append(std::make_unique<LayerTerm>(model_, depth, spec_.speed));
  } else {
    const int order = spec_.scheme == DepthScheme::upwind2 ? 2 : 1;
    if (spec_.speed > 0) append(std::make_unique<DepthTransport>(spec_.speed, h, order));
    if (model_.largest_kappa() > 0) append(std::make_unique<TokenDiffusionTerm>(model_, depth));
    append(std::make_unique<AttentionTerm>(model_, depth));
    append(std::make_unique<ReactionTerm>(model_, depth));
  }
  // Each scheme adds epsilon (u_{i+1} - 2 u_i + u_{i-1}) / h^2.
  if (spec_.epsilon > 0) append(std::make_unique<DepthDiffusion>(spec_.epsilon, h, depth.cells));
}

void Equation::add(std::unique_ptr<Term> term) {
  if (model_.spec().norm == Norm::sphere && spec_.scheme != DepthScheme::shift)
    refuse("depth.norm = sphere with depth.scheme = ", to_word(spec_.scheme),
           ": an added term would carry the state off the sphere");
  append(std::move(term));
  added_ = true;
}

void Equation::append(std::unique_ptr<Term> term) {
  all_.push_back(term.get());
  // The diffusions are linear and stiff: implicit-explicit methods take them implicitly, the rest explicitly.
  const bool implicit = dynamic_cast<const ImplicitTerm*>(term.get()) != nullptr;
  (implicit ? implicit_ : explicit_).push_back(term.get());
  owned_.push_back(std::move(term));
}

void Equation::check_combination() const {
  const auto& model = model_.spec();
  const int s = spec_.depth.layers, m = spec_.depth.cells;
  const double h = spec_.depth.spacing(), c = spec_.speed;
  if (model.variation == DepthVariation::constant && m % s != 0)
    refuse("mesh.cells = ", m, ": must be a multiple of mesh.layers = ", s,
           " when every layer has weights of its own (depth.weights = constant)");
  if (spec_.scheme == DepthScheme::shift) {
    if (!(c > 0)) refuse("equation.c = ", c, ": must be > 0 for depth.scheme = shift");
    const bool unit_step = std::abs(h / c - 1) < round_off;
    if (!unit_step && (model.norm == Norm::post || !model.residual))
      refuse(
          "depth.norm = post and depth.residual = off need a depth step h/c = 1 (mesh.cells = mesh.layers, "
          "equation.c"
          " = 1); it is ",
          h / c);
    const int axes = token_axes(*model_.context().line);
    // The layer map takes an Euler step of length h/c through depth, whatever dt is: kappa (h/c) axes <= 1/2.
    const double number = model_.largest_kappa() * h / c * axes;
    if (number > 0.5 * (1 + round_off)) {
      // With h = S/M the condition is M >= 2 kappa (S/c) axes; constant weights need a multiple of S.
      const double least = std::ceil(2 * model_.largest_kappa() * s / c * axes * (1 - round_off));
      const double multiple = model.variation == DepthVariation::constant ? s : 1;
      refuse(
          "equation.kappa: token diffusion is explicit in depth and unstable here whatever the time step: "
          "kappa (h/c) ",
          axes, " = ", number, " > 1/2; mesh.cells must be at least ",
          static_cast<long>(std::ceil(least / multiple) * multiple));
    }
    return;
  }
  // The combinations that upwind and upwind2 are defined for (docs/model.md, section 3).
  if (c < 0) refuse("equation.c = ", c, ": must be >= 0");
  if (c == 0 && m != 1) refuse("equation.c = 0 (no transport) needs mesh.cells = 1; it is ", m);
  if (!model.residual) refuse("depth.residual = off needs depth.scheme = shift");
  if (model.norm == Norm::post) refuse("depth.norm = post needs depth.scheme = shift");
  if (model.norm == Norm::sphere && (c > 0 || spec_.epsilon > 0 || model_.largest_kappa() > 0))
    refuse("depth.norm = sphere with depth.scheme = ", to_word(spec_.scheme),
           " needs equation.c = epsilon = kappa = 0: they would carry the state off the sphere");
}

int Equation::reach_below() const {
  int reach = 0;
  for (const auto* term : all_) reach = std::max(reach, term->reach_below());
  return reach;
}

int Equation::reach_above() const {
  int reach = 0;
  for (const auto* term : all_) reach = std::max(reach, term->reach_above());
  return reach;
}

void Equation::add_implicit_diagonal(CellRange cells, double scale, const Column<double>& diagonal) const {
  for (const auto* term : implicit_)
    dynamic_cast<const ImplicitTerm&>(*term).add_diagonal(cells, scale, diagonal);
}

StepRates step_rates(const Equation::Terms& terms) {
  StepRates rates;
  for (const auto* term : terms)
    if (const auto limit = term->step_limit())
      // Rates of one kind add up: dt (sum of rates) <= the limit of the method.
      (limit->kind == StepLimit::Kind::transport ? rates.transport : rates.diffusion) += limit->rate;
  return rates;
}

// The equation and its step limit as text, put together from what the terms say of themselves.

namespace {

/// The terms in the order of equation (1): stencils through depth first.
Equation::Terms as_written(Equation::Terms terms) {
  std::ranges::stable_partition(
      terms, [](const Term* term) { return term->reach_below() > 0 || term->reach_above() > 0; });
  return terms;
}

void add_new(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  for (const auto& line : more)
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
}

}  // namespace

std::string step_rule(const Equation::Terms& terms) {
  std::string rule;
  for (const auto* term : as_written(terms))
    if (const auto limit = term->step_limit()) rule += (rule.empty() ? "" : " + ") + limit->text;
  return rule;
}

std::string Equation::text(const Terms& implicit) const {
  std::string text;
  std::vector<std::string> values, definitions;
  for (auto* const term : as_written(all_)) {
    const auto written = term->text();
    text += (text.empty() ? "du_i/dt = " : "\n        + ") + written.formula;
    if (std::ranges::find(implicit, term) != implicit.end()) text += "   [implicit]";
    add_new(values, written.values);
    add_new(definitions, written.definitions);
  }
  std::string list;
  for (const auto& value : values) list += (list.empty() ? "" : ", ") + value;
  if (!list.empty()) definitions.insert(definitions.begin(), list);
  for (const auto& line : definitions) text += "\n  " + line;
  return text;
}

}  // namespace fluxformer
