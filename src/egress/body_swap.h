#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attached_sandbox.h"
#include "pons/http/head.h"

namespace pons::egress {

// A credential that may stand in the body of the request at hand.
struct BodyBinding {
  Grant grant;
  std::string name;  // of the form's field, or of the JSON object's member; empty: any
};

enum class BodyForm : std::uint8_t { kOther, kJson, kForm };
// kOther as well for what comes in a coding or another alphabet.
BodyForm form_of(const http::RequestHead& head);

struct SwappedBody {
  std::string sent;
  std::string seen;  // without what was swapped: the rest must hold neither stub nor secret
  std::vector<std::shared_ptr<const vault::Credential>> used;
  std::vector<std::string> filled = {};  // names of fields and members that were
  bool has_foreign = false;              // a field that a binding names holds something else
};

// A stub that is the whole value of a declared place, and stands in the body once, becomes the
// secret. Everything else stays as it is, to be found by whoever looks through `seen`.
SwappedBody swap_body(BodyForm form, std::string_view body, std::span<const BodyBinding> bindings);

}  // namespace pons::egress
