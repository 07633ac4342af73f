#include "base/deck.hpp"

#include <map>
#include <utility>

#include "base/error.hpp"

namespace fluxformer {

namespace {

constexpr std::string_view blanks = " \t\r\f\v";

bool is_blank(char c) {
  return blanks.find(c) != std::string_view::npos;
}
bool is_comment_sign(char c) {
  return c == '#' || c == ';';
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string_view without_comment(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (is_comment_sign(text[i]) && (i == 0 || is_blank(text[i - 1]))) return text.substr(0, i);
  return text;
}

// A line as a message can show it, whatever file was taken for a deck.
std::string shown(std::string_view line) {
  constexpr std::size_t most = 60;
  std::string text(line.substr(0, most));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  return '"' + text + (line.size() > most ? "...\"" : "\"");
}

// The value between double quotes at the beginning of `text`; `rest` is what stands behind it. Returns
// whether the closing quote was found.
bool unquote(std::string_view text, std::string& value, std::string_view& rest) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      rest = text.substr(i + 1);
      return true;
    }
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      value += text[i] == 'n' ? '\n' : text[i] == 'r' ? '\r' : text[i];
    } else {
      value += text[i];
    }
  }
  return false;
}

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  void read(std::string_view line) {
    ++number_;
    const std::string_view text = trimmed(line);
    if (text.empty() || is_comment_sign(text[0])) return;
    if (text[0] == '[')
      read_section(text);
    else
      read_key(text);
  }

  std::vector<DeckLine> take() { return std::move(lines_); }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw BadInput(name_ + " line " + std::to_string(number_) + ": " + why);
  }

  void read_section(std::string_view line) {
    const std::string_view text = trimmed(without_comment(line));
    if (text.back() != ']') refuse(shown(line) + ": a section is written [name]");
    const std::string_view section = trimmed(text.substr(1, text.size() - 2));
    if (section.empty() || section.find_first_of("[]= \t") != std::string_view::npos)
      refuse(shown(line) + ": a section is written [name]");
    section_ = section;
  }

  void read_key(std::string_view line) {
    const auto equals = line.find('=');
    const bool alone = equals == std::string_view::npos;
    const std::string_view key = trimmed(alone ? without_comment(line) : line.substr(0, equals));
    if (key.empty() || key.find_first_of(" \t#;") != std::string_view::npos || (alone && section_ != "petsc"))
      refuse(shown(line) + ": expected [section], key = value, or a comment that begins with # or ;");
    std::string name = section_.empty() ? std::string(key) : section_ + "." + std::string(key);
    const auto [before, is_new] = numbers_.emplace(name, number_);
    if (!is_new) refuse(name + " was given before, in line " + std::to_string(before->second));
    lines_.push_back({std::move(name), alone ? "" : read_value(trimmed(line.substr(equals + 1))), number_});
  }

  std::string read_value(std::string_view text) const {
    if (text.empty() || text[0] != '"') return std::string(trimmed(without_comment(text)));
    std::string value;
    std::string_view rest;
    if (!unquote(text, value, rest)) refuse(shown(text) + ": the closing quote is missing");
    if (!trimmed(without_comment(rest)).empty()) refuse(shown(text) + ": text behind the closing quote");
    return value;
  }

  const std::string& name_;
  std::string section_;
  int number_ = 0;
  std::map<std::string, int> numbers_;
  std::vector<DeckLine> lines_;
};

}  // namespace

std::vector<DeckLine> read_deck(std::string_view text, const std::string& name) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.substr(0, byte_order_mark.size()) == byte_order_mark) text.remove_prefix(byte_order_mark.size());
  Reader reader(name);
  while (!text.empty()) {
    const auto end = text.find('\n');
    reader.read(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.take();
}

std::string deck_value(const std::string& value) {
  const bool plain = trimmed(value) == value && without_comment(value) == value &&
                     value.find_first_of("\n\r") == std::string::npos && (value.empty() || value[0] != '"');
  if (plain) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else if (c == '\r')
      quoted += "\\r";
    else
      quoted += c;
  }
  return quoted + '"';
}

}  // namespace fluxformer
