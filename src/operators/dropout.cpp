#include "operators/dropout.hpp"

namespace fluxformer {

void Dropout::apply(const SlabContext& context, std::uint64_t site, double* slab) const {
  if (!active()) return;
  const auto& line = *context.line;
  const auto width = static_cast<std::size_t>(context.width);
  const double kept = 1 / (1 - rate_);
  const auto threshold = static_cast<std::uint32_t>(rate_ * 4294967296.0);
  std::vector<std::uint32_t> bits(width);
  for (int sample = 0; sample < context.samples; ++sample) {
    const auto stream = random_.item(keys_[sample]).item(site);
    for (int local = 0; local < line.block().count(); ++local) {
      const auto token = static_cast<std::uint64_t>(line.global_index(line.rank(), local));
      double* const row =
          slab + (static_cast<std::size_t>(local) * static_cast<std::size_t>(context.samples) +
                  static_cast<std::size_t>(sample)) *
                     width;
      const std::uint64_t blocks = (width + 3) / 4;  // four numbers of 32 bits from each block
      stream.bits(token * blocks, bits);
      for (std::size_t k = 0; k < width; ++k) row[k] *= bits[k] < threshold ? 0.0 : kept;
    }
  }
}

}  // namespace fluxformer
