#include "vault_entry.h"

#include <array>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::vault {

namespace {

constexpr std::size_t kSizeBytes = 4;

void append(std::string& out, std::string_view part) {
  for (std::size_t i = 0; i < kSizeBytes; ++i) out += static_cast<char>(part.size() >> 8 * i);
  out += part;
}

std::optional<std::string_view> take(std::string_view& rest) {
  if (rest.size() < kSizeBytes) return std::nullopt;
  std::size_t size = 0;
  for (std::size_t i = 0; i < kSizeBytes; ++i)
    size |= static_cast<std::size_t>(static_cast<unsigned char>(rest[i])) << 8 * i;
  rest.remove_prefix(kSizeBytes);
  if (size > rest.size()) return std::nullopt;
  const std::string_view part = rest.substr(0, size);
  rest.remove_prefix(size);
  return part;
}

Error damaged() {
  return make_error(ErrorCode::kDenied, "open vault", "its content has another form");
}

}  // namespace

Secret copy_of(const Secret& secret) {
  return Secret(std::string(secret.reveal()));
}

Secret encode_entry(const VaultEntry& entry) {
  Json about = {{"project", entry.project},
                {"vault", entry.vault},
                {"document", entry.record.document},
                {"created_unix_ms", entry.record.created_unix_ms},
                {"updated_unix_ms", entry.record.updated_unix_ms}};
  if (entry.record.archived_unix_ms) about["archived_unix_ms"] = *entry.record.archived_unix_ms;
  const std::string text = dump_json(about);
  const auto secrets = {&entry.secrets.value, &entry.secrets.refresh_token,
                        &entry.secrets.client_secret};
  std::size_t bytes = kSizeBytes + text.size();
  for (const Secret* secret : secrets) bytes += kSizeBytes + secret->size();
  std::string plain;
  plain.reserve(bytes);  // so that no copy is left where it grew
  append(plain, text);
  for (const Secret* secret : secrets) append(plain, secret->reveal());
  return Secret(std::move(plain));
}

Result<VaultEntry> decode_entry(std::string id, std::string_view plain) {
  std::array<std::string_view, 4> parts;
  for (std::string_view& part : parts) {
    const auto taken = take(plain);
    if (!taken) return damaged();
    part = *taken;
  }
  if (!plain.empty()) return damaged();
  const Json about = TRY(parse_json(parts[0]));
  try {
    VaultEntry entry{.project = about.at("project").get<std::string>(),
                     .vault = about.at("vault").get<std::string>(),
                     .record = {.id = std::move(id),
                                .document = about.at("document").get<std::string>(),
                                .created_unix_ms = about.at("created_unix_ms").get<std::int64_t>(),
                                .updated_unix_ms = about.at("updated_unix_ms").get<std::int64_t>()},
                     .secrets = {.value = Secret(std::string(parts[1])),
                                 .refresh_token = Secret(std::string(parts[2])),
                                 .client_secret = Secret(std::string(parts[3]))}};
    if (about.contains("archived_unix_ms"))
      entry.record.archived_unix_ms = about.at("archived_unix_ms").get<std::int64_t>();
    return entry;
  } catch (const Json::exception&) {
    return damaged();
  }
}

}  // namespace pons::vault
