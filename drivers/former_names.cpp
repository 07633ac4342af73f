#include "drivers/former_names.hpp"

#include <algorithm>
#include <utility>

#include "base/deck.hpp"
#include "base/error.hpp"
#include "base/option.hpp"
#include "base/options.hpp"
#include "drivers/commands.hpp"
#include "drivers/registry.hpp"

namespace fluxformer {
namespace {

/// One of the experiments that had a name together, and its keys.
struct FormerStudy {
  explicit FormerStudy(const ExperimentEntry& of) : entry(&of), options(of.declare) {}
  /// The study that it was: what follows the former name in its own, "blocks" of hessian_blocks.
  std::string study() const { return entry->name.substr(entry->former.size() + 1); }
  /// True for a key that it has, and for any of PETSc.
  bool has(const std::string& key) const { return key.starts_with("petsc.") || options.find(key) != nullptr; }

  const ExperimentEntry* entry;
  Options options;
};

/// The experiments that had a name together, and the key that chose one of them.
struct FormerStudies {
  explicit FormerStudies(const std::string& former) {
    for (const auto* entry : experiments_called(former)) all.emplace_back(*entry);
    key = {.name = former + ".study", .fallback = all.front().study(), .doc = ""};
    for (const auto& one : all) key.choices.push_back(one.study());
  }
  /// The study that a value of the key means; throws BadInput for a value that it did not have.
  const FormerStudy& chosen_by(const std::string& text) const {
    const auto study = std::get<std::string>(parse_value(key, text));
    return *std::ranges::find(all, study, &FormerStudy::study);
  }
  /// The study that is an experiment of this name today; nullptr if there is none.
  const FormerStudy* called(const std::string& name) const {
    const auto found = std::ranges::find(all, name, [](const auto& one) { return one.entry->name; });
    return found == all.end() ? nullptr : &*found;
  }

  std::vector<FormerStudy> all;
  Option key;
};

/// Key and value of a setting of the command line.
std::pair<std::string, std::string> parts_of(const std::string& setting) {
  const auto equals = setting.find('=');
  return {setting.substr(0, equals), equals == std::string::npos ? "" : setting.substr(equals + 1)};
}

/// A run under a name that belongs to former studies.
class Translation {
 public:
  Translation(const std::string& name, const ExperimentEntry& asked, const Deck& deck, std::string source)
      : deck_(deck),
        source_(std::move(source)),
        entries_(read_deck(deck.text, source_)),
        studies_(asked.former),
        by_former_name_(name == asked.former),
        of_former_name_(deck.experiment == asked.former),
        chosen_(by_former_name_ ? &studies_.all.front() : studies_.called(asked.name)) {}

  Request request(const std::vector<std::string>& settings) {
    choose(settings);
    Request made{.experiment = chosen_->entry, .deck = {}, .settings = {}};
    for (const auto& [key, value] : entries_)
      if (is_for_chosen(key, value, source_, deck_.origin == Origin::stored))
        made.deck += key + " = " + value + '\n';
    for (const auto& setting : settings) {
      const auto [key, value] = parts_of(setting);
      if (is_for_chosen(key, value, "command line", false)) made.settings.push_back(setting);
    }
    return made;
  }

 private:
  /// The study that wrote the deck or, if people did, that it is for.
  const FormerStudy* of_deck() const {
    const auto* of = of_former_name_ ? &studies_.all.front() : chosen_;
    if (const auto* writer = studies_.called(deck_.experiment)) of = writer;
    for (const auto& [key, value] : entries_)
      if (key == studies_.key.name) {
        if (!by_former_name_ && !of_former_name_) refuse_key(source_);
        of = &studies_.chosen_by(value);
      }
    return of;
  }

  /// The first study that has all keys of deck and command line, and the first of all if none has.
  const FormerStudy* with_these_keys(const std::vector<std::string>& settings) const {
    for (const auto& one : studies_.all)
      if (std::ranges::all_of(entries_, [&](const auto& entry) { return one.has(entry.first); }) &&
          std::ranges::all_of(settings,
                              [&](const auto& setting) { return one.has(parts_of(setting).first); }))
        return &one;
    return &studies_.all.front();
  }

  void choose(const std::vector<std::string>& settings) {
    const auto* of = of_deck();
    if (by_former_name_) chosen_ = of;
    // Decks of today do not have the key of the study, which would tell.
    if (by_former_name_ && deck_.origin == Origin::deck &&
        std::ranges::find(entries_, studies_.key.name, &std::pair<std::string, std::string>::first) ==
            entries_.end())
      chosen_ = with_these_keys(settings);
    for (const auto& setting : settings)
      if (const auto [key, value] = parts_of(setting); key == studies_.key.name) {
        if (!by_former_name_) refuse_key("command line");
        chosen_ = &studies_.chosen_by(value);
      }
    // The old experiment took its own files for any of its studies.
    const bool any = deck_.origin == Origin::deck || (by_former_name_ && of_former_name_);
    if (chosen_ != of && !any)
      throw BadInput("deck " + source_ + ": is the output of " + of->entry->name +
                     ", whose settings are not those of " + chosen_->entry->name);
  }

  [[noreturn]] void refuse_key(const std::string& source) const {
    throw BadInput(studies_.key.name + " (" + source + "): " + chosen_->entry->name +
                   " is an experiment of its own; leave the key out");
  }

  /// False for keys that do not count in the chosen study and may stand there all the same.
  bool is_for_chosen(const std::string& key, const std::string& value, const std::string& source,
                     bool stored) const {
    if (key == studies_.key.name) return false;
    if (chosen_->options.find(key) != nullptr) return true;
    std::string others;
    for (const auto& other : studies_.all) {
      const auto* option = other.options.find(key);
      if (option == nullptr) continue;
      if (stored || (by_former_name_ && parse_value(*option, value) == option->fallback)) return false;
      others += (others.empty() ? "" : ", ") + other.entry->name;
    }
    if (others.empty()) return true;  // a key of PETSc, or one that is unknown everywhere
    throw BadInput(key + " = " + value + " (" + source + "): is a key of " + others + ", not of " +
                   chosen_->entry->name);
  }

  const Deck& deck_;
  std::string source_;
  std::vector<std::pair<std::string, std::string>> entries_;
  FormerStudies studies_;
  bool by_former_name_;        // on the command line
  bool of_former_name_;        // the deck is an output file of the time before
  const FormerStudy* chosen_;  // so far
};

}  // namespace

std::vector<const ExperimentEntry*> experiments_called(const std::string& name) {
  std::vector<const ExperimentEntry*> found;
  for (const auto& entry : experiments())
    if (entry.name == name || (!name.empty() && entry.former == name)) found.push_back(&entry);
  if (!found.empty()) return found;
  const auto package = python_package();
  std::vector<std::string> known;
  std::string commands, list;
  for (const auto& entry : experiments()) {
    known.push_back(entry.name);
    list += (list.empty() ? "" : ", ") + entry.name;
  }
  for (const auto& command : commands_with(package)) {
    if (command.name == name)
      throw BadInput(name + ": is a command, which comes first: fluxformer " + name + " " +
                     command.arguments);
    known.push_back(command.name);
    commands += (commands.empty() ? "" : ", ") + command.name;
  }
  const auto meant = nearest_word(name, known);
  throw BadInput(name + ": no such experiment or command" +
                 (meant.empty() ? "" : "; did you mean " + meant + "?") + "; experiments: " + list +
                 "; commands: " + commands + (package.missing.empty() ? "" : "; " + package.missing));
}

std::vector<std::string> names_in_files(const std::string& name) {
  std::vector<std::string> names{name};
  for (const auto* one : experiments_called(name)) {
    names.push_back(one->name);
    if (!one->former.empty()) names.push_back(one->former);
  }
  return names;
}

Request in_names_of_today(const std::string& name, const Deck& deck, const std::vector<std::string>& settings,
                          const std::string& source) {
  const auto* asked = experiments_called(name).front();
  if (asked->former.empty()) return {asked, deck.text, settings};
  return Translation(name, *asked, deck, source).request(settings);
}

}  // namespace fluxformer
