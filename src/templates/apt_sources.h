#pragma once

#include <string>
#include <string_view>

namespace pons::templates {

// The stanzas or lines of an apt sources file that are about the suite (bookworm,
// bookworm-updates, bookworm-security…); the rest of the host's sources is not the template's.
std::string one_line_sources_for(std::string_view text, std::string_view suite);
std::string deb822_sources_for(std::string_view text, std::string_view suite);

// Of `apt-config dump`: how to fetch (proxies, certificates, retries), and nothing else.
std::string fetch_settings(std::string_view dump);

// The same text with no user or password in any URL.
std::string without_credentials(std::string_view text);

// True when a URL in the text carries a user or password, or a setting names a proxy.
bool holds_credentials(std::string_view text);

}  // namespace pons::templates
