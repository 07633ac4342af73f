#include "base/settings.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/deck.hpp"
#include "base/error.hpp"

namespace fluxformer {

namespace {

constexpr std::string_view petsc_section = "petsc.";

std::string petsc_key(const std::string& name) {
  return name.substr(petsc_section.size());
}

/// Options that choose how the run is computed, without those that print or write.
SolverOptions choices(const SolverOptions& options) {
  SolverOptions chosen;
  for (const auto& [name, value] : options)
    if (can_stand_in_a_file(name, value)) chosen.emplace_back(name, value);
  return chosen;
}

std::string unknown_key(const Options& options, const std::string& key, const std::string& source) {
  const std::string near = options.nearest(key);
  return key + ": unknown key (" + source + ")" + (near.empty() ? "" : "; did you mean " + near + "?");
}

/// Throws BadInput for a value that means something else to its writer. Not for stored settings: they hold
/// what an earlier run was given.
void refuse_shell_spelling(const std::string& name, const std::string& value, const std::string& source) {
  if (const auto why = shell_spelling(value); !why.empty())
    throw BadInput(name + " = " + value + " (" + source + "): " + why);
}

template <class Type>
const Type& value_of(const OptionValue& value, std::string_view name, const char* type) {
  if (const Type* held = std::get_if<Type>(&value)) return *held;
  throw std::logic_error("option " + std::string(name) + " is not declared as " + type);
}

}  // namespace

Settings::Settings(std::shared_ptr<const Options> options, const std::string& deck,
                   const std::vector<std::string>& overrides, const std::string& source, Origin origin)
    : options_(std::move(options)), source_(source) {
  for (const Option& option : options_->all()) entries_[option.name] = {.value = option.fallback};
  for (const auto& [name, text] : read_deck(deck, source)) {
    const Option* option = options_->find(name);
    if (origin == Origin::stored && option != nullptr && option->role == Role::permission) continue;
    if (origin == Origin::deck) refuse_shell_spelling(name, text, source);
    if (!name.starts_with(petsc_section) || can_stand_in_a_file(petsc_key(name), text))
      take(name, text, source);
    else if (origin == Origin::stored)
      left_out_.push_back(name);
    else
      throw BadInput(name + (text.empty() ? "" : " = " + text) + " (" + source +
                     "): a deck holds choices of PETSc's TS, SNES, KSP and PC; what can open files or start "
                     "programs is given on the command line (--" +
                     name + "=...)");
  }
  for (const std::string& text : overrides) take_override(text);
}

void Settings::take_override(const std::string& text) {
  const auto equals = text.find('=');
  const std::string name = text.substr(0, equals);
  std::string value;
  if (equals != std::string::npos) {
    value = text.substr(equals + 1);
  } else if (const Option* option = options_->find(name)) {
    // A flag alone is raised.
    if (!std::holds_alternative<bool>(option->fallback))
      throw BadInput(name + ": needs a value (command line), as in " + name + "=" +
                     value_text(option->fallback));
    value = "true";
  }
  if (!deck_can_hold(value))
    throw BadInput(name + " = " + value +
                   ": must not hold #, a line break, or blanks around it (a deck could not repeat it)");
  refuse_shell_spelling(name, value, "command line");
  take(name, value, "command line");
}

void Settings::take(const std::string& name, const std::string& text, const std::string& source) {
  if (name.starts_with(petsc_section)) return take_petsc(petsc_key(name), text);
  const Option* option = options_->find(name);
  if (option == nullptr) throw BadInput(unknown_key(*options_, name, source));
  entries_[name] = {.value = parse_value(*option, text), .given = true};
}

void Settings::take_petsc(const std::string& key, const std::string& text) {
  const auto before = std::ranges::find(petsc_, key, &SolverOptions::value_type::first);
  if (before != petsc_.end())
    before->second = text;
  else
    petsc_.emplace_back(key, text);
}

const Settings::Entry& Settings::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw std::logic_error("option " + std::string(name) + " was never declared");
  return found->second;
}

Settings::Entry& Settings::entry(std::string_view name) {
  std::as_const(*this).entry(name);  // throws if there is none
  return entries_.find(name)->second;
}

bool Settings::flag(std::string_view name) const {
  return value_of<bool>(value(name), name, "a flag");
}

long Settings::integer(std::string_view name) const {
  return value_of<long>(value(name), name, "a whole number");
}

int Settings::count(std::string_view name) const {
  const long value = integer(name);
  if (std::in_range<int>(value)) return static_cast<int>(value);
  throw BadInput(std::string(name) + " = " + std::to_string(value) + ": must be at most " +
                 std::to_string(std::numeric_limits<int>::max()));
}

double Settings::real(std::string_view name) const {
  return value_of<double>(value(name), name, "a real number");
}

const std::string& Settings::word(std::string_view name) const {
  return value_of<std::string>(value(name), name, "a word");
}

const std::vector<long>& Settings::integers(std::string_view name) const {
  return value_of<std::vector<long>>(value(name), name, "a list of whole numbers");
}

const std::vector<double>& Settings::reals(std::string_view name) const {
  return value_of<std::vector<double>>(value(name), name, "a list of real numbers");
}

const std::vector<std::string>& Settings::words(std::string_view name) const {
  return value_of<std::vector<std::string>>(value(name), name, "a list of words");
}

const OptionValue& Settings::value(std::string_view name) const {
  return entry(name).value;
}

bool Settings::given(std::string_view name) const {
  return entry(name).given;
}

bool Settings::holds(const When& clause) const {
  return left_to_file(clause.key) || clause.holds(entry(clause.key).value);
}

bool Settings::counts(std::string_view name) const {
  return std::ranges::all_of(options_->at(name).when.clauses,
                             [&](const When& clause) { return holds(clause); });
}

Settings Settings::with(const Changes& changes) const {
  Settings changed = *this;
  for (const auto& [name, value] : changes) {
    Entry& to = changed.entry(name);
    if (value.index() != to.value.index())
      throw std::logic_error("option " + name + " is not declared as the type of " + value_text(value));
    if (const auto why = objection(options_->at(name), value); !why.empty())
      throw BadInput(name + " = " + value_text(value) + ": " + why);
    to.value = value;
    to.given = true;
  }
  return changed;
}

Settings Settings::without(const std::vector<std::string>& names) const {
  Settings changed = *this;
  for (const auto& name : names) {
    Entry& to = changed.entry(name);
    to.value = options_->at(name).fallback;
    to.given = false;
  }
  return changed;
}

void Settings::leave_to_file(std::string_view name) {
  entry(name).elsewhere = true;
}

bool Settings::left_to_file(std::string_view name) const {
  const Entry& of_key = entry(name);
  return of_key.elsewhere && !of_key.given;
}

void Settings::refuse_idle_keys() const {
  for (const Option& option : options_->all()) {
    if (value(option.name) == option.fallback) continue;
    for (const When& clause : option.when.clauses)
      if (!holds(clause)) throw BadInput(option.name + ": needs " + clause.text());
  }
}

std::string Settings::difference(const Settings& earlier) const {
  for (const Option& option : options_->all()) {
    if (option.role == Role::output || option.role == Role::free || option.role == Role::permission) continue;
    // A default that was given is not the same as a value that another file decides.
    const bool elsewhere = entry(option.name).elsewhere;
    if (value(option.name) == earlier.value(option.name) &&
        (!elsewhere || given(option.name) == earlier.given(option.name)))
      continue;
    const auto text = [&](const Settings& of) {
      return elsewhere && !of.given(option.name) ? "(left out)" : value_text(of.value(option.name));
    };
    return option.name + " = " + text(*this) + ": " + earlier.source_ + " was made with " + text(earlier);
  }
  if (choices(petsc_) != choices(earlier.petsc_))
    return "[petsc]: " + earlier.source_ + " was made with other options";
  return {};
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
