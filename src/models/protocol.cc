#include "pons/models/protocol.h"

namespace pons::models {

const ProtocolText& protocol_text(Protocol protocol) {
  switch (protocol) {
    case Protocol::kMessages:
      return messages_protocol();
    case Protocol::kChat:
      return chat_protocol();
    case Protocol::kResponses:
      break;
  }
  return responses_protocol();
}

}  // namespace pons::models
