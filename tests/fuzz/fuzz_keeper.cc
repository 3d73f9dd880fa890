// The bytes are a list of messages of a role to its keeper: a byte with the number of descriptors
// and the unit of length, a byte with the length, the text. Holds: every message gets one answer of
// bounded size and none ends the service, the store is what a simple model says, and no descriptor
// stays open.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/check.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/linux/unix_socket.h"
#include "pons/roles/keeper.h"

namespace {

using namespace pons;

constexpr std::size_t kTextBytesMax = 16 + roles::kKeptAtOnceMax * (roles::kKeptNameBytesMax + 1);
constexpr std::size_t kMessagesMax = 64;

struct Incoming {
  std::string text;
  std::size_t descriptors;
};

std::vector<Incoming> split_messages(std::string_view input) {
  std::vector<Incoming> messages;
  while (input.size() >= 2 && messages.size() < kMessagesMax) {
    const auto control = static_cast<std::uint8_t>(input[0]);
    const std::size_t unit = (control & 0x80) != 0 ? 4 : 1;
    const std::size_t size = unit * static_cast<std::uint8_t>(input[1]);
    messages.push_back({std::string(input.substr(2, size)), control & 15U});
    input.remove_prefix(std::min(input.size(), 2 + size));
  }
  return messages;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= roles::kKeptNameBytesMax &&
         std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7F; });
}

// The model: what the store must do. True when the answer must be "ok".
bool expect(const Incoming& message, std::set<std::string>& names) {
  const std::string_view text = message.text;
  const std::string verb(text.substr(0, text.find(' ')));
  const std::string_view rest = verb.size() == text.size() ? "" : text.substr(verb.size() + 1);
  if (text.size() > kTextBytesMax || message.descriptors > roles::kKeptAtOnceMax) return false;
  if (verb == "ready") return true;
  const auto each = split(rest, ' ');
  if (verb == "drop") {
    bool all = true;
    for (const std::string_view name : each) all = names.erase(std::string(name)) == 1 && all;
    return all;
  }
  if (verb != "put" || message.descriptors != each.size() || !std::ranges::all_of(each, is_name))
    return false;
  names.insert(each.begin(), each.end());
  return true;
}

bool is_list(const Incoming& message) {
  return message.descriptors <= roles::kKeptAtOnceMax && message.text.size() <= kTextBytesMax &&
         message.text.substr(0, message.text.find(' ')) == "list";
}

std::vector<linux::Message> read_answers(int socket) {
  std::vector<linux::Message> answers;
  for (;;) {
    auto answer = linux::receive_message(socket, kTextBytesMax, 1);
    CHECK(answer.has_value());
    if (!*answer) return answers;
    answers.push_back(std::move(**answer));
  }
}

void send_raw(int socket, const Incoming& message, int descriptor) {
  if (message.text.empty()) {
    CHECK(send(socket, "", 0, MSG_NOSIGNAL | MSG_DONTWAIT) == 0);
    return;
  }
  const std::vector<int> descriptors(message.descriptors, descriptor);
  CHECK(linux::send_message(socket, message.text, descriptors).has_value());
}

int lowest_free_descriptor() {
  const linux::UniqueFd probe(fcntl(0, F_DUPFD_CLOEXEC, 0));
  return probe.get();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  configure_log({.level = LogLevel::kError});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto loop = std::move(*linux::Loop::create());
  const int free_before = lowest_free_descriptor();
  {
    const auto ends = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
    roles::DescriptorStore store;
    std::set<std::string> names;
    for (const Incoming& message : split_messages({reinterpret_cast<const char*>(data), size})) {
      send_raw(ends.second.get(), message, 0);
      {
        linux::TaskGroup service(*loop);
        service.spawn(roles::serve_keeper(*loop, ends.first.get(), store, [] {}));
        CHECK(service.size() == 1);
      }
      const auto answers = read_answers(ends.second.get());
      if (is_list(message)) {
        CHECK(answers.size() == names.size() + 1 && answers.back().bytes == "end");
        for (std::size_t i = 0; i + 1 < answers.size(); ++i)
          CHECK(names.contains(answers[i].bytes.substr(5)) && answers[i].descriptors.size() == 1);
      } else {
        CHECK(answers.size() == 1 && answers[0].descriptors.empty());
        CHECK((answers[0].bytes == "ok") == expect(message, names));
        CHECK(answers[0].bytes == "ok" || answers[0].bytes.starts_with("error "));
      }
      CHECK(store.items().size() == names.size());
    }
  }
  CHECK(lowest_free_descriptor() == free_before);
  return 0;
}
