#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pons/models/protocol.h"
#include "pons/models/tool_names.h"

namespace pons::gateway {

// What a stream of a provider becomes for the client, event by event.
class StreamRelay {
 public:
  virtual ~StreamRelay() = default;
  // `raw` is the event with its blank line. Appends what goes to the client. kInvalid: nobody can
  // read this; the stream is to be given up.
  virtual Result<void> take(std::string_view raw, std::string& out) = 0;
  // The provider's stream is over: an error unless the answer was whole.
  virtual Result<void> end(std::string& out) = 0;
  // Ends the client's stream with a failure, after what it has been told. It is told in the
  // provider's words where they are the client's own: then `out` may hold anything that provider
  // says.
  virtual void fail(const models::Failure& failure, std::string& out) = 0;
  // The answer's own last word was seen: it is whole, however its connection ends.
  virtual bool is_sealed() const = 0;

  virtual const models::Usage& usage() const = 0;
  virtual bool has_begun() const = 0;  // something of an answer was seen
  virtual const std::optional<models::Failure>& failure() const = 0;
  virtual std::size_t output_bytes() const = 0;
  virtual const std::string& response_id() const = 0;
};

// Of a response of kResponses, in any of its texts; empty when there is none.
std::string_view response_id_in(std::string_view json);

// To a client of the same protocol: the bytes as they are. `hide_usage`: a client of kChat did not
// ask for the chunk that tells the usage.
std::unique_ptr<StreamRelay> pass_stream(models::Protocol protocol, bool hide_usage);

// To a client of another. All must outlive the relay.
std::unique_ptr<StreamRelay> translate_stream(models::Protocol from, models::Protocol to,
                                              const models::Request& request,
                                              const models::ToolNames& names);

}  // namespace pons::gateway
