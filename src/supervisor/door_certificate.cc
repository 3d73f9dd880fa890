#include "door_certificate.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "sealed_memory.h"

namespace pons::supervisor {

namespace {

constexpr std::size_t kAnswerBytesMax = 64 * 1024;
constexpr http::ClientLimits kFrontLimits{.first_byte_time = std::chrono::seconds(5)};

}  // namespace

DoorCertificate::DoorCertificate(linux::Loop& loop, const config::TlsConfig& files,
                                 std::string front_socket)
    : loop_(loop),
      files_(files),
      front_(loop, http::unix_connector(loop, std::move(front_socket)), "front", kFrontLimits),
      offered_(loop) {}

Result<Secret> DoorCertificate::read() const {
  const std::string certificate = TRY(config::read_substituted_file(files_.certificate));
  std::string key = TRY(config::read_substituted_file(files_.key));
  // Text that is no UTF-8 is no PEM, and JSON could not carry it.
  if (!is_valid_utf8(certificate) || !is_valid_utf8(key)) {
    wipe(key.data(), key.size());
    return make_error(ErrorCode::kInvalid, "read TLS files",
                      fmt::format("{} and {} must be PEM text", files_.certificate, files_.key));
  }
  Json document = {{"certificate", certificate}, {"key", key}};
  wipe(key.data(), key.size());
  Secret text(dump_json(document));
  auto& copy = document["key"].get_ref<std::string&>();
  wipe(copy.data(), copy.size());
  return text;
}

Result<void> DoorCertificate::read_files() {
  in_use_ = TRY(read());
  seen_hash_ = sha256_hex(in_use_.reveal());
  return {};
}

Result<linux::UniqueFd> DoorCertificate::for_front() const {
  return seal_in_memory("pons-tls", in_use_);
}

Task<Result<void>> DoorCertificate::offer(const Secret& document) {
  http::ClientRequest request{.method = "PUT", .target = "/tls"};
  request.body = document.reveal();
  CO_TRY(auto response, co_await front_.send(std::move(request)));
  CO_TRY(const auto body, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() != 200)
    co_return http::error_of("use new certificate", response.status(), body);
  co_return {};
}

Task<Result<DoorCertificate::Outcome>> DoorCertificate::reload() {
  while (offering_) {
    offered_.reset();
    co_await offered_.wait(kNever);
  }
  offering_ = true;
  struct Done {
    DoorCertificate& owner;
    ~Done() {
      owner.offering_ = false;
      owner.offered_.set();
    }
  } const at_end{*this};
  co_return co_await reload_alone();
}

Task<Result<DoorCertificate::Outcome>> DoorCertificate::reload_alone() {
  auto document = read();
  Result<void> taken;
  if (!document) {
    taken = document.error();
  } else {
    seen_hash_ = sha256_hex(document->reveal());
    if (equal_constant_time(document->reveal(), in_use_.reveal())) co_return Outcome::kUnchanged;
    taken = co_await offer(*document);
  }
  if (!taken) {
    LOG_ERROR("the new certificate is not used; the one before it stays",
              {"certificate", files_.certificate}, {"error", taken.error()});
    co_return taken.error();
  }
  in_use_ = std::move(*document);
  LOG_INFO("a new certificate is in use", {"certificate", files_.certificate});
  co_return Outcome::kReplaced;
}

// A file that is gone is a change, told once.
bool DoorCertificate::has_changed() {
  const auto document = read();
  std::string hash = document ? sha256_hex(document->reveal()) : document.error().describe();
  const bool changed = hash != seen_hash_;
  seen_hash_ = std::move(hash);
  return changed;
}

Task<> DoorCertificate::follow() {
  // Whoever renews writes two files: a look between the two finds no pair.
  constexpr Duration kSecondFile = std::chrono::milliseconds(500);
  for (;;) {
    co_await loop_.sleep_for(std::chrono::seconds(files_.check_seconds));
    // Also what was refused may be right by now: a front was being restarted, a certificate was not
    // valid yet.
    const bool is_waiting = sha256_hex(in_use_.reveal()) != seen_hash_;
    if (!has_changed() && !is_waiting) continue;
    co_await loop_.sleep_for(kSecondFile);
    (void)co_await reload();
  }
}

}  // namespace pons::supervisor
