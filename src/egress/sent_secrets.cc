#include "sent_secrets.h"

#include <algorithm>

#include "pons/vault/vault.h"

namespace pons::egress {

namespace {

// As a Scrubber wants it: as long, and with the same marks between letters and digits.
std::string stand_in_for(std::string_view value) {
  const auto filled = [value](char with) {
    std::string text(value);
    std::ranges::replace_if(
        text,
        [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        },
        with);
    return text;
  };
  std::string text = filled('x');
  return text == value ? filled('y') : text;
}

bool is_same(const Secret& one, const Secret& other) {
  return &one == &other || one.reveal() == other.reveal();
}

}  // namespace

// Under every way to write a rule for the host.
std::vector<SentSecrets::JsonPlace> SentSecrets::places_of(const std::string& project,
                                                           const Destination& host) {
  const auto* name = std::get_if<names::HostName>(&host);
  if (name == nullptr) return {};
  std::vector<JsonPlace> places{{project, name->text()},
                                {project, "*." + std::string(name->parent())}};
  std::string_view above = name->parent();
  while (!above.empty()) {
    places.emplace_back(project, "**." + std::string(above));
    const std::size_t dot = above.find('.');
    above = dot == std::string_view::npos ? std::string_view() : above.substr(dot + 1);
  }
  return places;
}

std::string text_of(const HostPattern& host) {
  if (host.kind == HostPattern::Kind::kName) return host.name;
  return (host.kind == HostPattern::Kind::kAllBelow ? "**." : "*.") + host.name;
}

HostPattern pattern_of(const vault::Binding& binding) {
  constexpr std::string_view kOneBelow = "*.";
  if (!binding.host.starts_with(kOneBelow)) return {.name = binding.host};
  return {.kind = HostPattern::Kind::kOneBelow, .name = binding.host.substr(kOneBelow.size())};
}

Result<void> SentSecrets::note(const Sending& sending) {
  const JsonPlace place{sending.project, text_of(sending.host)};
  if (const auto known = hosts_.find(place); known != hosts_.end()) {
    known->second.ports.insert(sending.port);
    const auto again = std::ranges::find_if(known->second.sent, [&](const Sent& sent) {
      return sent.name == sending.name && is_same(*sent.value, *sending.value);
    });
    if (again != known->second.sent.end()) {
      again->until = end_of(sending);
      return {};
    }
  }
  TRY_VOID(make_room(sending));
  const bool is_new = !hosts_.contains(place);
  Host& host = hosts_[place];
  host.ports.insert(sending.port);
  host.sent.push_back({.name = sending.name, .value = sending.value, .until = end_of(sending)});
  host.is_stale = true;
  if (is_new && listener_) listener_(sending.project, sending.host);
  return {};
}

TimePoint SentSecrets::end_of(const Sending& sending) const {
  return sending.name.empty() ? clock_.now() + vault::kDefaultGrace : kNever;
}

bool SentSecrets::has_room(const Sending& sending) const {
  std::size_t values = 1;
  std::size_t own = sending.value->size();
  std::size_t all = sending.value->size();
  for (const auto& [place, host] : hosts_)
    for (const Sent& sent : host.sent) {
      all += sent.value->size();
      if (place.first != sending.project) continue;
      own += sent.value->size();
      ++values;
    }
  return values <= limits_.project_values && own <= limits_.project_bytes &&
         all <= limits_.all_bytes;
}

// Former values of the same project make room, and never those of another one.
Result<void> SentSecrets::make_room(const Sending& sending) {
  while (!has_room(sending))
    if (!drop_oldest_former(sending.project))
      return make_error(ErrorCode::kLimit, "send secret",
                        "the project's secrets are sent to too many hosts");
  return {};
}

bool SentSecrets::drop_oldest_former(const std::string& project) {
  const Sent* oldest = nullptr;
  for (const auto& [place, host] : hosts_)
    for (const Sent& sent : host.sent)
      if (place.first == project && sent.until != kNever &&
          (oldest == nullptr || sent.until < oldest->until))
        oldest = &sent;
  if (oldest == nullptr) return false;
  const auto value = oldest->value;  // every host's copy of it: they are of the same age
  drop_if([&](const std::string& owner, const Sent& sent) {
    return owner == project && sent.until != kNever && sent.value == value;
  });
  return true;
}

void SentSecrets::retire(std::string_view project, std::string_view name, const Secret* current) {
  for (auto& [place, host] : hosts_)
    for (Sent& sent : host.sent)
      if (place.first == project && sent.name == name && sent.until == kNever &&
          (current == nullptr || !is_same(*sent.value, *current)))
        sent.until = clock_.now() + vault::kDefaultGrace;
}

void SentSecrets::forget_expired() {
  drop_if([now = clock_.now()](const std::string&, const Sent& sent) { return sent.until <= now; });
}

template <class Drop>
void SentSecrets::drop_if(const Drop& drop) {
  for (auto& [place, host] : hosts_)
    if (std::erase_if(host.sent, [&](const Sent& sent) { return drop(place.first, sent); }) > 0)
      host.is_stale = true;
  std::erase_if(hosts_, [](const auto& host) { return host.second.sent.empty(); });
}

bool SentSecrets::contains(const std::string& project, const Destination& host) const {
  return std::ranges::any_of(places_of(project, host),
                             [&](const JsonPlace& place) { return hosts_.contains(place); });
}

bool SentSecrets::contains(const std::string& project, const Destination& host,
                           std::uint16_t port) const {
  return std::ranges::any_of(places_of(project, host), [&](const JsonPlace& place) {
    const auto found = hosts_.find(place);
    return found != hosts_.end() && found->second.ports.contains(port);
  });
}

Result<std::vector<ProjectNeedles>> SentSecrets::needles_for(const std::string& project,
                                                             const Destination& host) {
  std::vector<ProjectNeedles> all;
  for (const JsonPlace& place : places_of(project, host)) {
    const auto found = hosts_.find(place);
    if (found == hosts_.end()) continue;
    if (found->second.is_stale) TRY_VOID(compile(found->second));
    all.push_back(found->second.needles);
  }
  return all;
}

Result<void> SentSecrets::compile(Host& host) {
  std::set<std::string_view> values;  // two names may have the same one
  for (const Sent& sent : host.sent) values.insert(sent.value->reveal());
  std::vector<scan::Needle> needles;
  std::vector<std::string> stand_ins;
  for (const std::string_view value : values) {
    needles.push_back({.id = static_cast<std::uint32_t>(needles.size()), .text = value});
    stand_ins.push_back(stand_in_for(value));
  }
  host.needles.set = TRY(scan::NeedleSet::create(needles));
  host.needles.stand_ins = std::make_shared<const std::vector<std::string>>(std::move(stand_ins));
  host.is_stale = false;
  return {};
}

}  // namespace pons::egress
