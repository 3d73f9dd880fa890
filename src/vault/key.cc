#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include <fmt/format.h>
#include <sodium.h>

#include "layout.h"
#include "pons/linux/fd.h"
#include "pons/vault/sealed.h"
#include "pons/vault/vault.h"

namespace pons::vault {

namespace {

constexpr std::size_t kPassphraseBytesMin = 12;
constexpr std::size_t kPassphraseBytesMax = 1024;

Error refused(std::string message) {
  return make_error(ErrorCode::kDenied, "load vault key", std::move(message));
}

// Exactly `size` bytes that nobody else can read; kNotFound when there is no such file.
Result<std::string> read_private_file(const std::string& path, std::size_t size) {
  const auto fd = TRY(linux::open_file(path, O_RDONLY | O_NOFOLLOW));
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return os_error("examine file", path);
  if (!S_ISREG(status.st_mode) || (status.st_mode & 077) != 0)
    return refused(
        fmt::format("{} can be read by others; chmod 600 it, and consider its "
                    "credentials known",
                    path));
  auto bytes = TRY(linux::read_all(fd.get(), size + 1));
  if (bytes.size() != size)
    return refused(fmt::format("{} must have {} bytes; restore it", path, size));
  return bytes;
}

// The file's bytes; random ones when there is none and nothing was sealed with it.
Result<std::string> load_or_create(const std::string& state_directory, std::string_view name,
                                   std::size_t size) {
  if (!start_sodium())
    return make_error(ErrorCode::kUnsupported, "load vault key", "there are no random numbers");
  const std::string path = fmt::format("{}/{}", state_directory, name);
  auto known = read_private_file(path, size);
  if (known || known.error().code != ErrorCode::kNotFound) return known;
  if (TRY(has_sealed_files(state_directory)))
    return refused(
        fmt::format("{} is missing, but credentials are sealed with it; restore it, or "
                    "remove {}/{} to begin anew",
                    path, state_directory, kSealedDirectory));
  std::string fresh(size, '\0');
  randombytes_buf(fresh.data(), fresh.size());
  TRY_VOID(write_durably(state_directory, name, fresh));
  return fresh;
}

}  // namespace

bool start_sodium() {
  return sodium_init() >= 0;
}

Secret subkey(const Secret& key, std::string_view purpose) {
  std::string bytes(kKeyBytes, '\0');
  crypto_generichash(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size(),
                     reinterpret_cast<const unsigned char*>(key.reveal().data()), key.size());
  return Secret(std::move(bytes));
}

Result<bool> has_sealed_files(const std::string& state_directory) {
  std::error_code error;
  const std::filesystem::directory_iterator all(
      fmt::format("{}/{}", state_directory, kSealedDirectory), error);
  if (error == std::errc::no_such_file_or_directory) return false;
  if (error) return os_error("list vault", state_directory, error.value());
  for (const auto& entry : all) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kSealedEnding) || name == kKeyProofFile) return true;
  }
  return false;
}

Result<void> write_durably(const std::string& directory, std::string_view name,
                           std::string_view data) {
  TRY_VOID(linux::write_file_atomically(fmt::format("{}/{}", directory, name), data, 0600));
  return linux::sync_directory(directory);
}

Result<Secret> load_or_create_key(const std::string& state_directory) {
  return Secret(TRY(load_or_create(state_directory, kKeyFile, kKeyBytes)));
}

Result<Secret> derive_key(const std::string& state_directory, const Secret& passphrase) {
  if (passphrase.size() < kPassphraseBytesMin || passphrase.size() > kPassphraseBytesMax)
    return make_error(ErrorCode::kInvalid, "derive vault key",
                      "a passphrase has 12 to 1024 characters");
  const std::string salt =
      TRY(load_or_create(state_directory, kSaltFile, crypto_pwhash_argon2id_SALTBYTES));
  std::string key(kKeyBytes, '\0');
  if (crypto_pwhash_argon2id(
          reinterpret_cast<unsigned char*>(key.data()), key.size(), passphrase.reveal().data(),
          passphrase.size(), reinterpret_cast<const unsigned char*>(salt.data()),
          crypto_pwhash_argon2id_OPSLIMIT_MODERATE, crypto_pwhash_argon2id_MEMLIMIT_INTERACTIVE,
          crypto_pwhash_argon2id_ALG_ARGON2ID13) != 0)
    return make_error(ErrorCode::kUnavailable, "derive vault key", "not enough memory (64 MiB)");
  return Secret(std::move(key));
}

}  // namespace pons::vault
