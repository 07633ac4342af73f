#include "data/images/digit_strokes.hpp"

#include <cstddef>

namespace fluxformer::data {
namespace {

/// Catmull-Rom curve through the points, in `pieces` straight pieces per span; an open curve is extended by
/// its mirrored neighbours. Source: Catmull and Rom, "A class of local interpolating splines", 1974.
PenStroke curve(const std::vector<PenPoint>& through, bool closed) {
  constexpr int pieces = 5;
  const auto count = static_cast<int>(through.size());
  const auto at = [&](int i) -> PenPoint {
    if (closed) return through[(i + count) % count];
    if (i < 0) return {2 * through[0].x - through[1].x, 2 * through[0].y - through[1].y};
    if (i >= count) {
      const PenPoint& last = through.back();
      const PenPoint& before = through[through.size() - 2];
      return {2 * last.x - before.x, 2 * last.y - before.y};
    }
    return through[i];
  };
  const auto blend = [](double a, double b, double c, double d, double t) {
    return 0.5 * (2 * b + t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a))));
  };
  PenStroke stroke{at(0)};
  for (int span = 0; span < (closed ? count : count - 1); ++span) {
    const PenPoint a = at(span - 1), b = at(span), c = at(span + 1), d = at(span + 2);
    for (int piece = 1; piece <= pieces; ++piece) {
      const double t = static_cast<double>(piece) / pieces;
      stroke.push_back({blend(a.x, b.x, c.x, d.x, t), blend(a.y, b.y, c.y, d.y, t)});
    }
  }
  return stroke;
}

PenStroke open(const std::vector<PenPoint>& through) {
  return curve(through, false);
}
PenStroke loop(const std::vector<PenPoint>& through) {
  return curve(through, true);
}

using Strokes = std::vector<PenStroke>;

const std::vector<std::vector<Strokes>>& book() {
  static const PenStroke bowl_of_3 =
      open({{-0.08, -0.08}, {0.38, 0.1}, {0.5, 0.48}, {0.22, 0.9}, {-0.22, 0.97}, {-0.55, 0.72}});
  static const PenStroke bowl_of_5 =
      open({{-0.42, -0.08}, {0.05, -0.24}, {0.46, 0.08}, {0.45, 0.6}, {0.02, 0.98}, {-0.5, 0.8}});
  static const PenStroke head_of_9 =
      loop({{0.38, -0.6}, {0.12, -0.98}, {-0.32, -0.88}, {-0.46, -0.5}, {-0.22, -0.14}, {0.2, -0.22}});
  static const std::vector<std::vector<Strokes>> digits = {
      {// 0: round; narrow
       {loop({{0, -1}, {0.44, -0.7}, {0.6, 0}, {0.44, 0.7}, {0, 1}, {-0.44, 0.7}, {-0.6, 0}, {-0.44, -0.7}})},
       {loop({{0.08, -1},
              {0.36, -0.6},
              {0.4, 0.1},
              {0.2, 0.8},
              {-0.1, 1},
              {-0.36, 0.6},
              {-0.4, -0.1},
              {-0.2, -0.8}})}},
      {// 1: a bar; with a flag; with flag and foot
       {{{0, -1}, {0, 1}}},
       {{{-0.34, -0.62}, {0.02, -1}, {0.02, 1}}},
       {{{-0.3, -0.65}, {0, -1}, {0, 0.95}}, {{-0.4, 0.95}, {0.4, 0.95}}}},
      {// 2: with a corner; with a loop at the foot
       {open({{-0.5, -0.55}, {-0.22, -0.95}, {0.25, -0.95}, {0.47, -0.5}, {0.15, 0.1}, {-0.55, 0.92}}),
        {{-0.55, 0.92}, {0.58, 0.92}}},
       {open({{-0.46, -0.62},
              {-0.1, -0.98},
              {0.36, -0.8},
              {0.36, -0.25},
              {-0.05, 0.5},
              {-0.42, 0.88},
              {-0.56, 0.6},
              {-0.2, 0.6},
              {0.2, 0.88},
              {0.62, 0.8}})}},
      {// 3: two bowls; with a flat roof
       {open({{-0.5, -0.74}, {-0.12, -0.99}, {0.34, -0.82}, {0.34, -0.34}, {-0.08, -0.08}}), bowl_of_3},
       {{{-0.48, -0.94}, {0.42, -0.94}, {-0.08, -0.08}}, bowl_of_3}},
      {// 4: open; closed
       {{{-0.38, -0.95}, {-0.52, 0.14}, {0.56, 0.14}}, {{0.3, -0.7}, {0.26, 1}}},
       {{{0.26, -1}, {-0.56, 0.3}, {0.6, 0.3}}, {{0.26, -1}, {0.26, 1}}}},
      {// 5: with a corner; drawn in one go
       {{{0.5, -0.95}, {-0.34, -0.95}, {-0.42, -0.08}}, bowl_of_5},
       {open({{0.5, -0.92},
              {0, -0.94},
              {-0.34, -0.82},
              {-0.4, -0.3},
              {-0.3, -0.1},
              {0.15, -0.15},
              {0.46, 0.22},
              {0.34, 0.78},
              {-0.1, 0.98},
              {-0.5, 0.86}})}},
      {// 6: bent; straight back
       {open({{0.36, -0.98},
              {-0.12, -0.72},
              {-0.44, -0.1},
              {-0.46, 0.5},
              {-0.14, 0.96},
              {0.32, 0.86},
              {0.46, 0.42},
              {0.16, 0.06},
              {-0.24, 0.2},
              {-0.46, 0.5}})},
       {open({{0.12, -1},
              {-0.24, -0.4},
              {-0.46, 0.3},
              {-0.3, 0.86},
              {0.12, 0.97},
              {0.4, 0.64},
              {0.22, 0.22},
              {-0.16, 0.22},
              {-0.42, 0.56}})}},
      {// 7: plain; curved; crossed
       {{{-0.54, -0.92}, {0.54, -0.92}, {-0.1, 1}}},
       {{{-0.54, -0.7}, {-0.5, -0.94}},
        {{-0.5, -0.94}, {0.52, -0.9}},
        open({{0.52, -0.9}, {0.22, -0.2}, {0.06, 0.4}, {0.04, 1}})},
       {{{-0.54, -0.92}, {0.54, -0.92}, {-0.1, 1}}, {{-0.24, 0.08}, {0.5, 0.04}}}},
      {// 8: one crossing line; two rings
       {loop({{0.02, -0.06},
              {0.4, -0.46},
              {0.3, -0.88},
              {-0.1, -1},
              {-0.42, -0.72},
              {-0.3, -0.32},
              {0.02, -0.06},
              {0.4, 0.3},
              {0.42, 0.76},
              {0, 1},
              {-0.42, 0.74},
              {-0.38, 0.3}})},
       {loop({{0, -0.98}, {0.38, -0.78}, {0.36, -0.3}, {0, -0.06}, {-0.36, -0.3}, {-0.38, -0.78}}),
        loop({{0, -0.06}, {0.44, 0.22}, {0.46, 0.7}, {0, 0.98}, {-0.46, 0.7}, {-0.44, 0.22}})}},
      {// 9: straight stem; curled tail
       {head_of_9, {{0.38, -0.6}, {0.3, 1}}},
       {head_of_9, open({{0.38, -0.6}, {0.42, 0}, {0.3, 0.6}, {-0.02, 0.95}, {-0.42, 0.84}})}},
  };
  return digits;
}

}  // namespace

int digit_styles(int digit) {
  return static_cast<int>(book().at(digit).size());
}

std::vector<PenStroke> digit_strokes(int digit, int style) {
  return book().at(digit).at(style);
}

}  // namespace fluxformer::data
