#include "access_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ranges>

#include "pons/base/id.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"

namespace pons::egress {

namespace {

constexpr std::size_t kFileBytesMax = 4 << 20;

Error damaged() {
  return make_error(ErrorCode::kInvalid, "read access requests", "another shape");
}

// At a character's beginning; what is no text at all is nothing.
std::string cut(std::string text) {
  if (text.size() > kAnswerBytesMax) text.resize(kAnswerBytesMax);
  for (int i = 0; i < 3 && !text.empty() && !is_valid_utf8(text); ++i) text.pop_back();
  return is_valid_utf8(text) ? text : std::string();
}

constexpr std::array kStatuses = {AccessStatus::kPending, AccessStatus::kAllowed,
                                  AccessStatus::kDenied, AccessStatus::kClosed,
                                  AccessStatus::kWithdrawn};

Result<AccessStatus> read_status(const std::string& text) {
  if (const auto status = find_access_status(text)) return *status;
  return damaged();
}

Result<AccessRequest> read_request(const Json& json) {
  const auto key = parse_hex(json.at("sandbox_key").get<std::string>());
  if (!key) return damaged();
  Json wish = json;
  for (const char* own : {"id", "sandbox", "sandbox_key", "asked_unix_ms", "closed_unix_ms",
                          "status", "message", "session", "told"})
    wish.erase(own);
  std::optional<AccessStatus> told;
  if (json.contains("told")) told = TRY(read_status(json["told"].get<std::string>()));
  return AccessRequest{.id = json.at("id").get<std::string>(),
                       .sandbox = json.at("sandbox").get<std::string>(),
                       .sandbox_key = *key,
                       .wish = TRY(read_access_wish(wish)),
                       .asked_unix_ms = json.at("asked_unix_ms").get<std::int64_t>(),
                       .closed_unix_ms = json.value("closed_unix_ms", std::int64_t{0}),
                       .status = TRY(read_status(json.at("status").get<std::string>())),
                       .message = json.value("message", ""),
                       .session = json.value("session", ""),
                       .told = told};
}

Result<std::vector<AccessRequest>> read_list(const Json& json) {
  std::vector<AccessRequest> all;
  try {
    for (const Json& one : json.at("requests")) {
      if (all.size() == kAccessRequestsMax) return damaged();
      all.push_back(TRY(read_request(one)));
    }
  } catch (const Json::exception&) {
    return damaged();
  }
  return all;
}

}  // namespace

std::string_view to_string(AccessStatus status) {
  switch (status) {
    case AccessStatus::kPending:
      return "pending";
    case AccessStatus::kAllowed:
      return "allowed";
    case AccessStatus::kDenied:
      return "denied";
    case AccessStatus::kClosed:
      return "closed";
    case AccessStatus::kWithdrawn:
      return "withdrawn";
  }
  return "closed";
}

std::optional<AccessStatus> find_access_status(std::string_view text) {
  const auto found = std::ranges::find(kStatuses, text, to_string);
  return found == kStatuses.end() ? std::nullopt : std::optional(*found);
}

Json to_json(const AccessRequest& request) {
  Json json = {{"id", request.id},
               {"status", to_string(request.status)},
               {"sandbox", request.sandbox},
               {"sandbox_key", fmt::format("{:016x}", request.sandbox_key)}};
  json.update(to_json(request.wish));
  json["asked_unix_ms"] = request.asked_unix_ms;
  if (!request.is_pending()) json["closed_unix_ms"] = request.closed_unix_ms;
  if (!request.message.empty()) json["message"] = request.message;
  if (!request.session.empty()) json["session"] = request.session;
  if (request.told) json["told"] = to_string(*request.told);
  return json;
}

void put_on_record(audit::AuditLog& audit, const AccessRequest& request) {
  if (const auto recorded =
          audit.append(audit::AccessEvent{.status = std::string(to_string(request.status)),
                                          .request_id = request.id,
                                          .sandbox = request.sandbox,
                                          .host = to_text(request.wish.host),
                                          .port = request.wish.port});
      !recorded)
    LOG_ERROR("an access request is not in the audit log", {"error", recorded.error()});
}

AccessRequests::AccessRequests(std::string directory, const Clock& clock)
    : directory_(std::move(directory)),
      file_(directory_ + "/access-requests.json"),
      clock_(clock) {}

Result<std::unique_ptr<AccessRequests>> AccessRequests::open(std::string directory,
                                                             const Clock& clock) {
  std::unique_ptr<AccessRequests> requests(new AccessRequests(std::move(directory), clock));
  const auto read = requests->read();
  if (read || read.error().code == ErrorCode::kNotFound) return requests;
  const std::string aside = requests->file_ + ".damaged";
  LOG_ERROR("the access requests cannot be read; they are put aside", {"file", aside},
            {"error", read.error()});
  if (std::rename(requests->file_.c_str(), aside.c_str()) != 0)
    return os_error("put access requests aside", aside);
  return requests;
}

Result<void> AccessRequests::read() {
  const std::string text = TRY(linux::read_file(file_, kFileBytesMax));
  const Json json = TRY(parse_json(text, {.bytes = kFileBytesMax}));
  all_ = TRY(read_list(json));
  return {};
}

const AccessRequest* AccessRequests::find_pending(std::uint64_t sandbox_key,
                                                  const AccessWish& wish) const {
  const auto found = std::ranges::find_if(all_, [&](const AccessRequest& request) {
    return request.is_pending() && request.sandbox_key == sandbox_key &&
           request.wish.asks_same_as(wish);
  });
  return found == all_.end() ? nullptr : &*found;
}

const AccessRequest* AccessRequests::find_decided(std::uint64_t sandbox_key,
                                                  const AccessWish& wish) const {
  for (const AccessRequest& request : std::views::reverse(all_))
    if (request.sandbox_key == sandbox_key && request.wish.asks_same_as(wish) &&
        (request.status == AccessStatus::kAllowed || request.status == AccessStatus::kDenied))
      return &request;
  return nullptr;
}

const AccessRequest* AccessRequests::find_last(std::uint64_t sandbox_key, const Destination& host,
                                               std::uint16_t port) const {
  for (const AccessRequest& request : std::views::reverse(all_))
    if (request.sandbox_key == sandbox_key && request.wish.host == host &&
        request.wish.port == port &&
        (request.is_pending() || request.status == AccessStatus::kDenied))
      return &request;
  return nullptr;
}

const AccessRequest* AccessRequests::find(std::string_view id) const {
  const auto found = std::ranges::find(all_, id, &AccessRequest::id);
  return found == all_.end() ? nullptr : &*found;
}

Result<AccessRequest> AccessRequests::add(std::string sandbox, std::uint64_t sandbox_key,
                                          AccessWish wish) {
  const auto of_sandbox = std::ranges::count_if(all_, [&](const AccessRequest& request) {
    return request.is_pending() && request.sandbox_key == sandbox_key;
  });
  if (static_cast<std::size_t>(of_sandbox) >= kPendingPerSandboxMax)
    return make_error(ErrorCode::kLimit, "ask for access",
                      "this sandbox waits for as many answers as it may");
  std::vector<AccessRequest> all = all_;
  if (all.size() >= kAccessRequestsMax) {
    const auto closed = std::ranges::find_if(
        all, [](const AccessRequest& request) { return !request.is_pending(); });
    if (closed == all.end())
      return make_error(ErrorCode::kLimit, "ask for access",
                        "too many requests of all sandboxes wait for an answer");
    all.erase(closed);
  }
  all.push_back({.id = "acc_" + random_text(20),
                 .sandbox = std::move(sandbox),
                 .sandbox_key = sandbox_key,
                 .wish = std::move(wish),
                 .asked_unix_ms = now_unix_ms()});
  TRY_VOID(keep(std::move(all)));
  AccessRequest added = all_.back();
  on_news_();
  return added;
}

Result<AccessRequest> AccessRequests::close(std::string_view id, AccessStatus as,
                                            std::string message) {
  std::vector<AccessRequest> all = all_;
  const auto found = std::ranges::find(all, id, &AccessRequest::id);
  if (found == all.end())
    return make_error(ErrorCode::kNotFound, "close access request",
                      "there is no access request of that id");
  if (!found->is_pending()) return *found;
  found->closed_unix_ms = now_unix_ms();
  found->status = as;
  found->message = cut(std::move(message));
  AccessRequest closed = *found;
  TRY_VOID(keep(std::move(all)));
  on_news_();
  return closed;
}

Result<std::size_t> AccessRequests::withdraw_others(
    const std::function<bool(std::uint64_t key)>& is_there) {
  std::vector<AccessRequest> all = all_;
  std::size_t withdrawn = 0;
  for (AccessRequest& request : all) {
    if (!request.is_pending() || is_there(request.sandbox_key)) continue;
    request.closed_unix_ms = now_unix_ms();
    request.status = AccessStatus::kWithdrawn;
    request.message = "its sandbox is gone";
    ++withdrawn;
  }
  if (withdrawn == 0) return withdrawn;
  TRY_VOID(keep(std::move(all)));
  on_news_();
  return withdrawn;
}

std::vector<const AccessRequest*> AccessRequests::untold() const {
  std::vector<const AccessRequest*> untold;
  for (const AccessRequest& request : all_)
    if (request.told != request.status) untold.push_back(&request);
  return untold;
}

Result<void> AccessRequests::tell(std::string_view id, AccessStatus status, std::string session) {
  std::vector<AccessRequest> all = all_;
  const auto found = std::ranges::find(all, id, &AccessRequest::id);
  if (found == all.end()) return {};
  found->told = status;
  found->session = std::move(session);
  return keep(std::move(all));
}

Result<void> AccessRequests::keep(std::vector<AccessRequest> all) {
  Json list = Json::array();
  for (const AccessRequest& request : all) list.push_back(to_json(request));
  TRY_VOID(
      linux::write_file_atomically(file_, dump_json({{"requests", std::move(list)}}) + "\n", 0600));
  TRY_VOID(linux::sync_directory(directory_));
  all_ = std::move(all);
  return {};
}

std::size_t AccessRequests::pending() const {
  return static_cast<std::size_t>(std::ranges::count_if(all_, &AccessRequest::is_pending));
}

std::int64_t AccessRequests::now_unix_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

}  // namespace pons::egress
