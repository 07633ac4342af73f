#include "drivers/describe.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/layout.hpp"

namespace fluxformer {
namespace {

using Json = nlohmann::ordered_json;

Json key_of(const Option& option) {
  constexpr const char* types[] = {"flag",         "whole number",          "number",
                                   "word",         "list of whole numbers", "list of numbers",
                                   "list of words"};  // in the order of OptionValue
  static_assert(std::size(types) == std::variant_size_v<OptionValue>);
  constexpr const char* roles[] = {"run",    "model", "data",
                                   "output", "free",  "permission"};  // in the order of Role
  Json key{{"name", option.name}, {"type", types[option.fallback.index()]}, {"sentence", option.doc}};
  std::visit([&](const auto& value) { key["default"] = value; }, option.fallback);
  if (!option.unit.empty()) key["unit"] = option.unit;
  if (std::isfinite(option.minimum)) key[option.above_minimum ? "above" : "minimum"] = option.minimum;
  if (std::isfinite(option.maximum)) key["maximum"] = option.maximum;
  if (!option.choices.empty()) key["choices"] = option.choices;
  if (option.not_empty) key["not_empty"] = true;
  key["role"] = roles[static_cast<std::size_t>(option.role)];
  if (!option.when.clauses.empty()) key["when"] = option.when.text();
  return key;
}

Json experiment_of(const ExperimentEntry& entry) {
  const Options options(entry.declare);
  io::Description files;
  entry.describe(files);
  Json keys = Json::array(), variables = Json::array();
  for (const auto& option : options.all()) keys.push_back(key_of(option));
  for (const auto& one : files.entries())
    variables.push_back(
        {{"path", one.path}, {"axes", one.axes}, {"unit", one.unit}, {"meaning", one.meaning}});
  return {{"name", entry.name},   {"family", entry.family}, {"sentence", entry.sentence},
          {"cites", entry.cites}, {"keys", keys},           {"variables", variables}};
}

}  // namespace

std::string description_as_json(const std::vector<const ExperimentEntry*>& experiments) {
  Json list = Json::array();
  for (const auto* entry : experiments) list.push_back(experiment_of(*entry));
  return Json{{"schema_version", schema_version}, {"experiments", list}}.dump(1);
}

}  // namespace fluxformer
