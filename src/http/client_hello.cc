#include "pons/http/client_hello.h"

#include <algorithm>
#include <bitset>

namespace pons::http {

namespace {

// RFC 8446; encrypted greetings: RFC 9849 and the drafts before it.
constexpr std::size_t kRecordHeaderBytes = 5;
constexpr std::size_t kRecordPayloadMax = 16 * 1024;
constexpr std::size_t kMessageHeaderBytes = 4;
constexpr unsigned kHandshakeRecord = 22;
constexpr unsigned kClientHelloMessage = 1;
constexpr unsigned kServerNameExtension = 0;
constexpr unsigned kProtocolsExtension = 16;
constexpr unsigned kPreSharedKeyExtension = 41;
constexpr unsigned kVersionsExtension = 43;
constexpr unsigned kEncryptedHelloExtensions[] = {0xfe08, 0xfe09, 0xfe0a, 0xfe0b, 0xfe0c,
                                                  0xfe0d, 0xff02, 0xff03, 0xffce};

// A greeting may be cut into records anywhere. Few clients cut it at all.
constexpr std::size_t kRecordsMax = 64;
constexpr std::size_t kServerNameBytesMax = 255;
constexpr std::size_t kProtocolsMax = 64;

unsigned byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

// Reads what several records carry as if it were in one piece, up to an end that the vectors of
// the message set. Reading past it yields zeros and is remembered.
class MessageReader {
 public:
  MessageReader(std::string_view records, std::size_t bytes) : records_(records), left_(bytes) {}

  std::size_t left() const { return left_; }
  bool failed() const { return failed_; }

  unsigned number(std::size_t bytes) {
    unsigned value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | byte();
    return value;
  }
  void skip(std::size_t bytes) {
    while (bytes > 0) {
      const std::size_t step = std::min(open_record(), bytes);
      if (step == 0) return fail();
      advance(step);
      bytes -= step;
    }
  }
  std::string text(std::size_t bytes) {
    std::string value;
    if (bytes > left_) return fail(), value;
    value.reserve(bytes);
    while (value.size() < bytes) {
      const std::size_t step = std::min(open_record(), bytes - value.size());
      value.append(records_.substr(at_, step));
      advance(step);
    }
    return value;
  }
  // A reader for the next vector, whose length stands before it in `length_bytes`; this one goes on
  // behind it.
  MessageReader vector(std::size_t length_bytes) {
    const std::size_t bytes = number(length_bytes);
    if (bytes > left_) fail();
    MessageReader inner = *this;
    inner.left_ = failed_ ? 0 : bytes;
    skip(inner.left_);
    return inner;
  }
  void fail() {
    failed_ = true;
    left_ = 0;
  }

 private:
  // How much can be read in one piece.
  std::size_t open_record() {
    if (left_ == 0) return 0;
    if (record_left_ == 0) {
      record_left_ = byte_at(records_, at_ + 3) << 8 | byte_at(records_, at_ + 4);
      at_ += kRecordHeaderBytes;
    }
    return std::min(left_, record_left_);
  }
  void advance(std::size_t bytes) {
    at_ += bytes;
    left_ -= bytes;
    record_left_ -= bytes;
  }
  unsigned byte() {
    if (open_record() == 0) return fail(), 0;
    const unsigned value = byte_at(records_, at_);
    advance(1);
    return value;
  }

  std::string_view records_;
  std::size_t at_ = 0;
  std::size_t left_;
  std::size_t record_left_ = 0;
  bool failed_ = false;
};

using Refused = ClientHelloRefused;

// Where the records end that carry the whole first message.
struct Extent {
  std::size_t record_bytes = 0;
  std::size_t message_bytes = 0;
};
using ExtentOutcome = std::variant<ClientHelloNeedsMore, Extent, Refused>;

const char* find_record_fault(std::string_view header) {
  if (byte_at(header, 0) != kHandshakeRecord) return "not a TLS handshake";
  if (header.size() > 1 && byte_at(header, 1) != 3) return "not a version of TLS";
  if (header.size() > 2 && byte_at(header, 2) > 4) return "not a version of TLS";
  if (header.size() < kRecordHeaderBytes) return nullptr;
  const unsigned payload = byte_at(header, 3) << 8 | byte_at(header, 4);
  if (payload == 0) return "empty record";
  if (payload > kRecordPayloadMax) return "record too long";
  return nullptr;
}

ExtentOutcome find_extent(std::string_view buffer) {
  Extent extent;
  std::size_t payload_bytes = 0;
  for (std::size_t record = 0;; ++record) {
    const std::string_view rest = buffer.substr(extent.record_bytes);
    if (rest.empty()) break;
    if (record == kRecordsMax) return Refused{"too many records"};
    if (const char* fault = find_record_fault(rest.substr(0, kRecordHeaderBytes)))
      return Refused{fault};
    if (rest.size() < kRecordHeaderBytes) break;
    const std::size_t payload = byte_at(rest, 3) << 8 | byte_at(rest, 4);
    extent.record_bytes += kRecordHeaderBytes + payload;
    payload_bytes += payload;
    if (extent.record_bytes > kClientHelloBytesMax) return Refused{"greeting too long"};
    const std::size_t missing =
        payload + kRecordHeaderBytes - std::min(rest.size(), payload + kRecordHeaderBytes);
    const std::size_t present = payload_bytes - missing;
    // The records are read only as far as they are there, and only the message's own header.
    MessageReader reader(buffer, std::min(present, kMessageHeaderBytes));
    if (present > 0 && reader.number(1) != kClientHelloMessage) return Refused{"not a greeting"};
    if (present >= kMessageHeaderBytes) {
      extent.message_bytes = kMessageHeaderBytes + reader.number(3);
      if (extent.message_bytes > kClientHelloBytesMax) return Refused{"greeting too long"};
      if (payload_bytes > extent.message_bytes) return Refused{"something behind the greeting"};
      if (present == extent.message_bytes) return extent;
    }
    if (missing > 0) break;
  }
  if (buffer.size() >= kClientHelloBytesMax) return Refused{"greeting too long"};
  return ClientHelloNeedsMore{};
}

const char* read_server_name(MessageReader extension, ClientHello& hello) {
  MessageReader list = extension.vector(2);
  if (extension.left() > 0 || list.left() == 0) return "malformed server name";
  if (list.number(1) != 0) return "server name of an unknown kind";
  MessageReader name = list.vector(2);
  if (list.failed() || name.left() == 0) return "malformed server name";
  if (list.left() > 0) return "more than one server name";
  if (name.left() > kServerNameBytesMax) return "server name too long";
  hello.server_name = name.text(name.left());
  if (hello.server_name->contains('\0')) return "NUL in the server name";
  return nullptr;
}

const char* read_protocols(MessageReader extension, ClientHello& hello) {
  MessageReader list = extension.vector(2);
  if (extension.left() > 0 || list.left() == 0) return "malformed list of protocols";
  while (list.left() > 0) {
    MessageReader name = list.vector(1);
    if (list.failed() || name.left() == 0) return "malformed list of protocols";
    if (hello.protocols.size() == kProtocolsMax) return "too many protocols";
    hello.protocols.push_back(name.text(name.left()));
  }
  return nullptr;
}

const char* read_versions(MessageReader extension, ClientHello& hello) {
  MessageReader list = extension.vector(1);
  if (extension.failed() || extension.left() > 0 || list.left() == 0 || list.left() % 2 != 0)
    return "malformed list of versions";
  hello.versions.reserve(list.left() / 2);
  while (list.left() > 0) hello.versions.push_back(static_cast<std::uint16_t>(list.number(2)));
  return nullptr;
}

const char* read_extension(unsigned kind, MessageReader extension, ClientHello& hello) {
  switch (kind) {
    case kServerNameExtension:
      return read_server_name(extension, hello);
    case kProtocolsExtension:
      return read_protocols(extension, hello);
    case kVersionsExtension:
      return read_versions(extension, hello);
    default:
      if (std::ranges::find(kEncryptedHelloExtensions, kind) != std::end(kEncryptedHelloExtensions))
        hello.has_encrypted_hello = true;
      return nullptr;
  }
}

const char* read_extensions(MessageReader extensions, ClientHello& hello) {
  std::bitset<65536> seen;
  while (extensions.left() > 0) {
    const unsigned kind = extensions.number(2);
    const MessageReader extension = extensions.vector(2);
    if (extensions.failed()) return "malformed extensions";
    if (seen.test(kind)) return "the same extension twice";
    seen.set(kind);
    if (kind == kPreSharedKeyExtension && extensions.left() > 0)
      return "an extension behind the pre-shared key";
    if (const char* fault = read_extension(kind, extension, hello)) return fault;
  }
  return nullptr;
}

const char* read_body(MessageReader body, ClientHello& hello) {
  constexpr std::size_t kRandomBytes = 32;
  constexpr std::size_t kSessionIdBytesMax = 32;
  const unsigned version = body.number(2);
  if (!body.failed() && (version < 0x0301 || version > 0x03ff)) return "not a version of TLS";
  body.skip(kRandomBytes);
  const MessageReader session_id = body.vector(1);
  const MessageReader ciphers = body.vector(2);
  const MessageReader compressions = body.vector(1);
  if (body.failed() || session_id.left() > kSessionIdBytesMax || ciphers.left() == 0 ||
      ciphers.left() % 2 != 0 || compressions.left() == 0)
    return "malformed greeting";
  if (body.left() > 0) {
    const MessageReader extensions = body.vector(2);
    if (body.failed() || body.left() > 0) return "malformed greeting";
    if (const char* fault = read_extensions(extensions, hello)) return fault;
  }
  if (hello.versions.empty()) hello.versions.push_back(static_cast<std::uint16_t>(version));
  return nullptr;
}

}  // namespace

ClientHelloOutcome parse_client_hello(std::string_view buffer) {
  const auto found = find_extent(buffer);
  if (const auto* refused = std::get_if<Refused>(&found)) return *refused;
  const auto* extent = std::get_if<Extent>(&found);
  if (extent == nullptr) return ClientHelloNeedsMore{};
  ClientHello hello{.bytes = extent->record_bytes};
  MessageReader message(buffer.substr(0, extent->record_bytes), extent->message_bytes);
  message.skip(kMessageHeaderBytes);
  if (const char* fault = read_body(message, hello)) return Refused{fault};
  return hello;
}

}  // namespace pons::http
