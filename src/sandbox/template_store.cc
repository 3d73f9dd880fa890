#include "template_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "limit_rules.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"
#include "pons/sandbox/template_name.h"
#include "pons/sandbox/wire.h"

namespace pons::sandbox {

namespace {

constexpr std::size_t kTemplatesMax = 1000;
constexpr std::size_t kPartsMax = 4;
constexpr std::size_t kLayersMax = spawner::kTemplateLayersMax - 1;  // above them is kTrustLayer
constexpr std::string_view kSuffix = ".json";

Result<TemplateInfo> load_template(const std::string& path) {
  const std::string text = TRY(linux::read_file(path));
  const auto json = TRY(parse_json(text));
  return from_json<TemplateInfo>(json);
}

Result<void> check(const TemplateInfo& info) {
  TRY_VOID(check_template_name(info.name));
  if (info.layers.empty() || info.layers.size() > kLayersMax)
    return make_error(ErrorCode::kInvalid, "check template",
                      fmt::format("a template has 1 to {} layers", kLayersMax));
  for (const std::string& layer : info.layers) TRY_VOID(parse_digest(layer));
  return {};
}

// The user and the directory stay those of what is below: what is put on top serves them.
void put_on_top(TemplateInfo& below, const TemplateInfo& above) {
  // A layer that both have says the same twice, and the kernel takes none twice.
  std::vector<std::string> layers = above.layers;
  for (const std::string& layer : below.layers)
    if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  below.layers = std::move(layers);
  for (const auto& [name, value] : above.environment) below.environment[name] = value;
  below.weakening.allow_sudo |= above.weakening.allow_sudo;
  below.weakening.allow_nested_user_namespaces |= above.weakening.allow_nested_user_namespaces;
  below.bytes += above.bytes;
}

}  // namespace

std::vector<std::string_view> template_parts(std::string_view name) {
  return split(name, kTemplateStackMark);
}

Result<void> replace_file(const std::string& path, std::string_view data) {
  const std::string fresh = path + ".new";
  {
    auto file = TRY(linux::open_file(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
    TRY_VOID(linux::write_all(file.get(), data));
  }
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return os_error("replace file", path);
  return {};
}

TemplateInfo host_template() {
  return {.name = "host",
          .kind = "host",
          .layers = {std::string(64, '0')},
          .source = "the programs of this host, read only"};
}

Result<spawner::Digest> parse_digest(std::string_view hex) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  spawner::Digest digest;
  if (hex.size() != 2 * digest.bytes.size() ||
      !std::ranges::all_of(hex, [&](char c) { return digit(c) >= 0; }))
    return make_error(ErrorCode::kInvalid, "check template",
                      "a layer is named by 64 hexadecimal digits");
  for (std::size_t i = 0; i < digest.bytes.size(); ++i)
    digest.bytes[i] = static_cast<std::uint8_t>(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1]));
  return digest;
}

std::string hex_of(const spawner::Digest& digest) {
  return to_hex({reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()});
}

Result<void> TemplateStore::load() {
  templates_.clear();
  templates_.emplace("host", host_template());
  std::error_code error;
  std::filesystem::create_directory(directory_, error);
  std::filesystem::directory_iterator files(directory_, error);
  if (error) return os_error("list templates", directory_, error.value());
  for (const auto& file : files) {
    const std::string name = file.path().filename();
    if (!name.ends_with(kSuffix)) continue;
    auto info = load_template(file.path());
    const bool sound = info && check(*info) && info->name + std::string(kSuffix) == name;
    if (!sound || templates_.size() >= kTemplatesMax) {
      LOG_WARN("a template's file makes no sense and is left out", {"file", name});
      continue;
    }
    templates_.insert_or_assign(info->name, std::move(*info));
  }
  return {};
}

Result<void> TemplateStore::put(TemplateInfo info) {
  TRY_VOID(check(info));
  if (info.name == "host")
    return make_error(ErrorCode::kConflict, "put template", "\"host\" is made by Pons itself");
  if (templates_.size() >= kTemplatesMax && !templates_.contains(info.name))
    return make_error(ErrorCode::kLimit, "put template",
                      fmt::format("there are {} templates already; remove one", kTemplatesMax));
  TRY_VOID(replace_file(fmt::format("{}/{}{}", directory_, info.name, kSuffix),
                        dump_json(to_json(info))));
  templates_.insert_or_assign(info.name, std::move(info));
  return {};
}

Result<std::vector<std::string>> TemplateStore::remove(std::string_view name) {
  const auto found = templates_.find(name);
  if (found == templates_.end())
    return make_error(ErrorCode::kNotFound, "remove template",
                      fmt::format("there is no template \"{}\"", name));
  if (name == "host")
    return make_error(ErrorCode::kConflict, "remove template", "\"host\" is always there");
  std::vector<std::string> layers = std::move(found->second.layers);
  templates_.erase(found);
  const std::string path = fmt::format("{}/{}{}", directory_, name, kSuffix);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return os_error("remove template", path);
  std::erase_if(layers, [&](const std::string& layer) {
    return std::ranges::any_of(templates_, [&](const auto& other) {
      return std::ranges::find(other.second.layers, layer) != other.second.layers.end();
    });
  });
  return layers;
}

const TemplateInfo* TemplateStore::find(std::string_view name) const {
  const auto found = templates_.find(name);
  return found == templates_.end() ? nullptr : &found->second;
}

Result<TemplateInfo> TemplateStore::resolve(std::string_view name) const {
  const auto parts = template_parts(name);
  if (parts.size() > kPartsMax)
    return make_error(ErrorCode::kLimit, "find template",
                      fmt::format("at most {} templates can lie on each other", kPartsMax));
  std::optional<TemplateInfo> stack;
  for (const std::string_view part : parts) {
    const TemplateInfo* info = find(part);
    if (info == nullptr)
      return make_error(ErrorCode::kNotFound, "find template",
                        fmt::format("there is no template \"{}\"", part));
    if (stack)
      put_on_top(*stack, *info);
    else
      stack = *info;
  }
  if (stack->layers.size() > kLayersMax)
    return make_error(ErrorCode::kLimit, "find template",
                      fmt::format("\"{}\" has {} layers together, and a sandbox stands on {}", name,
                                  stack->layers.size(), kLayersMax));
  stack->name = name;
  return std::move(*stack);
}

std::vector<TemplateInfo> TemplateStore::list() const {
  std::vector<TemplateInfo> all;
  for (const auto& [name, info] : templates_) all.push_back(info);
  return all;
}

}  // namespace pons::sandbox
