#include "named_files.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/base64.h"
#include "pons/base/text.h"
#include "pons/files/file_store.h"
#include "pons/session/media.h"

namespace pons::managed {

namespace {

constexpr const char* kFileId = "file_id";
// Of one request: what is named costs its sender nothing.
constexpr int kFilesMax = 100;
constexpr std::int64_t kBytesMax = 6 << 20;
// Files that were sent without a type may be any of these.
constexpr std::array<std::string_view, 5> kMediaTypes = {"image/png", "image/jpeg", "image/gif",
                                                         "image/webp", "application/pdf"};

bool names_file(const Json& source) {
  return source.is_object() && source.value("type", Json()) == "file";
}

// Of "text/csv; charset=utf-8", "text/csv".
std::string_view essence_of(std::string_view mime_type) {
  return trim(mime_type.substr(0, mime_type.find(';')));
}

// What models are sent of a file in a block of this kind. Text of any kind is a document.
Reply<Json> source_of(const files::File& file, const std::string& kind, const std::string& bytes) {
  const std::string_view type = essence_of(file.mime_type);
  const bool may_be_text =
      type.starts_with("text/") || type == "application/json" || type == "application/octet-stream";
  const std::string data = base64_encode(bytes);
  for (const std::string_view known : kMediaTypes)
    if ((type == known || type == "application/octet-stream") &&
        session::check_media(kind, known, data))
      return Json{{"type", "base64"}, {"media_type", known}, {"data", data}, {kFileId, file.id}};
  if (kind == "document" && may_be_text && is_valid_utf8(bytes) && !trim(bytes).empty())
    return Json{
        {"type", "text"}, {"media_type", "text/plain"}, {"data", bytes}, {kFileId, file.id}};
  return bad_request(
      fmt::format("{} ({}) is nothing that models take as {}: images are PNG, JPEG, GIF or WebP, "
                  "documents PDF or text",
                  file.id, type, kind == "image" ? "an image" : "a document"));
}

// Reads the files of one request, within what one request may name.
class Reader {
 public:
  Reader(Objects& objects, std::string project)
      : files_(objects.store, objects.clock), project_(std::move(project)) {}

  Task<Reply<void>> settle_block(Json& block) {
    if (!block.is_object() || !block.contains("source")) co_return {};
    if (!names_file(block["source"])) {
      if (block["source"].is_object() && block["source"].contains(kFileId))
        co_return bad_request("\"file_id\" goes with a source of the type file");
      co_return {};
    }
    const Json kind = block.value("type", Json());
    if (kind != "image" && kind != "document") co_return {};
    CO_TRY(const auto file, co_await find(block["source"]));
    CO_TRY(const auto bytes, co_await read(file));
    CO_TRY(block["source"], source_of(file, kind.get<std::string>(), bytes));
    co_return {};
  }

  Task<Reply<void>> settle_rubric(Json& rubric) {
    CO_TRY(const auto file, co_await find(rubric));
    CO_TRY(auto text, co_await read(file));
    if (!is_valid_utf8(text)) co_return bad_request(fmt::format("{} is no text", file.id));
    rubric = {{"type", "text"}, {"content", std::move(text)}};
    co_return {};
  }

 private:
  Task<Reply<files::File>> find(const Json& source) {
    constexpr std::size_t kIdMax = 128;
    if (source.size() != 2 || !source.value(kFileId, Json()).is_string() ||
        source[kFileId].get_ref<const std::string&>().size() > kIdMax)
      co_return bad_request("a source of the type file has a \"file_id\", and nothing else");
    if (++count_ > kFilesMax)
      co_return bad_request(fmt::format("one request names at most {} files", kFilesMax));
    auto file = co_await files_.find(project_, source[kFileId].get<std::string>());
    if (file) co_return std::move(*file);
    // An id that is another project's is none.
    if (file.error().code != ErrorCode::kNotFound && file.error().code != ErrorCode::kDenied)
      co_return file.error();
    Refusal refusal{404, "not_found_error", file.error().message};
    refusal.code = "file_not_found";
    co_return refusal;
  }

  Task<Reply<std::string>> read(const files::File& file) {
    bytes_ += file.bytes;
    if (bytes_ > kBytesMax)
      co_return bad_request(fmt::format("the files that one request names have at most {} together",
                                        human_bytes(kBytesMax)));
    std::string bytes;
    for (std::int64_t part = 0; part < file.parts; ++part) {
      CO_TRY(const auto piece, co_await files_.read_part(file, part));
      bytes += piece;
    }
    co_return bytes;
  }

  files::FileStore files_;
  const std::string project_;
  int count_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace

Task<Reply<Json>> bring_files(Objects& objects, std::string project, Json events) {
  Reader reader(objects, std::move(project));
  if (!events.is_array()) co_return events;
  for (Json& event : events) {
    if (!event.is_object()) continue;
    if (const auto content = event.find("content"); content != event.end() && content->is_array())
      for (Json& block : *content) CO_TRY_VOID(co_await reader.settle_block(block));
    if (const auto rubric = event.find("rubric"); rubric != event.end() && names_file(*rubric))
      CO_TRY_VOID(co_await reader.settle_rubric(*rubric));
  }
  co_return events;
}

Json with_names_of_files(Json blocks) {
  for (Json& block : blocks) {
    if (!block.is_object()) continue;
    const auto source = block.find("source");
    if (source == block.end() || !source->is_object() || !source->contains(kFileId)) continue;
    Json name = {{"type", "file"}, {kFileId, (*source)[kFileId]}};
    *source = std::move(name);
  }
  return blocks;
}

}  // namespace pons::managed
