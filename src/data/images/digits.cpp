#include "data/images/digits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <utility>

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

/// The styles of the digits 0 to 4, by digit.
std::vector<std::vector<Strokes>> lower_digits() {
  const PenStroke bowl_of_3 =
      open({{-0.08, -0.08}, {0.38, 0.1}, {0.5, 0.48}, {0.22, 0.9}, {-0.22, 0.97}, {-0.55, 0.72}});
  return {
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
  };
}

/// The styles of the digits 5 to 9, by digit minus 5.
std::vector<std::vector<Strokes>> upper_digits() {
  const PenStroke bowl_of_5 =
      open({{-0.42, -0.08}, {0.05, -0.24}, {0.46, 0.08}, {0.45, 0.6}, {0.02, 0.98}, {-0.5, 0.8}});
  const PenStroke head_of_9 =
      loop({{0.38, -0.6}, {0.12, -0.98}, {-0.32, -0.88}, {-0.46, -0.5}, {-0.22, -0.14}, {0.2, -0.22}});
  return {
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
}

/// The styles of all digits, by digit.
const std::vector<std::vector<Strokes>>& book() {
  static const std::vector<std::vector<Strokes>> digits = [] {
    auto all = lower_digits();
    for (auto& styles : upper_digits()) all.push_back(std::move(styles));
    return all;
  }();
  return digits;
}

}  // namespace

int digit_styles(int digit) {
  return static_cast<int>(book().at(digit).size());
}

std::vector<PenStroke> digit_strokes(int digit, int style) {
  return book().at(digit).at(style);
}

namespace {

/// Places of the random numbers in the stream of a sample; the noise of pixel p is number `noise + p`.
enum Draw : std::uint64_t {
  style,
  rotation,
  shear,
  width,
  height,
  shift_x,
  shift_y,
  pen,
  edge,
  grain,
  warp,
  noise = 64
};

/// From the unit coordinates of the strokes to pixels: a smooth warp, then an affine map.
class Distortion {
 public:
  explicit Distortion(const RandomStream& random) {
    const double angle = random.uniform(Draw::rotation, -0.2, 0.2);
    const double slant = random.uniform(Draw::shear, -0.15, 0.4);  // handwriting leans to the right
    const double across = half_height * random.uniform(Draw::width, 0.75, 1.2);
    const double down = half_height * random.uniform(Draw::height, 0.85, 1.1);
    const double c = std::cos(angle), s = std::sin(angle);
    // rotation * shear * scale; y points down, so leaning right is -slant.
    xx_ = c * across, xy_ = -c * slant * down - s * down;
    yx_ = s * across, yy_ = -s * slant * down + c * down;
    centre_ = {random.uniform(Draw::shift_x, -1.5, 1.5) + 0.5 * (image_side - 1),
               random.uniform(Draw::shift_y, -1.5, 1.5) + 0.5 * (image_side - 1)};
    for (std::uint64_t wave = 0; wave < waves_.size(); ++wave) {
      const std::uint64_t first = Draw::warp + 5 * wave;
      waves_[wave] = {random.uniform(first, -0.09, 0.09), random.uniform(first + 1, -0.09, 0.09),
                      random.uniform(first + 2, -3, 3), random.uniform(first + 3, -3, 3),
                      random.uniform(first + 4, 0, 2 * std::numbers::pi)};
    }
  }

  PenPoint operator()(PenPoint p) const {
    PenPoint warped = p;
    for (const Wave& wave : waves_) {
      const double phase = std::sin(wave.kx * p.x + wave.ky * p.y + wave.phase);
      warped.x += wave.ax * phase, warped.y += wave.ay * phase;
    }
    return {centre_.x + xx_ * warped.x + xy_ * warped.y, centre_.y + yx_ * warped.x + yy_ * warped.y};
  }

 private:
  static constexpr double half_height = 9.0;  ///< pixels; MNIST's digits fill a box of 20
  struct Wave {
    double ax, ay, kx, ky, phase;
  };
  double xx_, xy_, yx_, yy_;
  PenPoint centre_;
  std::array<Wave, 3> waves_;
};

/// Lowers distance2[row][column] to the squared distance from the segment, wherever that is below `reach`.
void approach(PenPoint from, PenPoint to, double reach, std::array<double, image_pixels>& distance2) {
  const auto pixel = [](double x) { return std::clamp(static_cast<int>(x), 0, image_side - 1); };
  const double dx = to.x - from.x, dy = to.y - from.y;
  const double length2 = std::max(dx * dx + dy * dy, 1e-12);
  const auto [left, right] = std::minmax(from.x, to.x);
  const auto [top, bottom] = std::minmax(from.y, to.y);
  for (int row = pixel(top - reach); row <= pixel(bottom + reach + 1); ++row) {
    for (int column = pixel(left - reach); column <= pixel(right + reach + 1); ++column) {
      const double t = std::clamp(((column - from.x) * dx + (row - from.y) * dy) / length2, 0.0, 1.0);
      const double ax = column - from.x - t * dx, ay = row - from.y - t * dy;
      double& least = distance2[row * image_side + column];
      least = std::min(least, ax * ax + ay * ay);
    }
  }
}

}  // namespace

Digits::Digits(bool train, const ImageTokens& layout, std::uint64_t seed, std::size_t at_most)
    : ImageDataset(layout),
      labels_(seed, train ? "digits.train.labels" : "digits.test.labels"),
      shapes_(seed, train ? "digits.train.shapes" : "digits.test.shapes"),
      size_(std::min(at_most, train ? training_samples : test_samples)) {}

int Digits::label(std::size_t index) const {
  require(index);
  // Fisher-Yates shuffle of the ten digits, one for every ten samples.
  const RandomStream random = labels_.item(index / 10);
  std::array<int, 10> order{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (std::size_t last = 9; last > 0; --last) std::swap(order[last], order[random.below(last, last + 1)]);
  return order[index % 10];
}

void Digits::image(std::size_t index, double* out) const {
  const int digit = label(index);
  const RandomStream random = shapes_.item(index);
  const auto way =
      static_cast<int>(random.below(Draw::style, static_cast<std::uint64_t>(digit_styles(digit))));
  const Distortion distort(random);

  // Ink fades from 1 to 0 over `fade` pixels across the edge of the pen: anti-aliasing without sub-pixels.
  const double half_pen = random.uniform(Draw::pen, 0.8, 1.7);
  const double fade = random.uniform(Draw::edge, 1.0, 1.6);
  const double reach = half_pen + 0.5 * fade;
  std::array<double, image_pixels> distance2;
  distance2.fill(std::numeric_limits<double>::max());
  for (const PenStroke& stroke : digit_strokes(digit, way)) {
    PenPoint from = distort(stroke.front());
    for (std::size_t i = 1; i < stroke.size(); ++i) {
      const PenPoint to = distort(stroke[i]);
      approach(from, to, reach, distance2);
      from = to;
    }
  }

  const double graininess = random.uniform(Draw::grain, 0.0, 0.06);
  for (std::size_t p = 0; p < image_pixels; ++p) {
    const double ink = std::clamp((reach - std::sqrt(distance2[p])) / fade, 0.0, 1.0);
    out[p] = std::clamp(ink + graininess * random.normal(Draw::noise + p), 0.0, 1.0);
  }
}

}  // namespace fluxformer::data
