#include <gmock/gmock.h>

#include "cli_fixture.h"

namespace pons::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFiles =
    R"({"data":[{"id":"file_1","type":"file","filename":"a\u001b[2J.csv","mime_type":"text/csv",)"
    R"("size_bytes":2048,"created_at":"2026-01-01T00:00:00Z","downloadable":true,)"
    R"("expires_at":null,"scope":null}],"next_page":null})";

class FilesCliTest : public AnsweredCliTest {
 protected:
  Outcome files(const std::string& body, std::vector<std::string> words, int status = 200) {
    words.insert(words.begin(), "files");
    return run_against(status, body, std::move(words), "brain");
  }
  std::string read(const std::string& name) {
    return linux::read_file(scratch_ + "/" + name, 1 << 20).value_or("(none)");
  }
};

TEST_F(FilesCliTest, AListSaysWhatThereIs) {
  const Outcome list = files(kFiles, {"ls", "--session", "sesn_1"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_EQ(asked_, "GET /v1/files?project=default&limit=1000&scope_id=sesn_1");
  EXPECT_THAT(list.out, AllOf(HasSubstr("file_1"), HasSubstr("2.0 KiB"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(files(kFiles, {"ls", "--json"}).out, HasSubstr(R"("size_bytes":2048)"));
}

TEST_F(FilesCliTest, AFileIsSentAsAFormThatSaysItsName) {
  write_config("one,two\n", "a \"b\".csv");
  const Outcome put =
      files(R"({"id":"file_1"})", {"put", scratch_ + "/a \"b\".csv", "--type", "text/csv",
                                   "--expires", "2h", "--project", "p"});
  EXPECT_EQ(put.exit_code, 0) << put.err;
  EXPECT_EQ(put.out, "file_1\n");
  EXPECT_THAT(asked_, AllOf(HasSubstr("POST /v1/files?project=p"),
                            HasSubstr("filename=\"a \\\"b\\\".csv\"\r\nContent-Type: text/csv\r\n"
                                      "\r\none,two\n\r\n--"),
                            HasSubstr("name=\"expires_in_seconds\"\r\n\r\n7200\r\n")));
}

TEST_F(FilesCliTest, AnEmptyFileIsAFile) {
  write_config("", "empty");
  EXPECT_EQ(files(R"({"id":"file_1"})", {"put", scratch_ + "/empty"}).exit_code, 0);
  EXPECT_THAT(asked_, HasSubstr("filename=\"empty\""));
}

TEST_F(FilesCliTest, WhatCannotBeSentIsNotSent) {
  write_config("x", "a");
  asked_.clear();
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"put", scratch_ + "/none"},
                                             {"put", scratch_},
                                             {"put", scratch_ + "/a", "--name", "a\nb"},
                                             {"put", scratch_ + "/a", "--expires", "soon"}})
    EXPECT_EQ(files("{}", words).exit_code, 1);
  EXPECT_THAT(asked_, Not(HasSubstr("POST")));
  const Outcome refused =
      files(R"({"error":{"type":"invalid_request_error","message":"it is too large"}})",
            {"put", scratch_ + "/a"}, 413);
  EXPECT_EQ(refused.exit_code, 1);
}

TEST_F(FilesCliTest, AFileIsFetchedWholeOrNotAtAll) {
  const Outcome got = files("one,two\n", {"get", "file_1", scratch_ + "/out.csv"});
  EXPECT_EQ(got.exit_code, 0) << got.err;
  EXPECT_EQ(asked_, "GET /v1/files/file_1/content?project=default");
  EXPECT_EQ(read("out.csv"), "one,two\n");
  EXPECT_EQ(files("other", {"get", "file_1", scratch_ + "/out.csv"}).exit_code, 1);
  EXPECT_EQ(read("out.csv"), "one,two\n") << "it was there before";
  const Outcome none = files(R"({"error":{"message":"there is no such file"}})",
                             {"get", "file_2", scratch_ + "/none.csv"}, 404);
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("there is no such file"));
  EXPECT_EQ(read("none.csv"), "(none)");
  EXPECT_EQ(read("none.csv.partial"), "(none)");
}

TEST_F(FilesCliTest, FilesAreDeletedByTheirIds) {
  EXPECT_EQ(files("{}", {"rm", "file_1", "../2"}).exit_code, 0);
  EXPECT_EQ(asked_, "DELETE /v1/files/..%2F2?project=default");
  EXPECT_EQ(files("{}", {"rm"}).exit_code, 2);
}

}  // namespace
}  // namespace pons::cli
