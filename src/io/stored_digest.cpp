#include "io/stored_digest.hpp"

#include "io/from_root.hpp"
#include "io/layout.hpp"

namespace fluxformer::io {

std::optional<std::uint64_t> stored_digest(hid_t object) {
  const auto value = read_attribute(object, names::digest);
  const long* digest = value ? std::get_if<long>(&*value) : nullptr;
  if (digest == nullptr) return {};
  return static_cast<std::uint64_t>(*digest);
}

std::uint64_t digest_of_item(const std::string& name, const AttributeValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  const auto* whole = std::get_if<long>(&value);
  const auto bytes = text != nullptr    ? *text
                     : whole != nullptr ? as_bytes(std::vector{*whole})
                                        : as_bytes(std::vector{std::get<double>(value)});
  return digest_of(name + '\0' + bytes);
}

}  // namespace fluxformer::io
