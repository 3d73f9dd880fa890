#pragma once

#include <cerrno>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace pons {

// What a caller can branch on. Anything finer belongs into the message.
enum class ErrorCode {
  kInvalid,      // the input is wrong; the same call will fail again
  kNotFound,     // what was named does not exist
  kDenied,       // the kernel or a policy refused
  kConflict,     // something else already holds or changed it
  kLimit,        // a stated limit was reached
  kTimeout,      // a deadline passed
  kUnavailable,  // the other side is down or went away; trying again may help
  kUnsupported,  // this host or build cannot do it
  kIo,           // the operating system reported a fault
  kInternal,     // a bug in Pons
};

std::string_view to_string(ErrorCode code);

// An expected failure: which step failed, what the kernel said, and a sentence a person can act on.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  const char* step = "";  // static text: a verb phrase such as "open state directory"
  int os_error = 0;       // errno, or 0
  std::string message;    // says what to do about it; may be empty when step and errno say all

  // One line for logs and terminals: "step: message (strerror)".
  std::string describe() const;
};

// The error of a system call that just failed; maps errno to a code.
Error os_error(const char* step, std::string message = {}, int error = errno);

inline Error make_error(ErrorCode code, const char* step, std::string message) {
  return Error{.code = code, .step = step, .os_error = 0, .message = std::move(message)};
}

template <class T = void>
struct [[nodiscard]] Result : std::expected<T, Error> {
  using std::expected<T, Error>::expected;
  Result(Error error) : std::expected<T, Error>(std::unexpect, std::move(error)) {}
};

}  // namespace pons

// Plain functions: `auto fd = TRY(open_directory(path));` returns the error to the caller.
#define TRY(expression)                                      \
  __extension__({                                            \
    auto try_result_ = (expression);                         \
    if (!try_result_) return std::move(try_result_).error(); \
    std::move(*try_result_);                                 \
  })

// For Result<void>, and wherever the value is not wanted.
#define TRY_VOID(expression)                                                                  \
  do {                                                                                        \
    if (auto try_result_ = (expression); !try_result_) return std::move(try_result_).error(); \
  } while (false)

// Coroutines: `CO_TRY(auto reply, co_await client.send(request));`
#define CO_TRY(declaration, expression) \
  CO_TRY_IMPL_(PONS_CONCAT_(co_try_result_, __LINE__), declaration, expression)
#define CO_TRY_IMPL_(name, declaration, expression) \
  auto name = (expression);                         \
  if (!name) co_return std::move(name).error();     \
  declaration = std::move(*name)
#define CO_TRY_VOID(expression)                                                                  \
  do {                                                                                           \
    if (auto try_result_ = (expression); !try_result_) co_return std::move(try_result_).error(); \
  } while (false)

#define PONS_CONCAT_(a, b) PONS_CONCAT_IMPL_(a, b)
#define PONS_CONCAT_IMPL_(a, b) a##b
