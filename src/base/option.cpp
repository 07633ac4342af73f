#include "base/option.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <type_traits>

#include "base/error.hpp"

namespace fluxformer {

namespace {

// Beyond this not every whole number is a double, so that 1e300 would not be exact.
constexpr double exact_integers = 0x1p53;

// All of the text as a number; from_chars does not take a leading plus.
template <class Number>
std::optional<Number> number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// `read` turns all of the text into a value; it returns what the text must be if it is none, else "".

std::string read(const std::string& text, bool& flag) {
  const auto is_one_of = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* word) { return text == word; });
  };
  flag = is_one_of({"true", "on", "yes", "1"});
  if (flag || is_one_of({"false", "off", "no", "0"})) return {};
  return "must be true or false (or on, off, yes, no, 1, 0)";
}

std::string read(const std::string& text, long& integer) {
  if (const auto value = number<long>(text)) {
    integer = *value;
    return {};
  }
  // 1e6 is a whole number too.
  const auto value = number<double>(text);
  if (!value || *value != std::floor(*value)) return "must be a whole number";
  if (std::abs(*value) > exact_integers) return "must be a whole number of at most 53 bits";
  integer = static_cast<long>(*value);
  return {};
}

std::string read(const std::string& text, double& real) {
  const auto value = number<double>(text);
  if (!value || !std::isfinite(*value)) return "must be a finite number";
  real = *value;
  return {};
}

std::string read(const std::string& text, std::string& word) {
  word = text;
  return {};
}

std::string about_item(const std::string& item, const std::string& why) {
  return "'" + item + "' " + why;
}

template <class Item>
std::string read(const std::string& text, std::vector<Item>& list) {
  constexpr const char* separators = ", \t\r\n";
  for (auto begin = text.find_first_not_of(separators); begin != std::string::npos;) {
    const auto end = std::min(text.find_first_of(separators, begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    if (const auto why = read(item, list.emplace_back()); !why.empty()) return about_item(item, why);
    begin = text.find_first_not_of(separators, end);
  }
  return {};
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Optimal string alignment distance: insertions, deletions, substitutions, swaps of neighbours.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> older(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(older, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], older[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string objection_to(const Option&, bool) {
  return {};
}

std::string objection_to(const Option& option, const std::string& word) {
  const auto& choices = option.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), word) != choices.end()) return {};
  const std::string near = nearest_word(word, choices);
  return "must be one of " + joined(choices) + (near.empty() ? "" : "; did you mean " + near + "?");
}

std::string objection_to(const Option& option, double x) {
  const bool allowed = std::isfinite(x) &&
                       (option.above_minimum ? x > option.minimum : x >= option.minimum) &&
                       x <= option.maximum;
  if (allowed) return {};
  return "must be " + range_text(option) + (option.unit.empty() ? "" : " (" + option.unit + ")");
}

std::string objection_to(const Option& option, long whole) {
  return objection_to(option, static_cast<double>(whole));
}

template <class Item>
std::string objection_to(const Option& option, const std::vector<Item>& list) {
  if (list.empty()) return option.not_empty ? "must not be empty" : "";
  for (const Item& item : list)
    if (const auto why = objection_to(option, item); !why.empty()) return about_item(value_text(item), why);
  for (auto item = list.begin(); item != list.end(); ++item)
    if (std::find(list.begin(), item, *item) != item) return "contains duplicates";
  return {};
}

// "a", "a or b", "a, b or c".
std::string alternatives(const std::vector<OptionValue>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : i + 1 < values.size() ? ", " : " or ") + value_text(values[i]);
  return text;
}

}  // namespace

bool When::holds(const OptionValue& value) const {
  if (values.empty()) {
    const auto* flag = std::get_if<bool>(&value);
    return flag != nullptr ? *flag : !value_text(value).empty();
  }
  const bool found = std::find(values.begin(), values.end(), value) != values.end();
  return found == equal;
}

std::string When::text() const {
  return values.empty() ? key : key + (equal ? " = " : " != ") + alternatives(values);
}

std::string Condition::text() const {
  std::string text;
  for (const When& clause : clauses) text += (text.empty() ? "" : " and ") + clause.text();
  return text;
}

Condition operator&&(Condition one, const Condition& other) {
  one.clauses.insert(one.clauses.end(), other.clauses.begin(), other.clauses.end());
  return one;
}

OptionValue parse_value(const Option& option, const std::string& text) {
  OptionValue value = option.fallback;
  std::string why = std::visit(
      [&](auto& of_type) {
        of_type = {};
        return read(text, of_type);
      },
      value);
  if (why.empty()) why = objection(option, value);
  if (!why.empty()) throw BadInput(option.name + " = " + text + ": " + why);
  return value;
}

std::string objection(const Option& option, const OptionValue& value) {
  return std::visit([&](const auto& of_type) { return objection_to(option, of_type); }, value);
}

std::string value_text(const OptionValue& value) {
  return std::visit(
      [](const auto& x) -> std::string {
        using Type = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<Type, bool>) {
          return x ? "true" : "false";
        } else if constexpr (std::is_same_v<Type, std::string>) {
          return x;
        } else if constexpr (!std::is_arithmetic_v<Type>) {
          std::string text;
          for (const auto& item : x) text += (text.empty() ? "" : ", ") + value_text(item);
          return text;
        } else {
          char text[32];
          return {text, std::to_chars(text, text + sizeof text, x).ptr};
        }
      },
      value);
}

std::string range_text(const Option& option) {
  std::string text;
  if (std::isfinite(option.minimum))
    text = (option.above_minimum ? "> " : ">= ") + value_text(option.minimum);
  if (std::isfinite(option.maximum)) text += (text.empty() ? "<= " : " and <= ") + value_text(option.maximum);
  return text;
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t fewest = 0;
  for (const std::string& candidate : known) {
    const std::size_t distance = edits(word, candidate);
    const std::size_t longer = std::max(word.size(), candidate.size());
    // One edit, and one more for every four letters, but not a different word.
    if (distance > 1 + longer / 4 || distance >= longer) continue;
    if (best.empty() || distance < fewest) best = candidate, fewest = distance;
  }
  return best;
}

}  // namespace fluxformer
