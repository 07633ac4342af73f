#include "data/tokens/token_file.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "data/text/vocabulary.hpp"

namespace fluxformer::data {
namespace {

/// Checks and takes the sizes of the model, where there is one.
void fit(const DatasetSpec& spec, int tokens, TokenTable& table) {
  const auto& model = spec.model;
  const auto refuse = [&](const std::string& what) {
    throw BadInput("data.file = " + spec.file + ": " + what);
  };
  const auto count = [](int number, const char* what) { return std::to_string(number) + " " + what; };
  if (model.tokens > 0 && tokens > model.tokens)
    refuse("has " + count(tokens, "tokens") + ", the model has positions for " +
           std::to_string(model.tokens) + "; data.length = " + std::to_string(model.tokens) +
           " cuts the samples");
  table.classes =
      std::max(table.classes, model.classes);  // where there are more, a training makes a new head
  if (table.vocabulary == 0) return;
  if (model.vocabulary > 0) {
    if (!table.words.empty() && table.vocabulary != model.vocabulary &&
        !same_but_for_mask(spec.words, table.words))
      refuse("has " + count(table.vocabulary, "words") + ", the model has a table of " +
             std::to_string(model.vocabulary));
    try {
      require_range(table.ids_called, table.ids, {table.samples, static_cast<std::size_t>(table.tokens)}, 0,
                    model.vocabulary - 1);
    } catch (const BadInput& e) {
      refuse(e.what() + std::string(", the words of the model"));
    }
    table.vocabulary = model.vocabulary;
  }
  if (model.segments > 0 && table.segment_count > model.segments)
    refuse("has " + count(table.segment_count, "segments") + ", the model has a table of " +
           std::to_string(model.segments));
  if (table.segment_count > 0 && model.vocabulary > 0 && model.segments == 0)
    refuse("has segments, the model has no table of them");
  table.segment_count = std::max(table.segment_count, model.segments);
  if (table.segment_count > 0 && table.segments.empty()) table.segments.assign(table.ids.size(), 0);
  if (spec.words.empty()) return;
  if (!table.words.empty() && !same_but_for_mask(spec.words, table.words))
    refuse("its words are not those of the model");
  if (spec.words.size() != static_cast<std::size_t>(table.vocabulary))
    refuse("its ids are of " + count(table.vocabulary, "words") + ", the vocabulary of the model has " +
           std::to_string(spec.words.size()));
  table.words = spec.words;
}

}  // namespace

TokenFile::TokenFile(const DatasetSpec& spec)
    : table_(read_token_table(spec.file, spec.split)), file_(spec.file), tokens_(table_.tokens) {
  if (spec.cut > tokens_)
    throw BadInput("data.length = " + std::to_string(spec.cut) + ": " + file_ + " has samples of " +
                   std::to_string(tokens_) + " tokens");
  if (spec.cut > 0) tokens_ = spec.cut;
  fit(spec, tokens_, table_);
  table_.samples = std::min(table_.samples, spec.at_most);
  for (const char* name : {"<unk>", "[UNK]"}) {
    const auto found = std::ranges::find(table_.words, name);
    if (unknown_ < 0 && found != table_.words.end())
      unknown_ = static_cast<int>(found - table_.words.begin());
  }
}

int TokenFile::label(std::size_t index) const {
  require(index);
  return table_.labels.empty() ? 0 : table_.labels[index];
}

int TokenFile::length(std::size_t index) const {
  require(index);
  return table_.lengths.empty() ? tokens_ : std::min(tokens_, table_.lengths[index]);
}

void TokenFile::tokens(std::size_t index, double* out) const {
  require(index);
  const std::size_t first = index * static_cast<std::size_t>(table_.tokens);
  if (table_.inputs > 0) {
    const auto inputs = static_cast<std::size_t>(table_.inputs);
    std::visit(
        [&](const auto& features) {
          std::copy_n(features.data() + first * inputs, static_cast<std::size_t>(tokens_) * inputs, out);
        },
        table_.features);
    return;
  }
  for (std::size_t token = first; token < first + static_cast<std::size_t>(tokens_); ++token) {
    *out++ = table_.ids[token];
    if (!table_.segments.empty()) *out++ = table_.segments[token];
  }
}

void TokenFile::variant(std::size_t index, const RandomStream& draw, double strength, double* out) const {
  if (const auto why = why_no_variants(); !why.empty()) throw BadInput(why);
  tokens(index, out);
  for (int token = 0; token < length(index); ++token)
    if (draw.uniform(static_cast<std::uint64_t>(token)) < strength) out[token * features()] = unknown_;
}

std::string TokenFile::why_no_variants() const {
  if (table_.inputs > 0) return "data.file = " + file_ + " holds features, which are not varied";
  return unknown_ >= 0 ? ""
                       : "data.file = " + file_ + " has no word <unk> or [UNK] that could replace others";
}

std::vector<int> TokenFile::placeholders() const {
  if (unknown_ < 0) return {};
  return {unknown_};
}

}  // namespace fluxformer::data
