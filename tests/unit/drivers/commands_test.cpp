// The Python package is found by where the program is, and by PYTHONPATH.

#include "drivers/commands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

class Commands : public InAFolder {
 protected:
  /// A package in this folder of the test, with one command.
  void lay_package(const std::string& folder, const std::string& command) {
    lay_list(folder, R"([{"name": ")" + command +
                         R"(", "arguments": "FILE", "sentence": "does it", "module": "m"}])");
  }
  void lay_list(const std::string& folder, const std::string& text) {
    std::filesystem::create_directories(folder_ / folder / "fluxformer");
    std::ofstream(folder_ / folder / "fluxformer" / "commands.json") << text;
  }
  PythonPackage found(const std::string& python_path = "") const {
    return find_python_package(folder_ / "tree/bin/fluxformer", python_path);
  }
  static constexpr const char* of_tree = "tree/share/fluxformer/postprocess";
};

TEST_F(Commands, are_those_of_the_package_in_the_tree_of_the_program) {
  lay_package(of_tree, "brew");
  lay_package("other", "roast");
  const auto package = found(file("other"));
  EXPECT_EQ(package.folder, folder_ / of_tree);
  EXPECT_EQ(package.missing, "");
  EXPECT_THAT(package.commands,
              ElementsAre(AllOf(Field(&Command::name, "brew"), Field(&Command::arguments, "FILE"),
                                Field(&Command::sentence, "does it"))));
  EXPECT_THAT(commands_with(package),
              ElementsAre(Field(&Command::name, "check"), Field(&Command::name, "brew")));
}

TEST_F(Commands, come_from_the_first_folder_of_pythonpath_with_a_package_if_the_tree_has_none) {
  lay_package("one", "roast");
  lay_package("two", "grind");
  EXPECT_EQ(found(file("none") + "::" + file("one") + ":" + file("two")).folder, folder_ / "one");
  EXPECT_EQ(found(file("two") + ":").folder, folder_ / "two");
}

TEST_F(Commands, are_none_without_a_package_and_it_is_said_where_that_was_looked_for) {
  for (const auto& path : {std::string(), std::string(":"), file("none")}) {
    const auto package = found(path);
    EXPECT_THAT(package.commands, IsEmpty());
    EXPECT_TRUE(package.folder.empty());
    EXPECT_THAT(package.missing, AllOf(HasSubstr(file(of_tree)), HasSubstr("PYTHONPATH")));
    EXPECT_THAT(commands_with(package), ElementsAre(Field(&Command::name, "check")));
  }
}

TEST_F(Commands, of_a_damaged_list_are_refused) {
  for (const auto* text :
       {"", "[", "{}x", R"([{"name": "brew"}])", R"([{"name": 3, "arguments": "", "sentence": ""}])"}) {
    lay_list(of_tree, text);
    EXPECT_THAT(complaint<BadInput>([&] { found(); }),
                AllOf(HasSubstr("commands.json"), HasSubstr("damaged")))
        << text;
  }
}

}  // namespace
}  // namespace fluxformer::test
