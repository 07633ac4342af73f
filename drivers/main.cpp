#include "drivers/command_line.hpp"

int main(int argc, char** argv) {
  return fluxformer::run_program(argc, argv);
}
