#include "store_settings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/database/address.h"
#include "pons/linux/fd.h"

namespace pons::cli {

namespace {

constexpr std::size_t kPasswordBytesMax = 1'000;

Result<database::Address> address_of(const config::LoadedConfig& loaded) {
  auto address = database::Address::parse(loaded.config.store.postgres);
  if (address) return address;
  return make_error(ErrorCode::kInvalid, "check store",
                    fmt::format("{}: store.postgres: {}", loaded.file, address.error().message));
}

}  // namespace

Result<Secret> read_password(const config::StoreConfig& store) {
  std::string text;
  if (!store.password_file.empty()) {
    text = TRY(config::read_substituted_file(store.password_file));
  } else if (!store.password_env.empty()) {
    auto value = config::read_environment(store.password_env);
    if (!value)
      return make_error(
          ErrorCode::kNotFound, "read password",
          fmt::format("store.password_env: the environment has no {}", store.password_env));
    text = std::move(*value);
  } else {
    return Secret();
  }
  std::string password(trim(text));
  wipe(text.data(), text.size());
  Secret secret(std::move(password));
  if (secret.empty() || secret.size() > kPasswordBytesMax ||
      secret.reveal().find_first_of(std::string_view("\0\n", 2)) != std::string_view::npos)
    return make_error(ErrorCode::kInvalid, "read password",
                      "store: the password must be one line that is not empty");
  return secret;
}

Result<void> check_store(const config::LoadedConfig& loaded) {
  if (loaded.config.store.postgres.empty()) return {};
  TRY_VOID(address_of(loaded));
  return {};
}

Result<void> prepare_store(const config::LoadedConfig& loaded, supervisor::ForRoles& for_roles) {
  const config::StoreConfig& store = loaded.config.store;
  if (store.postgres.empty()) return {};
  const database::Address address = TRY(address_of(loaded));
  for_roles.database_password = TRY(read_password(store));
  for_roles.gateway["database"] = store.postgres;
  if (!store.authority_file.empty())
    for_roles.gateway["database_authority"] =
        dump_json(Json(TRY(linux::read_file(store.authority_file))));  // values are one line
  for_roles.brain["database"] = address.shown;
  if (store.others == config::OtherBrains::kShared) for_roles.brain["database_others"] = "shared";
  return {};
}

}  // namespace pons::cli
