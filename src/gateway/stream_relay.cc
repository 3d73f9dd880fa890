#include "stream_relay.h"

#include "pons/http/event_stream.h"

namespace pons::gateway {

namespace {

using models::AnswerEvent;
using models::Protocol;

constexpr std::size_t kEventBytesMax = std::size_t{8} << 20;

Error unreadable() {
  return make_error(ErrorCode::kInvalid, "read events", "the provider's stream cannot be read");
}

Error broken_off() {
  return make_error(ErrorCode::kUnavailable, "read events", "the provider's stream broke off");
}

// Sees one event at a time.
class EventReader {
 public:
  template <class See>
  Result<void> read(std::string_view raw, See see) {
    return parser_.feed(raw, see);
  }

 private:
  http::EventStreamParser parser_{kEventBytesMax};
};

// {"choices":[], … "usage":{…}}: providers write it in this order, without blanks or with one.
bool is_usage_chunk(std::string_view data) {
  const auto choices = data.find("\"choices\":");
  if (choices == std::string_view::npos) return false;
  const auto list = data.substr(choices + 10);
  return (list.starts_with("[]") || list.starts_with(" []")) &&
         data.find("\"usage\":") != std::string_view::npos;
}

class PassedStream final : public StreamRelay {
 public:
  PassedStream(Protocol protocol, bool hide_usage)
      : protocol_(protocol),
        hide_usage_(hide_usage),
        watch_(models::protocol_text(protocol).stream_watch()) {}

  Result<void> take(std::string_view raw, std::string& out) override {
    bool readable = true;
    bool hidden = false;
    TRY_VOID(events_.read(raw, [&](const http::ServerEvent& event) {
      readable = readable && watch_->see(event);
      hidden = hide_usage_ && is_usage_chunk(event.data);
      if (protocol_ == Protocol::kResponses && response_id_.empty())
        response_id_ = response_id_in(event.data);
    }));
    if (!readable) return unreadable();
    if (!hidden) out += raw;
    if (watch_->failure() && protocol_ == Protocol::kResponses) failure_event_ = raw;
    return {};
  }

  Result<void> end(std::string&) override {
    if (!watch_->is_whole()) return broken_off();
    return {};
  }
  void fail(const models::Failure& failure, std::string& out) override {
    out += failure_event_;
    watch_->end_with(failure, out);
  }
  bool is_sealed() const override { return watch_->is_sealed(); }

  const models::Usage& usage() const override { return watch_->usage(); }
  bool has_begun() const override { return watch_->began(); }
  const std::optional<models::Failure>& failure() const override { return watch_->failure(); }
  std::size_t output_bytes() const override { return watch_->output_bytes(); }
  const std::string& response_id() const override { return response_id_; }

 private:
  Protocol protocol_;
  bool hide_usage_;
  EventReader events_;
  std::unique_ptr<models::StreamWatch> watch_;
  std::string response_id_;
  std::string failure_event_;  // that the provider told it with
};

class TranslatedStream final : public StreamRelay {
 public:
  TranslatedStream(Protocol from, Protocol to, const models::Request& request,
                   const models::ToolNames& names)
      : reader_(models::protocol_text(from).stream_reader()),
        writer_(models::protocol_text(to).stream_writer(request)),
        names_(names) {}

  Result<void> take(std::string_view raw, std::string& out) override {
    Result<void> read;
    TRY_VOID(events_.read(raw, [&](const http::ServerEvent& event) {
      if (read && !failure_)
        read = reader_->feed(event, [&](const AnswerEvent& seen) { pass(seen, out); });
    }));
    return read;
  }

  Result<void> end(std::string& out) override {
    TRY_VOID(reader_->finish([&](const AnswerEvent& seen) { pass(seen, out); }));
    if (!whole_) return broken_off();
    return {};
  }
  void fail(const models::Failure& failure, std::string& out) override {
    writer_->take(failure, out);
  }
  bool is_sealed() const override { return whole_; }

  const models::Usage& usage() const override { return usage_; }
  bool has_begun() const override { return begun_; }
  const std::optional<models::Failure>& failure() const override { return failure_; }
  std::size_t output_bytes() const override { return output_bytes_; }
  const std::string& response_id() const override { return no_id_; }

 private:
  void pass(const AnswerEvent& event, std::string& out) {
    if (const auto* failure = std::get_if<models::Failure>(&event)) {
      failure_ = *failure;  // who relays decides what the client hears
      return;
    }
    if (const auto* begins = std::get_if<models::AnswerBegins>(&event)) {
      begun_ = true;
      usage_ = begins->usage;
    } else if (const auto* grows = std::get_if<models::PartGrows>(&event)) {
      output_bytes_ += grows->text.size();
    } else if (const auto* ends = std::get_if<models::AnswerEnds>(&event)) {
      usage_ = ends->usage;
      whole_ = true;
    } else if (const auto* part = std::get_if<models::PartBegins>(&event)) {
      models::PartBegins renamed = *part;
      names_.restore(renamed.part);
      writer_->take(renamed, out);
      return;
    }
    writer_->take(event, out);
  }

  EventReader events_;
  std::unique_ptr<models::AnswerReader> reader_;
  std::unique_ptr<models::AnswerWriter> writer_;
  const models::ToolNames& names_;
  models::Usage usage_;
  std::optional<models::Failure> failure_;
  bool begun_ = false;
  bool whole_ = false;
  std::size_t output_bytes_ = 0;
  std::string no_id_;
};

}  // namespace

std::string_view response_id_in(std::string_view json) {
  for (const std::string_view begin : {"\"id\":\"resp", "\"id\": \"resp"}) {
    const auto found = json.find(begin);
    if (found == std::string_view::npos) continue;
    const auto id = json.substr(found + begin.size() - 4);
    return id.substr(0, id.find('"'));
  }
  return {};
}

std::unique_ptr<StreamRelay> pass_stream(Protocol protocol, bool hide_usage) {
  return std::make_unique<PassedStream>(protocol, hide_usage);
}

std::unique_ptr<StreamRelay> translate_stream(Protocol from, Protocol to,
                                              const models::Request& request,
                                              const models::ToolNames& names) {
  return std::make_unique<TranslatedStream>(from, to, request, names);
}

}  // namespace pons::gateway
