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

std::string both(const std::string& one, const std::string& other) {
  return one.empty() || other.empty() ? one + other : one + " and " + other;
}

}  // namespace

Options::Options(const Declare& declare) {
  declare(*this);
  std::map<std::string, Condition, std::less<>> conditions;
  for (const Option& option : options_) {
    try {
      conditions[option.name] = parse_condition(option.when, *this);
    } catch (const std::logic_error& e) {
      throw std::logic_error("option " + option.name + ": " + e.what());
    }
  }
  conditions_ = std::move(conditions);
}

void Options::declare(Option option) {
  if (!conditions_.empty()) throw std::logic_error("option " + option.name + ": declared too late");
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
  if (!deck_can_hold(value_text(option.fallback)))
    throw std::logic_error("option " + option.name + ": its default cannot be written in a deck");
  option.when = both(scope_, option.when);
  options_.push_back(std::move(option));
}

void Options::declare_when(const std::string& condition, const Declare& declare) {
  const auto outer = std::exchange(scope_, both(scope_, condition));
  declare(*this);
  scope_ = outer;
}

const Option* Options::find(std::string_view name) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [&](const Option& option) { return option.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

const Condition& Options::condition(std::string_view name) const {
  const auto found = conditions_.find(name);
  if (found == conditions_.end())
    throw std::logic_error("option " + std::string(name) + " was never declared");
  return found->second;
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

}  // namespace fluxformer
