#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

// Local sockets. Every socket made here is non-blocking and close-on-exec. Paths may be longer than
// the 107 bytes of sockaddr_un.

namespace pons::linux {

struct SocketPair {
  UniqueFd first;
  UniqueFd second;
};

Result<SocketPair> create_socket_pair(int type);  // SOCK_STREAM, SOCK_SEQPACKET or SOCK_DGRAM

// A listening stream socket whose file has exactly `mode`, whatever the umask, and never more, not
// even for a moment. A socket file that nobody answers is replaced; a live one is kConflict; any
// other kind of file is left alone.
Result<UniqueFd> listen_unix(const std::string& path, unsigned mode, int backlog = 128);
Result<UniqueFd> connect_unix(const std::string& path);

// One message of a SEQPACKET or DGRAM socket. Never blocks: a full queue is kUnavailable with
// EAGAIN. The receiver gets its own copies of the descriptors.
Result<void> send_message(int socket, std::string_view bytes, std::span<const int> descriptors);

// Closes a descriptor that came from somebody else without ever waiting: a TCP socket can be told
// to hold up whoever closes it last (SO_LINGER) for days.
void close_without_waiting(UniqueFd descriptor);

struct Message {
  std::string bytes;
  std::vector<UniqueFd> descriptors;
};

// nullopt: nothing there now. The end of the stream is kUnavailable with os_error 0. A message
// that exceeds a limit is kLimit, is gone, and none of its descriptors stays open.
Result<std::optional<Message>> receive_message(int socket, std::size_t bytes_max,
                                               std::size_t descriptors_max);

// Who connected, or who listened: as of then, kept by the kernel and not claimed by the peer.
struct PeerCredentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};
Result<PeerCredentials> peer_credentials(int socket);

}  // namespace pons::linux
