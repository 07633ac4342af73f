#include "model/second_order/cell_tape.hpp"

namespace fluxformer {

std::size_t CellTape::bytes() const {
  std::size_t numbers = 0, total = 0;
  for (const auto& sub : sub_layers) {
    numbers += sub.sum.capacity() + sub.sum_dot.capacity() + sub.result_bar.capacity();
    for (const auto& stage : sub.stages) {
      numbers += stage.input.capacity() + stage.seed.capacity() + stage.input_dot.capacity();
      for (const auto& part : stage.parts) total += part.bytes();
    }
  }
  return total + numbers * sizeof(double);
}

}  // namespace fluxformer
