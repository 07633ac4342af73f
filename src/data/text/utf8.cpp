#include "data/text/utf8.hpp"

#include <cstddef>
#include <cstdint>

namespace fluxformer::data {

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = [&](std::size_t k) -> std::uint32_t { return static_cast<unsigned char>(text[k]); };
    const std::uint32_t first = byte(at++);
    if (first < 0x80) continue;
    const std::size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC0 || first > 0xF7 || text.size() - at < more) return false;
    std::uint32_t letter = first & (0x3FU >> more);
    for (std::size_t k = 0; k < more; ++k, ++at) {
      if ((byte(at) & 0xC0U) != 0x80) return false;
      letter = letter << 6U | (byte(at) & 0x3FU);
    }
    // The shortest form, and no half of a pair of UTF-16.
    static constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (letter < least[more] || letter > 0x10FFFF || (letter >= 0xD800 && letter < 0xE000)) return false;
  }
  return true;
}

}  // namespace fluxformer::data
