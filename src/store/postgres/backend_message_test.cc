#include "backend_message.h"

#include <gtest/gtest.h>

#include "fault.h"
#include "values.h"

namespace pons::store::postgres {
namespace {

using namespace std::string_literals;

BackendMessage next(BackendReader& reader) {
  const auto message = reader.next();
  EXPECT_TRUE(message && *message);
  return message && *message ? **message : BackendMessage{};
}

TEST(BackendReader, AMessageMayComeInAnyPieces) {
  const std::string stream = "Z\0\0\0\5I1\0\0\0\4C\0\0\0\rUPDATE 3\0"s;
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    BackendReader reader(100);
    std::string types;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(std::string_view(stream).substr(at, piece));
      for (auto message = reader.next(); message && *message; message = reader.next())
        types += (*message)->type;
    }
    EXPECT_EQ(types, "Z1C") << piece;
  }
}

TEST(BackendReader, ALengthThatCannotBeIsRefusedBeforeItsBytesCome) {
  BackendReader too_short(100);
  too_short.feed("Z\0\0\0\3"s);
  EXPECT_EQ(too_short.next().error().code, ErrorCode::kInvalid);
  BackendReader too_long(100);
  too_long.feed("D\0\0\0\x65"s);
  EXPECT_EQ(too_long.next().error().code, ErrorCode::kLimit);
  BackendReader longest(100);
  longest.feed("D\xff\xff\xff\xff"s);
  EXPECT_EQ(longest.next().error().code, ErrorCode::kLimit);
  BackendReader whole(100);
  whole.feed("D\0\0\0\x64"s + std::string(96, 'x'));
  EXPECT_EQ(next(whole).body.size(), 96U);
}

TEST(BackendMessage, ChangedRowsAreCountedOnlyWhereRowsChange) {
  EXPECT_EQ(read_changed("INSERT 0 5\0"s).value(), 5);
  EXPECT_EQ(read_changed("UPDATE 0\0"s).value(), 0);
  EXPECT_EQ(read_changed("DELETE 12\0"s).value(), 12);
  EXPECT_EQ(read_changed("SELECT 7\0"s).value(), 0);
  EXPECT_EQ(read_changed("SET\0"s).value(), 0);
  for (const std::string& bad : {"UPDATE 1"s, "UPDATE x\0"s, "UPDATE\0"s, "UPDATE -1\0"s,
                                 "UPDATE 9999999999999999999\0"s, "UPDATE 1\0\0"s, ""s})
    EXPECT_FALSE(read_changed(bad)) << bad;
}

TEST(BackendMessage, ARowIsAsLongAsItSays) {
  const std::string good = "\0\2\0\0\0\1a\xff\xff\xff\xff"s;
  const auto columns = read_data_row(good).value();
  EXPECT_EQ(columns[0], "a");
  EXPECT_EQ(columns[1], std::nullopt);
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_FALSE(read_data_row(std::string_view(good).substr(0, cut))) << cut;
  EXPECT_FALSE(read_data_row(good + "x"));
  EXPECT_FALSE(read_data_row("\0\1\x7f\xff\xff\xff"s)) << "longer than the message";
}

TEST(BackendMessage, TypesOfColumnsAreRead) {
  const std::string column = "name\0\0\0\0\1\0\1\0\0\0\x14\0\x08\xff\xff\xff\xff\0\1"s;
  EXPECT_EQ(read_row_description("\0\2"s + column + column).value(), (std::vector<TypeId>{20, 20}));
  EXPECT_FALSE(read_row_description("\0\2"s + column));
  EXPECT_FALSE(read_row_description("\0\1"s + column + "x"));
}

TEST(BackendMessage, ValuesHaveTheSizeOfTheirType) {
  EXPECT_EQ(read_value(20, "\xff\xff\xff\xff\xff\xff\xff\xfe"s).value(), Value(std::int64_t{-2}));
  EXPECT_EQ(read_value(23, "\0\0\1\0"s).value(), Value(std::int64_t{256}));
  EXPECT_EQ(read_value(16, "\1"s).value(), Value(std::int64_t{1}));
  EXPECT_EQ(read_value(25, ""s).value(), Value(std::string()));
  EXPECT_EQ(read_value(17, "\0x"s).value(), Value(Blob{"\0x"s}));
  EXPECT_EQ(read_value(20, std::nullopt).value(), Value(Null()));
  EXPECT_EQ(read_value(20, "\0"s).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(read_value(16, ""s).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(read_value(1700, "\0\0"s).error().code, ErrorCode::kUnsupported) << "numeric";
}

TEST(BackendMessage, AFaultNeedsItsState) {
  const auto fault = read_fault("SFEHLER\0VERROR\0C23505\0Mtaken\nalready\0\0"s).value();
  EXPECT_EQ(fault.severity, "ERROR");
  EXPECT_EQ(fault.state, "23505");
  EXPECT_EQ(fault.message, "taken already");
  for (const std::string& bad : {"SERROR\0Mx\0\0"s, "SERROR\0C23\0Mx\0\0"s, "SERROR\0C23505\0"s,
                                 "SERROR"s, ""s, "SERROR\0C23505\0\0x"s})
    EXPECT_FALSE(read_fault(bad)) << bad;
}

TEST(BackendMessage, StatesMeanWhatTheStorePromises) {
  const auto code = [](std::string state) {
    return error_of({.severity = "ERROR", .state = std::move(state), .message = "m"}).code;
  };
  EXPECT_EQ(code("23505"), ErrorCode::kConflict);
  EXPECT_EQ(code("23503"), ErrorCode::kConflict);
  EXPECT_EQ(code("53100"), ErrorCode::kUnavailable);
  EXPECT_EQ(code("57P01"), ErrorCode::kUnavailable);
  EXPECT_EQ(code("57014"), ErrorCode::kTimeout);
  EXPECT_EQ(code("42601"), ErrorCode::kInvalid);
  EXPECT_EQ(code("42501"), ErrorCode::kDenied);
  EXPECT_EQ(code("XX001"), ErrorCode::kIo);
}

TEST(BackendMessage, ANotificationHasAChannelAndAPayload) {
  const auto told = read_notification("\0\0\0\1c\0p\0"s).value();
  EXPECT_EQ(told.channel, "c");
  EXPECT_EQ(told.payload, "p");
  EXPECT_FALSE(read_notification("\0\0\0\1c\0p"s));
}

}  // namespace
}  // namespace pons::store::postgres
