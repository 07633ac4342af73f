#pragma once

// The text of a Usenet post: its parts and its words. Bytes are read as Latin-1.

#include <functional>
#include <string>
#include <string_view>

namespace fluxformer::data {

/// Calls visit(word) for every word in order, until it returns false. A word is a maximal run of letters
/// (those of Latin-1 included), lower-cased and given in UTF-8, or a maximal run of digits. All other
/// characters separate words: an address user@host.edu gives user, host and edu, and "386sx" gives 386 and
/// sx, so that posts from the same institution or about the same product have words in common.
void for_each_word(std::string_view text, const std::function<bool(std::string_view)>& visit);

// Three parts of a post that give its group away. Without them a classifier has to rely on the text itself.
// Source of the idea: the argument `remove` of scikit-learn's fetch_20newsgroups.

/// Everything after the first blank line; nothing if there is none.
std::string_view without_header(std::string_view post);
/// `body` without quoted lines and their introductions: lines that begin with '>' or '|' (blanks before it
/// allowed) or with "In article", or contain "writes:", "wrote:", "says:", "said:" or "writes in".
std::string without_quotes(std::string_view body);
/// Everything before the last line that is blank or consists of dashes; all of `body` if there is nothing
/// before it. Blank lines at the ends of `body` do not count. The last paragraph of a post is usually its
/// signature.
std::string_view without_footer(std::string_view body);

/// `post` without the parts that are not to be kept: header, footer and quotes are removed in this order. A
/// header that is kept is not changed.
std::string kept_text(std::string_view post, bool headers, bool quotes, bool footers);

}  // namespace fluxformer::data
