#include "base/session.hpp"
#include "drivers/command_line.hpp"

int main(int argc, char** argv) {
  fluxformer::Session session(argc, argv);
  return fluxformer::run_command_line(argc, argv);
}
