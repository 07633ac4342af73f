#include "tests/support/reached.hpp"

#include <cmath>
#include <cstdio>
#include <map>

namespace fluxformer::test {
namespace {

std::map<std::string, double>& largest() {
  static std::map<std::string, double> all;
  return all;
}

}  // namespace

double reached(const std::string& what, double error) {
  const auto [place, first] = largest().emplace(what, error);
  if (!first && !(error <= place->second)) place->second = error;  // what is not a number stays
  return error;
}

void print_reached() {
  for (const auto& [what, error] : largest()) std::printf("reached %s: %.3g\n", what.c_str(), error);
}

}  // namespace fluxformer::test
