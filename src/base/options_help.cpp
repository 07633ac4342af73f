#include "base/options_help.hpp"

#include <algorithm>

namespace fluxformer {

namespace {

constexpr std::size_t width = 100;
// A longer "name = default" gets a line of its own, so that it does not push the text off the page.
constexpr std::size_t widest_column = 40;

std::string left_column(const Option& option) {
  const std::string value = value_text(option.fallback);
  return "  " + option.name + (value.empty() ? " =" : " = " + value);
}

// "whole number >= 1; layers", "dot | l2; only with attention.causal", ...
std::string allowed(const Option& option, const Condition& condition) {
  std::string text;
  if (std::holds_alternative<bool>(option.fallback)) {
    text = "true | false";
  } else if (std::holds_alternative<std::string>(option.fallback)) {
    for (const std::string& choice : option.choices) text += (text.empty() ? "" : " | ") + choice;
    if (text.empty()) text = "text";
  } else {
    text = std::holds_alternative<long>(option.fallback) ? "whole number" : "number";
    if (const std::string range = range_text(option); !range.empty()) text += " " + range;
  }
  if (!option.unit.empty()) text += "; " + option.unit;
  if (!condition.empty()) text += "; only with " + condition_text(condition);
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
      append_wrapped(text, option.doc + " (" + allowed(option, options.condition(option.name)) + ")", column);
    }
  }
  return text;
}

}  // namespace fluxformer
