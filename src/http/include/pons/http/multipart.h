#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pons::http {

// The boundary that a Content-Type of multipart/form-data names; nothing when it names none.
std::optional<std::string> multipart_boundary(std::string_view content_type);

struct PartHead {
  std::string name;
  std::optional<std::string> file_name;
  std::string content_type;  // as it was said; empty: it was not
};

// Reads a multipart/form-data body (RFC 7578) out of whatever pieces it arrives in, without keeping
// any of the data. The caller keeps what was not consumed and calls again with more behind it; that
// is never more than a boundary or the head of a part.
class MultipartParser {
 public:
  explicit MultipartParser(std::string_view boundary);

  struct Step {
    enum class State : std::uint8_t {
      kNeedMore,
      kPart,     // a part begins: head()
      kData,     // some of its data
      kPartEnd,  // all of its data was given
      kEnd,      // no part follows
      kRefused,  // final
    } state = State::kNeedMore;
    std::size_t consumed = 0;  // in every state
    std::string_view data;     // kData: not empty, inside the buffer
    const char* reason = "";   // kRefused: a static sentence
  };
  Step next(std::string_view buffer);
  const PartHead& head() const { return head_; }

  static constexpr std::size_t kHeadBytesMax = 16 * 1024;
  static constexpr std::size_t kPreambleBytesMax = 1024;
  static constexpr int kPartsMax = 10'000;

 private:
  enum class State : std::uint8_t { kPreamble, kBoundary, kHead, kData, kEnd, kRefused };
  Step find_first(std::string_view buffer);
  Step take_boundary_end(std::string_view buffer);
  Step take_head(std::string_view buffer);
  Step take_data(std::string_view buffer);
  Step refuse(const char* reason);
  bool read_line(std::string_view line);

  std::string delimiter_;  // "\r\n--" and the boundary
  State state_ = State::kPreamble;
  bool in_part_ = false;
  int parts_ = 0;
  PartHead head_;
  const char* reason_ = "";
};

}  // namespace pons::http
