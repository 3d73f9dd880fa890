#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"

namespace pons::scan {

// The forms of a needle that are looked for as they stand in the bytes. Base64 and base32 are found
// at every alignment: only the characters that depend on the needle alone are compared.
enum class Encoding : std::uint8_t { kPlain, kBase64, kBase64Url, kHex, kBase32, kUtf16 };

// What is undone before looking, besides looking at the bytes as they are. Any of the encodings
// above is found under any view, and a view is found under each of the first four (percent within
// JSON, wrapped base64 within JSON, doubly percent-encoded).
//   kPercent          %41, any mix of encoded and plain characters
//   kJson             \u0041 \u{41} \x41 \/ \" \\ \n …, as in JSON and JavaScript
//   kHtml             &#65; &#x41; and the named punctuation such as &amp;
//   kQuotedPrintable  =41 and soft line breaks
//   kLines            base64, base32 or hex broken over lines, indented or not
//   kSeparators       hex pairs with ':', '-' or ' ' between them
// Not looked through: rot13, xor, reversal, encryption, UTF-7, deeper nesting, an encoding of an
// encoding other than the ones above, and compression (see content_decoder.h).
enum class View : std::uint8_t {
  kRaw,
  kPercent,
  kJson,
  kHtml,
  kQuotedPrintable,
  kLines,
  kSeparators,
};

std::string_view to_string(Encoding encoding);
std::string_view to_string(View view);

struct Needle {
  std::uint32_t id = 0;   // comes back in a Finding
  std::string_view text;  // kNeedleBytesMin to kNeedleBytesMax, without zero bytes
};

// Where a needle was found. For audit records: says nothing of the needle's text.
struct Finding {
  std::uint32_t set = 0;  // position in the list of sets handed to the scanner
  std::uint32_t id = 0;
  Encoding encoding = Encoding::kPlain;
  View outer = View::kRaw;
  View inner = View::kRaw;  // a view within `outer`

  bool operator==(const Finding&) const = default;
};

// "base64 in json in percent" and the like.
std::string describe(const Finding& finding);

inline constexpr std::size_t kNeedleBytesMin = 16;
inline constexpr std::size_t kNeedleBytesMax = 8192;
inline constexpr std::size_t kNeedlesMax = 4096;

// Needles compiled for searching; immutable, shared by any number of scanners. Its memory, which
// holds the needles, is wiped when the last owner lets go.
class NeedleSet {
 public:
  static Result<std::shared_ptr<const NeedleSet>> create(std::span<const Needle> needles);
  ~NeedleSet();
  NeedleSet(const NeedleSet&) = delete;
  NeedleSet& operator=(const NeedleSet&) = delete;

  std::size_t memory_bytes() const;

  class Index;  // private to this folder
  const Index& index() const { return *index_; }

 private:
  explicit NeedleSet(std::unique_ptr<Index> index);
  std::unique_ptr<Index> index_;
};

using NeedleSets = std::vector<std::shared_ptr<const NeedleSet>>;

}  // namespace pons::scan
