#include "grpc_messages.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace pons::egress {
namespace {

std::string gzip(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string message(char flags, std::string_view data) {
  std::string out(1, flags);
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(data.size() >> shift);
  return out.append(data);
}

// What comes out, with "|" where a compressed message ends; "(unreadable)" behind what came before.
std::string read(std::vector<http::Field> fields, std::string_view bytes, std::size_t step) {
  auto messages = GrpcMessages::find(fields);
  if (!messages) return "(other)";
  std::string out;
  const auto take = [&](GrpcMessages::Part part, std::string_view piece) -> Result<void> {
    out += part == GrpcMessages::Part::kUnpackedEnd ? "|" : piece;
    return {};
  };
  for (std::size_t at = 0; at < bytes.size(); at += step)
    if (!messages->feed(bytes.substr(at, step), take)) return out + "(unreadable)";
  return messages->finish() ? out : out + "(unreadable)";
}

const std::vector<http::Field> kGzip = {{"content-type", "application/grpc+proto"},
                                        {"grpc-encoding", "gzip"}};

TEST(GrpcMessages, CompressedMessagesAreUnpackedHoweverTheStreamIsCut) {
  const std::string plain = message(0, "plain");
  const std::string stream = plain + message(1, gzip("packed")) + message(0, "") +
                             message(1, gzip("")) + message(1, "") + plain;
  for (std::size_t step = 1; step <= stream.size(); ++step)
    EXPECT_EQ(read(kGzip, stream, step), plain + "packed|" + message(0, "") + "||" + plain) << step;
}

TEST(GrpcMessages, WhatIsPackedInAnotherWayThanDeclaredIsUnreadable) {
  const std::string stream = message(1, gzip("packed"));
  for (const std::vector<http::Field>& fields : std::vector<std::vector<http::Field>>{
           {{"content-type", "application/grpc"}},
           {{"content-type", "application/grpc"}, {"grpc-encoding", "identity"}},
           {{"content-type", "application/grpc"}, {"grpc-encoding", "own"}},
           {{"content-type", "application/grpc"}, {"grpc-encoding", "zstd"}},
           {{"content-type", "application/grpc"}, {"grpc-encoding", "gzip, gzip"}},
           {{"content-type", "application/grpc"},
            {"grpc-encoding", "gzip"},
            {"grpc-encoding", "gzip"}}})
    EXPECT_EQ(read(fields, stream, 3), "(unreadable)") << fields.back().value;
}

TEST(GrpcMessages, UnknownFlagsAndUnfinishedMessagesAreUnreadable) {
  EXPECT_EQ(read(kGzip, message(2, "x"), 9), "(unreadable)");
  EXPECT_EQ(read(kGzip, message(0, "").substr(0, 2), 9), "(unreadable)");
  const std::string packed = message(1, gzip("packed"));
  EXPECT_EQ(read(kGzip, packed.substr(0, packed.size() - 1), 9), "packed(unreadable)");
  // A length that is longer than what is packed in it.
  EXPECT_EQ(read(kGzip, message(1, gzip("packed") + "x"), 99), "packed(unreadable)");
}

TEST(GrpcMessages, KinOfGrpcAreKnownAndOtherBodiesAreNot) {
  const std::string packed = message(1, gzip("packed"));
  EXPECT_EQ(read({{"Content-Type", "Application/GRPC-Web+proto"}, {"Grpc-Encoding", "gzip"}},
                 packed + message('\x80', "t"), 4),
            "packed|" + message('\x80', "t"));
  EXPECT_EQ(
      read({{"content-type", "application/connect+json"}, {"connect-content-encoding", "gzip"}},
           packed + message(2, "{}"), 4),
      "packed|" + message(2, "{}"));
  EXPECT_EQ(read({{"content-type", "application/json"}}, packed, 4), "(other)");
  EXPECT_EQ(read({}, packed, 4), "(other)");
  EXPECT_EQ(read({{"content-type", "application/grpc-web-text"}}, "AAAA", 4), "(other)");
  EXPECT_EQ(
      read({{"content-type", "application/grpc-web-text"}, {"grpc-encoding", "gzip"}}, "AAAAAA", 4),
      "(unreadable)");
}

}  // namespace
}  // namespace pons::egress
