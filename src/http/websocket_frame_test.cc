#include "pons/http/websocket_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pons::http {
namespace {

using std::string_literals::operator""s;
using State = WebSocketDecoder::Step::State;
using Transcript = std::vector<std::string>;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr WebSocketRole kBothRoles[] = {WebSocketRole::kServer, WebSocketRole::kClient};

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string describe(const WebSocketEvent& event) {
  static constexpr const char* kNames[] = {"text", "binary", "ping", "pong", "close"};
  std::string line = kNames[static_cast<std::size_t>(event.kind)];
  if (event.close_code != 0) line += " " + std::to_string(event.close_code);
  return line + ":" + std::string(event.payload);
}

// Everything that comes out of the stream when it arrives in pieces of `piece` bytes.
Transcript decode(WebSocketRole role, std::string_view stream, std::size_t piece,
                  WebSocketLimits limits = {}) {
  WebSocketDecoder decoder(role, limits);
  Transcript lines;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    std::string_view rest = stream.substr(at, piece);
    for (;;) {
      const auto step = decoder.next(rest);
      rest.remove_prefix(step.consumed);
      if (step.state == State::kNeedMore) {
        EXPECT_TRUE(rest.empty());
        break;
      }
      if (step.state == State::kRefused) {
        EXPECT_STRNE(step.reason, "");
        lines.push_back("refused " + std::to_string(step.close_code));
        return lines;
      }
      lines.push_back(describe(step.event));
    }
  }
  return lines;
}

// One frame with any first byte and the shortest length, as the peer of `role` would send it.
std::string raw_frame(WebSocketRole role, int first_byte, std::string_view payload) {
  std::string frame;
  append_websocket_frame(
      frame, role == WebSocketRole::kServer ? WebSocketRole::kClient : WebSocketRole::kServer,
      WebSocketEventKind::kBinary, payload);
  frame[0] = static_cast<char>(first_byte);
  return frame;
}

struct RawFrame {
  int first_byte;
  std::string payload;
};

struct Case {
  const char* name;
  std::vector<RawFrame> frames;
  Transcript expected;
};

// Holds for both roles and for every cut.
void expect_transcript(const Case& test) {
  for (const auto role : kBothRoles) {
    std::string stream;
    for (const auto& frame : test.frames)
      stream += raw_frame(role, frame.first_byte, frame.payload);
    for (const std::size_t piece : {stream.size(), 1uz, 2uz, 3uz, 7uz})
      EXPECT_EQ(decode(role, stream, piece), test.expected) << test.name << ", cut at " << piece;
  }
}

TEST(WebSocketHandshake, AcceptKeyMatchesTheStandardAndARecordedPeer) {
  EXPECT_EQ(websocket_accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(websocket_accept_key("V5uIbNQF6PMkRSzT1DNWfQ=="), "QhFshb7tK5qcX90/LzLwQkfMNc8=");
}

TEST(WebSocketHandshake, OnlySixteenBytesInBase64AreAKey) {
  EXPECT_TRUE(is_websocket_key("dGhlIHNhbXBsZSBub25jZQ=="));
  EXPECT_TRUE(is_websocket_key("++//++//++//++//++//+w=="));
  for (const auto& bad :
       {""s, "dGhlIHNhbXBsZSBub25jZQ="s, "dGhlIHNhbXBsZSBub25jZQ==="s, "dGhlIHNhbXBsZSBub25jZQA="s,
        "dGhlIHNhbXBsZSBub25jZQAA"s, "dGhlIHNhbXBsZSBub25j=Q=="s, "dGhlIHNhbXBsZSBub25j-_=="s,
        "dGhlIHNhbXBsZSBub25jZ\0=="s, " GhlIHNhbXBsZSBub25jZQ=="s})
    EXPECT_FALSE(is_websocket_key(bad)) << bad;
}

TEST(WebSocketHandshake, MadeKeysAreValidAndNeverTheSame) {
  EXPECT_TRUE(is_websocket_key(make_websocket_key()));
  EXPECT_NE(make_websocket_key(), make_websocket_key());
}

// RFC 6455, section 5.7.
TEST(WebSocketDecoder, ReadsTheExamplesOfTheStandard) {
  const auto client = WebSocketRole::kClient;
  EXPECT_THAT(decode(client, from_hex("810548656c6c6f"), 99), ElementsAre("text:Hello"));
  EXPECT_THAT(decode(WebSocketRole::kServer, from_hex("818537fa213d7f9f4d5158"), 99),
              ElementsAre("text:Hello"));
  EXPECT_THAT(decode(client, from_hex("010348656c80026c6f"), 99), ElementsAre("text:Hello"));
  EXPECT_THAT(decode(client, from_hex("890548656c6c6f"), 99), ElementsAre("ping:Hello"));
  EXPECT_THAT(decode(WebSocketRole::kServer, from_hex("8a8537fa213d7f9f4d5158"), 99),
              ElementsAre("pong:Hello"));
  const std::string bytes256(256, '\x07');
  EXPECT_THAT(decode(client, from_hex("827e0100") + bytes256, 99),
              ElementsAre("binary:" + bytes256));
  const std::string bytes64k(65536, '\x08');
  EXPECT_THAT(decode(client, from_hex("827f0000000000010000") + bytes64k, 1000),
              ElementsAre("binary:" + bytes64k));
}

// What two ends of the npm package ws 8 sent each other over TCP.
TEST(WebSocketDecoder, ReadsWhatARealServerAndARealClientSent) {
  std::string x130 = "78";
  while (x130.size() < 260) x130 += "78";
  const std::string server =
      "810f68c3a96c6c6f20e282ac20f09f98808205000102feff0105667261672d890270690002e2828a02706f8001ac"
      "817e0082" +
      x130 + "81008a02706988060fa162c3bd65";
  std::string masked_x130;
  while (masked_x130.size() < 256) masked_x130 += "566205aa";
  const std::string client =
      "818f8446ccffec856593e829ec1d06eaec0f1bde4c82855ccc861a5ccd84e4a3018554ad551a32df347d7989"
      "82636fa3f71306008222167b9bc0948a82ffb9429c8fd680817b16b061d781fe00822e1a7dd2" +
      masked_x130 + "5662818015f349318a82b3ba5562c3d38886e39e26f4ec3f44375efb";
  const Transcript messages = {"text:h\u00e9llo \u20ac \U0001F600",
                               "binary:\0\x01\x02\xFE\xFF"s,
                               "ping:pi",
                               "pong:po",
                               "text:frag-\u20ac",
                               "text:" + std::string(130, 'x'),
                               "text:",
                               "pong:pi",
                               "close 4001:b\u00fde"};
  for (const std::size_t piece : {1uz, 5uz, 4096uz}) {
    EXPECT_EQ(decode(WebSocketRole::kClient, from_hex(server), piece), messages);
    EXPECT_EQ(decode(WebSocketRole::kServer, from_hex(client), piece), messages);
  }
}

TEST(WebSocketDecoder, JoinsFragmentsAndLetsControlFramesOvertake) {
  expect_transcript({"fragments", {{0x01, "a"}, {0x00, "b"}, {0x80, "c"}}, {"text:abc"}});
  expect_transcript({"empty fragments", {{0x02, ""}, {0x00, ""}, {0x80, ""}}, {"binary:"}});
  expect_transcript({"controls between",
                     {{0x01, "a"}, {0x89, "p"}, {0x00, "b"}, {0x8A, ""}, {0x80, "c"}, {0x82, "d"}},
                     {"ping:p", "pong:", "text:abc", "binary:d"}});
  expect_transcript({"close between", {{0x01, "a"}, {0x88, ""}, {0x80, "b"}}, {"close:"}});
  expect_transcript({"two fragmented messages",
                     {{0x01, "a"}, {0x80, "b"}, {0x02, "\xFF"}, {0x80, "d"}},
                     {"text:ab", "binary:\xFF"s + "d"}});
}

TEST(WebSocketDecoder, RefusesFramesOutOfOrder) {
  const Transcript refused = {"refused 1002"};
  expect_transcript({"continuation first", {{0x80, "a"}}, refused});
  expect_transcript({"open continuation first", {{0x00, "a"}}, refused});
  expect_transcript({"text inside", {{0x01, "a"}, {0x81, "b"}}, refused});
  expect_transcript({"fragment inside", {{0x02, "a"}, {0x02, "b"}}, refused});
  expect_transcript(
      {"continuation after the end", {{0x81, "a"}, {0x80, "b"}}, {"text:a", "refused 1002"}});
}

TEST(WebSocketDecoder, RefusesReservedOpcodesAndBits) {
  for (const int opcode : {0x3, 0x4, 0x5, 0x6, 0x7, 0xB, 0xC, 0xD, 0xE, 0xF})
    expect_transcript({"opcode",
                       {{0x89, "before"}, {0x80 | opcode, "x"}, {0x89, "after"}},
                       {"ping:before", "refused 1002"}});
  for (const int bits : {0x10, 0x20, 0x40, 0x70})
    for (const int opcode : {0x1, 0x2, 0x8, 0x9, 0xA})
      expect_transcript({"reserved bits", {{0x80 | bits | opcode, ""}}, {"refused 1002"}});
}

TEST(WebSocketDecoder, ControlFramesAreShortAndWhole) {
  const std::string longest(125, 'p');
  expect_transcript(
      {"125 bytes", {{0x89, longest}, {0x8A, longest}}, {"ping:" + longest, "pong:" + longest}});
  for (const int opcode : {0x8, 0x9, 0xA}) {
    expect_transcript({"126 bytes", {{0x80 | opcode, longest + "p"}}, {"refused 1002"}});
    expect_transcript({"fragmented", {{opcode, ""}}, {"refused 1002"}});
  }
}

TEST(WebSocketDecoder, AServerRequiresMaskedFramesAndAClientRefusesThem) {
  EXPECT_THAT(decode(WebSocketRole::kServer, from_hex("810548656c6c6f"), 99),
              ElementsAre("refused 1002"));
  EXPECT_THAT(decode(WebSocketRole::kClient, from_hex("818537fa213d7f9f4d5158"), 99),
              ElementsAre("refused 1002"));
}

TEST(WebSocketDecoder, LengthsMustBeInTheirShortestForm) {
  const auto client = WebSocketRole::kClient;
  EXPECT_THAT(decode(client, from_hex("827e007d") + std::string(125, 'x'), 9),
              ElementsAre("refused 1002"));
  EXPECT_THAT(decode(client, from_hex("827e007e") + std::string(126, 'x'), 9),
              ElementsAre("binary:" + std::string(126, 'x')));
  EXPECT_THAT(decode(client, from_hex("827f000000000000ffff") + std::string(0xFFFF, 'x'), 4096),
              ElementsAre("refused 1002"));
  EXPECT_THAT(decode(client, from_hex("827f8000000000000000"), 9), ElementsAre("refused 1002"));
  EXPECT_THAT(decode(client, from_hex("827fffffffffffffffff"), 9), ElementsAre("refused 1002"));
}

TEST(WebSocketDecoder, TextMustBeUtf8WhereverItIsCut) {
  const std::string text = "\u00e9\u20ac\U0001F600";
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    expect_transcript({"split code point",
                       {{0x01, text.substr(0, cut)}, {0x89, ""}, {0x80, text.substr(cut)}},
                       {"ping:", "text:" + text}});
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFE", "\xE2\x82"}) {
    expect_transcript({"bad text", {{0x81, "ok "s + bad}}, {"refused 1007"}});
    expect_transcript({"bad fragment", {{0x01, "ok "}, {0x80, bad}}, {"refused 1007"}});
    expect_transcript({"any bytes are binary", {{0x82, bad}}, {"binary:"s + bad}});
  }
}

TEST(WebSocketDecoder, ABadByteOfTextIsRefusedBeforeTheFrameEnds) {
  WebSocketDecoder decoder(WebSocketRole::kClient, {});
  EXPECT_EQ(decoder.next("\x81\x7E\x40\x00 first \xF4"s).state, State::kNeedMore);
  const auto step = decoder.next("\x90");
  EXPECT_EQ(step.state, State::kRefused);
  EXPECT_EQ(step.close_code, 1007);
}

std::string close_payload(unsigned code, std::string_view reason = {}) {
  return std::string{static_cast<char>(code >> 8), static_cast<char>(code)}.append(reason);
}

TEST(WebSocketDecoder, CloseCarriesALegalCodeAndAReadableReason) {
  expect_transcript({"empty", {{0x88, ""}}, {"close:"}});
  for (const unsigned code :
       {1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999})
    expect_transcript({"good code",
                       {{0x88, close_payload(code, "b\u00fde")}},
                       {"close " + std::to_string(code) + ":b\u00fde"}});
  const std::string longest(123, 'r');
  expect_transcript(
      {"longest reason", {{0x88, close_payload(1000, longest)}}, {"close 1000:" + longest}});

  for (const unsigned code :
       {0, 1, 999, 1004, 1005, 1006, 1012, 1013, 1014, 1015, 1016, 1100, 2000, 2999, 5000, 65535})
    expect_transcript({"bad code", {{0x88, close_payload(code)}}, {"refused 1002"}});
  expect_transcript({"half a code", {{0x88, "\x03"}}, {"refused 1002"}});
  expect_transcript({"bad reason", {{0x88, close_payload(1000, "\xFF")}}, {"refused 1007"}});
  expect_transcript({"cut reason", {{0x88, close_payload(1000, "\xE2\x82")}}, {"refused 1007"}});
}

TEST(WebSocketDecoder, HalfACloseCodeIsRefusedByItsHeader) {
  EXPECT_THAT(decode(WebSocketRole::kClient, from_hex("8801"), 99), ElementsAre("refused 1002"));
}

TEST(WebSocketDecoder, NothingComesOutAfterClose) {
  expect_transcript({"message, ping and garbage after close",
                     {{0x88, close_payload(1000)}, {0x81, "late"}, {0x89, "late"}, {0xFF, ""}},
                     {"close 1000:"}});
}

TEST(WebSocketDecoder, ARefusalIsFinal) {
  WebSocketDecoder decoder(WebSocketRole::kClient, {});
  EXPECT_EQ(decoder.next(from_hex("8301")).state, State::kRefused);
  const auto again = decoder.next(from_hex("810548656c6c6f"));
  EXPECT_EQ(again.state, State::kRefused);
  EXPECT_EQ(again.close_code, 1002);
  EXPECT_THAT(again.reason, HasSubstr("opcode"));
}

TEST(WebSocketDecoder, AMessageOfTheLimitPassesAndOneByteMoreIsRefusedByItsHeader) {
  for (const auto role : kBothRoles) {
    const WebSocketLimits limits{.message_bytes = 300};
    const std::string full(300, 'm');
    EXPECT_THAT(decode(role, raw_frame(role, 0x82, full), 11, limits),
                ElementsAre("binary:" + full));
    const std::string over = raw_frame(role, 0x82, full + "m");
    EXPECT_THAT(decode(role, over.substr(0, 4), 99, limits), ElementsAre("refused 1009"));
  }
}

TEST(WebSocketDecoder, TheLimitCountsAllFragmentsButNoControlFrames) {
  const auto role = WebSocketRole::kClient;
  const WebSocketLimits limits{.message_bytes = 10};
  const std::string start = raw_frame(role, 0x01, "123456") + raw_frame(role, 0x89, "a long ping");
  EXPECT_THAT(decode(role, start + raw_frame(role, 0x80, "7890"), 5, limits),
              ElementsAre("ping:a long ping", "text:1234567890"));
  EXPECT_THAT(decode(role, start + raw_frame(role, 0x80, "78901"), 5, limits),
              ElementsAre("ping:a long ping", "refused 1009"));
  EXPECT_THAT(decode(role, from_hex("010161") + from_hex("807f7fffffffffffffff"), 5, limits),
              ElementsAre("refused 1009"));
}

TEST(WebSocketDecoder, TheLimitIsForOneMessageNotForTheConnection) {
  const auto role = WebSocketRole::kServer;
  std::string stream;
  Transcript expected;
  for (int i = 0; i < 20; ++i) {
    stream += raw_frame(role, 0x81, "12345678");
    expected.push_back("text:12345678");
  }
  EXPECT_EQ(decode(role, stream, 64, {.message_bytes = 8}), expected);
}

TEST(WebSocketFrame, WhatOneRoleWritesTheOtherReads) {
  for (const auto writer : kBothRoles) {
    const auto reader =
        writer == WebSocketRole::kServer ? WebSocketRole::kClient : WebSocketRole::kServer;
    std::string stream;
    Transcript expected;
    for (const std::size_t size : {0, 1, 7, 8, 9, 125, 126, 127, 65535, 65536, 200'000}) {
      std::string payload(size, '\0');
      for (std::size_t i = 0; i < size; ++i) payload[i] = static_cast<char>(i * 7);
      append_websocket_frame(stream, writer, WebSocketEventKind::kBinary, payload);
      expected.push_back("binary:" + payload);
    }
    append_websocket_frame(stream, writer, WebSocketEventKind::kText, "\u20ac");
    append_websocket_frame(stream, writer, WebSocketEventKind::kPing, "p");
    append_websocket_frame(stream, writer, WebSocketEventKind::kPong, "");
    append_websocket_frame(stream, writer, WebSocketEventKind::kClose, "why", 4000);
    expected.insert(expected.end(), {"text:\u20ac", "ping:p", "pong:", "close 4000:why"});
    EXPECT_EQ(decode(reader, stream, stream.size()), expected);
    EXPECT_EQ(decode(reader, stream, 1), expected);
    EXPECT_EQ(decode(reader, stream, 4093), expected);
  }
}

TEST(WebSocketFrame, WritesTheBytesOfTheStandard) {
  std::string out = "kept ";
  append_websocket_frame(out, WebSocketRole::kServer, WebSocketEventKind::kText, "Hello");
  EXPECT_EQ(out, "kept " + from_hex("810548656c6c6f"));
}

TEST(WebSocketFrame, ClientsMaskEachFrameWithAnotherKey) {
  std::string first, second;
  append_websocket_frame(first, WebSocketRole::kClient, WebSocketEventKind::kText, "same text");
  append_websocket_frame(second, WebSocketRole::kClient, WebSocketEventKind::kText, "same text");
  EXPECT_EQ(first.size(), second.size());
  EXPECT_NE(first, second);
}

TEST(WebSocketFrame, ALongCloseReasonIsCutBetweenCodePoints) {
  std::string reason(122, 'r');
  std::string out;
  append_websocket_frame(out, WebSocketRole::kServer, WebSocketEventKind::kClose,
                         reason + "\u20ac and more", 1011);
  EXPECT_THAT(decode(WebSocketRole::kClient, out, 99), ElementsAre("close 1011:" + reason));
  out.clear();
  append_websocket_frame(out, WebSocketRole::kServer, WebSocketEventKind::kClose, "");
  EXPECT_EQ(out, from_hex("8800"));
}

TEST(WebSocketFrameDeathTest, AFrameThatMayNotExistIsABug) {
  std::string out;
  const auto append = [&](WebSocketEventKind kind, std::size_t size, std::uint16_t code) {
    append_websocket_frame(out, WebSocketRole::kServer, kind, std::string(size, 'x'), code);
  };
  EXPECT_DEATH(append(WebSocketEventKind::kPing, 126, 0), "kControlPayloadMax");
  EXPECT_DEATH(append(WebSocketEventKind::kClose, 0, 1005), "is_websocket_close_code");
  EXPECT_DEATH(append(WebSocketEventKind::kClose, 1, 0), "is_websocket_close_code");
}

}  // namespace
}  // namespace pons::http
