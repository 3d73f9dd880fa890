#include "connections.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shell.h"

namespace pons::cell {
namespace {

constexpr uint64_t kBlockedMsMax = 30'000;

alignas(8) char message[kMessageBytesMax];

void put_header(const Answer& answer) {
  const ReplyHeader header{kMagic, answer.status, answer.id, answer.step, answer.os_error};
  memcpy(message, &header, sizeof header);
}

uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

// Where reading begins: bytes that are gone are skipped, and there is nothing past the end.
uint64_t begin_of(const Ring& ring, uint64_t offset) {
  if (offset < ring.kept()) return ring.kept();
  return smaller(offset, ring.end());
}

bool has_news(const Job& job, const Read& read) {
  return job.state.ended != Ended::kRunning || job.streams[0].ring.end() > read.output_offset ||
         job.streams[1].ring.end() > read.error_offset;
}

}  // namespace

void Connections::set_up(Poller* poller, Jobs* jobs, WaitingShell* shell) {
  poller_ = poller;
  jobs_ = jobs;
  shell_ = shell;
}

void Connections::accept_from(int listener) {
  const int socket = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (socket < 0) return;
  for (uint32_t i = 0; i < kConnectionsMax; ++i) {
    if (open_[i]) continue;
    Connection* connection = &connections_[i];
    // Room for two of the largest messages; the kernel's default serves as well.
    const int bytes = 2 * kMessageBytesMax;
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    if (!poller_->add(socket, EPOLLIN, Source::kConnection, i)) break;
    open_[i] = true;
    connection->socket = socket;
    connection->blocked_since_ms = 0;
    connection->answer_count = 0;
    return;
  }
  close(socket);
}

size_t Connections::receive(uint32_t index, char* to) {
  Connection* connection = &connections_[index];
  if (connection->socket <= 0 || connection->blocked_since_ms != 0) return 0;
  const ssize_t size = recv(connection->socket, to, kMessageBytesMax, MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (size <= 0) {
    close_at(index);
    return 0;
  }
  return static_cast<size_t>(size);
}

void Connections::close_at(uint32_t index) {
  Connection* connection = &connections_[index];
  if (connection->socket <= 0) return;
  poller_->remove(connection->socket);
  close(connection->socket);
  open_[index] = false;
  connection->socket = 0;
  connection->answer_count = 0;
}

void Connections::answer(uint32_t index, const Answer& answer) {
  Connection* connection = &connections_[index];
  if (connection->socket <= 0 || answer.id == 0) return;
  const uint64_t now = now_ms();
  Answer last = answer;
  if (connection->answer_count == kAnswersMax) last.deadline_ms = 0;
  const Sent sent = try_send(connection, last, now);
  if (sent == Sent::kYes) return;
  if (sent == Sent::kBroken || connection->answer_count == kAnswersMax) return close_at(index);
  connection->answers[connection->answer_count++] = answer;
  if (sent == Sent::kBlocked) block(index, now);
}

// Who does not read its answers is asked nothing more, and after a while is gone.
void Connections::block(uint32_t index, uint64_t now) {
  Connection* connection = &connections_[index];
  if (connection->blocked_since_ms != 0) return;
  connection->blocked_since_ms = now == 0 ? 1 : now;
  poller_->change(connection->socket, EPOLLOUT, Source::kConnection, index);
}

void Connections::on_writable(uint32_t index) {
  Connection* connection = &connections_[index];
  if (connection->socket <= 0 || connection->blocked_since_ms == 0) return;
  connection->blocked_since_ms = 0;
  poller_->change(connection->socket, EPOLLIN, Source::kConnection, index);
}

void Connections::flush(uint64_t now) {
  for (uint32_t index = 0; index < kConnectionsMax; ++index) {
    if (!open_[index]) continue;
    Connection* connection = &connections_[index];
    if (connection->blocked_since_ms != 0) {
      if (now - connection->blocked_since_ms > kBlockedMsMax) close_at(index);
      continue;
    }
    for (uint32_t i = 0; i < connection->answer_count;) {
      const Sent sent = try_send(connection, connection->answers[i], now);
      if (sent == Sent::kBroken) {
        close_at(index);
        break;
      }
      if (sent == Sent::kBlocked) {
        block(index, now);
        break;
      }
      if (sent == Sent::kYes) {
        connection->answers[i] = connection->answers[--connection->answer_count];
      } else {
        ++i;
      }
    }
  }
}

uint64_t Connections::next_timer() const {
  uint64_t next = UINT64_MAX;
  for (uint32_t index = 0; index < kConnectionsMax; ++index) {
    if (!open_[index]) continue;
    const Connection& connection = connections_[index];
    if (connection.blocked_since_ms != 0) {
      next = smaller(next, connection.blocked_since_ms + kBlockedMsMax + 1);
      continue;
    }
    for (uint32_t i = 0; i < connection.answer_count; ++i) {
      next = smaller(next, connection.answers[i].deadline_ms);
    }
  }
  return next;
}

Connections::Sent Connections::try_send(Connection* connection, const Answer& answer,
                                        uint64_t now) {
  const bool late = answer.deadline_ms <= now;
  switch (answer.kind) {
    case Answer::Kind::kPlain:
      return send_plain(connection, answer);
    case Answer::Kind::kPing:
      return shell_->is_settled() || late ? send_plain(connection, answer) : Sent::kNotYet;
    case Answer::Kind::kList:
      return send_list(connection, answer);
    case Answer::Kind::kRead:
    case Answer::Kind::kWrite:
      break;
  }
  Job* job = jobs_->at(answer.job, answer.generation);
  if (job == nullptr) {
    Answer gone = answer;
    gone.status = Status::kNoSuchJob;
    return send_plain(connection, gone);
  }
  if (answer.kind == Answer::Kind::kWrite) {
    return job->held_size > 0 && !late ? Sent::kNotYet : send_write(connection, answer, *job);
  }
  return has_news(*job, answer.read) || late ? send_read(connection, answer, job) : Sent::kNotYet;
}

Connections::Sent Connections::send_bytes(Connection* connection, size_t size) {
  for (;;) {
    const ssize_t count =
        send(connection->socket, message, size, MSG_DONTWAIT | MSG_NOSIGNAL | MSG_EOR);
    if (count >= 0) return Sent::kYes;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? Sent::kBlocked : Sent::kBroken;
  }
}

Connections::Sent Connections::send_plain(Connection* connection, const Answer& answer) {
  put_header(answer);
  return send_bytes(connection, sizeof(ReplyHeader));
}

Connections::Sent Connections::send_read(Connection* connection, const Answer& answer, Job* job) {
  constexpr size_t kHead = sizeof(ReplyHeader) + sizeof(ReadReply);
  const Ring& output = job->streams[0].ring;
  const Ring& error = job->streams[1].ring;
  ReadReply reply = {};
  reply.state = jobs_->state_of(*job);
  reply.output_offset = begin_of(output, answer.read.output_offset);
  reply.error_offset = begin_of(error, answer.read.error_offset);
  const uint64_t room = smaller(kMessageBytesMax - kHead, answer.read.bytes_max);
  const uint64_t output_left = output.end() - reply.output_offset;
  const uint64_t error_left = error.end() - reply.error_offset;
  // Neither stream keeps the other one out.
  const uint64_t output_room = room - smaller(error_left, room / 2);
  char* bytes = message + kHead;
  const size_t output_size =
      output.read(reply.output_offset, bytes, smaller(output_left, output_room));
  const size_t error_size =
      error.read(reply.error_offset, bytes + output_size, smaller(error_left, room - output_size));
  reply.output_size = static_cast<uint32_t>(output_size);
  reply.error_size = static_cast<uint32_t>(error_size);
  // Until now it has waited, and it may have done so for long.
  if (answer.read.bytes_max > 0) job->read_at_ms = now_ms();
  const bool ended = job->state.ended != Ended::kRunning;
  reply.output_closed = (ended || job->streams[0].file <= 0) && output_size == output_left;
  reply.error_closed = (ended || job->streams[1].file <= 0) && error_size == error_left;
  put_header(answer);
  memcpy(message + sizeof(ReplyHeader), &reply, sizeof reply);
  return send_bytes(connection, kHead + output_size + error_size);
}

Connections::Sent Connections::send_write(Connection* connection, const Answer& answer,
                                          const Job& job) {
  Answer full = answer;
  // What was taken before the input was closed is no failure.
  if (job.input <= 0 && job.state.input_taken <= answer.read.output_offset) {
    full.status = Status::kInputClosed;
    return send_plain(connection, full);
  }
  put_header(full);
  const WriteReply reply{job.state.input_taken};
  memcpy(message + sizeof(ReplyHeader), &reply, sizeof reply);
  return send_bytes(connection, sizeof(ReplyHeader) + sizeof reply);
}

Connections::Sent Connections::send_list(Connection* connection, const Answer& answer) {
  static_assert(sizeof(ReplyHeader) + kJobsMax * sizeof(JobState) <= kMessageBytesMax);
  put_header(answer);
  size_t size = sizeof(ReplyHeader);
  for (uint32_t i = 0; i < kJobsMax; ++i) {
    const Job* job = jobs_->at(i);
    if (job == nullptr) continue;
    const JobState state = jobs_->state_of(*job);
    memcpy(message + size, &state, sizeof state);
    size += sizeof state;
  }
  return send_bytes(connection, size);
}

}  // namespace pons::cell
