#include "io/variable.hpp"
#include <algorithm>
#include <stdexcept>
#include <utility>

namespace fluxformer::io {

void Description::variables(const std::string& group, const std::vector<Variable>& list) {
  for (const auto& one : list)
    add({(group == "/" ? "" : group) + "/" + one.name, one.axes, one.unit, one.long_name});
}

void Description::attributes(const std::string& object, const std::vector<Attribute>& list) {
  for (const auto& one : list) add({object + "@" + one.name, {}, one.unit, one.meaning});
}

void Description::add(Described entry) {
  const auto same = [&](const Described& other) { return other.path == entry.path; };
  if (std::ranges::any_of(entries_, same)) throw std::logic_error(entry.path + " is described twice");
  entries_.push_back(std::move(entry));
}

}  // namespace fluxformer::io
