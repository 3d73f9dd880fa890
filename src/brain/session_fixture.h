#pragma once

// For tests of this folder: the world of sessions that say one thing, and have no sandboxes.

#include <string>
#include <utility>

#include "pons/session/world.h"

namespace pons::brain {

class EchoModel final : public session::Model {
 public:
  Task<std::variant<session::Answer, session::NoAnswer>> ask(session::Question question,
                                                             const session::Listener&) override {
    if (question.request.find("wait for me") != std::string::npos)
      co_return session::Answer{
          .content =
              R"([{"type":"tool_use","id":"t","name":"ask_human","input":{"question":"which?"}}])",
          .stop_reason = "tool_use"};
    co_return session::Answer{.content = R"([{"type":"text","text":"the password is hunter2"}])",
                              .stop_reason = "end_turn",
                              .usage = {.output = 3}};
  }
};

class NoHands final : public session::Hands {
 public:
  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder) override {
    co_return none();
  }
  Task<Result<void>> copy(session::CopyOrder) override { co_return none(); }
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder) override { co_return none(); }
  Task<Result<void>> stop(std::string, std::string) override { co_return none(); }
  Task<Result<void>> destroy(std::string) override { co_return {}; }

 private:
  static Error none() { return make_error(ErrorCode::kInvalid, "use hands", "there are none"); }
};

class PasswordBoundary final : public session::Boundary {
 public:
  Task<Result<session::Redaction>> redact(Text text) override {
    session::Redaction clean{.text = std::move(text.text)};
    if (const auto at = clean.text.find("hunter2"); at != std::string::npos) {
      clean.text.replace(at, 7, "xxxxxxx");
      clean.redacted = {"password"};
    }
    co_return clean;
  }
};

}  // namespace pons::brain
