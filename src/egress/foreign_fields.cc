#include "foreign_fields.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "percent_coding.h"
#include "pons/base/json.h"
#include "pons/base/text.h"

namespace pons::egress {

namespace {

// What is longer, with every letter as an escape, is none of the names.
constexpr std::size_t kNameBytesMax = 512;
constexpr std::size_t kLineBytesMax = 4096;
constexpr std::string_view kDisposition = "content-disposition";
constexpr std::string_view kByteOrderMarks = "\xEF\xBB\xBF\xFE\xFF";

bool holds_ignoring_case(std::string_view text, std::string_view part) {
  return !std::ranges::search(text, part, [](char a, char b) {
            return equal_ignoring_case({&a, 1}, {&b, 1});
          }).empty();
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// What ends a name or a value; the length of the text where there is none. Eight bytes at a time.
std::size_t find_mark_of_form(std::string_view text) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHighBits = kOnes << 7;
  const auto has_zero = [](std::uint64_t word) { return (word - kOnes) & ~word & kHighBits; };
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((has_zero(word ^ kOnes * '&') | has_zero(word ^ kOnes * ';') |
         has_zero(word ^ kOnes * '=')) != 0)
      break;
  }
  while (at < text.size() && text[at] != '&' && text[at] != ';' && text[at] != '=') ++at;
  return at;
}

// Of those that hosts give to fields.
bool is_plain(char c) {
  return (c >= ' ' && c <= '~') || is_space(c);
}

void append_up_to(std::string& text, char c, std::size_t most) {
  if (text.size() < most) text += c;
}

// A name as it is written in JSON. Most have nothing to be undone.
std::string unescaped(const std::string& written) {
  if (!written.contains('\\')) return written;
  const auto text = parse_json('"' + written + '"');
  return text && text->is_string() ? text->get<std::string>() : written;
}

struct Parameter {
  std::string name;
  std::string value;
};

// `; name="value"`, with quotes and escapes undone.
std::vector<Parameter> read_parameters(std::string_view text) {
  std::vector<Parameter> all(1);
  bool in_value = false;
  bool in_quotes = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (in_quotes && c == '\\' && i + 1 < text.size()) {
      c = text[++i];
    } else if (c == '"') {
      in_quotes = !in_quotes;
      continue;
    } else if (!in_quotes && c == ';') {
      all.emplace_back();
      in_value = false;
      continue;
    } else if (!in_quotes && !in_value && c == '=') {
      in_value = true;
      continue;
    }
    (in_value ? all.back().value : all.back().name) += c;
  }
  return all;
}

}  // namespace

ForeignFields::ForeignFields(const http::RequestHead& head, std::vector<std::string> names)
    : names_(std::move(names)),
      names_are_plain_(std::ranges::all_of(
          names_, [](const std::string& name) { return std::ranges::all_of(name, is_plain); })) {
  is_form_ = true;  // as hosts read what says nothing of itself
  for (const http::Field& field : head.fields) {
    if (!equal_ignoring_case(field.name, "content-type") || trim(field.value).empty()) continue;
    is_form_ &= is_typed_;
    is_typed_ = true;
    is_form_ |= holds_ignoring_case(field.value, "x-www-form-urlencoded");
    is_multipart_ |= holds_ignoring_case(field.value, "multipart/");
  }
}

void ForeignFields::expect(std::string name) {
  expected_.push_back(std::move(name));
}

// "token[]" and "TOKEN" are the same to some hosts.
void ForeignFields::see_name(std::string_view name) {
  const auto here = std::ranges::find(expected_, name);
  if (here != expected_.end()) {
    expected_.erase(here);
    return;
  }
  name = trim(name.substr(0, name.find('[')));
  found_ |= std::ranges::any_of(
      names_, [&](const std::string& known) { return equal_ignoring_case(known, name); });
}

// Most of what is no form is out by its first bytes: decoding takes none of them away, and what
// does not count begins with a bracket, which may be coded.
bool ForeignFields::may_be_known(std::string_view written) const {
  if (!names_are_plain_ || !expected_.empty()) return true;
  const auto* const first =
      std::ranges::find_if(written, [](char c) { return c == '[' || c == '%' || !is_plain(c); });
  return first == written.end() || is_plain(*first);
}

bool ForeignFields::feed(std::string_view piece) {
  if (names_.empty()) return false;
  if (is_form_) read_form(piece);
  if (is_multipart_) read_multipart(piece);
  // Many hosts read an object as one whatever it is called.
  if (json_.kind != Json::Kind::kOther) read_json(piece);
  return found_;
}

// Anything may be a form, also a gigabyte of something else: so what lies between two marks is
// taken at once.
void ForeignFields::read_form(std::string_view piece) {
  while (!piece.empty()) {
    const std::string_view part = piece.substr(0, find_mark_of_form(piece));
    if (form_.in_name) form_.name += part.substr(0, kNameBytesMax - form_.name.size());
    if (part.size() == piece.size()) return;
    const char mark = piece[part.size()];
    piece.remove_prefix(part.size() + 1);
    if (form_.in_name) {
      if (may_be_known(form_.name)) {
        std::ranges::replace(form_.name, '+', ' ');
        see_name(form_.name.contains('%') ? percent_decoded(form_.name) : form_.name);
      }
      form_.name.clear();
    }
    form_.in_name = mark != '=';  // to some hosts a ';' is what a '&' is
  }
}

// As the most lenient of hosts reads it: in any alphabet that has zeros between ASCII letters, with
// comments, with names in any quotes or in none.
void ForeignFields::read_json(std::string_view piece) {
  for (const char c : piece) {
    if (c == '\0' || json_.kind == Json::Kind::kOther) continue;
    if (json_.kind == Json::Kind::kUnknown) {
      if (is_space(c) || kByteOrderMarks.contains(c)) continue;
      json_.kind = c == '{' ? Json::Kind::kObject : Json::Kind::kOther;
      json_.depth = 1;
      continue;
    }
    if (json_.in_comment != '\0') {
      const bool ends = json_.in_comment == '*' ? c == '/' && json_.before == '*' : c == '\n';
      if (ends) json_.in_comment = '\0';
      json_.before = c;
    } else if (json_.quote != '\0') {
      const bool ends = c == json_.quote && !json_.escaped;
      json_.escaped = c == '\\' && !json_.escaped;
      if (ends) json_.quote = '\0';
      if (!ends && json_.depth == 1) append_up_to(json_.last, c, kNameBytesMax);
    } else {
      read_between_strings(c);
    }
  }
}

void ForeignFields::read_between_strings(char c) {
  const char before = std::exchange(json_.before, c);
  if (c == '"' || c == '\'') {
    json_.quote = c;
    json_.last.clear();
  } else if (c == '#' || (before == '/' && (c == '/' || c == '*'))) {
    json_.in_comment = c;
    json_.before = '\0';
  } else if (c == '{' || c == '[') {
    ++json_.depth;
  } else if (c == '}' || c == ']') {
    // Behind the object comes another text, as in a list of lines, and no longer the request's own.
    if (--json_.depth == 0) json_.kind = Json::Kind::kOther;
  } else if (json_.depth == 1 && c == ':') {
    see_name(unescaped(json_.last));
    json_.last.clear();
  } else if (json_.depth == 1 && c == ',') {
    json_.last.clear();
  } else if (json_.depth == 1 && !is_space(c) && c != '/') {
    append_up_to(json_.last, c, kNameBytesMax);
  }
}

void ForeignFields::read_multipart(std::string_view piece) {
  for (const char c : piece) {
    const bool is_second = c == '\n' && multipart_.after_return;
    multipart_.after_return = c == '\r';
    if (is_second) continue;
    if (c == '\n' || c == '\r')  // alone, too: some hosts end a line there
      end_line();
    else
      append_up_to(multipart_.line, c, kLineBytesMax);
  }
}

void ForeignFields::end_line() {
  const std::string line = std::exchange(multipart_.line, {});
  if (!multipart_.disposition.empty()) {
    if (line.starts_with(' ') || line.starts_with('\t')) {  // it goes on
      multipart_.disposition += line;
      found_ |= multipart_.disposition.size() >= kLineBytesMax;  // longer than anyone's
      return;
    }
    end_disposition();
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos ||
      !equal_ignoring_case(trim(std::string_view(line).substr(0, colon)), kDisposition))
    return;
  found_ |= line.size() >= kLineBytesMax;
  multipart_.disposition = line.substr(colon + 1);
}

void ForeignFields::end_disposition() {
  std::string text = std::exchange(multipart_.disposition, {});
  std::erase(text, '\r');
  for (const Parameter& parameter : read_parameters(text)) {
    const std::string_view name = trim(parameter.name);
    if (equal_ignoring_case(name, "name")) see_name(parameter.value);
    found_ |= equal_ignoring_case(name, "name*");  // no form has it, and hosts read it differently
  }
}

}  // namespace pons::egress
