#include "pons/roles/keeper.h"

#include <poll.h>

#include <functional>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/linux/unix_socket.h"

namespace pons::roles {

namespace {

// One message each way, words separated by a space:
//   ready | put NAME +fd | drop NAME | list        from the role
//   ok | error TEXT | item NAME +fd | end          from the supervisor
constexpr std::size_t kMessageBytesMax = 512;
constexpr int kAnswerWaitMs = 5000;

std::pair<std::string_view, std::string_view> split_word(std::string_view text) {
  const auto space = text.find(' ');
  if (space == std::string_view::npos) return {text, {}};
  return {text.substr(0, space), text.substr(space + 1)};
}

bool is_kept_name(std::string_view name) {
  if (name.empty() || name.size() > kKeptNameBytesMax) return false;
  for (const char c : name)
    if (c <= ' ' || c > '~') return false;
  return true;
}

}  // namespace

Result<void> DescriptorStore::put(std::string_view name, linux::UniqueFd descriptor) {
  if (!is_kept_name(name))
    return make_error(ErrorCode::kInvalid, "keep descriptor",
                      "the name must be 1 to 128 visible characters");
  const auto place = items_.find(name);
  if (place != items_.end()) {
    place->second = std::move(descriptor);
    return {};
  }
  if (items_.size() >= kKeptDescriptorsMax)
    return make_error(ErrorCode::kLimit, "keep descriptor",
                      fmt::format("{} are kept already", items_.size()));
  items_.emplace(name, std::move(descriptor));
  return {};
}

Result<void> DescriptorStore::drop(std::string_view name) {
  const auto place = items_.find(name);
  if (place == items_.end())
    return make_error(ErrorCode::kNotFound, "drop descriptor", std::string(name));
  items_.erase(place);
  return {};
}

// ---- the supervisor's side

namespace {

// Waits while the role is slow to read; false when it is gone.
Task<bool> tell(linux::Watch& watch, int line, std::string text, int descriptor = -1) {
  const std::span<const int> descriptors(&descriptor, descriptor < 0 ? 0 : 1);
  for (;;) {
    const auto sent = linux::send_message(line, text, descriptors);
    if (sent) co_return true;
    if (sent.error().os_error != EAGAIN) co_return false;
    co_await watch.writable(kNever);
  }
}

Task<bool> tell_items(linux::Watch& watch, int line, const DescriptorStore& store) {
  for (const auto& [name, descriptor] : store.items())
    if (!co_await tell(watch, line, "item " + name, descriptor.get())) co_return false;
  co_return co_await tell(watch, line, "end");
}

}  // namespace

Task<> serve_keeper(linux::Loop& loop, int line, DescriptorStore& store,
                    std::function<void()> on_ready) {
  auto watch = linux::Watch::create(loop, line);
  CHECK(watch.has_value());
  for (bool alive = true; alive;) {
    auto received = linux::receive_message(line, kMessageBytesMax, 1);
    if (!received && received.error().code == ErrorCode::kUnavailable)
      co_return;  // the role is gone
    if (received && !*received) {
      co_await watch->readable(kNever);
      continue;
    }
    Result<void> done;
    if (!received) {
      done = received.error();
    } else {
      linux::Message& message = **received;
      const auto [verb, name] = split_word(message.bytes);
      if (verb == "ready") {
        on_ready();
      } else if (verb == "put" && message.descriptors.size() == 1) {
        done = store.put(name, std::move(message.descriptors.front()));
      } else if (verb == "drop") {
        done = store.drop(name);
      } else if (verb == "list") {
        alive = co_await tell_items(*watch, line, store);
        continue;
      } else {
        done = make_error(ErrorCode::kInvalid, "serve role", "unknown request");
      }
    }
    if (!done) LOG_WARN("refused a role's request", {"error", done.error()});
    alive = co_await tell(*watch, line, done ? "ok" : "error " + done.error().describe());
  }
}

// ---- the role's side

namespace {

Result<linux::Message> wait_for_answer(int line) {
  for (;;) {
    auto message = TRY(linux::receive_message(line, kMessageBytesMax, 1));
    if (message) return std::move(*message);
    pollfd ready{.fd = line, .events = POLLIN, .revents = 0};
    const int count = poll(&ready, 1, kAnswerWaitMs);
    if (count < 0 && errno != EINTR) return os_error("wait for supervisor");
    if (count == 0)
      return make_error(ErrorCode::kTimeout, "wait for supervisor", "it does not answer");
  }
}

}  // namespace

Result<void> Keeper::request(std::string_view text, std::span<const int> descriptors) {
  TRY_VOID(linux::send_message(line_, text, descriptors));
  const linux::Message reply = TRY(wait_for_answer(line_));
  if (reply.bytes == "ok") return {};
  return make_error(ErrorCode::kConflict, "ask supervisor",
                    std::string(split_word(reply.bytes).second));
}

Result<void> Keeper::say_ready() {
  return request("ready", {});
}

Result<void> Keeper::put(std::string_view name, int descriptor) {
  return request(fmt::format("put {}", name), {&descriptor, 1});
}

Result<void> Keeper::drop(std::string_view name) {
  return request(fmt::format("drop {}", name), {});
}

Result<std::vector<Keeper::Kept>> Keeper::take_back() {
  TRY_VOID(linux::send_message(line_, "list", {}));
  std::vector<Kept> kept;
  for (;;) {
    linux::Message message = TRY(wait_for_answer(line_));
    const auto [verb, name] = split_word(message.bytes);
    if (verb == "end") return kept;
    if (verb != "item" || message.descriptors.size() != 1)
      return make_error(ErrorCode::kInternal, "take descriptors back", "unexpected answer");
    kept.push_back({std::string(name), std::move(message.descriptors.front())});
  }
}

}  // namespace pons::roles
