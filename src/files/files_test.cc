#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>

#include "pons/files/file_name.h"
#include "pons/files/file_store.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/store/sqlite_store.h"

namespace pons::files {
namespace {

class MovedClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(ahead); }
  std::chrono::system_clock::time_point wall() const override {
    return std::chrono::system_clock::time_point(std::chrono::hours(24 * 365 * 56)) + ahead;
  }
  std::chrono::nanoseconds ahead{0};
};

class FilesTest : public testing::Test {
 protected:
  FilesTest() : loop_(std::move(*linux::Loop::create())) {
    char name[] = "/tmp/pons-files-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    store_ = std::move(*store::SqliteStore::open(
        *loop_,
        {.path = directory_ + "/pons.db", .shown = "", .limits = {.value_bytes = 4U << 20}}));
    EXPECT_TRUE(run(store_->write(
        {{.sql = "INSERT INTO projects (id, name, created) VALUES ('p', 'p', 1), ('q', 'q', 1)",
          .values = {}}})));
    start({});
  }
  ~FilesTest() override {
    files_.reset();
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  void start(FileLimits limits) { files_ = std::make_unique<FileStore>(*store_, clock_, limits); }
  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }
  Result<File> keep(std::string bytes, NewFile details = {.name = "a.txt"},
                    std::string project = "p") {
    auto upload = TRY(run(files_->begin(std::move(project))));
    const auto written = run(upload.write(bytes));
    if (!written) run(give_up(upload));
    TRY_VOID(written);
    return run(upload.finish(std::move(details)));
  }
  static Task<bool> give_up(FileStore::Upload& upload) {
    co_await upload.give_up();
    co_return true;
  }
  std::string read(const File& file) {
    std::string all;
    for (std::int64_t part = 0; part < file.parts; ++part)
      all += run(files_->read_part(file, part)).value_or("<gone>");
    return all;
  }
  std::int64_t count(const std::string& table) {
    const auto rows = run(store_->read({.sql = "SELECT count(*) FROM " + table, .values = {}}));
    return store::integer_of(rows->front(), 0).value();
  }
  std::int64_t used(const std::string& column) {
    const auto rows = run(store_->read(
        {.sql = "SELECT " + column + " FROM file_usage WHERE project_id = 'p'", .values = {}}));
    return store::integer_of(rows->front(), 0).value();
  }

  MovedClock clock_;
  std::unique_ptr<linux::Loop> loop_;
  std::string directory_;
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<FileStore> files_;
};

TEST_F(FilesTest, BytesComeBackAsTheyWereHoweverManyTheyAre) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kPartBytes, 2 * kPartBytes + 7}) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
    const auto file = keep(bytes);
    ASSERT_TRUE(file) << file.error().describe();
    EXPECT_EQ(file->bytes, static_cast<std::int64_t>(size));
    EXPECT_TRUE(read(*file) == bytes);
    EXPECT_EQ(run(files_->find("p", file->id))->digest, keep(bytes)->digest);
  }
}

TEST_F(FilesTest, AnotherProjectFindsNothing) {
  const auto file = keep("secret").value();
  EXPECT_EQ(run(files_->find("q", file.id)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(files_->remove("q", file.id)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(run(files_->list("q", {}))->empty());
  EXPECT_TRUE(run(files_->find_all("q", {file.id}))->empty());
  File disguised = file;
  disguised.project = "q";
  EXPECT_FALSE(run(files_->read_part(disguised, 0)));
}

TEST_F(FilesTest, WhatDidNotComeWhollyWasNeverThere) {
  {
    auto upload = run(files_->begin("p"));
    ASSERT_TRUE(run(upload->write(std::string(kPartBytes + 5, 'x'))));
  }
  EXPECT_TRUE(run(files_->list("p", {}))->empty());
  EXPECT_EQ(used("bytes"), static_cast<std::int64_t>(kPartBytes));
  ASSERT_TRUE(run(files_->sweep()));
  EXPECT_EQ(count("file_parts"), 1) << "it may still come";
  clock_.ahead = std::chrono::hours(2);
  ASSERT_TRUE(run(files_->sweep()));
  EXPECT_EQ(count("files"), 0);
  EXPECT_EQ(count("file_parts"), 0);
  EXPECT_EQ(used("bytes"), 0);
  EXPECT_EQ(used("files"), 0);
}

TEST_F(FilesTest, WhatComesAfterItWasGivenUpIsRefused) {
  auto upload = run(files_->begin("p"));
  clock_.ahead = std::chrono::hours(2);
  ASSERT_TRUE(run(files_->sweep()));
  EXPECT_FALSE(run(upload->write(std::string(kPartBytes, 'x'))));
  EXPECT_FALSE(run(upload->finish({.name = "late"})));
  EXPECT_EQ(count("file_parts"), 0);
}

TEST_F(FilesTest, AFileAndAProjectHaveLimits) {
  start({.bytes = 10, .project_bytes = 15, .project_files = 3});
  EXPECT_EQ(keep("01234567890").error().code, ErrorCode::kInvalid);
  ASSERT_TRUE(keep("0123456789"));
  EXPECT_EQ(keep("0123456789").error().code, ErrorCode::kLimit);
  const auto small = keep("01234");
  ASSERT_TRUE(small);
  EXPECT_EQ(keep("0").error().code, ErrorCode::kLimit);
  ASSERT_TRUE(run(files_->remove("p", small->id)));
  ASSERT_TRUE(keep(""));
  ASSERT_TRUE(keep(""));
  EXPECT_EQ(keep("").error().code, ErrorCode::kLimit);
  EXPECT_TRUE(keep("0123456789", {.name = "theirs"}, "q")) << "limits are each project's own";
}

TEST_F(FilesTest, AnExpiredFileSaysSoAndLeavesNoBytes) {
  const auto file = keep("x", {.name = "a", .expires_in_ms = 3'600'000}).value();
  ASSERT_TRUE(run(files_->find("p", file.id)));
  clock_.ahead = std::chrono::hours(1);
  for (int swept = 0; swept < 2; ++swept) {
    EXPECT_EQ(run(files_->find("p", file.id)).error().code, ErrorCode::kDenied);
    EXPECT_TRUE(run(files_->list("p", {}))->empty());
    ASSERT_TRUE(run(files_->sweep()));
  }
  EXPECT_EQ(count("file_parts"), 0);
  EXPECT_EQ(used("bytes"), 0);
  clock_.ahead = std::chrono::hours(24 * 32);
  ASSERT_TRUE(run(files_->sweep()));
  EXPECT_EQ(run(files_->find("p", file.id)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(used("files"), 0);
}

TEST_F(FilesTest, PagesMeetWithoutAGap) {
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(keep("x", {.name = std::to_string(i), .scope = i % 2 == 0 ? "s" : ""}));
  std::vector<std::string> names;
  FileQuery query{.limit = 2};
  for (;;) {
    auto page = run(files_->list("p", query)).value();
    const bool more = page.size() > 2;
    if (more) page.pop_back();
    for (const File& file : page) names.push_back(file.name);
    if (!more) break;
    query.after = {.created_ms = page.back().created_ms, .id = page.back().id};
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("0", "1", "2", "3", "4"));
  EXPECT_EQ(run(files_->list("p", {.scope = "s"}))->size(), 3U);
}

TEST(FileName, IsTheLastComponentAndNothingElse) {
  EXPECT_EQ(file_name("/etc/passwd", ""), "passwd");
  EXPECT_EQ(file_name("..\\..\\boot.ini", ""), "boot.ini");
  EXPECT_EQ(file_name(" a\nb\x01.txt ", ""), "ab.txt");
  EXPECT_EQ(file_name("", "text/plain"), "unnamed.txt");
  EXPECT_EQ(file_name("..", "image/png"), "unnamed.png");
  EXPECT_EQ(file_name("x/", "what/ever"), "unnamed.bin");
  EXPECT_EQ(file_name("\xFF", ""), "unnamed.bin");
  std::string umlauts;
  for (int i = 0; i < 200; ++i) umlauts += "\xC3\xA4";
  EXPECT_EQ(file_name(umlauts, "").size(), 254U);
}

TEST(MimeType, IsATypeOrAnyBytes) {
  EXPECT_EQ(mime_type_of("Text/Plain; charset=utf-8"), "text/plain");
  EXPECT_EQ(mime_type_of("image/svg+xml"), "image/svg+xml");
  for (const char* no_type : {"", "text", "/", "text/", "a b/c", "text/plain\r\nx: y"})
    EXPECT_EQ(mime_type_of(no_type), "application/octet-stream") << no_type;
}

}  // namespace
}  // namespace pons::files
