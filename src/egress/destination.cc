#include "pons/egress/destination.h"

namespace pons::egress {

std::string to_text(const Destination& destination) {
  if (const auto* name = std::get_if<names::HostName>(&destination)) return name->text();
  return std::get<names::IpAddress>(destination).to_text();
}

Result<Destination> parse_destination(std::string_view text) {
  const bool bracketed = text.size() > 2 && text.starts_with('[') && text.ends_with(']');
  const std::string_view inner = bracketed ? text.substr(1, text.size() - 2) : text;
  if (const auto address = names::IpAddress::parse(inner);
      address && !(bracketed && address->is_v4()))
    return Destination(*address);
  return Destination(TRY(names::HostName::parse(text)));
}

}  // namespace pons::egress
