// What a caller of the control plane says: the query of a list, and the words about a network.
// Holds: whatever is refused or not, nothing of another project is listed, a page is no longer than
// it may be, a time that is read is written again as the same one, and a policy keeps the words it
// was made of.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "listing.h"
#include "network_options.h"
#include "pons/base/check.h"
#include "pons/e2b/directory.h"
#include "time_text.h"

namespace {

using namespace pons;
using namespace pons::e2b;

std::vector<sandbox::SandboxInfo> some_sandboxes() {
  std::vector<sandbox::SandboxInfo> all(4);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].id = std::string(1, static_cast<char>('a' + i));
    all[i].created_unix_ms = static_cast<std::int64_t>(i) * 1000;
    put_labels(Access{.sandbox = all[i].id, .project = i % 2 == 0 ? "mine" : "theirs"},
               all[i].labels);
  }
  return all;
}

void try_query(std::string_view query) {
  const auto page = select_page(some_sandboxes(), "mine", query);
  if (!page) return;
  CHECK(page->sandboxes.size() <= 2);
  for (const auto& info : page->sandboxes) CHECK(read_labels(info)->project == "mine");
  const auto some = page_response({{{.created_unix_ms = 1, .id = "a"}, "a"},
                                   {{.created_unix_ms = 1, .id = "b"}, "b"},
                                   {{.created_unix_ms = 2, .id = "a"}, "c"}},
                                  query);
  CHECK(!some || parse_json(some->body)->size() <= 3);
}

void try_network(std::string_view text) {
  const auto body = parse_json(text, {.depth = 16, .bytes = 1 << 20});
  if (!body || !body->is_object()) return;
  const auto network = read_network(*body, *body, "mine");
  if (!network) return;
  const Json policy = *parse_json(network->policy);
  CHECK(!policy.contains("project") || policy["project"] == "mine");
  const Json words = words_of(network->policy);
  for (const char* name : {"allowOut", "denyOut", "rules"})
    if (body->contains(name) && !(*body)[name].is_null())
      CHECK(words["network"][name] == (*body)[name]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try_query(text);
  try_network(text);
  if (const auto time = parse_rfc3339(text); time && *time >= 0)
    CHECK(parse_rfc3339(rfc3339(*time)) == time);
  return 0;
}
