// Greetings made by OpenSSL and bent by hand; what is read is compared with what OpenSSL reads.

#include "pons/http/client_hello.h"

#include <gtest/gtest.h>

#include <functional>

#include "pons/http/tls.h"
#include "tls_native.h"

namespace pons::http {
namespace {

using UniqueContext = std::unique_ptr<SSL_CTX, NativeDeleter<SSL_CTX_free>>;

std::string number(std::size_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i));
  return text;
}
std::string vector(int length_bytes, const std::string& content) {
  return number(content.size(), length_bytes) + content;
}
std::string extension(unsigned kind, const std::string& content) {
  return number(kind, 2) + vector(2, content);
}
std::string host_name(const std::string& name) {
  return number(0, 1) + vector(2, name);
}
std::string server_name(const std::string& name) {
  return extension(0, vector(2, host_name(name)));
}

std::string message(const std::string& extensions) {
  const std::string body = "\x03\x03" + std::string(32, 'r') + vector(1, std::string(32, 's')) +
                           vector(2, "\x13\x01") + vector(1, std::string(1, '\0')) +
                           vector(2, extensions);
  return number(1, 1) + vector(3, body);
}
std::string record(const std::string& payload) {
  return "\x16\x03\x01" + vector(2, payload);
}
std::string cut_into_records(const std::string& payload, std::size_t bytes) {
  std::string records;
  for (std::size_t at = 0; at < payload.size(); at += bytes)
    records += record(payload.substr(at, bytes));
  return records;
}

ClientHello read(const std::string& bytes) {
  const auto outcome = parse_client_hello(bytes);
  if (const auto* refused = std::get_if<ClientHelloRefused>(&outcome))
    ADD_FAILURE() << refused->reason;
  const auto* hello = std::get_if<ClientHello>(&outcome);
  EXPECT_NE(hello, nullptr);
  return hello != nullptr ? *hello : ClientHello{};
}
std::string refusal(const std::string& bytes) {
  const auto outcome = parse_client_hello(bytes);
  const auto* refused = std::get_if<ClientHelloRefused>(&outcome);
  return refused != nullptr ? refused->reason : "";
}
std::string refusal_of(const std::string& extensions) {
  return refusal(record(message(extensions)));
}
bool needs_more(const std::string& bytes) {
  return std::holds_alternative<ClientHelloNeedsMore>(parse_client_hello(bytes));
}

using Preparation = std::function<void(SSL*)>;

// What OpenSSL's client sends first.
std::string greeting(const Preparation& prepare = {}) {
  const UniqueContext context(SSL_CTX_new(TLS_client_method()));
  const UniqueSsl ssl(SSL_new(context.get()));
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
  if (prepare) prepare(ssl.get());
  SSL_connect(ssl.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

struct Seen {
  bool called = false;
  std::string server_name;
  std::string protocols;
  std::string versions;
};

int note_greeting(SSL* ssl, int*, void* argument) {
  Seen& seen = *static_cast<Seen*>(argument);
  const auto raw = [ssl](unsigned kind) {
    const unsigned char* bytes = nullptr;
    std::size_t size = 0;
    if (SSL_client_hello_get0_ext(ssl, kind, &bytes, &size) != 1) return std::string();
    return std::string(reinterpret_cast<const char*>(bytes), size);
  };
  seen = {.called = true, .server_name = raw(0), .protocols = raw(16), .versions = raw(43)};
  return SSL_CLIENT_HELLO_ERROR;
}

// What OpenSSL's server reads in these bytes.
Seen ask_openssl(const std::string& bytes) {
  Seen seen;
  const UniqueContext context(SSL_CTX_new(TLS_server_method()));
  SSL_CTX_set_client_hello_cb(context.get(), note_greeting, &seen);
  const UniqueSsl ssl(SSL_new(context.get()));
  BIO* in = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), in, BIO_new(BIO_s_mem()));
  BIO_write(in, bytes.data(), static_cast<int>(bytes.size()));
  SSL_accept(ssl.get());
  return seen;
}

void expect_same_as_openssl(const std::string& bytes) {
  const ClientHello hello = read(bytes);
  const Seen seen = ask_openssl(bytes);
  ASSERT_TRUE(seen.called);
  EXPECT_EQ(hello.server_name ? vector(2, host_name(*hello.server_name)) : "", seen.server_name);
  std::string protocols;
  for (const auto& name : hello.protocols) protocols += vector(1, name);
  EXPECT_EQ(protocols.empty() ? "" : vector(2, protocols), seen.protocols);
  if (!seen.versions.empty()) {
    std::string versions;
    for (const auto version : hello.versions) versions += number(version, 2);
    EXPECT_EQ(vector(1, versions), seen.versions);
  }
}

void set_offer(SSL* ssl, std::string_view offer) {
  SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(offer.data()),
                      static_cast<unsigned>(offer.size()));
}

// ---- what is read

TEST(ClientHello, NameProtocolsAndVersionsAreRead) {
  const auto bytes = greeting([](SSL* ssl) {
    SSL_set_tlsext_host_name(ssl, "api.example.com");
    set_offer(ssl, "\x02h2\x08http/1.1");
  });
  const ClientHello hello = read(bytes);
  EXPECT_EQ(hello.server_name, "api.example.com");
  EXPECT_EQ(hello.protocols, (std::vector<std::string>{"h2", "http/1.1"}));
  EXPECT_EQ(hello.versions.front(), TLS1_3_VERSION);
  EXPECT_FALSE(hello.has_encrypted_hello);
  EXPECT_EQ(hello.bytes, bytes.size());
}

TEST(ClientHello, OpenSslReadsTheSame) {
  const Preparation preparations[] = {
      [](SSL*) {},
      [](SSL* ssl) { SSL_set_tlsext_host_name(ssl, "a.example"); },
      [](SSL* ssl) { SSL_set_tlsext_host_name(ssl, std::string(250, 'n').c_str()); },
      [](SSL* ssl) { set_offer(ssl, "\x02h2"); },
      [](SSL* ssl) { SSL_set_max_proto_version(ssl, TLS1_2_VERSION); },
      [](SSL* ssl) { SSL_set_min_proto_version(ssl, TLS1_3_VERSION); },
      [](SSL* ssl) {
        SSL_set_tlsext_host_name(ssl, "small.example");
        SSL_set_max_send_fragment(ssl, 512);
        set_offer(ssl, "\x08http/1.1");
      },
  };
  for (const auto& prepare : preparations) expect_same_as_openssl(greeting(prepare));
}

TEST(ClientHello, RecordsCutAnywhereMakeNoDifference) {
  const std::string whole = greeting([](SSL* ssl) {
    SSL_set_tlsext_host_name(ssl, "cut.example");
    set_offer(ssl, "\x02h2\x08http/1.1");
  });
  const std::string payload = whole.substr(5);
  for (std::size_t bytes = payload.size() / 64 + 1; bytes <= payload.size(); ++bytes) {
    const std::string cut = cut_into_records(payload, bytes);
    const ClientHello hello = read(cut);
    ASSERT_EQ(hello.server_name, "cut.example") << bytes;
    ASSERT_EQ(hello.protocols.size(), 2u) << bytes;
    ASSERT_EQ(hello.bytes, cut.size()) << bytes;
  }
  expect_same_as_openssl(cut_into_records(payload, 11));
}

TEST(ClientHello, EveryPrefixNeedsMore) {
  const std::string bytes = cut_into_records(message(server_name("trickle.example")), 7);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_TRUE(needs_more(bytes.substr(0, size))) << size;
  EXPECT_EQ(read(bytes).server_name, "trickle.example");
}

TEST(ClientHello, WhatFollowsItsRecordsIsLeftAlone) {
  const std::string bytes = record(message(server_name("early.example")));
  EXPECT_EQ(read(bytes + "\x17\x03\x03 early data").bytes, bytes.size());
}

TEST(ClientHello, GreetingWithoutExtensionsHasItsOldVersion) {
  const std::string body = "\x03\x02" + std::string(32, 'r') + vector(1, "") +
                           vector(2, "\x13\x01") + vector(1, std::string(1, '\0'));
  const ClientHello hello = read(record(number(1, 1) + vector(3, body)));
  EXPECT_EQ(hello.versions, std::vector<std::uint16_t>{TLS1_1_VERSION});
  EXPECT_FALSE(hello.server_name);
}

TEST(ClientHello, EncryptedGreetingsOfAllDraftsAreNoticed) {
  for (const unsigned kind : {0xfe0du, 0xffceu, 0xff02u, 0xfe09u})
    EXPECT_TRUE(read(record(message(server_name("front.example") + extension(kind, "x"))))
                    .has_encrypted_hello)
        << kind;
}

TEST(ClientHello, NameIsHandedOutAsItWasSent) {
  EXPECT_EQ(read(record(message(server_name("UPPER.example.")))).server_name, "UPPER.example.");
  EXPECT_EQ(read(record(message(server_name("\xff\x01 *")))).server_name, "\xff\x01 *");
}

TEST(ClientHello, LargeGreetingsPassUpToTheLimit) {
  const auto padded = [](std::size_t bytes) {
    return record(message(server_name("big.example") + extension(21, std::string(bytes, '\0'))));
  };
  const std::size_t frame = padded(0).size();
  const std::string largest = padded(kClientHelloBytesMax - frame);
  EXPECT_EQ(largest.size(), kClientHelloBytesMax);
  EXPECT_EQ(read(largest).server_name, "big.example");
  EXPECT_EQ(refusal(padded(kClientHelloBytesMax - frame + 1)), "greeting too long");
}

// ---- what is refused

TEST(ClientHello, OtherProtocolsAreRefusedByTheirFirstByte) {
  for (const auto* bytes : {"G", "SSH-2.0", "\x80\x2e\x01", "\x15\x03\x03", "\x17\x03\x03"})
    EXPECT_EQ(refusal(bytes), "not a TLS handshake") << bytes;
  EXPECT_EQ(refusal("\x16\x02"), "not a version of TLS");
  EXPECT_EQ(refusal(std::string("\x16\x03\x01\x00\x00", 5)), "empty record");
  EXPECT_EQ(refusal("\x16\x03\x01\x40\x01"), "record too long");
  EXPECT_EQ(refusal(record("\x02")), "not a greeting");
}

TEST(ClientHello, TheSameExtensionTwiceIsRefused) {
  EXPECT_EQ(refusal_of(server_name("a.example") + server_name("b.example")),
            "the same extension twice");
  EXPECT_EQ(refusal_of(extension(0x5a5a, "") + extension(0x5a5a, "")), "the same extension twice");
}

TEST(ClientHello, AmbiguousServerNamesAreRefused) {
  const auto list = [](const std::string& entries) {
    return refusal_of(extension(0, vector(2, entries)));
  };
  EXPECT_EQ(list(host_name("a.example") + host_name("b.example")), "more than one server name");
  EXPECT_EQ(list(number(1, 1) + vector(2, "a.example")), "server name of an unknown kind");
  EXPECT_EQ(list(host_name("")), "malformed server name");
  EXPECT_EQ(list(""), "malformed server name");
  EXPECT_EQ(list(number(0, 1) + number(99, 2) + "a"), "malformed server name");
  EXPECT_EQ(refusal_of(extension(0, "")), "malformed server name");
  EXPECT_EQ(refusal_of(extension(0, vector(2, host_name("a.example")) + "x")),
            "malformed server name");
  EXPECT_EQ(list(host_name(std::string("evil.example\0.a.example", 23))), "NUL in the server name");
  EXPECT_EQ(list(host_name(std::string(256, 'a'))), "server name too long");
}

TEST(ClientHello, MalformedListsAreRefused) {
  EXPECT_EQ(refusal_of(extension(16, "")), "malformed list of protocols");
  EXPECT_EQ(refusal_of(extension(16, vector(2, vector(1, "")))), "malformed list of protocols");
  EXPECT_EQ(refusal_of(extension(16, vector(2, "\x05h2"))), "malformed list of protocols");
  EXPECT_EQ(refusal_of(extension(16, vector(2, vector(1, "h2")) + "x")),
            "malformed list of protocols");
  std::string many;
  for (int i = 0; i < 65; ++i) many += vector(1, "p");
  EXPECT_EQ(refusal_of(extension(16, vector(2, many))), "too many protocols");
  EXPECT_EQ(refusal_of(extension(43, vector(1, ""))), "malformed list of versions");
  EXPECT_EQ(refusal_of(extension(43, vector(1, "\x03"))), "malformed list of versions");
  EXPECT_EQ(refusal_of(extension(43, vector(1, "\x03\x04") + "x")), "malformed list of versions");
  EXPECT_EQ(refusal_of("\x01"), "malformed extensions");
  EXPECT_EQ(refusal_of(number(5, 2) + number(9, 2) + "x"), "malformed extensions");
}

TEST(ClientHello, PreSharedKeyMustComeLast) {
  EXPECT_EQ(refusal_of(extension(41, "x") + server_name("a.example")),
            "an extension behind the pre-shared key");
  EXPECT_EQ(refusal_of(server_name("a.example") + extension(41, "x")), "");
}

TEST(ClientHello, BytesBehindTheGreetingInItsRecordAreRefused) {
  EXPECT_EQ(refusal(record(message(server_name("a.example")) + "x")),
            "something behind the greeting");
  const std::string trailing = number(1, 1) + vector(3, message("").substr(4) + "x");
  EXPECT_EQ(refusal(record(trailing)), "malformed greeting");
}

TEST(ClientHello, AnotherRecordInTheMiddleIsRefused) {
  const std::string whole = message(server_name("a.example"));
  EXPECT_EQ(refusal(record(whole.substr(0, 9)) + "\x15\x03\x03" + vector(2, "\x01\x00")),
            "not a TLS handshake");
}

TEST(ClientHello, TooManyRecordsAreRefused) {
  EXPECT_EQ(refusal(cut_into_records(message(server_name("a.example")), 1)), "too many records");
}

// The message must be whole before its inside is looked at, so every cut of a body is tried with
// lengths that say that nothing is missing.
TEST(ClientHello, BodiesCutShortAreRefused) {
  const std::string body = message(server_name("a.example")).substr(4);
  std::size_t accepted = 0;
  for (std::size_t size = 0; size < body.size(); ++size)
    if (refusal(record(number(1, 1) + vector(3, body.substr(0, size)))).empty()) ++accepted;
  EXPECT_EQ(accepted, 1u);  // the one cut before the extensions
}

}  // namespace
}  // namespace pons::http
