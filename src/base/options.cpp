#include "base/options.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/deck.hpp"

namespace fluxformer {

namespace {

std::string last_part(std::string_view name) {
  return std::string(name.substr(name.rfind('.') + 1));
}

// Why the clause cannot be judged; "" if it can.
std::string fault(const When& clause, const Options& options) {
  const Option* option = options.find(clause.key);
  if (option == nullptr) return "there is no option " + clause.key;
  const auto& fallback = option->fallback;
  if (clause.values.empty() &&
      (std::holds_alternative<long>(fallback) || std::holds_alternative<double>(fallback)))
    return "a number needs a value to compare with";
  for (const OptionValue& value : clause.values) {
    if (value.index() != fallback.index()) return "a value is not of the type of the option";
    if (const auto why = objection(*option, value); !why.empty())
      return clause.key + " = " + value_text(value) + ": " + why;
  }
  return {};
}

constexpr std::size_t width = 100;
// A longer "name = default" gets a line of its own, so that it does not push the text off the page.
constexpr std::size_t widest_column = 40;

std::string left_column(const Option& option) {
  const std::string value = value_text(option.fallback);
  return "  " + option.name + (value.empty() ? " =" : " = " + value);
}

// What may stand for each alternative of OptionValue.
std::string kind_of_value(const Option& option) {
  std::string choices;
  for (const std::string& choice : option.choices) choices += (choices.empty() ? "" : " | ") + choice;
  switch (option.fallback.index()) {
    case 0:
      return "true | false";
    case 1:
      return "whole number";
    case 2:
      return "number";
    case 3:
      return choices.empty() ? "text" : choices;
    case 4:
      return "list of whole numbers";
    case 5:
      return "list of numbers";
    default:
      return "list of " + (choices.empty() ? "words" : choices);
  }
}

// "whole number >= 1; layers", "dot | l2; only with attention.causal", "list of numbers > 0; not empty", ...
std::string allowed(const Option& option) {
  std::string text = kind_of_value(option);
  if (const std::string range = range_text(option); !range.empty()) text += " " + range;
  if (option.not_empty) text += "; not empty";
  if (!option.unit.empty()) text += "; " + option.unit;
  if (!option.when.clauses.empty()) text += "; only with " + option.when.text();
  return text;
}

// Appends `text` to a line that is `indent` wide by now, broken at blanks; further lines are indented.
void append_wrapped(std::string& out, const std::string& text, std::size_t indent) {
  std::size_t column = indent;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > indent && column + 1 + length > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out.append(text, begin, length);
    column += length;
    begin = end + 1;
  }
  out += '\n';
}

}  // namespace

Options::Options(const Declare& declare) {
  declare(*this);
  for (const Option& option : options_)
    for (const When& clause : option.when.clauses)
      if (const auto why = fault(clause, *this); !why.empty())
        throw std::logic_error("option " + option.name + ": condition '" + clause.text() + "': " + why);
  complete_ = true;
}

void Options::declare(Option option) {
  if (complete_) throw std::logic_error("option " + option.name + ": declared too late");
  const auto dot = option.name.find('.');
  if (dot == 0 || dot == std::string::npos || dot + 1 == option.name.size() ||
      option.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") != std::string::npos ||
      option.name.starts_with("petsc."))
    throw std::logic_error("option '" + option.name +
                           "': a name is section.key in lower case, not of section petsc");
  if (find(option.name) != nullptr) throw std::logic_error("option " + option.name + " was declared before");
  if (const std::string why = objection(option, option.fallback); !why.empty())
    throw std::logic_error("option " + option.name + ": its default " + value_text(option.fallback) + " " +
                           why);
  const std::string text = value_text(option.fallback);
  if (!deck_can_hold(text) || parse_value(option, text) != option.fallback)
    throw std::logic_error("option " + option.name + ": its default cannot be written in a deck");
  option.when = scope_ && option.when;
  options_.push_back(std::move(option));
}

void Options::declare(std::string name, OptionValue fallback, std::string doc, Option more) {
  more.name = std::move(name);
  more.fallback = std::move(fallback);
  more.doc = std::move(doc);
  declare(std::move(more));
}

void Options::declare_when(const Condition& condition, const Declare& declare) {
  const auto outer = std::exchange(scope_, scope_ && condition);
  declare(*this);
  scope_ = outer;
}

const Option* Options::find(std::string_view name) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [&](const Option& option) { return option.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

const Option& Options::at(std::string_view name) const {
  const Option* option = find(name);
  if (option == nullptr) throw std::logic_error("option " + std::string(name) + " was never declared");
  return *option;
}

std::string Options::nearest(std::string_view name) const {
  std::vector<std::string> names;
  names.reserve(options_.size());
  for (const Option& option : options_) names.push_back(option.name);
  std::string near = nearest_word(name, names);
  if (!near.empty()) return near;
  // The right key in the wrong section.
  for (const std::string& known : names)
    if (last_part(known) == last_part(name)) return known;
  return {};
}

std::string options_help(const Options& options) {
  std::size_t column = 0;
  for (const Option& option : options.all())
    if (const std::size_t wide = left_column(option).size(); wide <= widest_column)
      column = std::max(column, wide);
  column += 2;

  std::vector<std::string> sections;
  for (const Option& option : options.all()) {
    const std::string section = option.name.substr(0, option.name.find('.'));
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) sections.push_back(section);
  }

  std::string text;
  for (const std::string& section : sections) {
    text += (text.empty() ? "[" : "\n[") + section + "]\n";
    for (const Option& option : options.all()) {
      if (!option.name.starts_with(section + ".")) continue;
      const std::string left = left_column(option);
      text += left;
      if (left.size() + 2 > column)
        text += '\n' + std::string(column, ' ');
      else
        text += std::string(column - left.size(), ' ');
      append_wrapped(text, option.doc + " (" + allowed(option) + ")", column);
    }
  }
  return text;
}

}  // namespace fluxformer
