#include "base/options.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/deck.hpp"
#include "base/error.hpp"
#include "base/option_value.hpp"

namespace fluxformer {

namespace {

constexpr std::string_view petsc_section = "petsc.";

std::string unknown_key(const Schema& schema, const std::string& key, const std::string& source) {
  const std::string near = schema.nearest(key);
  return key + ": unknown key (" + source + ")" + (near.empty() ? "" : "; did you mean " + near + "?");
}

std::string last_part(std::string_view name) {
  return std::string(name.substr(name.rfind('.') + 1));
}

}  // namespace

void Schema::declare(Option option) {
  const auto dot = option.name.find('.');
  if (dot == 0 || dot == std::string::npos || dot + 1 == option.name.size() ||
      option.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") != std::string::npos ||
      option.name.starts_with(petsc_section))
    throw std::logic_error("option '" + option.name +
                           "': a name is section.key in lower case, not of section petsc");
  if (find(option.name) != nullptr) throw std::logic_error("option " + option.name + " was declared before");
  if (const std::string why = objection(option, option.fallback); !why.empty())
    throw std::logic_error("option " + option.name + ": its default " + value_text(option.fallback) + " " +
                           why);
  if (!deck_can_hold(value_text(option.fallback)))
    throw std::logic_error("option " + option.name + ": no deck can hold its default");
  options_.push_back(std::move(option));
}

const Option* Schema::find(std::string_view name) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [&](const Option& option) { return option.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

std::string Schema::nearest(std::string_view name) const {
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

Settings::Settings(const Schema& schema, const std::string& deck, const std::vector<std::string>& overrides,
                   const std::string& deck_name) {
  for (const Option& option : schema.options()) entries_[option.name] = {option.fallback, false};

  const auto take = [&](const std::string& key, const std::string& value, const std::string& source) {
    if (key.starts_with(petsc_section)) {
      const std::string name = key.substr(petsc_section.size());
      const auto before =
          std::find_if(petsc_.begin(), petsc_.end(), [&](const auto& pair) { return pair.first == name; });
      if (before != petsc_.end())
        before->second = value;
      else
        petsc_.emplace_back(name, value);
      return;
    }
    const Option* option = schema.find(key);
    if (option == nullptr) throw BadInput(unknown_key(schema, key, source));
    entries_[key] = {parse_value(*option, value), true};
  };

  for (const auto& [key, value] : read_deck(deck, deck_name)) take(key, value, deck_name);
  for (const std::string& text : overrides) {
    const auto equals = text.find('=');
    const std::string key = text.substr(0, equals);
    std::string value;
    if (equals != std::string::npos) {
      value = text.substr(equals + 1);
    } else if (const Option* option = schema.find(key)) {
      // A flag alone is raised.
      if (!std::holds_alternative<bool>(option->fallback))
        throw BadInput(key + ": needs a value (command line), as in " + key + "=" +
                       value_text(option->fallback));
      value = "true";
    }
    if (!deck_can_hold(value))
      throw BadInput(key + " = " + value +
                     ": must not hold #, a line break, or blanks around it (a deck could not repeat it)");
    take(key, value, "command line");
  }
}

const Settings::Entry& Settings::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw std::logic_error("option " + std::string(name) + " was never declared");
  return found->second;
}

namespace {

template <class Type>
const Type& value_of(const OptionValue& value, std::string_view name, const char* type) {
  if (const Type* held = std::get_if<Type>(&value)) return *held;
  throw std::logic_error("option " + std::string(name) + " is not declared as " + type);
}

}  // namespace

bool Settings::flag(std::string_view name) const {
  return value_of<bool>(entry(name).value, name, "a flag");
}

long Settings::integer(std::string_view name) const {
  return value_of<long>(entry(name).value, name, "a whole number");
}

int Settings::count(std::string_view name) const {
  const long value = integer(name);
  if (std::in_range<int>(value)) return static_cast<int>(value);
  throw BadInput(std::string(name) + " = " + std::to_string(value) + ": must be at most " +
                 std::to_string(std::numeric_limits<int>::max()));
}

double Settings::real(std::string_view name) const {
  return value_of<double>(entry(name).value, name, "a real number");
}

const std::string& Settings::word(std::string_view name) const {
  return value_of<std::string>(entry(name).value, name, "a word");
}

bool Settings::given(std::string_view name) const {
  return entry(name).given;
}

void Settings::leave_to_file(std::string_view name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw std::logic_error("no option " + std::string(name));
  found->second.elsewhere = true;
}

std::string Settings::resolved() const {
  std::string text;
  std::string section;
  for (const auto& [name, entry] : entries_) {
    if (entry.elsewhere && !entry.given) continue;
    const auto dot = name.find('.');
    if (name.substr(0, dot) != section) {
      section = name.substr(0, dot);
      text += (text.empty() ? "[" : "\n[") + section + "]\n";
    }
    text += name.substr(dot + 1) + " = " + value_text(entry.value) + "\n";
  }
  if (petsc_.empty()) return text;
  text += text.empty() ? "[petsc]\n" : "\n[petsc]\n";
  for (const auto& [name, value] : petsc_) text += name + " = " + value + "\n";
  return text;
}

}  // namespace fluxformer
