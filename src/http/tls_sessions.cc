#include "pons/http/tls_sessions.h"

#include <openssl/ssl.h>

namespace pons::http {

void TlsSessions::SessionDeleter::operator()(ssl_session_st* session) const {
  SSL_SESSION_free(session);
}

void TlsSessions::remember(const std::string& key, Session session) {
  if (const auto known = by_key_.find(key); known != by_key_.end()) forget(known->second);
  const int bytes = i2d_SSL_SESSION(session.get(), nullptr);
  if (bytes <= 0 || static_cast<std::size_t>(bytes) > limits_.session_bytes || limits_.count == 0)
    return;
  if (entries_.size() == limits_.count) forget(std::prev(entries_.end()));
  entries_.push_front({key, std::move(session), clock_.now()});
  by_key_[key] = entries_.begin();
}

TlsSessions::Session TlsSessions::take(const std::string& key) {
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) return nullptr;
  const auto entry = known->second;
  if (clock_.now() - entry->since > limits_.age ||
      SSL_SESSION_is_resumable(entry->session.get()) != 1) {
    forget(entry);
    return nullptr;
  }
  if (SSL_SESSION_get_protocol_version(entry->session.get()) < TLS1_3_VERSION) {
    SSL_SESSION_up_ref(entry->session.get());
    return Session(entry->session.get());
  }
  Session session = std::move(entry->session);
  forget(entry);
  return session;
}

void TlsSessions::forget(std::list<Entry>::iterator entry) {
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace pons::http
