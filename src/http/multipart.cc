#include "pons/http/multipart.h"

#include <algorithm>
#include <utility>

#include "pons/base/text.h"
#include "pons/http/query.h"

namespace pons::http {

namespace {

using Step = MultipartParser::Step;

constexpr std::size_t kBoundaryBytesMax = 70;

bool is_boundary_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
}

// Takes "; name=value" or "; name="value"" from the front. Browsers escape quotes by backslash or
// by percent signs; other backslashes are the name's own.
struct Parameter {
  std::string name;
  std::string value;
};
std::optional<Parameter> take_parameter(std::string_view& rest) {
  rest = trim(rest);
  if (!rest.starts_with(';')) return std::nullopt;
  rest = trim(rest.substr(1));
  const std::size_t equals = rest.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  Parameter parameter{.name = std::string(trim(rest.substr(0, equals))), .value = {}};
  rest.remove_prefix(equals + 1);
  if (!rest.starts_with('"')) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    parameter.value = trim(rest.substr(0, end));
    rest.remove_prefix(end);
    return parameter;
  }
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest.remove_prefix(i + 1);
      return parameter;
    }
    const bool escapes =
        rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\');
    if (escapes) ++i;
    parameter.value += rest[i];
  }
  return std::nullopt;
}

// RFC 5987: UTF-8''percent-encoded.
std::optional<std::string> extended_value(std::string_view text) {
  constexpr std::string_view kPrefix = "UTF-8'";
  if (text.size() < kPrefix.size() || !equal_ignoring_case(text.substr(0, kPrefix.size()), kPrefix))
    return std::nullopt;
  const std::size_t quote = text.find('\'', kPrefix.size());
  if (quote == std::string_view::npos || text.find('+') != std::string_view::npos)
    return std::nullopt;
  return percent_decode(text.substr(quote + 1));
}

}  // namespace

std::optional<std::string> multipart_boundary(std::string_view content_type) {
  std::string_view rest = content_type;
  const std::size_t end = std::min(rest.find(';'), rest.size());
  if (!equal_ignoring_case(trim(rest.substr(0, end)), "multipart/form-data")) return std::nullopt;
  rest.remove_prefix(end);
  while (auto parameter = take_parameter(rest)) {
    if (!equal_ignoring_case(parameter->name, "boundary")) continue;
    const std::string& value = parameter->value;
    if (value.empty() || value.size() > kBoundaryBytesMax || value.ends_with(' ') ||
        !std::ranges::all_of(value, is_boundary_char))
      return std::nullopt;
    return value;
  }
  return std::nullopt;
}

MultipartParser::MultipartParser(std::string_view boundary)
    : delimiter_("\r\n--" + std::string(boundary)) {}

Step MultipartParser::refuse(const char* reason) {
  state_ = State::kRefused;
  reason_ = reason;
  return {.state = Step::State::kRefused, .reason = reason};
}

Step MultipartParser::next(std::string_view buffer) {
  switch (state_) {
    case State::kPreamble:
      return find_first(buffer);
    case State::kBoundary:
      return take_boundary_end(buffer);
    case State::kHead:
      return take_head(buffer);
    case State::kData:
      return take_data(buffer);
    case State::kEnd:
      return {.state = Step::State::kEnd, .consumed = buffer.size()};  // an epilogue says nothing
    case State::kRefused:
      break;
  }
  return {.state = Step::State::kRefused, .reason = reason_};
}

// The first boundary may stand at the very beginning, where no line ends before it.
Step MultipartParser::find_first(std::string_view buffer) {
  const std::string_view bare = std::string_view(delimiter_).substr(2);
  if (buffer.starts_with(bare)) {
    state_ = State::kBoundary;
    return {.consumed = bare.size()};
  }
  if (const std::size_t at = buffer.find(delimiter_); at != std::string_view::npos) {
    if (at > kPreambleBytesMax) return refuse("too much stands before the first part");
    state_ = State::kBoundary;
    return {.consumed = at + delimiter_.size()};
  }
  if (buffer.size() > kPreambleBytesMax + delimiter_.size())
    return refuse("too much stands before the first part");
  return {};
}

Step MultipartParser::take_boundary_end(std::string_view buffer) {
  if (std::exchange(in_part_, false)) return {.state = Step::State::kPartEnd};
  if (buffer.size() < 2) return {};
  if (buffer.starts_with("--")) {
    state_ = State::kEnd;
    return {.state = Step::State::kEnd, .consumed = 2};
  }
  if (!buffer.starts_with("\r\n")) return refuse("something follows a boundary");
  if (++parts_ > kPartsMax) return refuse("there are too many parts");
  state_ = State::kHead;
  head_ = {};
  return {.consumed = 2};
}

Step MultipartParser::take_head(std::string_view buffer) {
  constexpr std::string_view kEmptyLine = "\r\n\r\n";
  const std::size_t end = buffer.starts_with("\r\n") ? std::size_t{0} : buffer.find(kEmptyLine);
  // The same verdict for the same bytes, whether they come at once or one by one.
  if (end == std::string_view::npos && buffer.size() < kHeadBytesMax + kEmptyLine.size()) return {};
  if (end > kHeadBytesMax) return refuse("the head of a part is too long");
  std::string_view lines = buffer.substr(0, end);
  while (!lines.empty()) {
    const std::size_t line_end = std::min(lines.find("\r\n"), lines.size());
    if (!read_line(lines.substr(0, line_end))) return refuse("the head of a part is malformed");
    lines.remove_prefix(std::min(line_end + 2, lines.size()));
  }
  state_ = State::kData;
  in_part_ = true;
  return {.state = Step::State::kPart, .consumed = end == 0 ? 2 : end + 4};
}

bool MultipartParser::read_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view field = trim(line.substr(0, colon));
  std::string_view rest = line.substr(colon + 1);
  if (equal_ignoring_case(field, "Content-Type")) head_.content_type = trim(rest);
  if (!equal_ignoring_case(field, "Content-Disposition")) return true;
  const std::size_t end = std::min(rest.find(';'), rest.size());
  if (!equal_ignoring_case(trim(rest.substr(0, end)), "form-data")) return false;
  rest.remove_prefix(end);
  while (auto parameter = take_parameter(rest)) {
    if (equal_ignoring_case(parameter->name, "name")) head_.name = std::move(parameter->value);
    if (equal_ignoring_case(parameter->name, "filename") && !head_.file_name)
      head_.file_name = std::move(parameter->value);
    if (equal_ignoring_case(parameter->name, "filename*")) {
      head_.file_name = extended_value(parameter->value);
      if (!head_.file_name) return false;
    }
  }
  return trim(rest).empty();
}

Step MultipartParser::take_data(std::string_view buffer) {
  const std::size_t at = buffer.find(delimiter_);
  if (at == 0) {
    state_ = State::kBoundary;
    return {.consumed = delimiter_.size()};
  }
  std::size_t size = at;
  if (at == std::string_view::npos) {
    // The end of the buffer may be the beginning of a boundary.
    const std::size_t held = std::min(buffer.size(), delimiter_.size() - 1);
    size = buffer.size() - held;
    const std::size_t line_end = buffer.find('\r', size);
    size = line_end == std::string_view::npos ? buffer.size() : line_end;
  }
  if (size == 0) return {};
  return {.state = Step::State::kData, .consumed = size, .data = buffer.substr(0, size)};
}

}  // namespace pons::http
