#include "database.h"

#include <sys/mman.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <hs.h>

#include "pons/base/check.h"
#include "pons/base/secret.h"

namespace pons::scan {

namespace {

constexpr std::size_t kMappedFrom = 65536;

// Stands before each block, because Vectorscan does not say the size when it frees one.
struct alignas(64) BlockSize {
  std::size_t bytes = 0;
};

void* allocate_block(std::size_t bytes) {
  const std::size_t total = bytes + sizeof(BlockSize);
  void* block = nullptr;
  if (total >= kMappedFrom) {
    block = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return nullptr;
    (void)madvise(block, total, MADV_DONTDUMP);
  } else {
    if (posix_memalign(&block, alignof(BlockSize), total) != 0) return nullptr;
  }
  static_cast<BlockSize*>(block)->bytes = total;
  return static_cast<BlockSize*>(block) + 1;
}

void free_block(void* data) {
  if (data == nullptr) return;
  BlockSize* block = static_cast<BlockSize*>(data) - 1;
  const std::size_t total = block->bytes;
  wipe(block, total);
  if (total >= kMappedFrom) {
    munmap(block, total);
  } else {
    std::free(block);
  }
}

// Vectorscan's working memory; one search at a time uses it, so a thread needs one.
struct Scratch {
  hs_scratch* memory = nullptr;

  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { hs_free_scratch(memory); }
};
thread_local Scratch scratch;

Result<> ensure_platform() {
  static std::once_flag once;
  std::call_once(once, [] { CHECK(hs_set_allocator(allocate_block, free_block) == HS_SUCCESS); });
  if (hs_valid_platform() == HS_SUCCESS) return {};
  return make_error(ErrorCode::kUnsupported, "prepare secret search",
                    "this processor lacks SSE4.2, which the search needs");
}

}  // namespace

Result<Database> Database::compile(std::span<const Anchor> anchors) {
  TRY_VOID(ensure_platform());
  std::vector<const char*> texts;
  std::vector<std::size_t> lengths;
  std::vector<unsigned> flags;
  std::vector<unsigned> ids;
  for (const Anchor& anchor : anchors) {
    ids.push_back(static_cast<unsigned>(ids.size()));
    texts.push_back(anchor.text.data());
    lengths.push_back(anchor.text.size());
    flags.push_back(anchor.caseless ? HS_FLAG_CASELESS : 0);
  }
  hs_database* compiled = nullptr;
  hs_compile_error_t* error = nullptr;
  if (hs_compile_lit_multi(texts.data(), flags.data(), ids.data(), lengths.data(),
                           static_cast<unsigned>(ids.size()), HS_MODE_BLOCK, nullptr, &compiled,
                           &error) != HS_SUCCESS) {
    // Its text may quote a needle and is not passed on.
    hs_free_compile_error(error);
    return make_error(ErrorCode::kInternal, "compile secret search", "Vectorscan refused the set");
  }
  return Database(compiled);
}

Database::Database(Database&& other) noexcept
    : compiled_(std::exchange(other.compiled_, nullptr)) {}

Database& Database::operator=(Database&& other) noexcept {
  Database incoming(std::move(other));
  std::swap(compiled_, incoming.compiled_);
  return *this;
}

Database::~Database() {
  if (compiled_ != nullptr) hs_free_database(compiled_);
}

std::size_t Database::memory_bytes() const {
  std::size_t bytes = 0;
  CHECK(hs_database_size(compiled_, &bytes) == HS_SUCCESS);
  return bytes;
}

void Database::search(std::string_view text, Callback callback, void* context) const {
  const auto scan = [&] {
    return hs_scan(compiled_, text.data(), static_cast<unsigned>(text.size()), 0, scratch.memory,
                   callback, context);
  };
  hs_error_t outcome = scan();
  if (outcome == HS_INVALID) {  // this thread's scratch is too small for this database
    CHECK(hs_alloc_scratch(compiled_, &scratch.memory) == HS_SUCCESS);
    outcome = scan();
  }
  // A search that does not happen must never look like one that found nothing.
  CHECK(outcome == HS_SUCCESS);
}

}  // namespace pons::scan
