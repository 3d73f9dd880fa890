#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "forked.h"
#include "pons/base/text.h"
#include "pons/linux/mount.h"
#include "pons/linux/namespace.h"
#include "pons/templates/import.h"
#include "pons/templates/layer_store.h"
#include "tar_text.h"

namespace pons::templates {
namespace {

using linux::ScratchDirectory;

constexpr const char* kLayerType = "application/vnd.oci.image.layer.v1.tar";

// Writes an OCI layout as an image builder does.
class ImageBuilder {
 public:
  explicit ImageBuilder(std::string directory) : directory_(std::move(directory)) {
    std::filesystem::create_directories(directory_ + "/blobs/sha256");
    write("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
  }
  void write(const std::string& path, const std::string& text) {
    EXPECT_TRUE(linux::write_file_atomically(directory_ + "/" + path, text, 0644));
  }
  std::string add_blob(const std::string& bytes) {
    write("blobs/sha256/" + sha256_hex(bytes), bytes);
    return sha256_hex(bytes);
  }
  void add_layer(const std::string& tar, const std::string& bytes, const std::string& suffix) {
    const std::string digest = add_blob(bytes);
    layers_ += fmt::format(R"({}{{"mediaType":"{}{}","digest":"sha256:{}","size":{}}})",
                           layers_.empty() ? "" : ",", kLayerType, suffix, digest, bytes.size());
    diff_ids_ += fmt::format(R"({}"sha256:{}")", diff_ids_.empty() ? "" : ",", sha256_hex(tar));
    last_blob_ = digest;
  }
  void finish(const std::string& architecture = "amd64") {
    const std::string config = fmt::format(
        R"({{"architecture":"{}","os":"linux","config":{{"User":"app:app","Env":["A=1","B=x=y"],)"
        R"("WorkingDir":"/srv"}},"rootfs":{{"type":"layers","diff_ids":[{}]}}}})",
        architecture, diff_ids_);
    const std::string manifest = fmt::format(
        R"({{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json",)"
        R"("digest":"sha256:{}","size":{}}},"layers":[{}]}})",
        add_blob(config), config.size(), layers_);
    write("index.json",
          fmt::format(
              R"({{"schemaVersion":2,"manifests":[{{"mediaType":)"
              R"("application/vnd.oci.image.manifest.v1+json","digest":"sha256:{}","size":{},)"
              R"("platform":{{"architecture":"{}","os":"linux"}}}}]}})",
              add_blob(manifest), manifest.size(), architecture));
  }
  std::string last_blob() const { return directory_ + "/blobs/sha256/" + last_blob_; }

 private:
  std::string directory_;
  std::string layers_;
  std::string diff_ids_;
  std::string last_blob_;
};

class TemplatesTest : public testing::Test {
 protected:
  TemplatesTest()
      : store_(*LayerStore::open(scratch_.make_directory("state"))), lease_(*store_.lease()) {}

  Result<sandbox::TemplateInfo> import(const std::string& path) {
    return import_image(
        store_, lease_,
        {.name = "demo", .path = path, .reference = {}, .limits = {}, .progress = {}});
  }
  std::size_t leftovers() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(store_.path()))
      if (entry.path().filename().string().starts_with(".tmp-")) ++count;
    return count;
  }

  ScratchDirectory scratch_;
  LayerStore store_;
  StoreLease lease_;
};

const std::string kBase = tar_of({{.path = "etc/", .type = '5', .mode = 0755},
                                  {.path = "etc/old", .content = "old", .uid = 1000},
                                  {.path = "var/", .type = '5', .mode = 0755},
                                  {.path = "var/below", .content = "below"}});
const std::string kTop = tar_of({{.path = "etc/.wh.old"},
                                 {.path = "var/", .type = '5', .mode = 0755},
                                 {.path = "var/.wh..wh..opq"},
                                 {.path = "var/above", .content = "above"}});

ImageBuilder two_layers(const std::string& directory) {
  ImageBuilder image(directory);
  image.add_layer(kBase, packed(kBase, Packing::kGzip), "+gzip");
  image.add_layer(kTop, packed(kTop, Packing::kZstd), "+zstd");
  return image;
}

TEST_F(TemplatesTest, AnImageBecomesLayersThatOverlayAsItSays) {
  two_layers(scratch_ / "image").finish();
  const auto info = import(scratch_ / "image");
  ASSERT_TRUE(info) << info.error().describe();
  EXPECT_EQ(info->user, "app");
  EXPECT_EQ(info->directory, "/srv");
  EXPECT_EQ(info->environment.at("B"), "x=y");
  ASSERT_EQ(info->layers.size(), 2U);
  const std::string view = scratch_.make_directory("view");
  EXPECT_EQ(
      linux::in_forked_child([&] {
        REQUIRE(linux::unshare_namespaces({linux::NamespaceKind::kMount}));
        REQUIRE(linux::make_mounts_private());
        auto overlay = linux::DetachedMount::overlay(
            {.lower = {store_.tree_path(info->layers[0]), store_.tree_path(info->layers[1])}});
        REQUIRE(overlay);
        REQUIRE(std::move(*overlay).attach(AT_FDCWD, view));
        REQUIRE(access((view + "/etc/old").c_str(), F_OK) != 0);
        REQUIRE(access((view + "/var/below").c_str(), F_OK) != 0);
        REQUIRE(access((view + "/var/above").c_str(), F_OK) == 0);
        return 0;
      }),
      0);
  EXPECT_EQ(leftovers(), 0U);
}

TEST_F(TemplatesTest, ALayerCanBeMountedWithAnotherRangeOfIds) {
  two_layers(scratch_ / "image").finish();
  const auto info = import(scratch_ / "image");
  ASSERT_TRUE(info);
  const std::string view = scratch_.make_directory("view");
  EXPECT_EQ(
      linux::in_forked_child([&] {
        auto gate = linux::create_pipe();
        const pid_t holder = fork();
        if (holder == 0) {
          char byte = 0;
          if (!linux::unshare_namespaces({linux::NamespaceKind::kUser})) _exit(1);
          if (write(gate->write_end.get(), "x", 1) != 1) _exit(1);
          pause();
          _exit(byte);
        }
        char byte = 0;
        REQUIRE(read(gate->read_end.get(), &byte, 1) == 1);
        const linux::IdMap map[] = {{.inside = 0, .outside = 500'000, .count = 65'536}};
        REQUIRE(linux::write_id_maps(holder, map, map));
        const auto users = linux::NamespaceFd::open_of(holder, linux::NamespaceKind::kUser);
        kill(holder, SIGKILL);
        REQUIRE(users);
        REQUIRE(linux::unshare_namespaces({linux::NamespaceKind::kMount}));
        REQUIRE(linux::make_mounts_private());
        auto tree = linux::DetachedMount::clone_tree(store_.tree_path(info->layers[1]),
                                                     linux::MountScope::kOneMount);
        REQUIRE(tree);
        REQUIRE(tree->set_attributes({.read_only = true, .idmap_user_namespace_fd = users->fd()}));
        REQUIRE(std::move(*tree).attach(AT_FDCWD, view));
        struct stat status{};
        REQUIRE(stat((view + "/etc/old").c_str(), &status) == 0);
        REQUIRE(status.st_uid == 501'000);
        return 0;
      }),
      0);
}

TEST_F(TemplatesTest, TheSameLayerTwiceIsOne) {
  two_layers(scratch_ / "one").finish();
  ImageBuilder other(scratch_ / "two");
  other.add_layer(kBase, kBase, "");
  other.finish();
  const auto first = import(scratch_ / "one");
  const auto second = import(scratch_ / "two");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->layers[1], second->layers[0]);
  EXPECT_EQ(store_.list()->size(), 2U);
}

TEST_F(TemplatesTest, ArchivesOfBothKindsAreRead) {
  ImageBuilder image = two_layers(scratch_ / "image");
  image.finish();
  const std::string oci = scratch_ / "oci.tar";
  ASSERT_EQ(std::system(("tar -C " + (scratch_ / "image") + " -cf " + oci + " .").c_str()), 0);
  EXPECT_TRUE(import(oci));

  const std::string config = fmt::format(
      R"({{"architecture":"amd64","os":"linux","rootfs":{{"diff_ids":["sha256:{}"]}}}})",
      sha256_hex(kBase));
  const std::string manifest =
      R"([{"Config":"c.json","RepoTags":["x:1"],"Layers":["l/layer.tar"]}])";
  const std::string docker = tar_of({{.path = "c.json", .content = config},
                                     {.path = "manifest.json", .content = manifest},
                                     {.path = "l/layer.tar", .content = kBase}});
  ASSERT_TRUE(linux::write_file_atomically(scratch_ / "docker.tar", docker, 0644));
  const auto info = import(scratch_ / "docker.tar");
  ASSERT_TRUE(info) << info.error().describe();
  EXPECT_EQ(info->user, "root");
}

TEST_F(TemplatesTest, DamageIsFoundAndLeavesNothing) {
  {
    ImageBuilder image = two_layers(scratch_ / "blob");
    image.finish();
    ASSERT_TRUE(linux::write_file_atomically(image.last_blob(), "other bytes", 0644));
  }
  {
    ImageBuilder image(scratch_ / "diff");
    image.add_layer(kTop, kBase, "");  // promises another content than it has
    image.finish();
  }
  two_layers(scratch_ / "foreign").finish("s390x");
  std::filesystem::create_directory(scratch_ / "empty");
  for (const char* name : {"blob", "diff", "foreign", "empty", "missing"})
    EXPECT_FALSE(import(scratch_ / name)) << name;
  EXPECT_EQ(leftovers(), 0U);
}

TEST_F(TemplatesTest, PathsInManifestsStayInTheImage) {
  const std::string secret = scratch_ / "secret.tar";
  ASSERT_TRUE(linux::write_file_atomically(secret, kBase, 0644));
  const std::string config = fmt::format(
      R"({{"architecture":"amd64","os":"linux","rootfs":{{"diff_ids":["sha256:{}"]}}}})",
      sha256_hex(kBase));
  std::filesystem::create_directory(scratch_ / "image");
  std::filesystem::create_symlink(secret, scratch_ / "image/link.tar");
  for (const std::string& layer : {secret, std::string("../secret.tar"), std::string("link.tar")}) {
    ASSERT_TRUE(linux::write_file_atomically(scratch_ / "image/c.json", config, 0644));
    ASSERT_TRUE(linux::write_file_atomically(
        scratch_ / "image/manifest.json",
        fmt::format(R"([{{"Config":"c.json","Layers":["{}"]}}])", layer), 0644));
    EXPECT_FALSE(import(scratch_ / "image")) << layer;
  }
}

TEST_F(TemplatesTest, OpaqueMarksAreTheHostsKindInTheStore) {
  two_layers(scratch_ / "image").finish();
  const auto info = import(scratch_ / "image");
  ASSERT_TRUE(info);
  const std::string directory = store_.tree_path(info->layers[0]) + "/var";
  char mark = 0;
  EXPECT_EQ(getxattr(directory.c_str(), "trusted.overlay.opaque", &mark, 1), 1);
  EXPECT_EQ(getxattr(directory.c_str(), "user.overlay.opaque", &mark, 1), -1);
}

}  // namespace
}  // namespace pons::templates
