#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/secret.h"

struct x509_st;
struct evp_pkey_st;

namespace pons::egress {

// How a key is kept at rest, by whoever has the means. Both empty: the file's mode is all.
struct KeySeal {
  std::function<std::string(std::string_view plain)> seal;
  std::function<Result<Secret>(std::string_view sealed)> open;
};

// The certificate authority of one installation, which only its sandboxes trust. It signs host
// certificates and nothing else (path length 0). Name constraints could not narrow it: which hosts
// a policy will name is not known when it is made. What protects it is where its key lives, and
// that nobody outside a sandbox trusts it.
//
// Rotation: prepare_rotation() makes the next authority, and new sandboxes trust both; when no
// sandbox is left that knows only the old one, rotate() signs with the next.
class CertificateAuthority {
 public:
  // Makes the authority at the first call. A file that is damaged, expired, open to others or
  // sealed for somebody else is an error and never replaced: all sandboxes would lose their trust.
  static Result<CertificateAuthority> open(const std::string& directory, const Clock& clock,
                                           KeySeal seal = {});

  Result<void> prepare_rotation();
  Result<void> rotate();

  x509_st* certificate() const { return current_.certificate.get(); }
  evp_pkey_st* key() const { return current_.key.get(); }
  WallTime not_after() const;

  // What sandboxes are to trust, the signing one first.
  std::vector<x509_st*> trusted() const;
  // PEM of these and of earlier ones: what no upstream may ever present (TlsTrust::forbidden).
  std::string own_pem() const;

 private:
  struct Pair {
    std::shared_ptr<x509_st> certificate;
    std::shared_ptr<evp_pkey_st> key;
    explicit operator bool() const { return certificate != nullptr; }
  };
  CertificateAuthority(std::string directory, const Clock& clock, KeySeal seal);
  std::string path(const char* name) const { return directory_ + "/" + name; }
  Result<Pair> create_pair() const;
  Result<Pair> load_pair(const std::string& path);
  Result<Pair> parse_pair(std::string_view pem, const std::string& path) const;
  Result<void> store_pair(const std::string& path, const Pair& pair) const;

  std::string directory_;
  const Clock* clock_;
  KeySeal seal_;
  Pair current_;
  Pair next_;
  std::string previous_pem_;
};

}  // namespace pons::egress
