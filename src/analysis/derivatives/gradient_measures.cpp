#include "analysis/derivatives/gradient_measures.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/state_examples.hpp"

namespace fluxformer::derivatives {
namespace {

enum Sum : std::size_t { squares, samples, per_depth };

}  // namespace

GradientMeter::GradientMeter(int depths, const SlabContext& context)
    : Accumulator(static_cast<std::size_t>(depths) * per_depth), context_(context) {
  need_whole_line(*context.line, "gradients by depth over samples");
}

void GradientMeter::add(int depth, const double* u_bar) {
  double* const s = local() + static_cast<std::size_t>(depth) * per_depth;
  for (int b = 0; b < context_.samples; ++b) {
    const auto sample = sample_of(context_, u_bar, b);
    if (sample.rows() == 0) continue;
    s[squares] += sample.squaredNorm();
    s[samples] += 1;
  }
}

GradientMeasures GradientMeter::measures() const {
  GradientMeasures m;
  const auto& sums = total();
  for (std::size_t at = 0; at < sums.size(); at += per_depth)
    m.norm.push_back(std::sqrt(sums[at + squares] / sums[at + samples]));
  for (std::size_t i = 0; i < m.norm.size(); ++i)
    m.ratio.push_back(i + 1 < m.norm.size() ? m.norm[i] / m.norm[i + 1] : 1);
  const auto [least, most] = std::minmax_element(m.norm.begin(), m.norm.end());
  m.disparity = *most / *least;
  m.samples = std::lround(sums[samples]);
  return m;
}

std::vector<GroupNorm> group_norms(const ParameterLayout& layout, std::span<const double> gradient) {
  std::vector<GroupNorm> groups;
  for (const auto& view : layout.views()) {
    if (groups.empty() || groups.back().group != view.group) groups.push_back({view.group});
    auto& group = groups.back();
    group.parameters += view.size();
    for (const double g : gradient.subspan(view.offset, view.size())) group.norm = std::hypot(group.norm, g);
  }
  return groups;
}

}  // namespace fluxformer::derivatives
