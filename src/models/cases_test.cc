// CASES.md says which test holds which case: none of them may be missing.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace pons::models {
namespace {

namespace fs = std::filesystem;

const fs::path kSources = PONS_SOURCE_DIR;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// As they are written in tests: "TEST(Suite, Name", "def test_name".
std::set<std::string> tests_in(const std::string& text, const std::string& begin) {
  std::set<std::string> names;
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    std::string name;
    for (std::size_t i = at + begin.size(); i < text.size() && text[i] != ')' && text[i] != '(';
         ++i)
      if (text[i] == ',')
        name += '.';
      else if (text[i] != ' ' && text[i] != '\n')
        name += text[i];
    names.insert(name);
  }
  return names;
}

std::set<std::string> all_tests() {
  std::set<std::string> all;
  for (const char* folder : {"src/models", "src/gateway", "src/budget", "tests/e2e"})
    for (const auto& entry : fs::recursive_directory_iterator(kSources / folder)) {
      const std::string name = entry.path().filename();
      const bool is_unit = name.ends_with("_test.cc");
      if (!is_unit && !(name.starts_with("test_") && name.ends_with(".py"))) continue;
      const std::string text = text_of(entry.path());
      for (const char* begin : {"TEST(", "TEST_F(", "TEST_P("})
        if (is_unit) all.merge(tests_in(text, begin));
      if (!is_unit)
        for (const std::string& test : tests_in(text, "def test_")) all.insert("test_" + test);
    }
  return all;
}

// What stands between backticks in the last column.
std::vector<std::string> named_tests(const std::string& line) {
  std::vector<std::string> names;
  const std::size_t column = line.rfind("| `");
  for (std::size_t at = column; at != std::string::npos;) {
    const std::size_t begin = line.find('`', at);
    if (begin == std::string::npos) break;
    const std::size_t end = line.find('`', begin + 1);
    names.push_back(line.substr(begin + 1, end - begin - 1));
    at = end + 1;
  }
  return names;
}

TEST(Cases, EveryCaseNamesTestsAndEachOfThemIsThere) {
  const std::set<std::string> all = all_tests();
  ASSERT_GT(all.size(), 100U);
  std::ifstream table(kSources / "src/models/CASES.md");
  int cases = 0;
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("| ") || line.size() < 3 || line[2] < '0' || line[2] > '9') continue;
    ++cases;
    const auto names = named_tests(line);
    EXPECT_FALSE(names.empty()) << line;
    for (const std::string& name : names) EXPECT_TRUE(all.contains(name)) << name << "\n" << line;
  }
  EXPECT_EQ(cases, 40);
}

}  // namespace
}  // namespace pons::models
