#include "substitution.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/linux/fd.h"
#include "quote.h"

namespace pons::config {

namespace {

bool is_variable_name(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  return !name.empty() && !is_digit(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || is_digit(c); });
}

std::string resolve_path(std::string_view path, const std::string& config_file) {
  const auto slash = config_file.rfind('/');
  if (path.starts_with('/') || slash == std::string::npos) return std::string(path);
  return config_file.substr(0, slash + 1).append(path);
}

void cut_one_newline(std::string& text) {
  if (text.ends_with("\r\n"))
    text.resize(text.size() - 2);
  else if (text.ends_with('\n'))
    text.pop_back();
}

using Value = std::expected<std::string, std::string>;

Value environment_value(std::string_view name, const Substitution& substitution) {
  if (!is_variable_name(name))
    return std::unexpected(fmt::format(
        "{} is not a variable name; write letters, digits and underscores", quote(name)));
  auto value = substitution.environment(std::string(name));
  if (!value)
    return std::unexpected(
        fmt::format("the environment variable {} is not set; set it or write the value here",
                    std::string_view(name).substr(0, 128)));
  return *std::move(value);
}

Value file_value(std::string_view path, const std::string& config_file,
                 const Substitution& substitution) {
  if (path.empty() || path.contains('\0'))
    return std::unexpected("${file:} needs a path; write ${file:/path/to/file}");
  auto value = substitution.file(resolve_path(path, config_file));
  if (!value)
    return std::unexpected(fmt::format("cannot use the file {} ({}); correct the path or the file",
                                       quote(path), reading_problem(value.error())));
  cut_one_newline(*value);
  return *std::move(value);
}

// The value of what stands between `${` and `}`.
Value reference_value(std::string_view reference, const std::string& config_file,
                      const Substitution& substitution) {
  if (reference.starts_with("env:")) return environment_value(reference.substr(4), substitution);
  if (reference.starts_with("file:"))
    return file_value(reference.substr(5), config_file, substitution);
  return std::unexpected(
      fmt::format("{} is not a substitution; write ${{env:NAME}}, ${{file:PATH}}, or $${{ for the "
                  "two characters ${{",
                  quote(fmt::format("${{{}}}", reference))));
}

}  // namespace

std::expected<ExpandedText, std::string> expand(std::string_view text,
                                                const std::string& config_file,
                                                const Substitution& substitution) {
  ExpandedText out;
  for (;;) {
    const auto dollar = text.find("${");
    if (dollar == std::string_view::npos) break;
    if (dollar > 0 && text[dollar - 1] == '$') {
      out.text.append(text.substr(0, dollar - 1)).append("${");
      text.remove_prefix(dollar + 2);
      continue;
    }
    const auto end = text.find('}', dollar);
    if (end == std::string_view::npos)
      return std::unexpected("a substitution that begins with ${ is not closed; add }");
    const std::string_view reference = text.substr(dollar + 2, end - dollar - 2);
    if (reference.contains("${"))
      return std::unexpected("a substitution inside a substitution is not allowed; write it out");
    const auto value = reference_value(reference, config_file, substitution);
    if (!value) return std::unexpected(value.error());
    out.text.append(text.substr(0, dollar)).append(*value);
    out.origin = Origin::kSubstituted;
    text.remove_prefix(end + 1);
    if (out.text.size() > kSubstitutedBytesMax)
      return std::unexpected(fmt::format("the substituted text is longer than {} bytes; shorten it",
                                         kSubstitutedBytesMax));
  }
  out.text.append(text);
  if (out.origin == Origin::kSubstituted && (!is_valid_utf8(out.text) || out.text.contains('\0')))
    return std::unexpected("the substituted text is not UTF-8; correct the variable or file");
  return out;
}

std::optional<std::string> read_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

Result<std::string> read_regular_file(const std::string& path, std::size_t bytes_max) {
  // Without O_NONBLOCK, opening a pipe waits for its other end.
  const linux::UniqueFd fd = TRY(linux::open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return os_error("inspect file", path);
  if (!S_ISREG(status.st_mode))
    return make_error(ErrorCode::kInvalid, "open", "it is not a regular file");
  return linux::read_all(fd.get(), bytes_max);
}

std::string reading_problem(const Error& error) {
  return error.os_error != 0 ? std::strerror(error.os_error) : error.message;
}

Result<std::string> read_substituted_file(const std::string& path) {
  return read_regular_file(path, kSubstitutedBytesMax);
}

}  // namespace pons::config
