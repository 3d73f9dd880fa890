#include "pons/vault/sealed_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "layout.h"
#include "pons/linux/fd.h"
#include "pons/vault/sealed.h"

namespace pons::vault {

namespace {

constexpr std::string_view kKeyProof = "this vault opens with this key";
constexpr std::string_view kTemporaryEnding = ".tmp";

}  // namespace

Result<SealedDirectory> SealedDirectory::open(const std::string& state_directory,
                                              std::string_view name, const Secret& key,
                                              std::string_view purpose) {
  std::string path = fmt::format("{}/{}", state_directory, name);
  if (!start_sodium())
    return make_error(ErrorCode::kUnsupported, "open sealed directory",
                      "there are no random numbers");
  if (key.size() != kKeyBytes)
    return make_error(ErrorCode::kInvalid, "open sealed directory", "its key has 32 bytes");
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return os_error("create sealed directory", path);
  return SealedDirectory(std::move(path), subkey(key, purpose));
}

Result<std::vector<std::string>> SealedDirectory::names() const {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(path_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (file.ends_with(kTemporaryEnding)) unlink(entry->path().c_str());
    if (file.ends_with(kSealedEnding))
      names.push_back(file.substr(0, file.size() - kSealedEnding.size()));
  }
  if (error) return os_error("list sealed files", path_, error.value());
  std::ranges::sort(names);
  return names;
}

Result<Secret> SealedDirectory::read(std::string_view name) const {
  return open_bytes(key_, name, TRY(linux::read_file(file_of(name), kSealedBytesMax)));
}

Result<void> SealedDirectory::write(std::string_view name, std::string_view plain) {
  const std::string sealed = seal_bytes(key_, name, plain);
  if (sealed.size() > kSealedBytesMax)
    return make_error(ErrorCode::kLimit, "seal file",
                      fmt::format("{} with all that describes it has more than {} KiB", name,
                                  kSealedBytesMax / 1024));
  return write_durably(path_, fmt::format("{}{}", name, kSealedEnding), sealed);
}

Result<void> SealedDirectory::remove(std::string_view name) {
  const std::string file = file_of(name);
  if (unlink(file.c_str()) != 0 && errno != ENOENT) return os_error("remove sealed file", file);
  return linux::sync_directory(path_);
}

Result<SealedDirectory::KeyProof> SealedDirectory::examine_key_proof() const {
  const auto proof = linux::read_file(fmt::format("{}/{}", path_, kKeyProofFile), kSealedBytesMax);
  if (!proof && proof.error().code == ErrorCode::kNotFound) return KeyProof::kNone;
  if (!proof) return proof.error();
  return open_bytes(key_, kKeyProofFile, *proof) ? KeyProof::kOpens : KeyProof::kDoesNotOpen;
}

Result<void> SealedDirectory::write_key_proof() {
  return write_durably(path_, kKeyProofFile, seal_bytes(key_, kKeyProofFile, kKeyProof));
}

std::string SealedDirectory::file_of(std::string_view name) const {
  return fmt::format("{}/{}{}", path_, name, kSealedEnding);
}

}  // namespace pons::vault
