#include "analysis/interventions/sites.hpp"

#include <stdexcept>

#include "base/error.hpp"

namespace fluxformer::interventions {
namespace {

/// number(depth, part, token) at each place, in the order of SiteExtents::place.
template <class Number>
std::vector<double> at_each_place(const SiteExtents& extents, Site site, Number&& number) {
  std::vector<double> all(extents.places(site));
  for (int depth = 0; depth < extents.depths(site); ++depth)
    for (int part = 0; part < extents.parts(site); ++part)
      for (int token = 0; token < extents.tokens; ++token)
        all[extents.place(site, depth, part, token)] = number(depth, part, token);
  return all;
}

void add_to_numbers(RowMatrix& to, double scale, const RowMatrix& numbers) {
  if (to.size() == 0)
    to = scale * numbers;
  else
    to += scale * numbers;
}

}  // namespace

std::string site_word(Site site) {
  static constexpr const char* words[] = {"face", "attention", "ffn", "head", "query", "key", "value"};
  return words[static_cast<int>(site)];
}

Site site_of(const std::string& word) {
  for (const auto site : all_sites)
    if (site_word(site) == word) return site;
  throw BadInput("interventions.sites = " + word + ": face, attention, ffn, head, query, key or value");
}

int SiteExtents::parts(Site site) const {
  if (site == Site::head || site == Site::query) return heads;
  return site == Site::key || site == Site::value ? groups : 1;
}

int SiteExtents::part_width(Site site) const {
  return site == Site::face || site == Site::attention || site == Site::ffn ? width : channels;
}

RowMatrix& SiteNumbers::of(Site site, int depth) {
  switch (site) {
    case Site::face:
      return faces.at(depth);
    case Site::attention:
      return cells.at(depth).attention;
    case Site::ffn:
      return cells.at(depth).ffn;
    case Site::head:
      return cells.at(depth).heads;
    case Site::query:
      return cells.at(depth).queries;
    case Site::key:
      return cells.at(depth).keys;
    case Site::value:
      return cells.at(depth).values;
  }
  throw std::logic_error("unknown site");
}

const RowMatrix& SiteNumbers::of(Site site, int depth) const {
  return const_cast<SiteNumbers&>(*this).of(site, depth);
}

void SiteNumbers::add(double scale, const SiteNumbers& other) {
  faces.resize(other.faces.size());
  cells.resize(other.cells.size());
  for (const auto site : all_sites) {
    const Index depths = site == Site::face ? std::ssize(faces) : std::ssize(cells);
    for (int depth = 0; depth < depths; ++depth)
      add_to_numbers(of(site, depth), scale, other.of(site, depth));
  }
}

std::vector<double> first_order(const SiteExtents& extents, Site site, const SiteNumbers& cotangent,
                                const SiteNumbers& own, const SiteNumbers& put) {
  return at_each_place(extents, site, [&](int depth, int part, int token) {
    const auto of = [&](const SiteNumbers& numbers) {
      return part_of(numbers.of(site, depth), extents, site, part, token);
    };
    return of(cotangent).dot(of(put) - of(own));
  });
}

std::vector<double> sizes_of_change(const SiteExtents& extents, Site site, const SiteNumbers& own,
                                    const SiteNumbers& put) {
  return at_each_place(extents, site, [&](int depth, int part, int token) {
    return (part_of(put.of(site, depth), extents, site, part, token) -
            part_of(own.of(site, depth), extents, site, part, token))
        .norm();
  });
}

}  // namespace fluxformer::interventions
