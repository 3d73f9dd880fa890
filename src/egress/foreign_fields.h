#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pons/http/head.h"

namespace pons::egress {

// Whether a body holds a field, a member or a part that bears one of the names by which hosts take
// credentials. Forms, multipart forms and the outermost object of JSON are read, of whatever size
// and in whatever pieces; of other bodies nothing is claimed.
class ForeignFields {
 public:
  ForeignFields(const http::RequestHead& head, std::vector<std::string> names);

  // One that bears the name is what is wanted there.
  void expect(std::string name);
  // The next piece of the body, without codings. True as soon as it holds one, and from then on.
  bool feed(std::string_view piece);

 private:
  // name=value&name=value
  struct Form {
    bool in_name = true;
    std::string name;
  };
  struct Json {
    enum class Kind : std::uint8_t { kUnknown, kObject, kOther };
    Kind kind = Kind::kUnknown;
    std::size_t depth = 0;
    char quote = '\0';  // of the string that is open
    bool escaped = false;
    char in_comment = '\0';  // '*', '/' or '#'
    char before = '\0';      // the character before this one, outside of strings
    std::string last;        // string or word of the outermost object, as it is written
  };
  struct Multipart {
    bool after_return = false;
    std::string line;         // the beginning of it
    std::string disposition;  // the field that names a part; empty: none is open
  };

  void read_form(std::string_view piece);
  void read_json(std::string_view piece);
  void read_between_strings(char c);
  void read_multipart(std::string_view piece);
  void end_line();
  void end_disposition();
  bool may_be_known(std::string_view written) const;
  void see_name(std::string_view name);

  std::vector<std::string> names_;
  bool names_are_plain_;
  std::vector<std::string> expected_;
  bool is_typed_ = false;
  bool is_form_ = false;
  bool is_multipart_ = false;
  Form form_;
  Json json_;
  Multipart multipart_;
  bool found_ = false;
};

}  // namespace pons::egress
