// INI decks: their syntax, and the settings of experiments read from them.

#include <petscsys.h>

#include <stdexcept>

#include "base/deck.hpp"
#include "base/error.hpp"
#include "base/session.hpp"
#include "base/settings.hpp"
#include "drivers/registry.hpp"
#include "tests/fuzz/reader.hpp"

namespace fluxformer::fuzz {
namespace {

std::string text_of(std::span<const std::uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}

void read_syntax(std::span<const std::uint8_t> bytes) {
  for (const auto& [key, value] : read_deck(text_of(bytes), "deck"))
    if (!deck_can_hold(value)) throw std::logic_error("the value '" + value + "' cannot be in a deck");
}

/// Whatever is accepted must be repeated by its resolved settings, which go into the output.
void read_settings_of(const char* experiment, std::span<const std::uint8_t> bytes) {
  for (const auto& entry : experiments()) {
    if (entry.name != experiment) continue;
    static std::map<std::string, std::shared_ptr<const Options>> declared;
    auto& options = declared[entry.name];
    if (!options) options = std::make_shared<const Options>(entry.declare);
    const Settings settings(options, text_of(bytes), {});
    settings.refuse_idle_keys();
    set_petsc_options(settings.petsc());
    PetscOptionsClear(nullptr);
    const std::string resolved = settings.resolved();
    try {
      const Settings again(options, resolved, {}, "resolved settings");
      if (const auto other = settings.difference(again); !other.empty()) throw std::logic_error(other);
    } catch (const BadInput& e) {
      throw std::logic_error(std::string("the resolved settings are refused: ") + e.what());
    }
  }
}

}  // namespace

std::vector<Reader> deck_readers() {
  return {{"ini", "ini", read_syntax},
          {"ini_evolve", "ini", [](std::span<const std::uint8_t> b) { read_settings_of("evolve", b); }},
          {"ini_train", "ini", [](std::span<const std::uint8_t> b) { read_settings_of("train", b); }}};
}

}  // namespace fluxformer::fuzz
