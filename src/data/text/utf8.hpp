#pragma once

// Texts in UTF-8.

#include <string_view>

namespace fluxformer::data {

/// Whether these bytes are a text in UTF-8 (RFC 3629).
bool is_utf8(std::string_view text);

}  // namespace fluxformer::data
