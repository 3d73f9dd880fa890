#include "pons/linux/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

namespace pons::linux {
namespace {

constexpr std::size_t kDescriptorsMax = 253;  // SCM_MAX_FD of the kernel
constexpr std::chrono::seconds kDirectoryLockDeadline{5};

// Where a socket file lives: its directory held open, so that every step means the same one.
struct Place {
  UniqueFd directory;
  std::string name;
  sockaddr_un address{};
};

Result<Place> locate(const std::string& path) {
  const auto slash = path.rfind('/');
  Place place;
  place.name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (place.name.empty() || path.find('\0') != std::string::npos)
    return make_error(ErrorCode::kInvalid, "locate socket", path + ": not a path of a file");
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  place.directory = TRY(open_file(directory, O_RDONLY | O_DIRECTORY));
  place.address.sun_family = AF_UNIX;
  std::string_view written = path;
  const std::string through_proc =
      fmt::format("/proc/self/fd/{}/{}", place.directory.get(), place.name);
  if (written.size() >= sizeof place.address.sun_path) written = through_proc;
  if (written.size() >= sizeof place.address.sun_path)
    return make_error(ErrorCode::kInvalid, "locate socket", path + ": the file name is too long");
  std::memcpy(place.address.sun_path, written.data(), written.size());
  return place;
}

Result<UniqueFd> create_stream_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return os_error("create unix socket");
  return fd;
}

int connect_to(int socket, const sockaddr_un& address) {
  return connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// Only one process at a time decides whether a socket file is stale: otherwise the second one could
// remove the file that the first has just made.
Result<void> lock_directory(const Place& place, const std::string& path) {
  const auto deadline = std::chrono::steady_clock::now() + kDirectoryLockDeadline;
  while (flock(place.directory.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return os_error("lock socket directory", path);
    if (std::chrono::steady_clock::now() >= deadline)
      return make_error(ErrorCode::kTimeout, "lock socket directory",
                        path + ": another process holds the lock of its directory");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return {};
}

Result<void> remove_if_stale(const Place& place, const std::string& path) {
  struct stat status{};
  if (fstatat(place.directory.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return {};
    return os_error("inspect socket file", path);
  }
  if (!S_ISSOCK(status.st_mode))
    return make_error(ErrorCode::kConflict, "listen", path + " exists and is not a socket");
  const UniqueFd probe = TRY(create_stream_socket());
  // EAGAIN is a full backlog and EPROTOTYPE a socket of another type: both are alive.
  if (connect_to(probe.get(), place.address) == 0 || errno != ECONNREFUSED)
    return make_error(ErrorCode::kConflict, "listen", path + " is in use by a running process");
  if (unlinkat(place.directory.get(), place.name.c_str(), 0) != 0)
    return os_error("remove stale socket", path);
  return {};
}

}  // namespace

Result<SocketPair> create_socket_pair(int type) {
  int ends[2];
  if (socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    return os_error("create socket pair");
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<UniqueFd> listen_unix(const std::string& path, unsigned mode, int backlog) {
  const Place place = TRY(locate(path));
  TRY_VOID(lock_directory(place, path));  // released with place.directory
  TRY_VOID(remove_if_stale(place, path));
  UniqueFd fd = TRY(create_stream_socket());
  // bind gives the file the mode of the socket less the umask; chmod then adds what the umask took.
  if (fchmod(fd.get(), mode) != 0) return os_error("set socket mode", path);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&place.address), sizeof place.address) != 0)
    return os_error("bind socket", path);
  if (fchmodat(place.directory.get(), place.name.c_str(), mode, 0) != 0 ||
      listen(fd.get(), backlog) != 0) {
    Error error = os_error("listen", path);
    unlinkat(place.directory.get(), place.name.c_str(), 0);
    return error;
  }
  return fd;
}

Result<UniqueFd> connect_unix(const std::string& path) {
  const Place place = TRY(locate(path));
  UniqueFd fd = TRY(create_stream_socket());
  if (connect_to(fd.get(), place.address) != 0) {
    Error error = os_error("connect", path);
    if (error.os_error == EAGAIN) error.code = ErrorCode::kUnavailable;
    return error;
  }
  return fd;
}

Result<void> send_message(int socket, std::string_view bytes, std::span<const int> descriptors) {
  // An empty message reads like the end of the stream.
  if (bytes.empty() || descriptors.size() > kDescriptorsMax)
    return make_error(
        ErrorCode::kInvalid, "send message",
        fmt::format("a message has at least a byte and at most {} descriptors", kDescriptorsMax));
  iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    Error error = os_error("send message");
    if (error.os_error == EAGAIN) error.code = ErrorCode::kUnavailable;
    return error;
  }
  if (static_cast<std::size_t>(sent) != bytes.size())
    return make_error(ErrorCode::kInvalid, "send message",
                      "the socket has no message boundaries and took only a part");
  return {};
}

void close_without_waiting(UniqueFd descriptor) {
  const linger none{};
  setsockopt(descriptor.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);  // or it is no socket
}

Result<std::optional<Message>> receive_message(int socket, std::size_t bytes_max,
                                               std::size_t descriptors_max) {
  Message message;
  message.bytes.resize(bytes_max);
  iovec part{.iov_base = message.bytes.data(), .iov_len = bytes_max};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = CMSG_SPACE(std::min(descriptors_max, kDescriptorsMax) * sizeof(int));
  ssize_t got;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<Message>();
  if (got < 0) return os_error("receive message");

  // Owned before anything is judged: whatever is refused below is closed.
  const auto refuse = [&](std::string why) {
    for (UniqueFd& descriptor : message.descriptors) close_without_waiting(std::move(descriptor));
    return make_error(ErrorCode::kLimit, "receive message", std::move(why));
  };
  for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry != nullptr;
       entry = CMSG_NXTHDR(&header, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < count; ++index) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(entry) + index * sizeof(int), sizeof fd);
      message.descriptors.emplace_back(fd);
    }
  }
  if ((header.msg_flags & MSG_TRUNC) != 0)
    return refuse(fmt::format("longer than {} bytes", bytes_max));
  // The control buffer is padded to eight bytes and may hold one more than was asked for.
  if ((header.msg_flags & MSG_CTRUNC) != 0 || message.descriptors.size() > descriptors_max)
    return refuse(fmt::format("more than {} descriptors", descriptors_max));
  if (got == 0) return make_error(ErrorCode::kUnavailable, "receive message", "the peer is gone");
  message.bytes.resize(static_cast<std::size_t>(got));
  return std::optional<Message>(std::move(message));
}

Result<PeerCredentials> peer_credentials(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return os_error("read peer credentials");
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace pons::linux
