#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend_message.h"
#include "pons/base/clock.h"
#include "prepared.h"
#include "request.h"

namespace pons::store::postgres {

struct AnswerLimits {
  std::size_t rows;
  std::size_t row_bytes;
};

// A request that is under way on a connection, and what has come of its answer.
class Asked {
 public:
  // Appends what is to be said. An error: it cannot be asked at all.
  static Result<Asked> ask(std::shared_ptr<Request> request, PreparedStatements& prepared,
                           AnswerLimits limits, std::string& out);

  // A message of its answer. An error: the server has left the protocol, or sends more than anybody
  // could want; the connection is of no use any more.
  Result<void> hear(const BackendMessage& message);
  void hear_fault(Fault fault);
  // The server is ready for the next one: what has come of this. Nothing of it was done if there is
  // an error.
  Result<std::vector<Outcome>> finish(PreparedStatements& prepared);

  const std::shared_ptr<Request>& request() const { return request_; }
  const std::optional<Fault>& fault() const { return fault_; }
  const std::optional<Error>& failure() const { return failure_; }

 private:
  struct Step {
    std::shared_ptr<Prepared> prepared;
    bool is_new;
    bool guarded;
    bool returns;
  };
  Asked(std::shared_ptr<Request> request, AnswerLimits limits)
      : request_(std::move(request)), limits_(limits) {}
  Result<void> add(const Statement& statement, PreparedStatements& prepared, std::string& closing,
                   std::string& saying);
  Result<void> hear_row(std::string_view body);
  Result<void> end_statement(std::int64_t changed);

  std::shared_ptr<Request> request_;
  AnswerLimits limits_;
  std::vector<Step> steps_;
  std::vector<Outcome> outcomes_;
  std::size_t at_ = 0;  // the statement whose answer comes
  std::size_t row_bytes_ = 0;
  std::optional<Error> failure_;  // of ours
  std::optional<Fault> fault_;    // of the server's
};

}  // namespace pons::store::postgres
