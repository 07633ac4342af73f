// The table of names and the page that documents it are the same.

#include "io/schema.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

namespace fluxformer {
namespace {

std::string content(const std::string& name) {
  std::ifstream in(FLUXFORMER_SOURCE_DIR + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(SchemaTable, stands_in_the_documentation_word_for_word) {
  EXPECT_NE(content("/docs/output-format.md").find(schema_table()), std::string::npos)
      << "docs/output-format.md should hold this table:\n\n"
      << schema_table();
}

TEST(SchemaTable, lists_every_name_once_with_a_meaning) {
  std::set<std::string_view> seen;
  for (const SchemaEntry& entry : schema()) {
    EXPECT_TRUE(seen.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.doc.empty()) << entry.name;
  }
}

// Its runs of letters, digits and underscores.
std::set<std::string> words_of(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = ' ';
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// Every quoted word of schema.hpp's names, split at slashes.
std::set<std::string> spelled_words() {
  const std::string text = content("/src/io/schema.hpp");
  const auto begin = text.find("namespace names {"), end = text.find("}  // namespace names");
  std::istringstream body(text.substr(begin, end - begin));
  std::string between, literal, literals;
  while (std::getline(body, between, '"') && std::getline(body, literal, '"')) literals += literal + ' ';
  return words_of(literals);
}

TEST(SchemaTable, knows_every_word_the_program_spells) {
  const auto known = words_of(schema_table()), words = spelled_words();
  EXPECT_GT(words.size(), 80U);
  for (const std::string& word : words) EXPECT_TRUE(known.contains(word)) << word;
  EXPECT_EQ(schema_entry("/field/u").dimensions, "time, depth, token, sample, channel");
  EXPECT_THROW(schema_entry("/history/mood"), std::logic_error);
  EXPECT_EQ(meaning_of("/history/rate").unit, "1/time");
}

TEST(FileNames, of_all_that_belongs_to_a_run_stand_beside_the_output) {
  EXPECT_EQ(checkpoint_path("out/evolve.h5"), "out/evolve.checkpoint.h5");
  EXPECT_EQ(previous_checkpoint_path("out/evolve.h5"), "out/evolve.checkpoint.previous.h5");
  EXPECT_EQ(side_car_path("out/evolve.h5"), "out/evolve.xdmf");
  EXPECT_EQ(history_path("out/train.h5"), "out/train.history.h5");
  EXPECT_EQ(weights_path("out/train.h5", "best"), "out/train.best.h5");
  EXPECT_EQ(side_car_path("out.h5/result"), "out.h5/result.xdmf");
}

}  // namespace
}  // namespace fluxformer
