#include "model_settings.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/gateway/settings.h"
#include "pons/linux/fd.h"
#include "terminal.h"

namespace pons::cli {

namespace {

// Wipes what it held.
class ClearText {
 public:
  explicit ClearText(std::string text) : text_(std::move(text)) {}
  ClearText(const ClearText&) = delete;
  ClearText& operator=(const ClearText&) = delete;
  ~ClearText() { wipe(text_.data(), text_.size()); }
  std::string_view trimmed() const { return trim(text_); }

 private:
  std::string text_;
};

Result<std::string> read_key(const gateway::KeySource& source) {
  if (source.kind == gateway::KeySource::Kind::kFile)
    return config::read_substituted_file(source.name);
  if (auto value = config::read_environment(source.name)) return std::move(*value);
  return make_error(ErrorCode::kNotFound, "read key",
                    fmt::format("the environment has no {}", source.name));
}

// Visible ASCII, as a header field takes it.
bool is_usable_key(std::string_view key) {
  constexpr std::size_t kKeyBytesMax = 4'096;
  return !key.empty() && key.size() <= kKeyBytesMax &&
         std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7F; });
}

// {"provider": ["key"]}; kept out of nlohmann's hands, whose copies nobody wipes.
Result<Secret> read_keys(const gateway::ModelSettings& settings) {
  std::string document = "{";
  for (const auto& [name, provider] : settings.providers) {
    std::string list;
    for (const gateway::KeySource& source : provider.keys) {
      auto read = read_key(source);
      if (!read) {
        print_warning(fmt::format("provider {}: {}", name, read.error().message));
        continue;
      }
      const ClearText key(std::move(*read));
      if (!is_usable_key(key.trimmed()))
        return make_error(ErrorCode::kInvalid, "read key",
                          fmt::format("provider {}: {} holds no key: it must be one line of "
                                      "visible characters",
                                      name, source.name));
      std::string quoted;
      for (const char c : key.trimmed()) {
        if (c == '"' || c == '\\') quoted += '\\';
        quoted += c;
      }
      list += fmt::format("{}\"{}\"", list.empty() ? "" : ",", quoted);
      wipe(quoted.data(), quoted.size());
    }
    document += fmt::format("{}\"{}\":[{}]", document.size() > 1 ? "," : "", name, list);
    wipe(list.data(), list.size());
  }
  document += "}";
  return Secret(std::move(document));
}

// {"provider": "PEM"}, of those whose certificates a private authority has signed.
Result<std::string> read_authorities(const gateway::ModelSettings& settings) {
  Json document = Json::object();
  for (const auto& [name, provider] : settings.providers)
    if (!provider.authority_file.empty())
      document[name] = TRY(linux::read_file(provider.authority_file));
  return dump_json(document);
}

Result<gateway::ModelSettings> settings_of(const config::LoadedConfig& loaded) {
  auto settings = gateway::read_model_settings(loaded.config.providers, loaded.config.models);
  if (settings) return settings;
  return make_error(ErrorCode::kInvalid, "check models",
                    fmt::format("{}: {}", loaded.file, settings.error().message));
}

}  // namespace

Result<void> check_models(const config::LoadedConfig& loaded) {
  TRY_VOID(settings_of(loaded));
  return {};
}

Result<void> prepare_models(const config::LoadedConfig& loaded, supervisor::ForRoles& for_roles) {
  const auto settings = TRY(settings_of(loaded));
  for_roles.model_keys = TRY(read_keys(settings));
  for_roles.gateway["authorities"] = TRY(read_authorities(settings));
  const config::Config& config = loaded.config;
  for_roles.gateway["models"] =
      dump_json({{"providers", config.providers}, {"models", config.models}});
  for_roles.gateway["unknown_price"] =
      config.gateway.unknown_price == config::UnknownPrice::kRefused ? "refused" : "dearest";
  for_roles.gateway["prices"] = config.gateway.prices.empty()
                                    ? std::string()
                                    : TRY(config::read_substituted_file(config.gateway.prices));
  return {};
}

}  // namespace pons::cli
