#include "pons/templates/import.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "extract.h"
#include "oci_layout.h"

namespace pons::templates {
namespace {

using linux::UniqueFd;

// The image's directory, or where its archive was unpacked; that is deleted afterwards.
struct OpenedImage {
  StagingDirectory unpacked;
  UniqueFd root;
};

void tell(const ImportOptions& options, Progress progress) {
  if (options.progress) options.progress(progress);
}

Result<OpenedImage> open_image(const LayerStore& store, const StoreLease& lease,
                               const ImportOptions& options) {
  OpenedImage image;
  UniqueFd input = TRY(linux::open_file(options.path, O_RDONLY | O_NONBLOCK));
  struct stat status{};
  if (fstat(input.get(), &status) != 0) return os_error("open image", options.path);
  if (S_ISDIR(status.st_mode)) {
    image.root = std::move(input);
    return image;
  }
  if (!S_ISREG(status.st_mode))
    return make_error(ErrorCode::kInvalid, "open image", "neither a file nor a directory");
  image.unpacked = TRY(store.stage(lease));
  const std::string directory = image.unpacked.get() + "/fs";
  const auto total = static_cast<std::uint64_t>(status.st_size);
  TRY(extract_tar(input.get(), directory, options.limits, [&](std::uint64_t done) {
    tell(options, {.what = "unpack archive", .done = done, .total = total});
  }));
  image.root = TRY(linux::open_file(directory, O_RDONLY | O_DIRECTORY));
  return image;
}

Result<LayerInfo> import_layer(const LayerStore& store, const StoreLease& lease, int root_fd,
                               const ImageLayer& layer, const ImportOptions& options,
                               const TreeLimits& limits, const std::string& what) {
  const UniqueFd blob = TRY(open_below(root_fd, layer.path));
  if (!layer.blob_digest.empty() &&
      TRY(digest_of_file(blob.get(), limits.interrupt_fd)) != layer.blob_digest)
    return make_error(ErrorCode::kInvalid, "import layer",
                      "blob sha256:" + layer.blob_digest + " is damaged: its digest differs");
  StagingDirectory staged = TRY(store.stage(lease));
  const Extracted extracted =
      TRY(extract_tar(blob.get(), staged.get() + "/fs", limits,
                      [&](std::uint64_t done) { tell(options, {.what = what, .done = done}); }));
  if (extracted.tar_digest != layer.tar_digest)
    return make_error(ErrorCode::kInvalid, "import layer",
                      fmt::format("{} unpacks to other content than the image promises", what));
  return store.publish(std::move(staged), "oci sha256:" + layer.tar_digest, limits);
}

Result<void> check_image(const Image& image) {
  if (image.layers.empty())
    return make_error(ErrorCode::kInvalid, "import image", "it has no layers");
  return {};
}

// A layer that comes twice says nothing the second time it is looked through, and a layer without
// files says nothing at all. Overlay refuses the first.
void add_layer(sandbox::TemplateInfo& info, const LayerInfo& layer) {
  if (layer.files == 0) return;
  std::erase(info.layers, layer.digest);
  info.layers.insert(info.layers.begin(), layer.digest);
  info.bytes += layer.bytes;
}

}  // namespace

bool is_template_name(std::string_view text) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= 64 && is_plain(text[0]) &&
         std::ranges::all_of(
             text, [&](char c) { return is_plain(c) || c == '.' || c == '_' || c == '-'; });
}

Result<sandbox::TemplateInfo> import_image(const LayerStore& store, const StoreLease& lease,
                                           const ImportOptions& options) {
  if (!is_template_name(options.name))
    return make_error(ErrorCode::kInvalid, "import image",
                      "a template's name has up to 64 characters of a-z, 0-9, '.', '_' and '-'");
  const OpenedImage opened = TRY(open_image(store, lease, options));
  const Image image = TRY(read_image(opened.root.get(), options.reference));
  TRY_VOID(check_image(image));
  sandbox::TemplateInfo info{
      .name = options.name,
      .kind = "oci",
      .user = image.user.empty() ? "root" : image.user,
      .directory = image.directory,
      .environment = image.environment,
      .created_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count(),
      .source = "oci:" + options.path,
  };
  TreeLimits left = options.limits;
  for (std::size_t i = 0; i < image.layers.size(); ++i) {
    const std::string what = fmt::format("layer {} of {}", i + 1, image.layers.size());
    const LayerInfo layer =
        TRY(import_layer(store, lease, opened.root.get(), image.layers[i], options, left, what));
    left.bytes -= std::min(left.bytes, layer.bytes);
    left.files -= std::min(left.files, layer.files);
    add_layer(info, layer);
  }
  if (info.layers.size() > kLayersMax)
    return make_error(ErrorCode::kLimit, "import image",
                      fmt::format("the image has {} layers and a sandbox takes {}; squash it first",
                                  info.layers.size(), kLayersMax));
  return info;
}

}  // namespace pons::templates
