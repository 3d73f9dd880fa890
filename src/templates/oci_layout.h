#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::templates {

struct ImageLayer {
  std::string path;         // below the layout's directory
  std::string blob_digest;  // hex; empty where the format has none
  std::string tar_digest;   // hex, without compression; empty where the image does not say
};

struct Image {
  std::vector<ImageLayer> layers;  // lowest first
  std::string user;                // empty: root
  std::string directory;
  std::map<std::string, std::string> environment;
};

// Opens a regular file below the directory. Links may not lead out of it.
Result<linux::UniqueFd> open_below(int root_fd, const std::string& path);

// The SHA-256 of the whole file, in hex; the descriptor is at its start afterwards.
Result<std::string> digest_of_file(int fd, int interrupt_fd);

// The image for this machine out of an unpacked OCI layout or `docker save` archive. Manifests and
// configuration are verified by their digests here; layers are not read.
Result<Image> read_image(int root_fd, const std::string& reference);

std::string_view image_architecture();  // of this build: "amd64", "arm64"

}  // namespace pons::templates
