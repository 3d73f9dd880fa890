// The body of a request in which a stub may stand; its first byte chooses the form and the binding.
// The letter @ stands for the stub. Holds: without a swap the body is what it was; with one,
// exactly the stub has become the secret, once, and the host reads it as a whole value.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "body_swap.h"
#include "pons/base/check.h"
#include "pons/base/json.h"

namespace {

using namespace pons::egress;

constexpr std::string_view kStub = "ghp_iu9vutqlGPII6Rkt0agtzmmA0trkIIFaM91f";
constexpr std::string_view kSecret = "ghp_Zx81mQpL0vTr5Ke9WbYs7NcGd2HjUaFo46iX";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size())
    ++found;
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) return 0;
  const auto form = (data[0] & 1) != 0 ? BodyForm::kJson : BodyForm::kForm;
  const std::string body =
      replaced(std::string(reinterpret_cast<const char*>(data + 1), size - 1), "@", kStub);
  if (body.find(kSecret) != std::string::npos) return 0;
  auto credential = std::make_shared<pons::vault::Credential>();
  credential->value = pons::Secret(std::string(kSecret));
  const BodyBinding binding{.grant = {.credential = credential, .stub = std::string(kStub)},
                            .name = (data[0] & 2) != 0 ? "secret" : ""};
  const SwappedBody out = swap_body(form, body, {&binding, 1});
  if (out.used.empty()) {
    CHECK(out.sent == body && out.seen == body);
    return 0;
  }
  CHECK(count(out.sent, kSecret) == 1);
  CHECK(replaced(out.sent, kSecret, kStub) == body);
  CHECK(out.seen.find(kSecret) == std::string::npos);
  CHECK(count(out.seen, kStub) + 1 == count(body, kStub));
  if (form == BodyForm::kJson) CHECK(pons::parse_json(out.sent).has_value());
  return 0;
}
