#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pons/files/file_store.h"
#include "pons/linux/loop.h"
#include "pons/managed/session_files.h"
#include "pons/sandbox/provider.h"
#include "pons/session/world.h"

namespace pons::brain {

// Machines of the Managed Agents API's sessions, with the files and repositories that were ordered
// for them.
//
// What is in a machine stands in a note of its own there, which its user cannot write: a machine
// that is made again has none and gets everything, and the next process, or another brain, goes on
// where this one was. What the agent makes of a file that it was given stays.
class FurnishedHands final : public session::Hands {
 public:
  using FindFiles =
      std::function<Task<Result<managed::SessionFiles>>(std::string project, std::string session)>;

  struct Times {
    Duration patience = std::chrono::seconds(60);  // as its hands have with a warden that starts
    Duration longest = std::chrono::minutes(5);    // for all that one call has to wait for
  };
  // What it is given outlives it.
  FurnishedHands(linux::Loop& loop, session::Hands& hands, sandbox::Provider& provider,
                 files::FileStore& files)
      : FurnishedHands(loop, hands, provider, files, Times()) {}
  FurnishedHands(linux::Loop& loop, session::Hands& hands, sandbox::Provider& provider,
                 files::FileStore& files, Times times)
      : loop_(loop), hands_(hands), provider_(provider), files_(files), times_(times) {}

  // Before the first session.
  void find_files_with(FindFiles find) { find_files_ = std::move(find); }

  // Before each use of a machine, so that a file that was added meanwhile is there for it.
  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder order) override;
  Task<Result<void>> copy(session::CopyOrder order) override {
    return hands_.copy(std::move(order));
  }
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder order) override {
    return hands_.execute(std::move(order));
  }
  Task<Result<void>> stop(std::string sandbox, std::string call) override {
    return hands_.stop(std::move(sandbox), std::move(call));
  }
  Task<Result<void>> destroy(std::string sandbox) override {
    return hands_.destroy(std::move(sandbox));
  }

 private:
  class Turn;
  // Of a resource, in the note.
  struct Entry {
    std::string path;
    // Of a repository that could not be cloned yet: a machine would answer the same command with
    // what came of it before, also to another process.
    int attempts = 0;
    bool failed = false;  // a file that cannot be there; its place is the agent's

    bool is_there() const { return attempts == 0 && !failed; }
    bool operator==(const Entry&) const = default;
  };
  using Mounted = std::map<std::string, Entry>;  // by resource
  struct Pass {
    TimePoint deadline;
    std::map<std::string, std::string> failures = {};  // by resource: what the agent is told
    std::vector<managed::SessionFile> put = {};        // and not in the note of the machine yet
  };

  Task<Result<void>> furnish(std::string sandbox, std::string project, std::string session);
  Task<Result<void>> furnish_once(std::string sandbox, std::string project, std::string session,
                                  Pass& pass);
  Task<Result<void>> take_out(std::string sandbox, const managed::SessionFiles& files,
                              Mounted& mounted, Pass& pass);
  Task<Result<void>> put_right(std::string sandbox, std::string project,
                               managed::SessionFiles files, Mounted& mounted, Pass& pass);
  Task<Result<void>> mount(std::string sandbox, std::string project, managed::SessionFile file);
  Task<Result<void>> clone(std::string sandbox, managed::SessionFile file, Mounted& mounted);
  Task<Result<void>> move_clone(std::string sandbox, std::string from, std::string to);
  Task<Result<void>> give_up_without_note(Error why, const std::vector<managed::SessionFile>& files,
                                          Pass& pass);
  Task<Result<void>> note_what_was_put(std::string sandbox, Mounted& mounted, Pass& pass);
  Task<Result<std::string>> read_text(std::string sandbox);
  Task<Result<Mounted>> read_note(std::string sandbox);
  Task<Result<void>> write_note(std::string sandbox, const Mounted& mounted);

  linux::Loop& loop_;
  session::Hands& hands_;
  sandbox::Provider& provider_;
  files::FileStore& files_;
  const Times times_;
  FindFiles find_files_;
  // Calls of one answer share a machine: one at a time looks at it.
  std::map<std::string, std::weak_ptr<linux::Event>> busy_;
  // Resources that a machine has no room for, not even to note that: its agent is told once.
  std::set<std::string> told_;
};

}  // namespace pons::brain
