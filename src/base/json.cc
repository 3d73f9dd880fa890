#include "pons/base/json.h"

#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

// The one copy; the precompiled header declares it for everybody else.
template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace pons {

namespace {

// nlohmann's parser keeps the last of two equal keys and has no depth limit; a validating pass
// refuses both before a value is built.
class Gate final : public nlohmann::json_sax<Json> {
 public:
  explicit Gate(std::size_t depth_max) : depth_max_(depth_max) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return enter();
  }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    return refuse(fmt::format("key \"{}\" appears twice in one object", name));
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return refuse(fmt::format("not JSON at byte {}", position));
  }

  std::string problem;

 private:
  bool enter() {
    return ++depth_ <= depth_max_ ||
           refuse(fmt::format("nested deeper than {} levels", depth_max_));
  }
  bool refuse(std::string why) {
    problem = std::move(why);
    return false;
  }

  std::size_t depth_max_;
  std::size_t depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, JsonLimits limits) {
  if (text.size() > limits.bytes)
    return make_error(ErrorCode::kLimit, "parse JSON",
                      fmt::format("{} bytes, at most {} are allowed", text.size(), limits.bytes));
  Gate gate(limits.depth);
  if (!Json::sax_parse(text.begin(), text.end(), &gate))
    return make_error(ErrorCode::kInvalid, "parse JSON", gate.problem);
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pons
