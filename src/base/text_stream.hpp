#pragma once

#include <sstream>
#include <string>

namespace fluxformer {

/// A stream that reads a text, and throws std::bad_alloc where memory is missing: other streams end there, as if the text did. Not
/// collective.
inline std::istringstream text_stream(const std::string& text) {
  std::istringstream in(text);
  in.exceptions(std::ios::badbit);
  return in;
}

}  // namespace fluxformer
