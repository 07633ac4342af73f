#include "data/text/post_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace fluxformer::data {
namespace {

constexpr std::string_view blanks = " \t\r\n\v\f";

bool is_digit(std::uint8_t c) {
  return c >= '0' && c <= '9';
}

/// In ISO 8859-1: 0xD7 and 0xF7 are the signs of multiplication and division; 0xAA, 0xB5 and 0xBA are
/// letters.
bool is_letter(std::uint8_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return (c >= 0xC0 && c != 0xD7 && c != 0xF7) || c == 0xAA || c == 0xB5 || c == 0xBA;
}

/// Appends the lower-cased letter in UTF-8.
void append_lower(std::uint8_t c, std::string& word) {
  const bool upper = (c >= 'A' && c <= 'Z') || (c >= 0xC0 && c <= 0xDE);  // 0xDF is sharp s
  if (upper) c = static_cast<std::uint8_t>(c + 0x20);
  if (c < 0x80) {
    word += static_cast<char>(c);
  } else {
    word += static_cast<char>(0xC0U | c >> 6U);
    word += static_cast<char>(0x80U | (c & 0x3FU));
  }
}

/// Cuts the first line, its end included, from `text`.
std::string_view next_line(std::string_view& text) {
  const auto end = text.find('\n');
  const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
  text.remove_prefix(line.size());
  return line;
}

bool only(std::string_view line, std::string_view allowed) {
  return line.find_first_not_of(allowed) == std::string_view::npos;
}

bool is_quoted(std::string_view line) {
  constexpr std::array<std::string_view, 5> marks{"writes:", "wrote:", "says:", "said:", "writes in"};
  const auto first = line.find_first_not_of(blanks);
  if (first == std::string_view::npos) return false;
  const std::string_view words = line.substr(first);
  return words.front() == '>' || words.front() == '|' || words.starts_with("In article") ||
         std::any_of(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return words.find(mark) != std::string_view::npos; });
}

}  // namespace

void for_each_word(std::string_view text, const std::function<bool(std::string_view)>& visit) {
  std::string word;
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t place) { return static_cast<std::uint8_t>(text[place]); };
    word.clear();
    if (is_digit(at(i))) {
      while (i < text.size() && is_digit(at(i))) word += text[i++];
    } else if (is_letter(at(i))) {
      while (i < text.size() && is_letter(at(i))) append_lower(at(i++), word);
    } else {
      ++i;
      continue;
    }
    if (!visit(word)) return;
  }
}

std::string_view without_header(std::string_view post) {
  while (!post.empty()) {
    if (only(next_line(post), blanks)) return post;
  }
  return post;
}

std::string without_quotes(std::string_view body) {
  std::string kept;
  while (!body.empty()) {
    const std::string_view line = next_line(body);
    if (!is_quoted(line)) kept += line;
  }
  return kept;
}

std::string_view without_footer(std::string_view body) {
  const auto first = body.find_first_not_of(blanks);
  if (first == std::string_view::npos) return body;
  const auto last = body.find_last_not_of(blanks);
  std::size_t end = body.size();
  for (std::size_t place = 0; place <= last;) {
    std::string_view rest = body.substr(place);
    const std::string_view line = next_line(rest);
    if (place > first && only(line, " \t\r\n\v\f-")) end = place;
    place += line.size();
  }
  return body.substr(0, end);
}

std::string kept_text(std::string_view post, bool headers, bool quotes, bool footers) {
  std::string_view body = without_header(post);
  const std::string_view header = post.substr(0, post.size() - body.size());
  if (!footers) body = without_footer(body);
  std::string text(headers ? header : std::string_view{});
  return quotes ? text.append(body) : text.append(without_quotes(body));
}

}  // namespace fluxformer::data
