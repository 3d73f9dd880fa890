#include "pons/egress/authority.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "certificate.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"

namespace pons::egress {

namespace {

constexpr auto kValidity = std::chrono::days(3652);  // ten years
constexpr auto kBackdated = std::chrono::hours(1);
constexpr std::size_t kFileBytesMax = 64 * 1024;

// One file holds certificate and key, so that no crash can leave a pair that does not fit.
constexpr const char* kCurrentFile = "authority.pem";
constexpr const char* kNextFile = "authority.next.pem";
constexpr const char* kPreviousFile = "authority.previous.pem";

constexpr std::string_view kPemBegin = "-----BEGIN ";

Result<std::string> read_private_file(const std::string& path) {
  const auto file = TRY(linux::open_file(path, O_RDONLY | O_NOFOLLOW));
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return os_error("inspect certificate authority", path);
  if (status.st_uid != geteuid() || (status.st_mode & 077) != 0 || !S_ISREG(status.st_mode))
    return make_error(ErrorCode::kDenied, "open certificate authority",
                      path + " must be a file of mode 0600 and belong to this user");
  return linux::read_all(file.get(), kFileBytesMax);
}

Secret key_to_pem(EVP_PKEY* key) {
  // Secure memory where OpenSSL has any; wiped when it is freed in either case.
  const UniqueStream stream(BIO_new(BIO_s_secmem()));
  PEM_write_bio_PKCS8PrivateKey(stream.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(stream.get(), &bytes);
  return Secret(std::string(bytes, static_cast<std::size_t>(size)));
}

bool is_current(const X509* certificate, const Clock& clock) {
  std::time_t now =
      std::chrono::duration_cast<std::chrono::seconds>(clock.wall().time_since_epoch()).count();
  return X509_cmp_time(X509_get0_notBefore(certificate), &now) < 0 &&
         X509_cmp_time(X509_get0_notAfter(certificate), &now) > 0;
}

}  // namespace

CertificateAuthority::CertificateAuthority(std::string directory, const Clock& clock, KeySeal seal)
    : directory_(std::move(directory)), clock_(&clock), seal_(std::move(seal)) {}

Result<CertificateAuthority> CertificateAuthority::open(const std::string& directory,
                                                        const Clock& clock, KeySeal seal) {
  CertificateAuthority authority(directory, clock, std::move(seal));
  auto current = authority.load_pair(authority.path(kCurrentFile));
  if (current) {
    authority.current_ = std::move(*current);
  } else {
    if (current.error().code != ErrorCode::kNotFound) return std::move(current).error();
    authority.current_ = TRY(authority.create_pair());
    TRY_VOID(authority.store_pair(authority.path(kCurrentFile), authority.current_));
  }
  auto next = authority.load_pair(authority.path(kNextFile));
  if (next)
    authority.next_ = std::move(*next);
  else if (next.error().code != ErrorCode::kNotFound)
    return std::move(next).error();
  auto previous = read_private_file(authority.path(kPreviousFile));
  if (previous) {
    TRY_VOID(read_pem_certificates(*previous));
    authority.previous_pem_ = std::move(*previous);
  } else if (previous.error().code != ErrorCode::kNotFound) {
    return std::move(previous).error();
  }
  return authority;
}

Result<void> CertificateAuthority::prepare_rotation() {
  if (next_) return {};
  Pair next = TRY(create_pair());
  TRY_VOID(store_pair(path(kNextFile), next));
  next_ = std::move(next);
  return {};
}

// The old certificate is written down before the step that cannot be undone, so that it is known as
// ours whatever happens in between.
Result<void> CertificateAuthority::rotate() {
  if (!next_)
    return make_error(ErrorCode::kConflict, "rotate certificate authority",
                      "no sandbox trusts a next one yet: prepare the rotation first");
  std::string previous = previous_pem_ + to_pem(certificate());
  if (previous.size() > kFileBytesMax)
    return make_error(ErrorCode::kLimit, "rotate certificate authority",
                      path(kPreviousFile) + " holds too many: remove those that expired");
  TRY_VOID(linux::write_file_atomically(path(kPreviousFile), previous, 0600));
  previous_pem_ = std::move(previous);
  if (rename(path(kNextFile).c_str(), path(kCurrentFile).c_str()) != 0)
    return os_error("rotate certificate authority", path(kNextFile));
  current_ = std::exchange(next_, {});
  return {};
}

WallTime CertificateAuthority::not_after() const {
  std::tm time{};
  ASN1_TIME_to_tm(X509_get0_notAfter(certificate()), &time);
  return WallTime(std::chrono::seconds(timegm(&time)));
}

std::vector<x509_st*> CertificateAuthority::trusted() const {
  std::vector<x509_st*> trusted{certificate()};
  if (next_) trusted.push_back(next_.certificate.get());
  return trusted;
}

std::string CertificateAuthority::own_pem() const {
  std::string pem;
  for (const X509* certificate : trusted()) pem += to_pem(certificate);
  return pem + previous_pem_;
}

Result<CertificateAuthority::Pair> CertificateAuthority::create_pair() const {
  UniquePkey key(EVP_EC_gen("P-256"));
  const WallTime now = clock_->wall();
  auto certificate = TRY(begin_certificate(now - kBackdated, now + kValidity));
  X509* raw = certificate.get();
  // Each has a name of its own: programs look authorities up by name, and two may be trusted at
  // once.
  const std::string serial = [raw] {
    const ASN1_INTEGER* number = X509_get0_serialNumber(raw);
    return to_hex({reinterpret_cast<const char*>(ASN1_STRING_get0_data(number)), 4});
  }();
  const auto name = TRY(create_name("Pons egress authority " + serial));
  if (key == nullptr || X509_set_pubkey(raw, key.get()) != 1 ||
      X509_set_subject_name(raw, name.get()) != 1 || X509_set_issuer_name(raw, name.get()) != 1)
    return certificate_error("create certificate authority");
  TRY_VOID(add_extension(raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  TRY_VOID(add_extension(raw, NID_key_usage, "critical,keyCertSign"));
  TRY_VOID(add_extension(raw, NID_subject_key_identifier, "hash"));
  if (X509_sign(raw, key.get(), EVP_sha256()) <= 0)
    return certificate_error("create certificate authority");
  return Pair{.certificate = {certificate.release(), X509_free},
              .key = {key.release(), EVP_PKEY_free}};
}

Result<void> CertificateAuthority::store_pair(const std::string& path, const Pair& pair) const {
  const Secret key = key_to_pem(pair.key.get());
  if (key.empty()) return certificate_error("store certificate authority", path);
  std::string text = to_pem(pair.certificate.get());
  text += key.reveal();
  const Secret plain(std::move(text));
  if (!seal_.seal) return linux::write_file_atomically(path, plain.reveal(), 0600);
  return linux::write_file_atomically(path, seal_.seal(plain.reveal()), 0600);
}

Result<CertificateAuthority::Pair> CertificateAuthority::load_pair(const std::string& path) {
  const Secret stored(TRY(read_private_file(path)));
  if (stored.reveal().starts_with(kPemBegin)) {
    Pair pair = TRY(parse_pair(stored.reveal(), path));
    // A seal that came later holds from now on.
    if (seal_.seal) TRY_VOID(store_pair(path, pair));
    return pair;
  }
  if (!seal_.open)
    return make_error(ErrorCode::kInvalid, "open certificate authority",
                      path + " is sealed or damaged, and no key to open it was given");
  const Secret plain = TRY(seal_.open(stored.reveal()));
  return parse_pair(plain.reveal(), path);
}

Result<CertificateAuthority::Pair> CertificateAuthority::parse_pair(std::string_view pem,
                                                                    const std::string& path) const {
  constexpr const char* kStep = "open certificate authority";
  const UniqueStream stream(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  char no_passphrase[] = "";  // never asks at a terminal
  UniqueX509 certificate(PEM_read_bio_X509(stream.get(), nullptr, nullptr, no_passphrase));
  if (certificate == nullptr) return certificate_error(kStep, path);
  UniquePkey key(PEM_read_bio_PrivateKey(stream.get(), nullptr, nullptr, no_passphrase));
  if (key == nullptr) return certificate_error(kStep, path);
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return certificate_error(kStep, path);
  if (X509_check_ca(certificate.get()) != 1)
    return make_error(ErrorCode::kInvalid, kStep, path + " is not an authority's certificate");
  if (!is_current(certificate.get(), *clock_))
    return make_error(ErrorCode::kInvalid, kStep,
                      path + " has expired: remove it, and sandboxes get a new authority");
  return Pair{.certificate = {certificate.release(), X509_free},
              .key = {key.release(), EVP_PKEY_free}};
}

}  // namespace pons::egress
