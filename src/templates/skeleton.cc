#include "skeleton.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "pons/linux/fd.h"
#include "sha256.h"

namespace pons::templates {
namespace {

using Kind = SkeletonEntry::Kind;
using linux::UniqueFd;

void add_directory(Skeleton& skeleton, const std::string& path, mode_t mode = 0755,
                   uid_t owner = 0) {
  skeleton[path] = {.kind = Kind::kDirectory, .mode = mode, .owner = owner};
}

void add_file(Skeleton& skeleton, const std::string& path, std::string content, uid_t owner = 0) {
  skeleton[path] = {
      .kind = Kind::kFile, .mode = 0644, .owner = owner, .content = std::move(content)};
}

void add_link(Skeleton& skeleton, const std::string& path, std::string target) {
  skeleton[path] = {.kind = Kind::kLink, .mode = 0777, .content = std::move(target)};
}

void add_accounts(Skeleton& skeleton, const std::string& shell) {
  add_file(skeleton, "etc/passwd",
           fmt::format("root:x:0:0:root:/root:{0}\n"
                       "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                       "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                       "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
                       "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                       "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
                       "user:x:{1}:{1}:user:/home/user:{0}\n"
                       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
                       shell, kUserId));
  add_file(skeleton, "etc/group",
           fmt::format("root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\n"
                       "disk:x:6:\nmail:x:8:\nsudo:x:27:\nwww-data:x:33:\nshadow:x:42:\n"
                       "utmp:x:43:\nstaff:x:50:\nusers:x:100:\nuser:x:{}:\nnogroup:x:65534:\n",
                       kUserId));
}

void add_basics(Skeleton& skeleton, const std::string& shell) {
  for (const char* path : {"dev", "etc", "home", "opt", "proc", "run", "sys", "var"})
    add_directory(skeleton, path);
  add_directory(skeleton, "root", 0700);
  add_directory(skeleton, "tmp", 01777);
  add_directory(skeleton, "var/tmp", 01777);
  add_directory(skeleton, "home/user", 0755, kUserId);
  add_accounts(skeleton, shell);
  add_file(
      skeleton, "etc/hosts",
      "127.0.0.1\tlocalhost\n127.0.1.1\te2b.local\n::1\tlocalhost ip6-localhost ip6-loopback\n");
  add_file(skeleton, "etc/nsswitch.conf",
           "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
           "protocols: files\nservices: files\n");
  add_file(skeleton, "etc/resolv.conf", "nameserver 127.0.0.1\n");
}

// Bash knows who it is: one program less to start for each login.
constexpr std::string_view kProfile =
    "if [ \"${EUID:-$(id -u)}\" -eq 0 ]; then\n"
    "  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    "else\n"
    "  PATH=/usr/local/bin:/usr/bin:/bin\n"
    "fi\n"
    "export PATH\n"
    "if [ \"${PS1-}\" ]; then\n"
    "  PS1='\\u@\\h:\\w\\$ '\n"
    "  [ \"${EUID:-$(id -u)}\" -eq 0 ] || [ -n \"${BASH-}\" ] || PS1='$ '\n"
    "  [ -n \"${BASH-}\" ] && [ -f /etc/bash.bashrc ] && . /etc/bash.bashrc\n"
    "fi\n";

constexpr std::string_view kUserProfile =
    "[ -n \"${BASH_VERSION-}\" ] && [ -f \"$HOME/.bashrc\" ] && . \"$HOME/.bashrc\"\n"
    "[ -d \"$HOME/.local/bin\" ] && PATH=\"$HOME/.local/bin:$PATH\"\n";

constexpr std::string_view kUserBashrc =
    "case $- in *i*) ;; *) return ;; esac\n"
    "PS1='\\u@\\h:\\w\\$ '\n"
    "alias ls='ls --color=auto'\n";

}  // namespace

void add_fixed_files(Skeleton& skeleton, const std::string& shell) {
  add_basics(skeleton, shell);
  for (const char* path : {"media", "mnt", "srv", "usr", "var/cache", "var/lib", "var/log",
                           "var/spool", "var/opt", "var/local", "var/backups"})
    add_directory(skeleton, path);
  add_link(skeleton, "var/run", "/run");
  add_link(skeleton, "var/lock", "/run/lock");
  add_link(skeleton, "etc/mtab", "../proc/self/mounts");
  add_file(skeleton, "etc/shells", "/bin/sh\n/usr/bin/sh\n/bin/bash\n/usr/bin/bash\n");
  add_file(skeleton, "etc/profile", std::string(kProfile));
  add_file(skeleton, "home/user/.profile", std::string(kUserProfile), kUserId);
  add_file(skeleton, "home/user/.bashrc", std::string(kUserBashrc), kUserId);
}

void add_bare_root(Skeleton& skeleton, const std::string& shell) {
  add_basics(skeleton, shell);
  add_directory(skeleton, "workspace", 0755, kUserId);
}

void add_with_parents(Skeleton& skeleton, const std::string& path, SkeletonEntry entry) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1))
    skeleton.try_emplace(path.substr(0, slash), SkeletonEntry{.kind = Kind::kDirectory});
  skeleton[path] = std::move(entry);
}

void add_program_links(Skeleton& skeleton, const std::string& host_root) {
  for (const char* name : {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
    const std::string path = host_root + "/" + name;
    struct stat status{};
    if (lstat(path.c_str(), &status) != 0) continue;
    if (S_ISDIR(status.st_mode)) add_directory(skeleton, name);
    if (!S_ISLNK(status.st_mode)) continue;
    char target[4096];
    const ssize_t size = readlink(path.c_str(), target, sizeof target);
    if (size > 0) add_link(skeleton, name, std::string(target, static_cast<std::size_t>(size)));
  }
}

std::string digest_of(const Skeleton& skeleton) {
  Sha256 hash;
  for (const auto& [path, entry] : skeleton) {
    hash.add(fmt::format("{}:{}{} {:o} {} {}:", path.size(), path, static_cast<int>(entry.kind),
                         entry.mode, entry.owner, entry.content.size()));
    hash.add(entry.content);
  }
  return hash.finish_hex();
}

Result<void> write_skeleton(const Skeleton& skeleton, const std::string& directory) {
  const bool may_chown = geteuid() == 0;
  for (const auto& [path, entry] : skeleton) {
    const std::string place = directory + "/" + path;
    if (entry.kind == Kind::kLink) {
      if (symlink(entry.content.c_str(), place.c_str()) != 0) return os_error("write link", path);
      continue;
    }
    if (entry.kind == Kind::kDirectory) {
      if (mkdir(place.c_str(), 0700) != 0) return os_error("write directory", path);
    } else {
      const UniqueFd file =
          TRY(linux::open_file(place, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
      TRY_VOID(linux::write_all(file.get(), entry.content));
    }
    if (may_chown && chown(place.c_str(), entry.owner, entry.owner) != 0)
      return os_error("set owner", path);
    if (chmod(place.c_str(), entry.mode) != 0) return os_error("set mode", path);
  }
  return {};
}

}  // namespace pons::templates
