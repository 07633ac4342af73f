// The equation and its step limit as text, put together from what the terms say of themselves.

#include <algorithm>

#include "model/equation.hpp"

namespace fluxformer {
namespace {

/// In the order of equation (1): stencils through depth first.
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
