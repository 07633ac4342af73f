#include "operators/term.hpp"

#include <sstream>

namespace fluxformer {

std::string value_text(const std::string& symbol, double value) {
  std::ostringstream text;
  text << symbol << " = " << value;
  return text.str();
}

}  // namespace fluxformer
