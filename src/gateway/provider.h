#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/base/task.h"
#include "pons/gateway/settings.h"
#include "pons/http/tls.h"
#include "pons/http/upstream.h"
#include "pons/linux/loop.h"
#include "pons/names/resolver.h"

namespace pons::gateway {

// One provider: its keys, and the connections to it. Over TLS both versions of HTTP are offered;
// with HTTP/2 all calls share a connection as long as it lasts.
class Provider {
 public:
  // `tls` null: the provider is reached without it.
  Provider(linux::Loop& loop, ProviderSettings settings, std::vector<Secret> keys,
           names::Resolver& resolver, std::shared_ptr<http::TlsContext> tls);
  ~Provider();
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  const ProviderSettings& settings() const { return settings_; }

  // An answer holds the connection it comes over.
  struct Sent {
    std::shared_ptr<http::UpstreamLink> link;
    std::unique_ptr<http::UpstreamAnswer> answer;
  };
  Task<Result<Sent>> send(http::ClientRequest request);

  // The key to use now, by its number; nothing when all are out. A provider without keys has one
  // that is empty.
  std::optional<std::size_t> pick_key(TimePoint now) const;
  void add_key_field(std::size_t key, http::OwnedFields& fields) const;
  // Without its keys: some providers repeat them in their refusals.
  std::string without_keys(std::string text) const;
  enum class KeyRest : std::uint8_t { kBusy, kRefused };  // why a key is out
  void rest_key(std::size_t key, TimePoint until, KeyRest why);
  // Of keys that are out, the one that is good again first.
  struct Resting {
    TimePoint until;
    KeyRest why;
  };
  Resting next_key() const;

  std::size_t active = 0;  // calls under way

 private:
  struct Key {
    Secret secret;
    TimePoint out_until{};
    KeyRest why = KeyRest::kBusy;
  };
  Task<Result<std::unique_ptr<http::Transport>>> dial(TimePoint deadline);
  Task<Result<linux::UniqueFd>> dial_host(std::string host, std::uint16_t port, TimePoint deadline);
  Task<Result<linux::UniqueFd>> dial_through_proxy(TimePoint deadline);
  Task<Result<std::shared_ptr<http::UpstreamLink>>> pick_link();
  std::shared_ptr<http::UpstreamLink> find_link();

  linux::Loop& loop_;
  ProviderSettings settings_;
  std::vector<Key> keys_;
  names::Resolver& resolver_;
  std::shared_ptr<http::TlsContext> tls_;
  SystemClock clock_;
  std::shared_ptr<http::TlsSessions> sessions_;
  std::vector<std::shared_ptr<http::UpstreamLink>> http2_;  // none yet, or it does not speak it
  std::unique_ptr<http::Transport> dialled_;  // found to speak HTTP/1.1, for the next that asks
  bool offers_http2_;                         // unless it was found not to
  std::shared_ptr<http::UpstreamLink> http1_;
};

}  // namespace pons::gateway
