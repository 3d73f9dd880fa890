#include "oci_layout.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/templates/layer_store.h"
#include "sha256.h"

namespace pons::templates {
namespace {

using linux::UniqueFd;

constexpr std::size_t kDocumentBytesMax = std::size_t{4} << 20;
constexpr std::size_t kManifestsMax = 256;
constexpr std::size_t kImageLayersMax = 256;
constexpr std::size_t kEnvironmentMax = 256;
constexpr std::size_t kTextBytesMax = 32 * 1024;
constexpr int kIndexDepthMax = 3;

constexpr std::array kIndexTypes = {
    std::string_view("application/vnd.oci.image.index.v1+json"),
    std::string_view("application/vnd.docker.distribution.manifest.list.v2+json")};
constexpr std::array kManifestTypes = {
    std::string_view("application/vnd.oci.image.manifest.v1+json"),
    std::string_view("application/vnd.docker.distribution.manifest.v2+json")};
constexpr std::array kConfigTypes = {
    std::string_view("application/vnd.oci.image.config.v1+json"),
    std::string_view("application/vnd.docker.container.image.v1+json")};
constexpr std::array kLayerTypes = {
    std::string_view("application/vnd.oci.image.layer.v1.tar"),
    std::string_view("application/vnd.oci.image.layer.v1.tar+gzip"),
    std::string_view("application/vnd.oci.image.layer.v1.tar+zstd"),
    std::string_view("application/vnd.oci.image.layer.nondistributable.v1.tar"),
    std::string_view("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"),
    std::string_view("application/vnd.oci.image.layer.nondistributable.v1.tar+zstd"),
    std::string_view("application/vnd.docker.image.rootfs.diff.tar"),
    std::string_view("application/vnd.docker.image.rootfs.diff.tar.gzip"),
    std::string_view("application/vnd.docker.image.rootfs.diff.tar.zstd")};

Error refusal(std::string message) {
  return make_error(ErrorCode::kInvalid, "read image", std::move(message));
}

template <std::size_t Size>
bool is_one_of(const std::array<std::string_view, Size>& types, std::string_view type) {
  return std::ranges::find(types, type) != types.end();
}

Result<Json> read_document(int root_fd, const std::string& path) {
  const UniqueFd file = TRY(open_below(root_fd, path));
  return parse_json(TRY(linux::read_all(file.get(), kDocumentBytesMax)));
}

struct Descriptor {
  std::string type;
  std::string digest;  // hex
  std::uint64_t size = 0;
  std::string path() const { return "blobs/sha256/" + digest; }
};

Result<std::string> hex_digest(const Json& text) {
  const std::string digest = text.get<std::string>();
  if (!digest.starts_with("sha256:") || !is_digest(digest.substr(7)))
    return refusal("a digest that is not sha256:… in 64 hex digits");
  return digest.substr(7);
}

Result<Descriptor> descriptor_of(const Json& json) {
  return Descriptor{.type = json.at("mediaType").get<std::string>(),
                    .digest = TRY(hex_digest(json.at("digest"))),
                    .size = json.at("size").get<std::uint64_t>()};
}

Result<Json> read_verified(int root_fd, const Descriptor& descriptor) {
  const UniqueFd file = TRY(open_below(root_fd, descriptor.path()));
  const std::string text = TRY(linux::read_all(file.get(), kDocumentBytesMax));
  if (text.size() != descriptor.size || sha256_hex(text) != descriptor.digest)
    return refusal("blob sha256:" + descriptor.digest + " is damaged: its digest differs");
  return parse_json(text);
}

bool is_for_this_machine(const Json& entry) {
  if (!entry.contains("platform")) return true;
  const Json& platform = entry.at("platform");
  return platform.value("os", "") == "linux" &&
         platform.value("architecture", "") == image_architecture();
}

bool is_named(const Json& entry, const std::string& reference) {
  if (reference.empty()) return true;
  const Json annotations = entry.value("annotations", Json::object());
  return annotations.value("org.opencontainers.image.ref.name", "") == reference ||
         annotations.value("io.containerd.image.name", "") == reference;
}

// The one manifest that is meant.
Result<Descriptor> choose_manifest(int root_fd, const Json& index, const std::string& reference,
                                   int depth) {
  if (depth > kIndexDepthMax) return refusal("indexes inside indexes without end");
  const Json& manifests = index.at("manifests");
  if (!manifests.is_array() || manifests.size() > kManifestsMax)
    return refusal("an index without a list of manifests, or with more than 256");
  std::vector<Descriptor> fitting;
  for (const Json& entry : manifests) {
    Descriptor descriptor = TRY(descriptor_of(entry));
    const bool known =
        is_one_of(kIndexTypes, descriptor.type) || is_one_of(kManifestTypes, descriptor.type);
    if (!known || !is_for_this_machine(entry) || !is_named(entry, reference)) continue;
    const bool twice =
        std::ranges::find(fitting, descriptor.digest, &Descriptor::digest) != fitting.end();
    if (!twice) fitting.push_back(std::move(descriptor));
  }
  if (fitting.empty())
    return make_error(ErrorCode::kNotFound, "read image",
                      fmt::format("no image for linux/{}{}", image_architecture(),
                                  reference.empty() ? "" : " with that name"));
  if (fitting.size() > 1) return refusal("several images; name one by --ref TAG");
  if (is_one_of(kManifestTypes, fitting[0].type)) return fitting[0];
  const Json inner = TRY(read_verified(root_fd, fitting[0]));
  return choose_manifest(root_fd, inner, "", depth + 1);
}

Result<void> take_config(const Json& config, Image& image) {
  if (config.value("os", "linux") != "linux" ||
      config.value("architecture", std::string(image_architecture())) != image_architecture())
    return refusal(fmt::format("the image is not for linux/{}", image_architecture()));
  const Json& digests = config.at("rootfs").at("diff_ids");
  if (!digests.is_array() || digests.size() != image.layers.size())
    return refusal("the configuration names another number of layers than the manifest");
  for (std::size_t i = 0; i < image.layers.size(); ++i)
    image.layers[i].tar_digest = TRY(hex_digest(digests.at(i)));
  if (!config.contains("config") || !config.at("config").is_object()) return {};
  const Json& defaults = config.at("config");
  const auto text = [&](const char* key) {
    return defaults.contains(key) && defaults.at(key).is_string()
               ? defaults.at(key).get<std::string>()
               : std::string();
  };
  image.user = text("User");
  image.user = image.user.substr(0, image.user.find(':'));
  image.directory = text("WorkingDir");
  if (!defaults.contains("Env") || !defaults.at("Env").is_array()) return {};
  if (defaults.at("Env").size() > kEnvironmentMax) return refusal("more than 256 variables");
  for (const Json& line : defaults.at("Env")) {
    const std::string variable = line.get<std::string>();
    const std::size_t equals = variable.find('=');
    if (equals == 0 || equals == std::string::npos || variable.size() > kTextBytesMax) continue;
    image.environment[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return {};
}

Result<Image> read_oci(int root_fd, const std::string& reference) {
  const Json index = TRY(read_document(root_fd, "index.json"));
  const Descriptor chosen = TRY(choose_manifest(root_fd, index, reference, 0));
  const Json manifest = TRY(read_verified(root_fd, chosen));
  const Descriptor config = TRY(descriptor_of(manifest.at("config")));
  if (!is_one_of(kConfigTypes, config.type))
    return refusal("this is no container image: its configuration is of type " + config.type);
  Image image;
  if (manifest.at("layers").size() > kImageLayersMax) return refusal("more than 256 layers");
  for (const Json& entry : manifest.at("layers")) {
    const Descriptor layer = TRY(descriptor_of(entry));
    if (!is_one_of(kLayerTypes, layer.type))
      return make_error(ErrorCode::kUnsupported, "read image", "layers of type " + layer.type);
    image.layers.push_back({.path = layer.path(), .blob_digest = layer.digest});
  }
  const Json defaults = TRY(read_verified(root_fd, config));
  TRY_VOID(take_config(defaults, image));
  return image;
}

Result<Image> read_docker(int root_fd, const std::string& reference) {
  const Json list = TRY(read_document(root_fd, "manifest.json"));
  if (!list.is_array() || list.size() > kManifestsMax) return refusal("manifest.json is no list");
  std::vector<Json> fitting;
  for (const Json& entry : list) {
    const Json tags = entry.value("RepoTags", Json::array());
    const bool named = reference.empty() || std::ranges::find(tags, Json(reference)) != tags.end();
    if (named) fitting.push_back(entry);
  }
  if (fitting.empty())
    return make_error(ErrorCode::kNotFound, "read image", "no image with that name");
  if (fitting.size() > 1) return refusal("several images; name one by --ref NAME:TAG");
  Image image;
  if (fitting[0].at("Layers").size() > kImageLayersMax) return refusal("more than 256 layers");
  for (const Json& path : fitting[0].at("Layers"))
    image.layers.push_back({.path = path.get<std::string>()});
  const Json config = TRY(read_document(root_fd, fitting[0].at("Config").get<std::string>()));
  TRY_VOID(take_config(config, image));
  return image;
}

}  // namespace

std::string_view image_architecture() {
#if defined(__x86_64__)
  return "amd64";
#elif defined(__aarch64__)
  return "arm64";
#else
#error "name this architecture as OCI does"
#endif
}

Result<UniqueFd> open_below(int root_fd, const std::string& path) {
  open_how how{};
  // Not blocking: a pipe in place of a file must not hold anybody up.
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  UniqueFd file(static_cast<int>(syscall(SYS_openat2, root_fd, path.c_str(), &how, sizeof how)));
  if (!file) return os_error("open image file", path);
  struct stat status{};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return refusal(path + " is not a regular file");
  return file;
}

Result<std::string> digest_of_file(int fd, int interrupt_fd) {
  std::string block(std::size_t{1} << 20, '\0');
  Sha256 hash;
  for (;;) {
    TRY_VOID(check_interrupt(interrupt_fd));
    const ssize_t got = read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error("read image");
    if (got == 0) break;
    hash.add({block.data(), static_cast<std::size_t>(got)});
  }
  if (lseek(fd, 0, SEEK_SET) != 0) return os_error("read image");
  return hash.finish_hex();
}

Result<Image> read_image(int root_fd, const std::string& reference) {
  try {
    if (faccessat(root_fd, "index.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
      return read_oci(root_fd, reference);
    if (faccessat(root_fd, "manifest.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
      return read_docker(root_fd, reference);
  } catch (const Json::exception&) {
    return refusal("a manifest or configuration lacks a field or has one of a wrong type");
  }
  return refusal("neither an OCI layout (index.json) nor a `docker save` archive (manifest.json)");
}

}  // namespace pons::templates
