#include "substitution.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "pons/config/config.h"

namespace pons::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Values = std::map<std::string, std::string>;

Substitution from(Values environment, Values files = {}) {
  return {.environment = [=](const std::string& name) -> std::optional<std::string> {
            const auto found = environment.find(name);
            if (found == environment.end()) return std::nullopt;
            return found->second;
          },
          .file = [=](const std::string& path) -> Result<std::string> {
            const auto found = files.find(path);
            if (found == files.end()) return os_error("open", path, ENOENT);
            return found->second;
          }};
}

std::string expanded(std::string_view text, const Substitution& substitution) {
  const auto result = expand(text, "/etc/pons/pons.yaml", substitution);
  return result ? result->text : "error: " + result.error();
}

std::string only_error(std::string_view yaml, const Substitution& substitution) {
  const auto result = load_config_text(yaml, "pons.yaml", substitution);
  if (result) return "accepted";
  EXPECT_EQ(result.error().size(), 1u);
  return result.error()[0].describe();
}

class TempDir {
 public:
  TempDir() { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
    return path_ + "/" + name;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/pons_config_test_XXXXXX";
};

TEST(Substitution, SeveralPerTextAreReplaced) {
  const auto values = from({{"A", "1"}, {"B_2", "two"}}, {{"/f", "file\n"}});
  EXPECT_EQ(expanded("${env:A}-${env:B_2}${file:/f}.", values),
            "1-two"
            "file.");
  EXPECT_EQ(expanded("no substitution", values), "no substitution");
}

TEST(Substitution, DollarsThatBeginNothingStay) {
  const auto values = from({{"A", "1"}});
  EXPECT_EQ(expanded("$A $$ $ {env:A} 5$", values), "$A $$ $ {env:A} 5$");
  EXPECT_EQ(expanded("$${env:A} and ${env:A}", values), "${env:A} and 1");
  EXPECT_EQ(expanded("$$${env:A}", values), "$${env:A}");
}

TEST(Substitution, ValuesAreNotSearchedAgain) {
  EXPECT_EQ(expanded("${env:A}", from({{"A", "${env:B}"}, {"B", "x"}})), "${env:B}");
  EXPECT_EQ(expanded("${env:A}{env:B}", from({{"A", "$"}, {"B", "x"}})), "${env:B}");
}

TEST(Substitution, MalformedOnesAreRefused) {
  const auto values = from({{"A", "1"}});
  EXPECT_THAT(expanded("${env:${env:A}}", values), HasSubstr("inside a substitution"));
  EXPECT_THAT(expanded("${env:A", values), HasSubstr("not closed; add }"));
  EXPECT_EQ(expanded("${A}", values),
            "error: \"${A}\" is not a substitution; write ${env:NAME}, ${file:PATH}, or $${ for "
            "the two characters ${");
  for (const char* text : {"${}", "${ENV:A}", "${secret:A}", "${env:}", "${env:A B}", "${env:1A}",
                           "${env:A-x}", "${file:}", "${env:A:-x}"})
    EXPECT_THAT(expanded(text, values), HasSubstr("error: ")) << text;
}

TEST(Substitution, OneTrailingNewlineOfAFileIsCut) {
  const auto values = from({}, {{"/a", "x\n\n"}, {"/b", "x\r\n"}, {"/c", "x"}, {"/d", "\n"}});
  EXPECT_EQ(expanded("${file:/a}", values), "x\n");
  EXPECT_EQ(expanded("${file:/b}", values), "x");
  EXPECT_EQ(expanded("${file:/c}", values), "x");
  EXPECT_EQ(expanded("[${file:/d}]", values), "[]");
}

TEST(Substitution, RelativePathsStartInTheDirectoryOfTheConfiguration) {
  const auto values = from({}, {{"/etc/pons/host", "near"}, {"host", "here"}});
  EXPECT_EQ(expanded("${file:host}", values), "near");
  EXPECT_EQ(expand("${file:host}", "pons.yaml", values)->text, "here");
}

TEST(Substitution, LengthAndEncodingAreBounded) {
  const std::string most(kSubstitutedBytesMax, 'x');
  EXPECT_EQ(expanded("${env:A}", from({{"A", most}})), most);
  EXPECT_THAT(expanded("${env:A}", from({{"A", most + "x"}})), HasSubstr("longer than 65536"));
  EXPECT_THAT(expanded("${env:A}${env:A}", from({{"A", most}})), HasSubstr("longer than 65536"));
  EXPECT_THAT(expanded("${env:A}", from({{"A", "\xff"}})), HasSubstr("not UTF-8"));
  EXPECT_THAT(expanded("${env:A}", from({{"A", std::string(1, '\0')}})), HasSubstr("not UTF-8"));
}

TEST(Substitution, WorksInEveryTextFieldOfAFile) {
  const auto values =
      from({{"PORT", "81"}, {"LEVEL", "debug"}, {"HOST", "a.example"}}, {{"dir", "/srv/x\n"}});
  const auto result = load_config_text(
      "listen: 127.0.0.1:${env:PORT}\nstate_dir: ${file:dir}/pons\nlog: {level: '${env:LEVEL}'}\n"
      "credentials: {A: {allowed_host: \"${env:HOST}\"}}\n",
      "pons.yaml", values);
  ASSERT_TRUE(result) << result.error()[0].describe();
  EXPECT_EQ(result->config.listen.port, 81);
  EXPECT_EQ(result->config.state_dir, "/srv/x/pons");
  EXPECT_EQ(result->config.log.level, LogLevel::kDebug);
  EXPECT_EQ(result->config.credentials.at("A").allowed_host, "a.example");
}

TEST(Substitution, MissingVariableAndFileAreErrorsWithTheirPlace) {
  EXPECT_EQ(only_error("log:\n  level: ${env:LEVEL}\n", from({})),
            "pons.yaml:2:10: log.level: the environment variable LEVEL is not set; set it or write "
            "the value here");
  EXPECT_EQ(only_error("listen: ${file:/run/listen}\n", from({})),
            "pons.yaml:1:9: listen: cannot use the file \"/run/listen\" (No such file or "
            "directory); correct the path or the file");
}

TEST(Substitution, SubstitutedValueNeverStandsInAMessage) {
  const auto values = from({{"S", "hunter2hunter2"}, {"NEAR", "inf"}}, {{"/s", "hunter2hunter2"}});
  for (const char* yaml :
       {"listen: ${env:S}", "state_dir: ${file:/s}", "log: {level: '${env:S}'}",
        "harness: X${env:S}", "credentials: {A: {allowed_host: 'https://${env:S}'}}",
        "listen: ${env:S}${env:MISSING}", "limits: {connections: '${env:S}'}", "'${env:S}': 1",
        "log: '${env:S}'"}) {
    const std::string message = only_error(yaml, values);
    EXPECT_NE(message, "accepted") << yaml;
    EXPECT_THAT(message, Not(HasSubstr("hunter2"))) << yaml;
  }
  EXPECT_EQ(only_error("log: {level: '${env:NEAR}'}", values),
            "pons.yaml:1:14: log.level: expected one of debug, info, warn, error, found something "
            "else in the substituted text, which is not shown");
}

TEST(Substitution, DefaultsReadTheProcessAndTheDisk) {
  const TempDir dir;
  dir.write("host.txt", "disk.example\n");
  const std::string path = dir.write("pons.yaml",
                                     "credentials: {A: {allowed_host: '${file:host.txt}'}}\n"
                                     "state_dir: ${env:PONS_CONFIG_TEST_DIR}\n");
  ASSERT_EQ(setenv("PONS_CONFIG_TEST_DIR", "/srv/from-env", 1), 0);
  const auto result = load_config_file(path);
  unsetenv("PONS_CONFIG_TEST_DIR");
  ASSERT_TRUE(result) << result.error()[0].describe();
  EXPECT_EQ(result->config.credentials.at("A").allowed_host, "disk.example");
  EXPECT_EQ(result->config.state_dir, "/srv/from-env");
  EXPECT_EQ(result->file, path);
}

TEST(Substitution, OnlySmallRegularFilesAreRead) {
  const TempDir dir;
  const std::string pipe = dir.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, dir.path(), std::string("/dev/zero")}) {
    const auto result = read_substituted_file(path);
    ASSERT_FALSE(result) << path;
    EXPECT_EQ(reading_problem(result.error()), "it is not a regular file");
  }
  const std::string most = dir.write("most", std::string(kSubstitutedBytesMax, 'x'));
  EXPECT_EQ(read_substituted_file(most)->size(), kSubstitutedBytesMax);
  const std::string more = dir.write("more", std::string(kSubstitutedBytesMax + 1, 'x'));
  ASSERT_FALSE(read_substituted_file(more));
  EXPECT_EQ(reading_problem(read_substituted_file(more).error()), "more than 65536 bytes");
}

TEST(ConfigFile, MissingFileSaysWhatToDo) {
  const auto result = load_config_file("/nonexistent/pons.yaml");
  ASSERT_FALSE(result);
  ASSERT_EQ(result.error().size(), 1u);
  EXPECT_EQ(result.error()[0].describe(),
            "/nonexistent/pons.yaml: cannot be read (No such file or directory); create the file, "
            "correct the path, or name no file to run with the defaults");
}

TEST(ConfigFile, OnlyRegularFilesWithinTheLimitAreRead) {
  const TempDir dir;
  const std::string pipe = dir.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(load_config_file(pipe).error().at(0).message, HasSubstr("not a regular file"));
  const std::string large = dir.write("large.yaml", "#" + std::string(1 << 20, 'x'));
  EXPECT_THAT(load_config_file(large).error().at(0).message, HasSubstr("more than 1048576 bytes"));
}

TEST(ConfigFile, ErrorsNameTheFileTheyAreIn) {
  const TempDir dir;
  const std::string path = dir.write("mine.yaml", "\n\n  lisen: 1\n");
  EXPECT_EQ(load_config_file(path).error().at(0).describe(),
            path + ":3:3: unknown key \"lisen\"; did you mean \"listen\"?");
}

}  // namespace
}  // namespace pons::config
