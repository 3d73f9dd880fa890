#include "pons/base/secret.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include <openssl/crypto.h>

#include "pons/base/check.h"

namespace pons {

namespace {

// Whole pages, so that locking and excluding from dumps touches nobody else's memory.
std::size_t mapped_size(std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

}  // namespace

void wipe(void* data, std::size_t size) noexcept {
  explicit_bzero(data, size);
}

Secret::Secret(std::string&& clear_text) : size_(clear_text.size()) {
  if (size_ > 0) {
    void* pages = mmap(nullptr, mapped_size(size_), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    // Best effort: RLIMIT_MEMLOCK may be small. Roles are undumpable and without core files in any
    // case.
    (void)mlock(pages, mapped_size(size_));
    (void)madvise(pages, mapped_size(size_), MADV_DONTDUMP);
    data_ = static_cast<char*>(pages);
    std::memcpy(data_, clear_text.data(), size_);
  }
  wipe(clear_text.data(), clear_text.capacity());
  clear_text.clear();
}

Secret::Secret(Secret&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Secret& Secret::operator=(Secret&& other) noexcept {
  Secret incoming(std::move(other));
  std::swap(data_, incoming.data_);
  std::swap(size_, incoming.size_);
  return *this;
}

Secret::~Secret() {
  if (data_ == nullptr) return;
  wipe(data_, size_);
  munmap(data_, mapped_size(size_));
}

bool equal_constant_time(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace pons
