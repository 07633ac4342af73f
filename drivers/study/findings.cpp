#include "drivers/study/findings.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/text_stream.hpp"

namespace fluxformer {
namespace {

// Items of a checkpoint: how many places are finished, their results one behind the other, and the wall time
// of each. Texts: `results` says what the numbers are, `words` has a line for each place.
constexpr io::WholeItem points_done{"points"};
constexpr io::NumbersItem numbers_found{.name = "numbers", .can_be_nan = true, .can_be_infinite = true};
constexpr io::NumbersItem seconds_of_points{.name = "seconds", .least = 0};
constexpr const char *results_found = "results", *words_found = "words";

/// A line for each result of a place: the number of the place, name, how many numbers.
std::string listed(std::size_t place, const Found& found) {
  std::string lines;
  for (const auto& [name, values] : found.results)
    lines += std::to_string(place) + ' ' + name + ' ' + std::to_string(values.size()) + '\n';
  return lines;
}

void append(std::vector<double>& to, const Found& found) {
  for (const auto& [name, values] : found.results) to.insert(to.end(), values.begin(), values.end());
}

/// Sends a text of any length from one rank to all. Collective.
void broadcast(std::string& text, int from, MPI_Comm comm) {
  long size = std::ssize(text);
  check_mpi(MPI_Bcast(&size, 1, MPI_LONG, from, comm));
  text.resize(size);
  check_mpi(MPI_Bcast(text.data(), static_cast<int>(size), MPI_CHAR, from, comm));
}

/// Results without their values, which the list announces.
std::vector<std::pair<std::string, std::vector<double>>> announced(const std::string& list) {
  std::vector<std::pair<std::string, std::vector<double>>> results;
  auto lines = text_stream(list);
  std::size_t place = 0, count = 0;
  std::string name;
  while (lines >> place >> name >> count) results.emplace_back(name, std::vector<double>(count));
  return results;
}

}  // namespace

void Results::put(const io::Variable& variable, std::vector<double> values) {
  const auto& known = of_.declared(variable.name);
  if (known.axes != variable.axes) throw std::logic_error(variable.name + ": was declared with other axes");
  if (std::ranges::any_of(found_.results, [&](const auto& one) { return one.first == variable.name; }))
    throw std::logic_error(variable.name + ": put twice at " + place_.name);
  if (const auto wanted = of_.numbers(place_, variable); values.size() != wanted)
    throw std::logic_error(variable.name + ": " + std::to_string(values.size()) + " numbers for " +
                           std::to_string(wanted));
  found_.results.emplace_back(variable.name, std::move(values));
}

void Results::say(const std::string& words) {
  if (words.find('\n') != std::string::npos) throw std::logic_error("more than a line: " + words);
  found_.words += (found_.words.empty() ? "" : ", ") + words;
}

Findings::Findings(const StudyRecord& record, std::vector<Place> places,
                   const std::vector<io::Variable>& variables)
    : record_(record), places_(std::move(places)) {
  for (const auto& one : variables) variables_.emplace(one.name, one);
}

const io::Variable& Findings::declared(const std::string& name) const {
  const auto known = variables_.find(name);
  if (known == variables_.end()) throw std::logic_error(name + ": is not declared among the results");
  return known->second;
}

const std::vector<double>& Findings::at(std::size_t place, const io::Variable& variable) const {
  const auto& results = of(place).results;
  const auto found =
      std::ranges::find_if(results, [&](const auto& one) { return one.first == variable.name; });
  if (found == results.end()) throw std::logic_error(variable.name + ": not given at " + places_[place].name);
  return found->second;
}

void Findings::share(MPI_Comm comm, std::size_t groups, int together, const Found& mine) {
  for (std::size_t group = 0; group < groups; ++group) {
    const int from = static_cast<int>(group) * together;
    const bool here = mpi::rank(comm) == from;
    Found found;
    if (here) found = mine;
    auto list = here ? listed(found_.size(), mine) : std::string();
    broadcast(list, from, comm);
    broadcast(found.words, from, comm);
    if (!here) found.results = announced(list);
    for (auto& [name, values] : found.results) broadcast_numbers(values, from, comm);
    broadcast_numbers({&found.seconds, 1}, from, comm);
    found_.push_back(std::move(found));
  }
}

void Findings::save(io::CheckpointWriter& file) const {
  std::string lists, words;
  std::vector<double> numbers, seconds;
  for (std::size_t place = 0; place < count(); ++place) {
    lists += listed(place, found_[place]);
    words += found_[place].words + '\n';
    append(numbers, found_[place]);
    seconds.push_back(found_[place].seconds);
  }
  file.put(points_done, static_cast<long>(count()));
  file.put(results_found, lists);
  file.put(words_found, words);
  file.put(numbers_found, numbers);
  file.put(seconds_of_points, seconds);
}

void Findings::load(const io::CheckpointReader& file) {
  const auto done = static_cast<std::size_t>(file.integer(points_done));
  if (done > places_.size())
    throw BadInput(file.called() + ": its " + std::to_string(done) + " points are more than the " +
                   std::to_string(places_.size()) + " of these settings");
  const auto refuse = [&](const std::string& what) {
    throw BadInput(file.called() + ": " + what + ": its results are not those of these settings");
  };
  std::vector<Found> found(done);
  auto lists = text_stream(file.text(results_found)), words = text_stream(file.text(words_found));
  std::size_t place = 0, count = 0, all = 0;
  std::string name;
  while (lists >> place >> name >> count) {
    const auto known = variables_.find(name);
    if (place >= done || known == variables_.end()) refuse(name);
    if (count != numbers(places_[place], known->second)) refuse(name + " of " + places_[place].name);
    found[place].results.emplace_back(name, std::vector<double>(count));
    all += count;
  }
  const auto numbers = file.numbers(numbers_found, static_cast<Index>(all));
  const auto seconds = file.numbers(seconds_of_points, static_cast<Index>(done));
  auto from = numbers.begin();
  for (std::size_t k = 0; k < done; ++k) {
    for (auto& [called, values] : found[k].results) {
      std::copy_n(from, values.size(), values.begin());
      from += std::ssize(values);
    }
    std::getline(words, found[k].words);
    found[k].seconds = seconds[k];
  }
  found_ = std::move(found);
}

}  // namespace fluxformer
