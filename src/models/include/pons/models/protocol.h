#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/http/event_stream.h"
#include "pons/models/answer.h"
#include "pons/models/message.h"

// One protocol's reader and writer. All of it works on bytes in memory and waits for nothing.
//
// Errors of read_request are kInvalid, and their message names the place and what is wrong with it:
// "messages[2].content[0].type: \"imge\" is not a kind of content". Errors of write_request are
// kInvalid: what the other protocol has no place for, by name.

namespace pons::models {

// What a writer left out because the protocol has no place for it and the answer does not depend on
// it: names of fields, for a header field that tells the caller.
using Omitted = std::vector<std::string>;

using AnswerSink = std::function<void(const AnswerEvent&)>;

// Reads a provider's stream. The error of a call is what nobody can read (kInvalid); a failure that
// the provider reports in its own words is an event. After either, nothing more may be fed.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  virtual Result<void> feed(const http::ServerEvent& event, const AnswerSink& sink) = 0;
  // The stream is over: an error unless the answer was whole.
  virtual Result<void> finish(const AnswerSink& sink) = 0;
};

// Writes the client's stream: appends to `out` what goes on the wire.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual void take(const AnswerEvent& event, std::string& out) = 0;
  // For a client that waits; may come before the first event.
  virtual void keep_alive(std::string& out) = 0;
};

// Looks on while a stream passes from a provider to a client of the same protocol. It skips what it
// does not know.
class StreamWatch {
 public:
  virtual ~StreamWatch() = default;
  // False: this is no event of the protocol (not JSON, no type).
  virtual bool see(const http::ServerEvent& event) = 0;

  // Ends a stream that has passed so far with a failure. What the provider has said of it itself is
  // taken as told.
  virtual void end_with(const Failure& failure, std::string& out) const = 0;

  const Usage& usage() const { return usage_; }
  bool began() const { return began_; }  // an event of an answer was seen
  bool is_whole() const { return whole_; }
  // The protocol's own last word was seen: whatever comes behind changes nothing.
  bool is_sealed() const { return sealed_; }
  const std::optional<Failure>& failure() const { return failure_; }
  // Of the text, thinking and arguments so far: what is charged when no usage comes.
  std::size_t output_bytes() const { return output_bytes_; }

 protected:
  Usage usage_;
  bool began_ = false;
  bool whole_ = false;
  bool sealed_ = false;
  std::optional<Failure> failure_;
  std::size_t output_bytes_ = 0;
};

struct ErrorBody {
  int status = 500;
  std::string body;
};

class ProtocolText {
 public:
  virtual ~ProtocolText() = default;

  virtual Result<Request> read_request(std::string_view body) const = 0;
  // `model` is what the provider calls it. The provider is asked for usage in any case.
  virtual Result<std::string> write_request(const Request& request, std::string_view model,
                                            Omitted& omitted) const = 0;

  virtual Result<Answer> read_answer(std::string_view body) const = 0;
  // `request` is the client's own: some answers repeat parts of it, and tools have their names from
  // it.
  virtual std::string write_answer(const Answer& answer, const Request& request) const = 0;

  virtual std::unique_ptr<AnswerReader> stream_reader() const = 0;
  virtual std::unique_ptr<AnswerWriter> stream_writer(const Request& request) const = 0;
  virtual std::unique_ptr<StreamWatch> stream_watch() const = 0;
  // Of a whole answer that passes; zeros when it says nothing.
  virtual Usage usage_of(std::string_view body) const = 0;

  // A provider's refusal: whatever the body is, there is an answer.
  virtual Failure read_error(int status, std::string_view body) const = 0;
  virtual ErrorBody write_error(const Failure& failure, std::string_view request_id) const = 0;
};

const ProtocolText& messages_protocol();
const ProtocolText& chat_protocol();
const ProtocolText& responses_protocol();
const ProtocolText& protocol_text(Protocol protocol);

}  // namespace pons::models
