#include "access_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

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

Result<AccessRequest> read_request(const Json& json) {
  const auto key = parse_hex(json.at("sandbox_key").get<std::string>());
  if (!key) return damaged();
  Json wish = json;
  for (const char* own :
       {"id", "sandbox", "sandbox_key", "asked_unix_ms", "closed_unix_ms", "status"})
    wish.erase(own);
  return AccessRequest{.id = json.at("id").get<std::string>(),
                       .sandbox = json.at("sandbox").get<std::string>(),
                       .sandbox_key = *key,
                       .wish = TRY(read_access_wish(wish)),
                       .asked_unix_ms = json.at("asked_unix_ms").get<std::int64_t>(),
                       .closed_unix_ms = json.value("closed_unix_ms", std::int64_t{0})};
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

Json to_json(const AccessRequest& request) {
  Json json = {{"id", request.id},
               {"status", request.is_pending() ? "pending" : "closed"},
               {"sandbox", request.sandbox},
               {"sandbox_key", fmt::format("{:016x}", request.sandbox_key)}};
  json.update(to_json(request.wish));
  json["asked_unix_ms"] = request.asked_unix_ms;
  if (!request.is_pending()) json["closed_unix_ms"] = request.closed_unix_ms;
  return json;
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
  return all_.back();
}

Result<AccessRequest> AccessRequests::close(std::string_view id) {
  std::vector<AccessRequest> all = all_;
  const auto found = std::ranges::find(all, id, &AccessRequest::id);
  if (found == all.end())
    return make_error(ErrorCode::kNotFound, "close access request",
                      "there is no access request of that id");
  if (!found->is_pending()) return *found;
  found->closed_unix_ms = now_unix_ms();
  AccessRequest closed = *found;
  TRY_VOID(keep(std::move(all)));
  return closed;
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
