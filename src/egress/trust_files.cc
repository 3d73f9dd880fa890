#include "pons/egress/trust_files.h"

#include <fmt/format.h>

#include "certificate.h"
#include "java_store.h"
#include "pons/linux/fd.h"

namespace pons::egress {

namespace {

// A usual bundle has 0.2 MB and about 140 certificates.
constexpr std::size_t kHostBundleBytesMax = 4 * 1024 * 1024;

Result<std::string> read_host_bundle(const std::string& path) {
  auto text = linux::read_file(path, kHostBundleBytesMax);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::string();
  if (text && !text->empty() && text->back() != '\n') *text += '\n';
  return text;
}

std::string name_of(std::size_t index) {
  return index == 0 ? "pons" : "pons-next";
}

Result<std::string> make_java_store(const CertificateAuthority& authority,
                                    const std::string& host_bundle) {
  std::vector<JavaStoreEntry> entries;
  for (const X509* certificate : authority.trusted())
    entries.push_back({name_of(entries.size()), to_der(certificate)});
  const auto host = TRY(read_pem_certificates(host_bundle));
  for (std::size_t i = 0; i < host.size(); ++i)
    entries.push_back({fmt::format("host-{:04}", i), to_der(host[i].get())});
  // When the entries were made is of no interest; that it is always the same is.
  return encode_java_store(entries, 0);
}

// A certificate by itself, where update-ca-certificates, update-ca-trust and trust modules look for
// additions of this machine, and under the name by which OpenSSL looks in directories.
Result<void> append_authority(std::vector<TrustFile>& files, const std::string& name,
                              const X509* certificate) {
  const std::string pem = to_pem(certificate);
  const std::string path = "usr/local/share/ca-certificates/" + name + ".crt";
  int hashed = 0;
  const auto hash =
      X509_NAME_hash_ex(X509_get_subject_name(certificate), nullptr, nullptr, &hashed);
  if (hashed != 1) return certificate_error("name trusted certificate");
  files.push_back({.path = path, .bytes = pem});
  files.push_back({.path = "etc/ssl/certs/" + name + ".pem", .link_target = "/" + path});
  files.push_back(
      {.path = fmt::format("etc/ssl/certs/{:08x}.0", hash), .link_target = name + ".pem"});
  files.push_back(
      {.path = "etc/pki/ca-trust/source/anchors/" + name + ".crt", .link_target = "/" + path});
  return {};
}

}  // namespace

Result<TrustFiles> make_trust_files(const CertificateAuthority& authority,
                                    const std::string& host_bundle_path) {
  TrustFiles made;
  const std::string host_bundle = TRY(read_host_bundle(host_bundle_path));
  for (const X509* certificate : authority.trusted()) made.authority += to_pem(certificate);
  made.bundle = host_bundle + made.authority;
  made.java_store = TRY(make_java_store(authority, host_bundle));

  const auto link = [&](const char* path, const char* target) {
    made.files.push_back({.path = path, .link_target = target});
  };
  made.files.push_back({.path = kTrustBundlePath + 1, .bytes = made.bundle});
  made.files.push_back({.path = kTrustJavaPath + 1, .bytes = made.java_store});
  link("etc/ssl/cert.pem", kTrustBundlePath);                 // Alpine, LibreSSL
  link("etc/ssl/ca-bundle.pem", kTrustBundlePath);            // openSUSE
  link("etc/pki/tls/cert.pem", kTrustBundlePath);             // Fedora and its kin, OpenSSL
  link("etc/pki/tls/certs/ca-bundle.crt", kTrustBundlePath);  // the same, others
  link("etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", kTrustBundlePath);
  link("etc/pki/java/cacerts", kTrustJavaPath);
  link("etc/pki/ca-trust/extracted/java/cacerts", kTrustJavaPath);
  const auto trusted = authority.trusted();
  for (std::size_t i = 0; i < trusted.size(); ++i)
    TRY_VOID(append_authority(made.files, name_of(i), trusted[i]));
  return made;
}

std::map<std::string, std::string> trust_environment(const std::string& bundle_path,
                                                     const std::string& authority_path) {
  // Those that replace what a program trusts get everything; those that add get ours alone.
  return {
      {"SSL_CERT_FILE", bundle_path},           // OpenSSL, Go, Ruby, .NET, uv, httpx
      {"CURL_CA_BUNDLE", bundle_path},          // curl with any TLS library
      {"GIT_SSL_CAINFO", bundle_path},          // git
      {"REQUESTS_CA_BUNDLE", bundle_path},      // Python's requests, which brings its own
      {"PIP_CERT", bundle_path},                // pip
      {"HTTPLIB2_CA_CERTS", bundle_path},       // Python's httplib2
      {"NODE_EXTRA_CA_CERTS", authority_path},  // Node, Bun
      {"NPM_CONFIG_CAFILE", bundle_path},       // npm, pnpm
      {"DENO_CERT", authority_path},            // Deno
      {"CARGO_HTTP_CAINFO", bundle_path},       // cargo
      {"AWS_CA_BUNDLE", bundle_path},           // AWS CLI and SDKs
      {"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", bundle_path},  // gcloud
      {"BUNDLE_SSL_CA_CERT", bundle_path},                  // Ruby's bundler
      {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", bundle_path},    // gRPC
      {"NIX_SSL_CERT_FILE", bundle_path},                   // Nix and what it builds
      {"HEX_CACERTS_PATH", bundle_path},                    // Elixir's hex
      {"PERL_LWP_SSL_CA_FILE", bundle_path},                // Perl's LWP
      // Java that was unpacked from an archive brings its own store, and looks at no usual place.
      {"JAVA_TOOL_OPTIONS", fmt::format("-Djavax.net.ssl.trustStore={}", kTrustJavaPath)},
  };
}

}  // namespace pons::egress
