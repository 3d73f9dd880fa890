#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy_rule.h"
#include "pons/base/clock.h"
#include "pons/base/secret.h"
#include "pons/scan/needle_set.h"
#include "pons/vault/binding.h"

namespace pons::egress {

// Secrets of projects, ready to be looked for; what stands in for each by the id of a Finding.
struct ProjectNeedles {
  std::shared_ptr<const scan::NeedleSet> set;
  std::shared_ptr<const std::vector<std::string>> stand_ins;
};

// How much is remembered: what is looked for costs many times its bytes.
struct SentLimits {
  std::size_t project_values = 1024;
  std::size_t project_bytes = 512 * 1024;
  std::size_t all_bytes = 4 * 1024 * 1024;
};

// What hosts were sent of a project's secrets, whichever sandbox's: they are looked into for all of
// the project, because they may show to one what another has sent. Not for other projects, whose
// answers are no business of this one. By the host of the rule, so that a sandbox that goes to many
// names below a wildcard costs no more than one.
class SentSecrets {
 public:
  explicit SentSecrets(const Clock& clock, SentLimits limits = {})
      : clock_(clock), limits_(limits) {}

  struct Sending {
    const HostPattern& host;
    std::uint16_t port = 0;
    const std::string& project;
    const std::string& name;              // empty: written in the rule itself, or of a vault
    std::shared_ptr<const Secret> value;  // at least scan::kNeedleBytesMin
  };
  // Call it before the value leaves. One without a name is looked for until it was not sent during
  // a grace time. kLimit: it must not, because it could not be remembered.
  Result<void> note(const Sending& sending);
  // The project's secret has this value now, or none: others are looked for during a grace time.
  void retire(std::string_view project, std::string_view name, const Secret* current);
  // Call it now and then.
  void forget_expired();

  // On whatever port.
  bool contains(const std::string& project, const Destination& host) const;
  bool contains(const std::string& project, const Destination& host, std::uint16_t port) const;
  // Shared by all of the project. An error means that nothing may pass.
  Result<std::vector<ProjectNeedles>> needles_for(const std::string& project,
                                                  const Destination& host);

  // Hears of hosts that were sent nothing before, before anything is.
  using Listener = std::function<void(const std::string& project, const HostPattern&)>;
  void on_new_host(Listener listener) { listener_ = std::move(listener); }

 private:
  struct Sent {
    std::string name;
    std::shared_ptr<const Secret> value;
    TimePoint until = kNever;
  };
  struct Host {
    std::vector<Sent> sent;
    std::set<std::uint16_t> ports;
    bool is_stale = true;  // `needles` is of another time
    ProjectNeedles needles;
  };
  TimePoint end_of(const Sending& sending) const;
  Result<void> make_room(const Sending& sending);
  bool drop_oldest_former(const std::string& project);
  bool has_room(const Sending& sending) const;
  template <class Drop>
  void drop_if(const Drop& drop);
  static Result<void> compile(Host& host);

  const Clock& clock_;
  const SentLimits limits_;
  using JsonPlace = std::pair<std::string, std::string>;  // project, host of the rule
  static std::vector<JsonPlace> places_of(const std::string& project, const Destination& host);
  std::map<JsonPlace, Host> hosts_;
  Listener listener_;
};

// "api.example.com", "*.example.com" for one label, "**.example.com" for any number.
std::string text_of(const HostPattern& host);
HostPattern pattern_of(const vault::Binding& binding);

}  // namespace pons::egress
