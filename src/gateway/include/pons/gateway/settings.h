#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/models/message.h"

namespace pons::gateway {

// Where a provider listens.
struct ProviderUrl {
  bool tls = true;
  std::string host;  // a name or a numeric address, without brackets
  std::uint16_t port = 443;
  std::string path;  // in front of the endpoints' own; no slash at the end

  static Result<ProviderUrl> parse(std::string_view text);
  std::string authority() const;  // for the Host field
};

// Where a key comes from. The value itself is in no configuration.
struct KeySource {
  enum class Kind : std::uint8_t { kEnvironment, kFile };
  Kind kind = Kind::kEnvironment;
  std::string name;  // of the variable, or the path
};

enum class KeyHeader : std::uint8_t { kApiKey, kBearer };  // x-api-key, Authorization

struct ProviderSettings {
  std::string name;
  std::vector<models::Protocol> protocols;  // that it speaks, the preferred one first
  ProviderUrl url;
  KeyHeader key_header = KeyHeader::kBearer;
  std::vector<KeySource> keys;      // none: it asks for none
  std::vector<std::string> serves;  // patterns of model names that need no entry of their own
  std::string authority_file;       // of a private authority, for who starts; empty: the system's
  std::string proxy;                // "http://host:port" that takes CONNECT; empty: none
  std::string script;               // of a scripted provider: its JSON; it has no url
  std::size_t concurrent = 0;       // calls at a time; 0: as many as come
  Duration first_event_time = std::chrono::seconds(120);  // of a stream
  Duration next_event_time = std::chrono::seconds(120);
  Duration whole_time = std::chrono::minutes(10);  // of an answer that does not stream

  bool is_scripted() const { return !script.empty(); }
  bool speaks(models::Protocol protocol) const;
  // Nobody waits longer than this for its next word.
  Duration longest_silence() const;
};

// Who is asked last has so many times the time until it answers: behind it is only a refusal.
inline constexpr int kLastPatience = 2;

// One model of one provider.
struct Deployment {
  std::string provider;
  std::string model;
  std::uint32_t weight = 1;
  std::int64_t context_tokens = 0;  // 0: what the price table says
  std::size_t concurrent = 0;
};

struct ModelRoute {
  enum class Order : std::uint8_t { kInTurn, kByWeight };
  Order order = Order::kInTurn;
  std::vector<Deployment> deployments;
};

struct ModelSettings {
  std::map<std::string, ProviderSettings, std::less<>> providers;
  std::map<std::string, ModelRoute, std::less<>> routes;

  Duration longest_silence() const;  // of all providers
};

// The documents of `providers` and `models` in pons.yaml. Without a provider there is one that
// needs no key and no network: a script that introduces itself, under the model name "demo".
Result<ModelSettings> read_model_settings(const std::map<std::string, std::string>& providers,
                                          const std::map<std::string, std::string>& models);

// What the supervisor hands to the gateway: `{"providers": {name: document}, "models": {…}}`.
Result<ModelSettings> read_model_settings(std::string_view both);

}  // namespace pons::gateway
