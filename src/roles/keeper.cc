#include "pons/roles/keeper.h"

#include <poll.h>

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/roles/channel.h"

namespace pons::roles {

namespace {

// One message each way, words separated by a space:
//   ready | put NAME… +fd… | drop NAME… | list     from the role
//   ok | error TEXT | item NAME +fd | end          from the supervisor
constexpr std::size_t kMessageBytesMax = 16 + kKeptAtOnceMax * (kKeptNameBytesMax + 1);

std::pair<std::string_view, std::string_view> split_word(std::string_view text) {
  const auto space = text.find(' ');
  if (space == std::string_view::npos) return {text, {}};
  return {text.substr(0, space), text.substr(space + 1)};
}

// Also keeps every answer that repeats a name within kMessageBytesMax.
Result<void> check_name(std::string_view name) {
  const auto visible = [](char c) { return c > ' ' && c <= '~'; };
  if (!name.empty() && name.size() <= kKeptNameBytesMax && std::ranges::all_of(name, visible))
    return {};
  return make_error(ErrorCode::kInvalid, "name descriptor",
                    "the name must be 1 to 128 visible characters");
}

}  // namespace

Result<void> DescriptorStore::put(std::string_view name, linux::UniqueFd descriptor) {
  TRY_VOID(check_name(name));
  const auto place = items_.find(name);
  if (place != items_.end()) {
    linux::close_without_waiting(std::exchange(place->second, std::move(descriptor)));
    return {};
  }
  if (items_.size() >= kKeptDescriptorsMax)
    return make_error(ErrorCode::kLimit, "keep descriptor",
                      fmt::format("{} are kept already", items_.size()));
  items_.emplace(name, std::move(descriptor));
  return {};
}

Result<void> DescriptorStore::drop(std::string_view name) {
  TRY_VOID(check_name(name));
  const auto place = items_.find(name);
  if (place == items_.end())
    return make_error(ErrorCode::kNotFound, "drop descriptor", std::string(name));
  linux::close_without_waiting(std::move(place->second));
  items_.erase(place);
  return {};
}

// ---- the supervisor's side

namespace {

Result<void> put_all(DescriptorStore& store, std::string_view names,
                     std::vector<linux::UniqueFd>& descriptors) {
  const auto each = split(names, ' ');
  if (each.size() != descriptors.size())
    return make_error(ErrorCode::kInvalid, "keep descriptor",
                      fmt::format("{} names of visible characters for {} descriptors", each.size(),
                                  descriptors.size()));
  for (const std::string_view name : each) TRY_VOID(check_name(name));
  for (std::size_t i = 0; i < each.size(); ++i)
    TRY_VOID(store.put(each[i], std::move(descriptors[i])));
  return {};
}

// All of them, also behind one that was not there.
Result<void> drop_all(DescriptorStore& store, std::string_view names) {
  Result<void> done;
  for (const std::string_view name : split(names, ' '))
    if (auto dropped = store.drop(name); !dropped && done) done = std::move(dropped);
  return done;
}

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
  FairTurns turns(loop);
  for (bool alive = true; alive;) {
    auto received = receive_from_role(line, kMessageBytesMax, kKeptAtOnceMax);
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
      const auto [verb, names] = split_word(message.bytes);
      if (verb == "ready") {
        on_ready();
      } else if (verb == "put") {
        done = put_all(store, names, message.descriptors);
      } else if (verb == "drop") {
        done = drop_all(store, names);
      } else if (verb == "list") {
        alive = co_await tell_items(*watch, line, store);
        co_await turns.after_message();
        continue;
      } else {
        done = make_error(ErrorCode::kInvalid, "serve role", "unknown request");
      }
    }
    if (!done) LOG_WARN("refused a role's request", {"error", done.error()});
    alive = co_await tell(*watch, line, done ? "ok" : "error " + done.error().describe());
    co_await turns.after_message();
  }
}

// ---- the role's side

namespace {

Result<linux::Message> wait_for_answer(int line, std::chrono::milliseconds time) {
  for (;;) {
    auto message = TRY(linux::receive_message(line, kMessageBytesMax, 1));
    if (message) return std::move(*message);
    pollfd ready{.fd = line, .events = POLLIN, .revents = 0};
    const int count = poll(&ready, 1, static_cast<int>(time.count()));
    if (count < 0 && errno != EINTR) return os_error("wait for supervisor");
    if (count == 0)
      return make_error(ErrorCode::kTimeout, "wait for supervisor", "it does not answer");
  }
}

}  // namespace

Result<void> Keeper::ask(std::string_view text, std::span<const int> descriptors) {
  if (!in_step_)
    return make_error(ErrorCode::kUnavailable, "ask supervisor",
                      "an earlier answer did not come; only a new process can ask again");
  TRY_VOID(take_owed_answers(0));
  return linux::send_message(line_, text, descriptors);
}

Result<linux::Message> Keeper::next_answer() {
  auto answer = wait_for_answer(line_, answer_time_);
  in_step_ = answer.has_value();
  return answer;
}

Result<void> Keeper::request(std::string_view text, std::span<const int> descriptors) {
  TRY_VOID(ask(text, descriptors));
  const linux::Message reply = TRY(next_answer());
  if (reply.bytes == "ok") return {};
  return make_error(ErrorCode::kConflict, "ask supervisor",
                    std::string(split_word(reply.bytes).second));
}

Result<void> Keeper::take_owed_answers(std::size_t owed_max) {
  for (; owed_ > owed_max; --owed_) {
    const linux::Message answer = TRY(next_answer());
    if (answer.bytes != "ok")
      LOG_WARN("the supervisor refused", {"answer", split_word(answer.bytes).second});
  }
  return {};
}

Result<void> Keeper::tell(std::string_view text, std::span<const int> descriptors) {
  // Neither side may ever have so much in flight that both wait for the other to read.
  constexpr std::size_t kOwedMax = 64;
  if (!in_step_) return ask(text, descriptors);
  TRY_VOID(take_owed_answers(kOwedMax));
  TRY_VOID(linux::send_message(line_, text, descriptors));
  ++owed_;
  return {};
}

Result<void> Keeper::put_soon(std::span<const Put> all) {
  std::string text = "put";
  std::vector<int> descriptors;
  for (const Put& one : all) {
    text.append(" ").append(one.name);
    descriptors.push_back(one.descriptor);
  }
  return tell(text, descriptors);
}

Result<void> Keeper::drop_soon(std::span<const std::string> names) {
  return tell(fmt::format("drop {}", fmt::join(names, " ")), {});
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
  TRY_VOID(ask("list", {}));
  std::vector<Kept> kept;
  for (;;) {
    linux::Message message = TRY(next_answer());
    const auto [verb, name] = split_word(message.bytes);
    if (verb == "end") return kept;
    if (verb != "item" || message.descriptors.size() != 1)
      return make_error(ErrorCode::kInternal, "take descriptors back", "unexpected answer");
    kept.push_back({std::string(name), std::move(message.descriptors.front())});
  }
}

}  // namespace pons::roles
