#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pons/base/secret.h"
#include "pons/egress/policy.h"
#include "request_path.h"

namespace pons::egress {

// Which hosts a rule is about.
struct HostPattern {
  enum class Kind : std::uint8_t {
    kName,
    kOneBelow,  // "*.example.com" that allows: exactly one label
    kAllBelow,  // "*.example.com" that denies, or sets fields: any number of labels
    kAnything,
    kRange,
  };
  Kind kind = Kind::kName;
  std::string name;                       // of kName, and what follows "*." of the wildcards
  std::vector<names::CidrRange> range{};  // of kRange: exactly one

  bool matches(const Destination& destination) const;
  bool operator==(const HostPattern&) const = default;
  Breadth breadth() const {
    if (kind == Kind::kAnything) return Breadth::kAnything;
    return kind == Kind::kOneBelow ? Breadth::kOneLabel : Breadth::kNamed;
  }
};

struct PolicyRule {
  std::string source;  // "allow/2"
  HostPattern host;
  std::vector<std::uint16_t> ports;
  std::vector<std::string> methods;         // none: all
  std::vector<PathPattern> paths;           // none: all
  std::vector<names::CidrRange> addresses;  // none: public ones
  bool inspect = false;
  bool inert_ok = false;
  bool require_stub = false;
  bool tcp = false;
  bool granted = false;  // by a person, while the sandbox is at work

  bool sees_requests() const {
    return inspect || require_stub || !methods.empty() || !paths.empty();
  }
};

// A field that every request to a host gets, whatever the sandbox wrote there.
struct FieldRule {
  // Text, or the name of a secret of the sandbox's project in its place.
  struct Part {
    std::string text;
    bool is_secret = false;
  };
  HostPattern host;
  std::string name;  // lower case
  std::vector<Part> parts;
  // What looks like a credential although it is written in the rule itself: treated like a secret.
  std::vector<std::shared_ptr<const Secret>> literals;
  bool is_credential = false;  // by its name

  // Not on a line that anyone can read.
  bool needs_tls() const { return is_credential || std::ranges::any_of(parts, &Part::is_secret); }
};

inline constexpr std::uint16_t kHttpsPort = 443;
inline constexpr std::uint16_t kHttpPort = 80;

}  // namespace pons::egress
