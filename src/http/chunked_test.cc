#include "pons/http/chunked.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pons::http {
namespace {

using State = ChunkedDecoder::Step::State;

struct Decoded {
  State state = State::kNeedMore;
  std::string payload;
  std::size_t consumed = 0;
  std::string reason;
};

// Hands the input over in pieces of `piece_bytes`, each in memory of exactly its size.
Decoded decode_in_pieces(const std::string& bytes, std::size_t piece_bytes) {
  ChunkedDecoder decoder;
  Decoded decoded;
  for (std::size_t start = 0; start < bytes.size(); start += piece_bytes) {
    const std::string part = bytes.substr(start, piece_bytes);
    const std::vector<char> memory(part.begin(), part.end());
    std::string_view rest(memory.data(), memory.size());
    do {
      const auto step = decoder.next(rest);
      EXPECT_LE(step.consumed, rest.size());
      if (step.state == State::kPayload) {
        EXPECT_FALSE(step.payload.empty());
        EXPECT_GE(step.payload.data(), rest.data());
        EXPECT_LE(step.payload.data() + step.payload.size(), rest.data() + step.consumed);
      }
      decoded.state = step.state;
      decoded.payload += step.payload;
      decoded.consumed += step.consumed;
      decoded.reason = step.reason;
      rest.remove_prefix(step.consumed);
    } while (decoded.state == State::kPayload);
    if (decoded.state != State::kNeedMore) break;
    EXPECT_TRUE(rest.empty());
  }
  return decoded;
}

Decoded decode(const std::string& bytes) {
  const Decoded at_once = decode_in_pieces(bytes, bytes.size() + 1);
  for (const std::size_t piece_bytes : {1, 2, 3, 7}) {
    const Decoded cut = decode_in_pieces(bytes, piece_bytes);
    EXPECT_EQ(cut.state, at_once.state) << bytes;
    EXPECT_EQ(cut.payload, at_once.payload) << bytes;
    EXPECT_EQ(cut.consumed, at_once.consumed) << bytes;
    EXPECT_EQ(cut.reason, at_once.reason) << bytes;
  }
  return at_once;
}

void expect_refused(const std::vector<std::string>& bodies) {
  for (const auto& bytes : bodies) {
    SCOPED_TRACE(bytes);
    const auto decoded = decode(bytes);
    EXPECT_EQ(decoded.state, State::kRefused);
    EXPECT_NE(decoded.reason, "");
  }
}

void expect_payload(const std::string& payload, const std::string& bytes) {
  SCOPED_TRACE(bytes);
  const auto decoded = decode(bytes);
  EXPECT_EQ(decoded.state, State::kEnd) << decoded.reason;
  EXPECT_EQ(decoded.payload, payload);
  EXPECT_EQ(decoded.consumed, bytes.size());
}

TEST(ChunkedDecoderTest, JoinsChunksAndStopsAtTheEnd) {
  expect_payload("", "0\r\n\r\n");
  expect_payload("hello world", "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
  expect_payload("\r\n0\r\n\r\nx", "8\r\n\r\n0\r\n\r\nx\r\n000\r\n\r\n");
  expect_payload(std::string(0x1aB, 'x'),
                 "00000000000001aB\r\n" + std::string(0x1ab, 'x') + "\r\n0\r\n\r\n");
  const auto decoded = decode("1\r\na\r\n0\r\n\r\nGET / HTTP/1.1");
  EXPECT_EQ(decoded.state, State::kEnd);
  EXPECT_EQ(decoded.consumed, 11u);
}

TEST(ChunkedDecoderTest, AnIncompleteBodyNeedsMore) {
  const std::string whole = "5;a=\"b\"\r\nhello\r\n0\r\nA: b\r\n\r\n";
  for (std::size_t size = 1; size < whole.size(); ++size)
    EXPECT_EQ(decode(whole.substr(0, size)).state, State::kNeedMore) << size;
}

TEST(ChunkedDecoderTest, EndAndRefusalStayUntilReset) {
  ChunkedDecoder decoder;
  EXPECT_EQ(decoder.next("0\r\n\r\n").state, State::kEnd);
  const auto again = decoder.next("5\r\nhello");
  EXPECT_EQ(again.state, State::kEnd);
  EXPECT_EQ(again.consumed, 0u);
  decoder.reset();
  EXPECT_EQ(decoder.next("x").state, State::kRefused);
  EXPECT_EQ(decoder.next("0\r\n\r\n").state, State::kRefused);
  decoder.reset();
  EXPECT_EQ(decoder.next("5\r\nhello").payload, "hello");
}

TEST(ChunkedDecoderTest, SizeIsPlainHexadecimal) {
  expect_refused({"x", "\r\n", ";a\r\n", " 5\r\nhello", "5 \r\nhello", "5\t\r\nhello",
                  "+5\r\nhello", "-5\r\nhello", "0x5\r\nhello", "5_0\r\nhello", "5h\r\nhello",
                  "5,5\r\nhello", "5 ;a\r\nhello", std::string("\0005\r\n", 4), "5\x80\r\n"});
}

TEST(ChunkedDecoderTest, SizeFitsIn63Bits) {
  const auto largest = decode("7fffffffffffffff\r\nabc");
  EXPECT_EQ(largest.state, State::kNeedMore);
  EXPECT_EQ(largest.payload, "abc");
  expect_refused({"8000000000000000\r\n", "ffffffffffffffff\r\n", "10000000000000005\r\nhello",
                  "00000000000000005\r\nhello"});
}

TEST(ChunkedDecoderTest, OnlyCrlfEndsALine) {
  expect_refused({"5\nhello\r\n0\r\n\r\n", "5\rhello\r\n", "5\r\nhello\n0\r\n\r\n",
                  "5\r\nhello\r0\r\n\r\n", "5\r\nhello\r\n0\n\r\n", "5\r\nhello\r\n0\r\n\n",
                  "5\r\r\nhello\r\n", "0\r\n\rX", "0\r\nA: b\n\r\n", "0\r\nA: b\rC: d\r\n\r\n"});
}

TEST(ChunkedDecoderTest, DataEndsWhereTheSizeSays) {
  expect_refused({"5\r\nhello!\r\n0\r\n\r\n", "5\r\nhell\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n"});
}

TEST(ChunkedDecoderTest, ExtensionsMustBeLegal) {
  expect_payload("a", "1;n\r\na\r\n0\r\n\r\n");
  expect_payload("a", "1;n=v;m;o=\"q;\\\"\\\\ \t=\xc3\xa9\"\r\na\r\n0;x=y\r\n\r\n");
  expect_refused({"1;\r\na", "1;=v\r\na", "1;n=\r\na", "1; n\r\na", "1;n =v\r\na", "1;n= v\r\na",
                  "1;n=v \r\na", "1;n\na", "1;n=\"v\na", "1;n=\"v\r\n\"\r\na", "1;n=\"v\"x\r\na",
                  "1;n=\"v\\\r\n", "1;n=\"\x01\"\r\na", "1;n=\x7f\r\na", "1;;n\r\na",
                  "1;n==v\r\na"});
}

TEST(ChunkedDecoderTest, ExtensionsAreBoundedPerChunkAndPerBody) {
  const std::string longest = "1;" + std::string(255, 'n') + "\r\na\r\n";  // and the CR
  expect_payload("a", longest + "0\r\n\r\n");
  expect_refused({"1;" + std::string(256, 'n') + "\r\na\r\n0\r\n\r\n"});
  std::string body;
  for (int i = 0; i < 64; ++i) body += longest;
  expect_payload(std::string(64, 'a'), body + "0\r\n\r\n");
  expect_refused({body + "1;n\r\na\r\n0\r\n\r\n"});
}

TEST(ChunkedDecoderTest, TrailersAreCheckedAndDropped) {
  expect_payload("a",
                 "1\r\na\r\n0\r\nA: b\r\nC:\r\nX-Content-Length: 5\r\nHosts: \xc3\xa9\r\n\r\n");
  expect_refused({"0\r\nContent-Length: 5\r\n\r\n", "0\r\nTRANSFER-encoding: chunked\r\n\r\n",
                  "0\r\nA: b\r\nhost: a\r\n\r\n", "0\r\nA : b\r\n\r\n", "0\r\n A: b\r\n\r\n",
                  "0\r\n: b\r\n\r\n", "0\r\nA\r\n\r\n", "0\r\nA: b\r\n c\r\n\r\n",
                  "0\r\nA: \x01\r\n\r\n", "0\r\nA: \x7f\r\n\r\n",
                  std::string("0\r\nA: \0\r\n\r\n", 11)});
}

TEST(ChunkedDecoderTest, TrailersAreKeptWhereTheyAreWanted) {
  const std::string bytes = "1\r\nx\r\n0\r\nA: 1\r\nB:  2 \r\n\r\nGET";
  for (const std::size_t piece_bytes : {1UZ, 5UZ, bytes.size()}) {
    ChunkedDecoder decoder;
    std::string kept;
    decoder.keep_trailers(kept);
    for (std::size_t start = 0; start < bytes.size(); start += piece_bytes) {
      std::string_view rest = std::string_view(bytes).substr(start, piece_bytes);
      auto step = decoder.next(rest);
      while (step.state == State::kPayload) {
        rest.remove_prefix(step.consumed);
        step = decoder.next(rest);
      }
    }
    EXPECT_EQ(kept, "A: 1\r\nB:  2 \r\n");
  }
}

TEST(ChunkedDecoderTest, TrailersAreBounded) {
  std::string fields;
  for (int i = 0; i < 32; ++i) fields += "A: b\r\n";
  expect_payload("", "0\r\n" + fields + "\r\n");
  expect_refused({"0\r\n" + fields + "A: b\r\n\r\n"});
  const std::string name_and_ends = "A: \r\n\r\n";
  const std::string fits(8 * 1024 - name_and_ends.size(), 'x');
  expect_payload("", "0\r\nA: " + fits + "\r\n\r\n");
  expect_refused({"0\r\nA: " + fits + "x\r\n\r\n", "0\r\n" + std::string(9000, 'A')});
}

TEST(ChunkWriterTest, WhatIsWrittenIsReadBack) {
  char prefix[20];
  EXPECT_EQ(std::string_view(prefix, chunk_prefix(prefix, 0x1ab)), "1ab\r\n");
  EXPECT_EQ(chunk_prefix(prefix, SIZE_MAX), 18u);
  std::string body;
  for (const std::string payload : {"a", "hello world, more than sixteen"}) {
    body.append(prefix, chunk_prefix(prefix, payload.size()));
    body.append(payload).append(kChunkSuffix);
  }
  expect_payload("ahello world, more than sixteen", body.append(kLastChunk));
}

TEST(ChunkWriterTest, AnEmptyChunkCannotEndTheBodyByAccident) {
  char prefix[20];
  EXPECT_DEATH(chunk_prefix(prefix, 0), "payload_bytes > 0");
}

}  // namespace
}  // namespace pons::http
