#include "environment.h"

#include <string.h>

namespace pons::cell {
namespace {

constexpr const char* kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

Text name_of(const char* string) {
  Text whole = text_of(string);
  return cut_until(&whole, '=');
}

}  // namespace

void Environment::build(const StringList& claim, const StringList& job, const User& user,
                        bool terminal) {
  count_ = 0;
  const StringList* const lists[] = {&claim, &job};
  for (const StringList* list : lists) {
    const char* at = list->first;
    for (uint32_t i = 0; i < list->count; ++i, at += strlen(at) + 1) put(at);
  }
  TextWriter memory(defaults_, sizeof defaults_);
  put_default("HOME", user.home, &memory);
  put_default("USER", user.name, &memory);
  put_default("LOGNAME", user.name, &memory);
  put_default("PATH", kDefaultPath, &memory);
  if (terminal) put_default("TERM", "xterm-256color", &memory);
  strings_[count_] = nullptr;
}

const char* Environment::find(const char* name) const {
  const int index = find_index(text_of(name));
  return index < 0 ? nullptr : strings_[index] + strlen(name) + 1;
}

void Environment::put(const char* string) {
  int index = find_index(name_of(string));
  if (index < 0) index = static_cast<int>(count_++);
  strings_[index] = const_cast<char*>(string);  // execve takes such pointers and does not write
}

void Environment::put_default(const char* name, const char* value, TextWriter* memory) {
  if (find_index(text_of(name)) >= 0) return;
  char* begin = defaults_ + memory->size();
  memory->add(name).add_byte('=').add(value);
  if (memory->finish() != nullptr) strings_[count_++] = begin;
}

int Environment::find_index(Text name) const {
  for (uint32_t i = 0; i < count_; ++i) {
    if (strncmp(strings_[i], name.data, name.size) == 0 && strings_[i][name.size] == '=') {
      return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace pons::cell
