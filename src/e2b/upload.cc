#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "accounts.h"
#include "entry.h"
#include "failure.h"
#include "files.h"
#include "gunzip.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/http/form_parts.h"
#include "pons/sandbox/body_bytes.h"
#include "query.h"

namespace pons::e2b {

namespace {

using sandbox::BodyBytes;
using sandbox::ByteSource;
using sandbox::FileKind;
using sandbox::WriteOptions;

constexpr std::size_t kMetadataBytesMax = 4096;     // as the kernel keeps it: with its prefix
constexpr std::size_t kMetadataNameBytesMax = 246;  // what is left of a name beside the prefix

Result<std::unique_ptr<ByteSource>> body_of(http::Exchange& exchange) {
  auto body = std::make_unique<BodyBytes>(exchange);
  const auto coding = exchange.request().find("Content-Encoding").value_or("identity");
  if (equal_ignoring_case(coding, "gzip")) return gunzip(std::move(body));
  if (equal_ignoring_case(coding, "identity")) return std::unique_ptr<ByteSource>(std::move(body));
  return make_error(ErrorCode::kInvalid, "read body", "Content-Encoding must be gzip or identity");
}

// The data of the part that a form is at; used up before its next part.
class PartBytes final : public ByteSource {
 public:
  explicit PartBytes(http::FormParts& parts) : parts_(parts) {}
  Task<Result<std::string>> next() override { return parts_.next_data(); }

 private:
  http::FormParts& parts_;
};

// Of "X-Metadata-NAME: value" fields.
Result<std::map<std::string, std::string>> attributes_of(const http::RequestHead& head) {
  constexpr std::string_view kField = "x-metadata-";
  std::map<std::string, std::string> attributes;
  std::size_t bytes = 0;
  for (const http::Field& field : head.fields) {
    std::string name(field.name);
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
    if (!name.starts_with(kField) || name.size() == kField.size()) continue;
    if (name.size() - kField.size() > kMetadataNameBytesMax)
      return make_error(ErrorCode::kInvalid, "write file",
                        fmt::format("a name of metadata may have {} bytes", kMetadataNameBytesMax));
    if (!std::ranges::all_of(field.value, [](char c) { return c >= ' ' && c <= '~'; }))
      return make_error(ErrorCode::kInvalid, "write file", "metadata must be printable ASCII");
    // Of two by one name the first one counts.
    const bool fresh =
        attributes
            .try_emplace(std::string(kMetadataPrefix) + name.substr(kField.size()), field.value)
            .second;
    if (fresh) bytes += kMetadataPrefix.size() + name.size() - kField.size() + field.value.size();
  }
  if (bytes > kMetadataBytesMax)
    return make_error(ErrorCode::kInvalid, "write file",
                      fmt::format("metadata may have {} bytes", kMetadataBytesMax));
  return attributes;
}

Task<Result<Json>> write_one(Call& call, std::string asked, std::unique_ptr<ByteSource> bytes) {
  CO_TRY(const auto place, co_await find_write_place(call, std::move(asked)));
  // Whoever watches the file sees it written, as with the original.
  WriteOptions options{.mode = place.mode, .in_place = true, .user = kFileUser};
  CO_TRY(options.owner, co_await owner_for(call));
  CO_TRY(options.attributes, attributes_of(call.exchange.request()));
  CO_TRY_VOID(co_await call.provider.write_file(call.id(), place.path, options, std::move(bytes)));
  Json entry = {{"path", place.path}, {"name", last_name(place.path)}, {"type", "file"}};
  if (Json metadata = metadata_of(options.attributes); !metadata.empty())
    entry["metadata"] = std::move(metadata);
  co_return entry;
}

Task<Result<Json>> write_form(Call& call, ByteSource& body, std::string_view boundary,
                              std::optional<std::string> path) {
  http::FormParts parts([&body] { return body.next(); }, boundary);
  Json written = Json::array();
  for (;;) {
    CO_TRY(const auto head, co_await parts.next_part());
    if (!head) break;
    if (head->name != "file") continue;
    const std::string name = path ? *path : head->file_name.value_or("");
    if (name.empty())
      co_return make_error(ErrorCode::kInvalid, "write file", "a file in the form has no name");
    if (path && !written.empty())
      co_return make_error(ErrorCode::kInvalid, "write file", "one path, and several files");
    CO_TRY(auto entry, co_await write_one(call, name, std::make_unique<PartBytes>(parts)));
    written.push_back(std::move(entry));
  }
  if (written.empty())
    co_return make_error(ErrorCode::kInvalid, "write file", "the form holds no file");
  co_return written;
}

Task<Result<Json>> upload(Call& call) {
  const http::RequestHead& head = call.exchange.request();
  auto path = query_value(head.query(), "path");
  if (path && path->empty()) path.reset();
  CO_TRY(auto body, body_of(call.exchange));
  const auto type = head.find("Content-Type").value_or("");
  if (const auto boundary = http::multipart_boundary(type))
    co_return co_await write_form(call, *body, *boundary, std::move(path));
  if (!equal_ignoring_case(trim(type.substr(0, type.find(';'))), "application/octet-stream"))
    co_return make_error(
        ErrorCode::kInvalid, "write file",
        "Content-Type must be multipart/form-data with a boundary, or application/octet-stream");
  if (!path) co_return make_error(ErrorCode::kInvalid, "write file", "\"path\" is missing");
  CO_TRY(auto entry, co_await write_one(call, *path, std::move(body)));
  co_return Json::array({std::move(entry)});
}

}  // namespace

// The kernel writes through links, and a file that is there keeps its mode.
Task<Result<WritePlace>> find_write_place(Call& call, std::string asked) {
  WritePlace place;
  CO_TRY(place.path, co_await resolve_path(call, std::move(asked)));
  auto there = co_await call.awake(
      [&] { return call.provider.stat_file(call.id(), place.path, kFileUser); });
  if (!there) {
    const ErrorCode code = there.error().code;
    // A file where a directory should be is for the write to complain about.
    if (is_gone(there.error()) || (code != ErrorCode::kNotFound && code != ErrorCode::kInvalid))
      co_return std::move(there).error();
    co_return place;
  }
  const auto end = opened(*there);
  if (end && end->kind == FileKind::kDirectory)
    co_return make_error(ErrorCode::kInvalid, "write file",
                         fmt::format("path '{}' is a directory", place.path));
  if (end) place.mode = end->mode & 0777;
  co_return place;
}

Task<> answer_upload(Call& call) {
  const auto written = co_await upload(call);
  if (written) {
    call.exchange.respond({.body = dump_json(*written)});
  } else if (is_gone(written.error())) {
    respond_gone(call.exchange, call.id());
  } else {
    respond_failure(call.exchange, written.error());
  }
}

}  // namespace pons::e2b
