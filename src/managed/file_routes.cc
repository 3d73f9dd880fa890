#include "pons/managed/file_routes.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "file_shape.h"
#include "pons/base/text.h"
#include "pons/files/file_store.h"
#include "pons/http/form_parts.h"
#include "pons/http/query.h"
#include "pons/managed/caller.h"
#include "pons/managed/query.h"

namespace pons::managed {

namespace {

using files::File;
using files::FileStore;

constexpr std::size_t kIdsMax = 100;
constexpr PageLimits kPageLimits{.usual = 20, .max = 1'000};
constexpr std::uint64_t kExpiresMin = 3'600;
constexpr std::uint64_t kExpiresMax = 7'776'000;
constexpr std::size_t kFormTextBytesMax = 64;

Refusal refusal_of(const Error& error) {
  if (error.code == ErrorCode::kDenied) {
    Refusal refusal{404, "not_found_error", error.message};
    refusal.code = "file_expired";
    return refusal;
  }
  if (error.code == ErrorCode::kLimit) {
    Refusal refusal = bad_request(error.message);
    refusal.code = "storage_quota_exceeded";
    return refusal;
  }
  return error;
}

// ---- upload

struct Form {
  std::optional<FileStore::Upload> upload = std::nullopt;
  files::NewFile details = {};
};

Reply<std::int64_t> read_expiry(const std::string& text) {
  const auto seconds = parse_decimal(text);
  if (!seconds || *seconds < kExpiresMin || *seconds > kExpiresMax)
    return bad_request(fmt::format("expires_in_seconds is a whole number from {} to {}",
                                   kExpiresMin, kExpiresMax));
  return static_cast<std::int64_t>(*seconds) * 1'000;
}

Task<Reply<void>> take_file(FileStore& files, const std::string& project, http::FormParts& parts,
                            Form& form) {
  auto begun = co_await files.begin(project);
  if (!begun) co_return refusal_of(begun.error());
  form.upload.emplace(std::move(*begun));
  for (;;) {
    CO_TRY(const auto piece, co_await parts.next_data());
    if (piece.empty()) co_return {};
    const auto written = co_await form.upload->write(piece);
    if (!written && written.error().code == ErrorCode::kInvalid)
      co_return Refusal{413, "invalid_request_error", written.error().message};
    if (!written) co_return refusal_of(written.error());
  }
}

Task<Reply<void>> take_form(FileStore& files, Call& call, Form& form) {
  const auto type = call.exchange.request().find("content-type").value_or("");
  const auto boundary = http::multipart_boundary(type);
  if (!boundary)
    co_return bad_request("a file is uploaded as multipart/form-data, in the part \"file\"");
  http::FormParts parts(http::pieces_of(call.exchange), *boundary);
  for (;;) {
    CO_TRY(auto head, co_await parts.next_part());
    if (!head) break;
    if (head->name == "file") {
      if (form.upload) co_return bad_request("one file is uploaded at a time");
      form.details.name = head->file_name.value_or("");
      form.details.mime_type = head->content_type;
      CO_TRY_VOID(co_await take_file(files, call.caller.project, parts, form));
    } else if (head->name == "expires_in_seconds") {
      CO_TRY(const auto text, co_await parts.read_text(kFormTextBytesMax));
      CO_TRY(form.details.expires_in_ms, read_expiry(text));
    } else {
      co_return bad_request(
          fmt::format("\"{}\" is no part of this form: file, expires_in_seconds",
                      is_valid_utf8(head->name) ? head->name.substr(0, 64) : "?"));
    }
  }
  if (!form.upload) co_return bad_request("the part \"file\" is missing");
  co_return {};
}

Task<Reply<Json>> upload(FileStore& files, Call& call) {
  Form form;
  auto taken = co_await take_form(files, call, form);
  if (!taken) {
    if (form.upload) co_await form.upload->give_up();
    co_return taken.error();
  }
  const auto file = co_await form.upload->finish(std::move(form.details));
  if (!file) co_return refusal_of(file.error());
  co_return show_file(*file);
}

// ---- the rest

Task<Reply<Json>> list_by_ids(FileStore& files, const Call& call, std::vector<std::string> ids) {
  if (ids.size() > kIdsMax) co_return bad_request(fmt::format("ids has at most {}", kIdsMax));
  CO_TRY(const auto found, co_await files.find_all(call.caller.project, std::move(ids)));
  Json data = Json::array();
  for (const File& file : found) data.push_back(show_file(file));
  co_return Json{{"data", std::move(data)}, {"next_page", nullptr}};
}

Task<Reply<Json>> list(FileStore& files, Call& call) {
  CO_TRY(const Query query, Query::parse(call.exchange.request().query()));
  files::FileQuery wanted{.scope = query.find("scope_id").value_or("")};
  auto ids = query.all("ids");
  if (!ids.empty()) {
    if (query.find("page") || query.find("limit") || !wanted.scope.empty())
      co_return bad_request("ids does not go with page, limit or scope_id");
    co_return co_await list_by_ids(files, call, std::move(ids));
  }
  CO_TRY(const auto wish, read_page(query, "files", kPageLimits));
  wanted.limit = wish.limit;
  if (!wish.after.empty()) {
    CO_TRY(const auto created, number_in(wish, 0));
    wanted.after = {.created_ms = created, .id = wish.after.size() > 1 ? wish.after[1] : ""};
  }
  CO_TRY(const auto found, co_await files.list(call.caller.project, std::move(wanted)));
  Json data = Json::array();
  Json next = nullptr;
  for (const File& file : found) {
    if (static_cast<std::int64_t>(data.size()) == wish.limit) {
      const File& last = found[data.size() - 1];
      next = write_cursor("files", {fmt::format("{}", last.created_ms), last.id});
      break;
    }
    data.push_back(show_file(file));
  }
  co_return Json{{"data", std::move(data)}, {"next_page", std::move(next)}};
}

Task<Reply<Json>> get(FileStore& files, Call& call) {
  const auto file = co_await files.find(call.caller.project, call.ids[0]);
  if (!file) co_return refusal_of(file.error());
  co_return show_file(*file);
}

Task<Reply<Json>> remove(FileStore& files, Call& call) {
  const auto removed = co_await files.remove(call.caller.project, call.ids[0]);
  if (!removed) co_return refusal_of(removed.error());
  co_return Json{{"id", call.ids[0]}, {"type", "file_deleted"}};
}

// Bytes of strangers are no page of ours, whatever they call themselves.
http::Response content_head(const File& file) {
  return {.content_type = file.mime_type,
          .fields = {{"content-disposition", fmt::format("attachment; filename*=UTF-8''{}",
                                                         http::percent_encode(file.name))},
                     {"x-content-type-options", "nosniff"}},
          .content_length = static_cast<std::uint64_t>(file.bytes)};
}

Task<> answer_content(FileStore& files, http::Exchange& exchange, std::string id) {
  const auto caller = caller_of(exchange);
  if (!caller) {
    exchange.respond(answer_of(caller.error(), ""));
    co_return;
  }
  const auto file = co_await files.find(caller->project, std::move(id));
  if (!file) {
    exchange.respond(answer_of(refusal_of(file.error()), caller->request_id));
    co_return;
  }
  if (!co_await exchange.start(content_head(*file))) co_return;
  for (std::int64_t part = 0; part < file->parts; ++part) {
    const auto bytes = co_await files.read_part(*file, part);
    if (!bytes) {
      exchange.abort();
      co_return;
    }
    if (!co_await exchange.write(*bytes)) co_return;
  }
  (void)co_await exchange.finish();
}

}  // namespace

std::vector<http::Route> file_routes(FileStore& files) {
  const auto with = [&files](auto work) {
    return answering([&files, work](Call& call) { return work(files, call); });
  };
  return {{"POST", "/v1/files", with(upload)},
          {"GET", "/v1/files", with(list)},
          {"GET", "/v1/files/{id}", with(get)},
          {"DELETE", "/v1/files/{id}", with(remove)},
          {"GET", "/v1/files/{id}/content",
           [&files](http::Exchange& exchange, const http::PathValues& ids) {
             return answer_content(files, exchange, read_ids(ids).front());
           }}};
}

}  // namespace pons::managed
