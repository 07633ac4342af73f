#pragma once

// The text of a Usenet post: its parts and its words. Bytes are read as Latin-1.

#include <functional>
#include <string>
#include <string_view>

namespace fluxformer::data {

/// Calls visit(word) for every word in order, until it returns false. A word is a maximal run of letters
/// (those of Latin-1 included), lower-cased and given in UTF-8, or a maximal run of digits. All else parts
/// words: an address user@host.edu gives user, host and edu, so that what posts from one institution or on
/// one product ("386sx": 386, sx) have in common is seen.
void for_each_word(std::string_view text, const std::function<bool(std::string_view)>& visit);

// Three ways a post tells its group without its text doing so; leaving them out makes the task one of
// language. Source of the idea: the argument `remove` of scikit-learn's fetch_20newsgroups.

/// What follows the first blank line; nothing if there is none.
std::string_view without_header(std::string_view post);
/// The lines of `body` that are not quoted: without those that begin with '>' or '|' (blanks before it
/// allowed) or with "In article", and those that hold "writes:", "wrote:", "says:", "said:" or "writes in".
std::string without_quotes(std::string_view body);
/// What precedes the last line that is blank or made of dashes; all of `body` if nothing does. Blank lines at
/// the ends of `body` do not count. The last paragraph of a post is its signature more often than not.
std::string_view without_footer(std::string_view body);

/// `post` without what is not to be kept; header, then footer, then quotes are taken away. A header that is
/// kept is left as it is.
std::string kept_text(std::string_view post, bool headers, bool quotes, bool footers);

}  // namespace fluxformer::data
