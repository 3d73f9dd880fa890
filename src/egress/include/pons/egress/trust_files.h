#pragma once

#include <map>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/egress/authority.h"

namespace pons::egress {

// One file or symbolic link of the read-only layer that makes programs in a sandbox trust the
// authority.
struct TrustFile {
  std::string path;         // from the root of the sandbox, without a slash in front
  std::string bytes;        // of a file
  std::string link_target;  // of a symbolic link; empty for a file
};

struct TrustFiles {
  std::string bundle;      // PEM: the host's authorities, and ours
  std::string authority;   // PEM: ours alone, for programs that add to what they trust
  std::string java_store;  // the certificates of `bundle` as a JKS file, password "changeit"
  std::vector<TrustFile> files;
};

inline constexpr const char* kHostBundlePath = "/etc/ssl/certs/ca-certificates.crt";

// Where the files above lie in a sandbox.
inline constexpr const char* kTrustBundlePath = "/etc/ssl/certs/ca-certificates.crt";
inline constexpr const char* kTrustAuthorityPath = "/etc/ssl/certs/pons.pem";
inline constexpr const char* kTrustJavaPath = "/etc/ssl/certs/java/cacerts";

// The same input gives the same bytes, so the layer can be named by its content. A host without a
// bundle is no error: then sandboxes trust the authority alone.
Result<TrustFiles> make_trust_files(const CertificateAuthority& authority,
                                    const std::string& host_bundle_path = kHostBundlePath);

// Variables for programs that look elsewhere than in the usual places. Each is read by one family
// of programs and means nothing to others. Java tells on standard error that it has read its own.
std::map<std::string, std::string> trust_environment(
    const std::string& bundle_path = kTrustBundlePath,
    const std::string& authority_path = kTrustAuthorityPath);

}  // namespace pons::egress
