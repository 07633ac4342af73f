#include "base/condition.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/error.hpp"
#include "base/options.hpp"

namespace fluxformer {

namespace {

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (auto at = text.find(separator); at != std::string_view::npos; at = text.find(separator)) {
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.emplace_back(text);
  return parts;
}

// "a", "a or b", "a, b or c".
std::string alternatives(const std::vector<OptionValue>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : i + 1 < values.size() ? ", " : " or ") + value_text(values[i]);
  return text;
}

Clause parse_clause(const std::string& text, const Options& options) {
  const auto refuse = [&](const std::string& why) {
    throw std::logic_error("condition '" + text + "': " + why);
  };
  Clause clause;
  const auto unequal = text.find(" != "), equal = text.find(" = ");
  clause.equal = unequal == std::string::npos;
  const auto sign = clause.equal ? equal : unequal;
  clause.key = text.substr(0, sign);
  const Option* option = options.find(clause.key);
  if (option == nullptr) {
    refuse("there is no option " + clause.key);
  } else if (sign == std::string::npos) {
    if (!std::holds_alternative<bool>(option->fallback) &&
        !std::holds_alternative<std::string>(option->fallback))
      refuse("a number needs a value to compare with");
  } else {
    for (const auto& word : split(std::string_view(text).substr(sign + (clause.equal ? 3 : 4)), " | ")) {
      try {
        clause.values.push_back(parse_value(*option, word));
      } catch (const BadInput& e) {
        refuse(e.what());
      }
    }
    if (!clause.equal && clause.values.size() > 1) refuse("!= takes one value");
  }
  return clause;
}

}  // namespace

bool Clause::holds(const OptionValue& value) const {
  if (values.empty()) {
    const auto* flag = std::get_if<bool>(&value);
    return flag != nullptr ? *flag : value != OptionValue(std::string());
  }
  const bool found = std::find(values.begin(), values.end(), value) != values.end();
  return found == equal;
}

std::string Clause::text() const {
  return values.empty() ? key : key + (equal ? " = " : " != ") + alternatives(values);
}

Condition parse_condition(std::string_view text, const Options& options) {
  Condition condition;
  if (text.empty()) return condition;
  for (const auto& clause : split(text, " and ")) condition.push_back(parse_clause(clause, options));
  return condition;
}

std::string condition_text(const Condition& condition) {
  std::string text;
  for (const Clause& clause : condition) text += (text.empty() ? "" : " and ") + clause.text();
  return text;
}

}  // namespace fluxformer
