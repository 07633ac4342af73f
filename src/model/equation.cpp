#include "model/equation.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "base/error.hpp"
#include "base/index.hpp"
#include "operators/depth_terms.hpp"

namespace fluxformer {

LayerTerm::LayerTerm(DepthModel& model, const DepthCells& depth, double speed)
    : model_(model), depth_(depth), speed_(speed) {
  if (!(speed > 0)) throw BadInput("equation.c must be > 0 for depth.scheme = shift");
}

void LayerTerm::add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) {
  work_.resize(u.slab);
  // out_i += (c/h_i) (G_i(u_{i-1}; h_i/c) - u_i)
  for (int i = cells.begin; i < cells.end; ++i) {
    model_.map(point(i), step(i), u.at(i - 1), work_.data(), nullptr);
    add_relaxation(rate(i), u.at(i), out.at(i));
  }
}

void LayerTerm::add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                            const Column<double>& out) {
  work_.resize(u.slab);
  // out_i += (c/h_i) (G' v_{i-1} - v_i)
  for (int i = cells.begin; i < cells.end; ++i) {
    model_.push(point(i), step(i), {u.at(i - 1), v.at(i - 1)}, {}, work_.data(), nullptr);
    add_relaxation(rate(i), v.at(i), out.at(i));
  }
}

void LayerTerm::add_relaxation(double rate, const double* here, double* out) const {
  for (Index j = 0; j < std::ssize(work_); ++j) out[j] += rate * (work_[j] - here[j]);
}

void LayerTerm::add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                            const Column<double>& u_bar, std::span<double> parameters) {
  work_.resize(u.slab);
  bar_.resize(u.slab);
  // u_bar_{i-1} += (c/h_i) G'^T w_i,  u_bar_i -= (c/h_i) w_i
  for (int i = cells.begin; i < cells.end; ++i) {
    const double* const from = w.at(i);
    double *const below = u_bar.at(i - 1), *const here = u_bar.at(i);
    const double rate = this->rate(i);
    for (Index j = 0; j < u.slab; ++j) {
      work_[j] = rate * from[j];
      here[j] -= work_[j];
    }
    model_.pull(point(i), step(i), u.at(i - 1), work_.data(), bar_.data(), parameters, nullptr, Order::first);
    for (Index j = 0; j < u.slab; ++j) below[j] += bar_[j];
  }
}

std::optional<StepLimit> LayerTerm::step_limit() const {
  // Each row relaxes to G_i(u_{i-1}) at the rate c/h_i.
  return StepLimit{StepLimit::Kind::transport, speed_ / depth_.shortest(),
                   depth_.equal() ? "c dt/h" : "c dt/(least h_i)"};
}

void FieldTerm::add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) {
  // out_i += kappa Lap u_i, -nu d/dx u_i, alpha A_i(u_i) or rho R_i(u_i), with the weights at s = i h
  for (int i = cells.begin; i < cells.end; ++i)
    model_.field({&part_, 1}, point(i), 1, u.at(i), out.at(i), nullptr);
}

void FieldTerm::add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                            const Column<double>& out) {
  // out_i += (dF_i/du) v_i for this part of F_i
  for (int i = cells.begin; i < cells.end; ++i)
    model_.push_field({&part_, 1}, point(i), 1, {u.at(i), v.at(i)}, out.at(i));
}

void FieldTerm::add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                            const Column<double>& u_bar, std::span<double> parameters) {
  // u_bar_i += (dF_i/du)^T w_i and parameters += (dF_i/dtheta)^T w_i for this part of F_i
  for (int i = cells.begin; i < cells.end; ++i)
    model_.pull_field({&part_, 1}, point(i), 1, u.at(i), w.at(i), u_bar.at(i), parameters, nullptr);
}

int token_axes(const TokenLine& line) {
  // `axes` in the step limits of docs/model.md, section 3
  return std::max(1, (line.tokens_x() > 1 ? 1 : 0) + (line.tokens_y() > 1 ? 1 : 0));
}

std::optional<StepLimit> TokenDiffusionTerm::step_limit() const {
  const double kappa = model_.largest_kappa();
  if (kappa == 0) return std::nullopt;
  const int axes = token_axes(*model_.context().line);
  // The Laplacian has eigenvalues down to -4 per axis: stable while 2 kappa dt axes <= 1.
  return StepLimit{StepLimit::Kind::diffusion, 2 * kappa * axes, "2 kappa dt * " + std::to_string(axes)};
}

void TokenDiffusionTerm::add_diagonal(CellRange cells, double scale, const Column<double>& diagonal) const {
  for (int i = cells.begin; i < cells.end; ++i)
    model_.add_diffusion_diagonal(point(i), scale, diagonal.at(i));
}

std::optional<StepLimit> TokenTransportTerm::step_limit() const {
  const double nu = model_.largest_nu();
  if (nu == 0) return std::nullopt;
  return StepLimit{StepLimit::Kind::transport, nu, "nu dt"};
}

// How the model's terms are written: coefficients, sub-layers and the place of normalisation.

namespace {

constexpr std::string_view laplacian_text = "Lap: Laplacian over tokens";
constexpr std::string_view drift_text = "D u: u(x-1) - u(x) over tokens x";

std::string reaction_text(const ModelSpec& spec) {
  return std::string("R: feed-forward network") + (spec.gated ? ", gated" : "");
}

/// How far tokens hear through the windows of all cells: "" without windows.
std::string window_text(const ModelSpec& spec, const DepthCells& depth) {
  int windows = 0;
  long reach = 0;  // of all cells together: how far a token depends on others at the inflow
  for (int cell = 1; cell <= depth.cells; ++cell) {
    const int window = spec.window(depth.entry(cell).layer);
    if (window == 0) continue;
    ++windows;
    reach += spec.causal ? window - 1 : window;
  }
  if (windows == 0) return "";
  const auto cells = std::to_string(windows) + " of " + std::to_string(depth.cells) + " depth cells";
  return ", within windows in " + cells +
         (windows < depth.cells ? ""
                                : ", through which a token hears " + std::to_string(reach) + " tokens away");
}

std::string attention_text(const ModelSpec& spec, const DepthCells& depth) {
  std::string text = "A: self-attention over the tokens";
  if (spec.attention.normalisation == Normalisation::linear) text += ", linear (no soft-max)";
  if (spec.attention.rotary.layout != RotaryLayout::none) text += ", rotary positions";
  if (spec.attention.key_groups() < spec.attention.heads)
    text += ", " + std::to_string(spec.attention.heads) + " heads on " +
            std::to_string(spec.attention.key_groups()) + " groups of keys";
  return text + window_text(spec, depth);
}

/// "kappa = 0.1", or "kappa = 0.1 .. 0.3".
std::string range_text(const std::string& symbol, double from, double to) {
  const auto least = value_text(symbol, from), largest = value_text(symbol, to);
  return least == largest ? least
                          : least + " .. " + largest.substr(symbol.size() + std::string(" = ").size());
}

std::string range_text(const std::string& symbol, const EquationCoefficients::Range& range) {
  return range_text(symbol, range.least, range.largest);
}

/// The text on the normalisation of the input of attention and reaction (pre) or of the state after each
/// sub-layer; "" without one.
std::string_view normalisation_text(const ModelSpec& spec) {
  switch (spec.norm) {
    case Norm::pre:
    case Norm::post:
      return spec.norm_map == NormMap::rms ? "N: RMSNorm over channels" : "N: LayerNorm over channels";
    case Norm::sphere:
      return "P: projection to the unit sphere";
    case Norm::none:
      break;
  }
  return "";
}

/// The argument of attention and reaction: "N(u)" if they normalise it, else "u".
std::string inside(const ModelSpec& spec, const std::string& u) {
  return spec.norm == Norm::pre ? "N(" + u + ")" : u;
}

/// "alpha A(N(u))", with token diffusion and transport before it, if there are any.
std::string mixing(const ModelSpec& spec, const EquationCoefficients& of, const std::string& u) {
  return (of.kappa.largest > 0 ? "kappa Lap " + u + " + " : "") +
         (of.nu.largest > 0 ? "nu D " + u + " + " : "") + "alpha A(" + inside(spec, u) + ")";
}

std::string reaction(const ModelSpec& spec, const std::string& u) {
  return "rho R(" + inside(spec, u) + ")";
}

/// One sub-layer: "v = u + h (one + other)", normalised afterwards where the model does.
std::string sub_layer(const ModelSpec& spec, const std::string& to, const std::string& from,
                      const std::string& step, const std::string& flow) {
  const bool several = flow.find(" + ") != std::string::npos;
  const std::string change = step + " " + (several ? "(" + flow + ")" : flow);
  const std::string sum = spec.residual ? from + " + " + change : change;
  const bool post = spec.norm == Norm::post, sphere = spec.norm == Norm::sphere;
  return to + " = " + (post ? "N(" + sum + ")" : sphere ? "P(" + sum + ")" : sum);
}

std::string layer_map_text(const ModelSpec& spec, const EquationCoefficients& of) {
  // The lines of G in docs/model.md, section 2: the state after each sub-layer is u, v, w, and G at the end.
  std::string text = "G(u; h): ";
  switch (spec.order) {
    case SubLayerOrder::sequential:
      text += sub_layer(spec, "v", "u", "h", mixing(spec, of, "u")) + ", " +
              sub_layer(spec, "G", "v", "h", reaction(spec, "v"));
      break;
    case SubLayerOrder::parallel:
      text += sub_layer(spec, "G", "u", "h", mixing(spec, of, "u") + " + " + reaction(spec, "u"));
      break;
    case SubLayerOrder::macaron:
      text += sub_layer(spec, "v", "u", "h/2", reaction(spec, "u")) + ", " +
              sub_layer(spec, "w", "v", "h", mixing(spec, of, "v")) + ", " +
              sub_layer(spec, "G", "w", "h/2", reaction(spec, "w"));
      break;
  }
  return text + (spec.subflow == SubLayerIntegrator::midpoint ? ", each by the midpoint rule" : "");
}

/// "alpha A_i(N(u_i))"; on the sphere projected to the tangent space.
TermText field_text(const ModelSpec& spec, const std::string& factor, const std::string& name, double value,
                    std::string_view meaning) {
  const bool sphere = spec.norm == Norm::sphere;
  const std::string part = factor + " " + name + "_i(" + inside(spec, "u_i") + ")";
  TermText text{sphere ? "P_i " + part : part, {value_text(factor, value)}};
  text.definitions.emplace_back(meaning);
  if (sphere) text.definitions.emplace_back("P_i: projection to the tangent space of the sphere at u_i");
  if (spec.norm == Norm::pre) text.definitions.emplace_back(normalisation_text(spec));
  return text;
}

}  // namespace

TermText LayerTerm::text() const {
  const auto& spec = model_.spec();
  const auto of = model_.coefficients();
  const std::string h = depth_.equal() ? "h" : "h_i";
  TermText text{"(c/" + h + ")(G_i(u_{i-1}; " + h + "/c) - u_i)",
                {value_text("c", speed_), range_text(h, depth_.shortest(), depth_.longest())},
                {layer_map_text(spec, of)}};
  if (of.kappa.largest > 0) {
    text.values.push_back(range_text("kappa", of.kappa));
    text.definitions.emplace_back(laplacian_text);
  }
  if (of.nu.largest > 0) {
    text.values.push_back(range_text("nu", of.nu));
    text.definitions.emplace_back(drift_text);
  }
  text.values.push_back(value_text("alpha", of.alpha));
  text.values.push_back(value_text("rho", of.rho));
  text.definitions.push_back(attention_text(spec, depth_));
  text.definitions.push_back(reaction_text(spec));
  const auto normalisation = normalisation_text(spec);
  if (!normalisation.empty()) text.definitions.emplace_back(normalisation);
  return text;
}

TermText TokenDiffusionTerm::text() const {
  TermText text{"kappa Lap u_i", {range_text("kappa", model_.coefficients().kappa)}};
  text.definitions.emplace_back(laplacian_text);
  return text;
}

TermText TokenTransportTerm::text() const {
  TermText text{"nu D u_i", {range_text("nu", model_.coefficients().nu)}};
  text.definitions.emplace_back(drift_text);
  return text;
}

TermText AttentionTerm::text() const {
  return field_text(model_.spec(), "alpha", "A", model_.coefficients().alpha,
                    attention_text(model_.spec(), depth_));
}

TermText ReactionTerm::text() const {
  return field_text(model_.spec(), "rho", "R", model_.coefficients().rho, reaction_text(model_.spec()));
}

namespace {

constexpr double round_off = 1e-12;  // limits are inclusive: dt = h/c itself is stable

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw BadInput(text.str());
}

}  // namespace

Equation::Equation(DepthModel& model, const EquationSpec& spec) : model_(model), spec_(spec) {
  check_combination();
  const auto& depth = spec_.depth;
  const double h = depth.length(1);  // of all cells, but for shift
  // docs/model.md, section 3: shift is the one term (c/h)(G_i(u_{i-1}; h/c) - u_i). upwind and upwind2 have
  // one for the transport and one for each part of F_i(u_i) = kappa Lap u_i - nu d/dx u_i + alpha A_i(u_i) +
  // rho R_i(u_i).
  if (spec_.scheme == DepthScheme::shift) {
    append(std::make_unique<LayerTerm>(model_, depth, spec_.speed));
  } else {
    const int order = spec_.scheme == DepthScheme::upwind2 ? 2 : 1;
    if (spec_.speed > 0) append(std::make_unique<DepthTransport>(spec_.speed, h, order));
    if (model_.largest_kappa() > 0) append(std::make_unique<TokenDiffusionTerm>(model_, depth));
    if (model_.largest_nu() > 0) append(std::make_unique<TokenTransportTerm>(model_, depth));
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
  const int m = spec_.depth.cells;
  const double h = spec_.depth.longest(), c = spec_.speed;
  if (model.variation == DepthVariation::constant)
    static_cast<void>(
        spec_.depth.layer_rows("when every layer has weights of its own (depth.weights = constant)"));
  if (!spec_.depth.equal() && (spec_.scheme != DepthScheme::shift || spec_.epsilon > 0))
    refuse("mesh.edges: cells of unequal length need depth.scheme = shift and equation.epsilon = 0");
  if (spec_.scheme == DepthScheme::shift) {
    if (!(c > 0)) refuse("equation.c = ", c, ": must be > 0 for depth.scheme = shift");
    const bool unit_step = std::abs(h / c - 1) < round_off && spec_.depth.equal();
    if (!unit_step && (model.norm == Norm::post || !model.residual))
      refuse(
          "depth.norm = post and depth.residual = off need a depth step h/c = 1 (mesh.cells = mesh.layers, "
          "equation.c"
          " = 1); it is ",
          h / c);
    require_stable_in_depth();
    return;
  }
  // The combinations that upwind and upwind2 are defined for (docs/model.md, section 3).
  if (c < 0) refuse("equation.c = ", c, ": must be >= 0");
  if (c == 0 && m != 1) refuse("equation.c = 0 (no transport) needs mesh.cells = 1; it is ", m);
  if (!model.residual) refuse("depth.residual = off needs depth.scheme = shift");
  if (model.norm == Norm::post) refuse("depth.norm = post needs depth.scheme = shift");
  if (model.norm == Norm::sphere &&
      (c > 0 || spec_.epsilon > 0 || model_.largest_kappa() > 0 || model_.largest_nu() > 0))
    refuse("depth.norm = sphere with depth.scheme = ", to_word(spec_.scheme),
           " needs equation.c = epsilon = kappa = nu = 0: they would carry the state off the sphere");
}

void Equation::require_stable_in_depth() const {
  const auto& depth = spec_.depth;
  const double c = spec_.speed, kappa = model_.largest_kappa(), nu = model_.largest_nu();
  const int axes = token_axes(*model_.context().line);
  // The layer map takes an Euler step of length h/c through depth, whatever dt is: (2 kappa axes + nu) h/c <= 1.
  const double rate = 2 * kappa * axes + nu, number = rate * depth.longest() / c;
  if (number <= 1 + round_off) return;
  std::ostringstream what;
  if (nu == 0)
    what << "equation.kappa: token diffusion is explicit in depth and unstable here whatever the time step: "
            "kappa "
            "(h/c) "
         << axes << " = " << number / 2 << " > 1/2";
  else
    what << "equation.nu: token transport is explicit in depth and unstable here whatever the time step: "
         << (kappa > 0 ? "(2 kappa + nu) h/c = " : "nu h/c = ") << number << " > 1";
  if (!depth.equal()) refuse(what.str(), " in the longest cell of mesh.edges, h = ", depth.longest());
  // With h = S/M the condition is M >= rate S/c; constant weights need a multiple of S.
  const double least = std::ceil(rate * depth.layers / c * (1 - round_off));
  const double multiple = model_.spec().variation == DepthVariation::constant ? depth.layers : 1;
  refuse(what.str(), "; mesh.cells must be at least ",
         static_cast<long>(std::ceil(least / multiple) * multiple));
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
