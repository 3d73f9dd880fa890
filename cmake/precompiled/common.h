// What nearly every file reads, compiled once (cmake/pons_precompiled.cmake). No file may rely on it: each includes
// what it uses, and lint reads them without this header to prove that.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <expected>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

// src/base/json.cc has the one copy of its members.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

// Never called. What it mentions is instantiated here instead of in each file.
namespace pons::precompiled {
inline void json_as_it_is_mostly_used() {
  using Value = nlohmann::ordered_json;
  Value value = Value::parse("{}");
  value["text"] = "text";
  value["string"] = std::string();
  value["view"] = std::string_view();
  value["int"] = 1;
  value["int64"] = std::int64_t{1};
  value["uint64"] = std::uint64_t{1};
  value["bool"] = true;
  value["array"] = Value::array();
  value["object"] = {{"a", 1}, {"b", "c"}};
  value.push_back(1);
  for (auto& [key, member] : value.items()) static_cast<void>(member);
  static_cast<void>(value.dump() + value.value("", std::string()) + value.at("").get<std::string>());
  static_cast<void>(value.value("", 1) + value.value("", false) + value.contains(""));
  static_cast<void>(value == "text" || value == 1);
}
}  // namespace pons::precompiled
