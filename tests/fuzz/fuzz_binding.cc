// The first line is a binding (text or JSON), the second a host and a path. Holds: what is accepted
// is written and read again to the same binding; it never matches a host that is not its own, nor a
// path with dot segments; a format swaps what it renders and nothing of another stub.

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json.h"
#include "pons/vault/binding.h"
#include "pons/vault/credential.h"

namespace {

using namespace pons::vault;

void check_matching(const Binding& binding, std::string_view host, std::string_view path) {
  if (!binding.matches({.host = host, .port = binding.ports[0], .method = "GET", .path = path}))
    return;
  if (binding.host.starts_with("*."))
    CHECK(host.ends_with(binding.host.substr(1)) &&
          host.substr(0, host.size() - binding.host.size() + 1).find('.') ==
              std::string_view::npos);
  else
    CHECK(host == binding.host);
  CHECK(binding.paths.empty() || path.find("/../") == std::string_view::npos);
}

void check_format(const Format& format) {
  const std::string stub = "St0bSt0bSt0bSt0bSt0bSt0b";
  const auto swapped = format.swap(format.render(stub), stub, "value");
  CHECK(swapped.has_value());
  CHECK(!format.swap(format.render("other"), stub, "value"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view text = all.substr(0, all.find('\n'));
  const std::string_view rest = text.size() < all.size() ? all.substr(text.size() + 1) : "";
  const auto json = pons::parse_json(text);
  const auto binding = json ? parse_binding(*json) : parse_binding_text(text);
  if (!binding) {
    CHECK(!binding.error().message.empty());
    return 0;
  }
  const auto again = parse_binding(to_json(*binding));
  CHECK(again.has_value() && *again == *binding);
  check_format(binding->format);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  check_matching(*binding, rest.substr(0, slash), rest.substr(slash));
  (void)check_value(rest);
  return 0;
}
