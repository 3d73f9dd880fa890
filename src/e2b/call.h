#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/e2b/directory.h"
#include "pons/http/exchange.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/provider.h"

namespace pons::e2b {

class Watchers;

// One request that was let in to its sandbox.
class Call {
 public:
  // What all requests share.
  struct Ground {
    linux::Loop& loop;
    sandbox::Provider& provider;
    Directory& directory;
    Watchers& watchers;
  };
  Call(const Ground& ground, http::Exchange& e, Directory::Found found)
      : loop(ground.loop),
        provider(ground.provider),
        watchers(ground.watchers),
        exchange(e),
        access(std::move(found)),
        directory_(ground.directory) {}

  linux::Loop& loop;
  sandbox::Provider& provider;
  Watchers& watchers;
  http::Exchange& exchange;
  const Directory::Found access;
  std::string user;  // empty: the sandbox's default

  const std::string& id() const { return access->sandbox; }

  // The answer of `ask`, which is asked a second time when the sandbox slept and may be woken. A
  // sandbox that is gone, or sleeps on, is an error of which is_gone() says yes.
  template <class Ask>
  std::invoke_result_t<Ask&> awake(Ask ask) {
    auto answer = co_await ask();
    if (answer) co_return std::move(answer);
    CO_TRY(const bool woken, co_await wake_after(answer.error()));
    if (!woken) co_return std::move(answer).error();
    co_return co_await ask();
  }
  // The same before something that cannot be asked twice.
  Task<Result<void>> ensure_awake();

 private:
  Task<Result<bool>> wake_after(Error error);

  Directory& directory_;
};

// Wakes one that is paused, and gives it this time from now. Whoever pauses takes the time away
// afterwards: it is given again once the sandbox runs.
Task<Result<void>> wake_for(sandbox::Provider& provider, const sandbox::SandboxInfo& info,
                            sandbox::Milliseconds time);

// The sandbox cannot be reached: not a failure of what was asked of it.
Error gone_error(const std::string& sandbox);
bool is_gone(const Error& error);

// True when the work ran to its end, false when the client left first; the work is cancelled then.
Task<bool> run_while_client_stays(http::Exchange& exchange, Task<> work);

}  // namespace pons::e2b
