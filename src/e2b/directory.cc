#include "pons/e2b/directory.h"

namespace pons::e2b {

namespace {

// Labels of the warden are text; these are ours.
constexpr const char* kProject = "pons.project";
constexpr const char* kAccessToken = "e2b.access_token";
constexpr const char* kTrafficToken = "e2b.traffic_token";
constexpr const char* kMaskHost = "e2b.mask_host";
constexpr const char* kAutoResume = "e2b.auto_resume";

// Ended sandboxes of which no front was told would pile up; finding one again is one question.
constexpr std::size_t kKnownMax = 100'000;

std::string text_of(const std::map<std::string, std::string>& labels, const char* name) {
  const auto found = labels.find(name);
  return found == labels.end() ? std::string() : found->second;
}

}  // namespace

void put_labels(const Access& access, std::map<std::string, std::string>& labels) {
  labels[kProject] = access.project;
  labels[kAccessToken] = access.access_token;
  if (!access.traffic_token.empty()) labels[kTrafficToken] = access.traffic_token;
  if (!access.mask_host.empty()) labels[kMaskHost] = access.mask_host;
  if (access.auto_resume) labels[kAutoResume] = "yes";
}

bool is_paused_cold(const sandbox::SandboxInfo& info) {
  return info.state == sandbox::State::kPaused && info.labels.contains(kColdPauseLabel);
}

std::optional<Access> read_labels(const sandbox::SandboxInfo& info) {
  if (!info.labels.contains(kProject) || !info.labels.contains(kAccessToken)) return std::nullopt;
  return Access{.sandbox = info.id,
                .project = text_of(info.labels, kProject),
                .access_token = text_of(info.labels, kAccessToken),
                .traffic_token = text_of(info.labels, kTrafficToken),
                .mask_host = text_of(info.labels, kMaskHost),
                .auto_resume = info.labels.contains(kAutoResume)};
}

Task<Result<Directory::Found>> Directory::find(std::string id) {
  if (const auto known = known_.find(id); known != known_.end()) co_return known->second;
  CO_TRY(const auto info, co_await provider_.inspect(id));
  learn(info);
  const auto known = known_.find(id);
  if (known == known_.end() || info.state == sandbox::State::kEnded)
    co_return make_error(ErrorCode::kNotFound, "find sandbox", id);
  co_return known->second;
}

Directory::Found Directory::find_known(const std::function<bool(const Access&)>& is_meant) const {
  for (const auto& [id, access] : known_)
    if (is_meant(*access)) return access;
  return nullptr;
}

Task<Result<Directory::Found>> Directory::find_where(std::function<bool(const Access&)> is_meant) {
  if (auto known = find_known(is_meant)) co_return known;
  CO_TRY(const auto all, co_await provider_.list());
  for (const sandbox::SandboxInfo& info : all) learn(info);
  if (auto known = find_known(is_meant)) co_return known;
  co_return make_error(ErrorCode::kNotFound, "find sandbox", "no sandbox matches");
}

void Directory::learn(const sandbox::SandboxInfo& info) {
  if (info.state == sandbox::State::kEnded) return forget(info.id);
  if (known_.size() >= kKnownMax) known_.clear();
  if (auto access = read_labels(info); access && !known_.contains(info.id))
    known_.emplace(info.id, std::make_shared<const Access>(*std::move(access)));
}

void Directory::forget(std::string_view id) {
  if (const auto known = known_.find(id); known != known_.end()) known_.erase(known);
}

}  // namespace pons::e2b
