#include "answer_filter.h"

#include <algorithm>
#include <array>

#include "discretion.h"
#include "pons/base/text.h"

namespace pons::egress {

namespace {

// Not for the sandbox: they would move it to another way out, or are about the connection.
constexpr std::array kDropped = {"alt-svc", "date", "content-length", "content-type",
                                 "public-key-pins"};

// A message may end like a secret begins, with a prefix that all of its kind have. More is a part
// of one.
constexpr std::size_t kOpenTailMax = 8;

// gRPC's own limit for what it takes.
constexpr std::size_t kMessageBytesMax = 4 * 1024 * 1024;

bool is_dropped(std::string_view name) {
  return is_hop_field(name) || std::ranges::any_of(kDropped, [&](std::string_view dropped) {
           return equal_ignoring_case(name, dropped);
         });
}

Refusal unreadable(std::string reason) {
  return {.status = 502,
          .code = "undecodable_answer",
          .reason = std::move(reason),
          .hint = "the host sends what cannot be looked into; ask it for another form",
          .rule = {}};
}

// Secrets of one vault, as they were when the answer began.
struct VaultSet {
  const vault::Vault* vault = nullptr;
  VaultNeedles::Owners owners;
};

Error cut() {
  return make_error(ErrorCode::kDenied, "deliver answer", "it holds what must not arrive");
}

}  // namespace

std::expected<AnswerFilter, Refusal> AnswerFilter::open(Boundary& boundary,
                                                        AttachedSandbox& sandbox,
                                                        const Judged& judged,
                                                        const http::ResponseHead& head) {
  AnswerFilter filter;
  std::vector<VaultSet> vaults;
  scan::NeedleSets of_vaults;
  for (const VaultView& view : vaults_of(boundary, sandbox)) {
    auto secrets = view.secrets.current();
    if (!secrets) return std::unexpected(unreadable("the vault cannot be used"));
    if (!judged.scrubs || *secrets == nullptr) continue;
    of_vaults.push_back(*secrets);
    vaults.push_back({.vault = &view.vault, .owners = view.secrets.owners()});
  }
  // As of now: another sandbox may have sent one meanwhile.
  std::vector<ProjectNeedles> sent;
  if (judged.host) {
    auto needles = boundary.sent_secrets.needles_for(sandbox.policy->project(), *judged.host);
    if (!needles) return std::unexpected(unreadable("secrets cannot be looked for"));
    sent = *std::move(needles);
  }
  // A secret may be in both: the last to be found says what takes its place, and a stub is better.
  for (const ProjectNeedles& needles : sent) filter.secrets_.push_back(needles.set);
  filter.secrets_.insert(filter.secrets_.end(), of_vaults.begin(), of_vaults.end());
  if (!filter.secrets_.empty()) {
    filter.boundary_ = &boundary;
    // A pack is checked as a whole by its reader: one that was rewritten is worth nothing.
    filter.rewritable_ = !head.find("content-type").value_or("").starts_with("application/x-git-");
    filter.sandbox_ = &sandbox;
    filter.replacements_ = [&sandbox, vaults = std::move(vaults), rewritable = filter.rewritable_,
                            sent = std::move(sent)](
                               std::uint32_t set, std::uint32_t id) -> std::optional<std::string> {
      if (!rewritable) return std::nullopt;
      // A project's secret has no stub.
      if (set < sent.size()) return sent[set].stand_ins->at(id);
      const VaultSet& of = vaults[set - sent.size()];
      const VaultNeedles::Owner& owner = of.owners->at(id);
      return vault::stand_in(sandbox.stub_for(*of.vault, *owner.credential), owner.value->reveal());
    };
    filter.scrubber_.emplace(filter.secrets_, filter.replacements_);
  }
  if (auto taken = filter.take_fields(head); !taken) return std::unexpected(taken.error());
  std::size_t bytes = filter.decoder_ ? filter.decoder_->memory_bytes_max() : 0;
  if (const std::size_t unpacking = filter.messages_ ? filter.messages_->memory_bytes_max() : 0)
    bytes += unpacking + kMessageBytesMax;
  if (bytes > 0) {
    auto memory = take_body_memory(boundary, sandbox, bytes);
    if (!memory) return std::unexpected(memory.error());
    filter.memory_ = std::move(*memory);
  }
  return filter;
}

// One look at all fields; they are cleaned one by one only when there is something to clean.
bool AnswerFilter::holds_secret(const http::ResponseHead& head) const {
  std::string all;
  for (const http::Field& field : head.fields)
    all.append(field.name).append("\n").append(field.value).append("\n");
  return scan::scan_text(secrets_, all).has_value();
}

std::expected<void, Refusal> AnswerFilter::take_fields(const http::ResponseHead& head) {
  const bool must_clean = scrubber_ && holds_secret(head);
  head_.status = head.status;
  head_.content_type.clear();
  std::string codings;
  for (const http::Field& field : head.fields) {
    const bool is_coding = equal_ignoring_case(field.name, "content-encoding");
    if (is_coding && scrubber_) {
      codings.append(codings.empty() ? "" : ",").append(field.value);
      continue;
    }
    if (is_dropped(field.name) && !equal_ignoring_case(field.name, "content-type")) continue;
    auto name = must_clean ? clean(field.name) : std::optional(std::string(field.name));
    auto value = must_clean ? clean(field.value) : std::optional(std::string(field.value));
    if (!name || !value || !http::is_token(*name) ||
        (scrubber_ && tells_secret(*boundary_, *sandbox_, *name)))
      return std::unexpected(unreadable("a header field cannot be delivered"));
    if (equal_ignoring_case(field.name, "content-type")) {
      head_.content_type = std::move(*value);
    } else if (!scrubber_ || !equal_ignoring_case(field.name, "cache-control")) {
      head_.fields.emplace_back(std::move(*name), std::move(*value));
    }
  }
  // A part of an answer could hold a part of a secret.
  const bool is_part = head.status == 206 || head.status == 226;
  if (scrubber_ && (is_part || head_.content_type.starts_with("multipart/byteranges")))
    return std::unexpected(unreadable("the host sent a part that was not asked for"));
  if (scrubber_) head_.fields.emplace_back("Cache-Control", "no-store");
  if (!codings.empty()) {
    auto decoder = scan::ContentDecoder::create(codings);
    if (!decoder) return std::unexpected(unreadable("the answer's Content-Encoding is unknown"));
    decoder_.emplace(std::move(*decoder));
  }
  // A message that is unpacked has another length.
  if (scrubber_) messages_ = GrpcMessages::find(head.fields);
  if (head.framing == http::BodyFraming::kLength && !decoder_ && !messages_)
    head_.content_length = head.content_length;
  return {};
}

std::optional<std::string> AnswerFilter::clean(std::string_view text) const {
  if (secrets_.empty()) return std::string(text);
  scan::Scrubber scrubber(secrets_, replacements_);
  std::string out;
  if (scrubber.feed(text, out) != scan::Scrubber::State::kOk ||
      scrubber.finish(out) != scan::Scrubber::State::kOk)
    return std::nullopt;
  scrubbed_field_ |= !scrubber.replaced().empty();
  return out;
}

std::optional<std::string> AnswerFilter::clean_name(std::string_view name) const {
  auto cleaned = clean(name);
  if (cleaned && boundary_ != nullptr && tells_secret(*boundary_, *sandbox_, *cleaned))
    return std::nullopt;
  return cleaned;
}

Result<void> AnswerFilter::pass_message(std::string& message) {
  if (!scrubber_) return {};
  auto cleaned = clean(message);
  if (!cleaned) return cut();
  message = std::move(*cleaned);
  // What is left to be found is spread over messages.
  std::string unused;
  const bool is_clean = scrubber_->feed(message, unused) == scan::Scrubber::State::kOk &&
                        scrubber_->replaced().empty();
  if (!is_clean || scrubber_->held_bytes() > kOpenTailMax) return cut();
  return {};
}

Result<void> AnswerFilter::scrub(std::string_view piece, std::string& out) {
  if (!scrubber_) {
    out += piece;
    return {};
  }
  if (scrubber_->feed(piece, out) != scan::Scrubber::State::kOk) return cut();
  return {};
}

Result<void> AnswerFilter::feed(std::string_view piece, std::string& out) {
  if (!decoder_) return unpack(piece, out);
  const auto decoded =
      decoder_->feed(piece, [&](std::string_view clear) { return unpack(clear, out); });
  if (!decoded) return cut();
  return {};
}

// A compressed message of gRPC is delivered as one that is not, which every client takes.
Result<void> AnswerFilter::unpack(std::string_view clear, std::string& out) {
  using Part = GrpcMessages::Part;
  if (!messages_) return scrub(clear, out);
  const auto read = messages_->feed(clear, [&](Part part, std::string_view bytes) -> Result<void> {
    if (part == Part::kAsIs) return scrub(bytes, out);
    if (part == Part::kUnpacked) {
      if (bytes.size() > kMessageBytesMax - unpacked_.size()) return cut();
      unpacked_ += bytes;
      return {};
    }
    std::string head(bytes);
    for (int shift = 24; shift >= 0; shift -= 8)
      head += static_cast<char>(unpacked_.size() >> shift);
    TRY_VOID(scrub(head, out));
    return scrub(std::exchange(unpacked_, {}), out);
  });
  if (!read) return cut();
  return {};
}

Result<void> AnswerFilter::finish(std::string& out) {
  if (decoder_ && !decoder_->finish()) return cut();
  if (messages_ && !messages_->finish()) return cut();
  if (scrubber_ && scrubber_->finish(out) != scan::Scrubber::State::kOk) return cut();
  return {};
}

bool AnswerFilter::has_scrubbed() const {
  return scrubbed_field_ || (scrubber_ && !scrubber_->replaced().empty());
}

}  // namespace pons::egress
