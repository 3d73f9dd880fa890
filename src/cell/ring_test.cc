#include "ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace pons::cell {
namespace {

struct Zeroed {
  Ring ring = {};
  ~Zeroed() { ring.reset(0); }
};

std::string read_all(const Ring& ring, uint64_t from) {
  std::string bytes(ring.end() - from, '\0');
  bytes.resize(ring.read(from, bytes.data(), bytes.size()));
  return bytes;
}

// Byte number n of the stream that the tests write.
std::string stream(uint64_t from, uint64_t to) {
  std::string bytes;
  for (uint64_t i = from; i < to; ++i) bytes.push_back(static_cast<char>(i * 7 % 251));
  return bytes;
}

TEST(Ring, FewBytesStayInTheObject) {
  Zeroed zeroed;
  zeroed.ring.reset(1 << 20);
  zeroed.ring.append("hello", 5);
  EXPECT_EQ(read_all(zeroed.ring, 0), "hello");
  EXPECT_EQ(read_all(zeroed.ring, 3), "lo");
  EXPECT_EQ(zeroed.ring.read(5, nullptr, 10), 0U);
  EXPECT_EQ(zeroed.ring.read(99, nullptr, 10), 0U);
}

TEST(Ring, KeepsExactlyTheLastBytesWhateverThePieces) {
  for (const uint64_t capacity : {4096U, 5000U, 65536U}) {
    for (const uint64_t piece : {1U, 13U, 2048U, 4095U, 4096U, 4097U, 200'000U}) {
      Zeroed zeroed;
      zeroed.ring.reset(capacity);
      const uint64_t total = piece == 1 ? 10'000 : 300'000;
      for (uint64_t at = 0; at < total; at += piece) {
        const std::string bytes = stream(at, at + piece);
        zeroed.ring.append(bytes.data(), bytes.size());
        ASSERT_LE(zeroed.ring.end() - zeroed.ring.kept(), capacity);
        ASSERT_EQ(zeroed.ring.end(), at + piece);
      }
      ASSERT_EQ(read_all(zeroed.ring, zeroed.ring.kept()),
                stream(zeroed.ring.kept(), zeroed.ring.end()))
          << capacity << " " << piece;
    }
  }
}

TEST(Ring, BytesThatAreGoneAreNotRead) {
  Zeroed zeroed;
  zeroed.ring.reset(4096);
  const std::string bytes = stream(0, 10'000);
  zeroed.ring.append(bytes.data(), bytes.size());
  char byte = 0;
  EXPECT_EQ(zeroed.ring.kept(), 10'000U - 4096U);
  EXPECT_EQ(zeroed.ring.read(zeroed.ring.kept() - 1, &byte, 1), 0U);
  EXPECT_EQ(zeroed.ring.read(zeroed.ring.kept(), &byte, 1), 1U);
}

}  // namespace
}  // namespace pons::cell
