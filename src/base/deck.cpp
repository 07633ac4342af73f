#include "base/deck.hpp"

#include <algorithm>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <set>

#include "base/error.hpp"
#include "base/text_stream.hpp"

namespace fluxformer {

namespace po = boost::program_options;

namespace {

// A line as it can be printed: the file may not be a deck at all.
std::string shown(const std::string& line) {
  constexpr std::size_t most = 60;
  std::string text = line.substr(0, most);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  return '"' + text + (line.size() > most ? "...\"" : "\"");
}

void require_text(std::string_view text, const std::string& name) {
  const auto control = [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\r' && c != '\n') || c == '\x7F';
  };
  const auto found = std::ranges::find_if(text, control);
  if (found != text.end())
    throw BadInput(name + ": is not a text: line " +
                   std::to_string(1 + std::count(text.begin(), found, '\n')) +
                   " has a byte that no text holds");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> read_deck(std::string_view text, const std::string& name) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  require_text(text, name);
  auto in = text_stream(std::string(text));
  std::vector<std::pair<std::string, std::string>> values;
  std::set<std::string> keys;
  try {
    const po::options_description none;
    for (const po::option& option : po::parse_config_file(in, none, true).options) {
      if (!keys.insert(option.string_key).second)
        throw BadInput(name + ": " + option.string_key + " is given twice");
      values.emplace_back(option.string_key, option.value.front());
    }
  } catch (const po::invalid_config_file_syntax& e) {
    throw BadInput(name + ": " + shown(e.tokens()) +
                   ": expected [section], key = value (key = alone for a flag of PETSc), or a comment that "
                   "begins with #");
  }
  return values;
}

std::string shell_spelling(std::string_view value) {
  for (const std::string_view mark : {"\"", "\u201C", "\u201D", "'", "\u2018", "\u2019"}) {
    const bool can_end_a_name = mark == "'" || mark == "\u2019";  // an apostrophe
    if (value.starts_with(mark) || (value.ends_with(mark) && !can_end_a_name))
      return "a value is written without quotation marks, also if it holds blanks";
  }
  if (value.starts_with('~'))
    return "~ is not replaced by a folder here; write the whole path (./~ for a name that begins with ~)";
  return {};
}

bool deck_can_hold(std::string_view value) {
  constexpr std::string_view blanks = " \t\r\n";
  return value.find_first_of("#\n") == std::string_view::npos &&
         (value.empty() || (blanks.find(value.front()) == std::string_view::npos &&
                            blanks.find(value.back()) == std::string_view::npos));
}

}  // namespace fluxformer
