#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "pons/files/file_store.h"
#include "pons/managed/managed.h"
#include "pons/sandbox/provider.h"
#include "pons/session/world.h"

namespace pons::brain {

// Machines of the Managed Agents API's sessions, with the files that were ordered for them; and
// what their agents leave, as files again.
class FurnishedHands final : public session::Hands {
 public:
  using FindFiles = std::function<Task<Result<std::vector<managed::SessionFile>>>(
      std::string project, std::string session)>;

  FurnishedHands(linux::Loop& loop, session::Hands& hands, sandbox::Provider& provider,
                 files::FileStore& files)
      : hands_(hands), provider_(provider), files_(files), tasks_(loop) {}

  // Before the first session.
  void find_files_with(FindFiles find) { find_files_ = std::move(find); }
  // A turn has ended: what is new in its machine's folder for outputs is kept.
  void collect(const std::string& session);

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
  Task<Result<void>> destroy(std::string sandbox) override;

 private:
  // One of this process; what a former one has done is looked up.
  struct Machine {
    std::string project;
    std::string session;
    std::int64_t made_ms = 0;                    // another one may get the same id
    std::map<std::string, std::string> mounted;  // path of each resource
    std::map<std::string, std::pair<std::uint64_t, std::int64_t>> kept;  // outputs: size, time
    bool is_read = false;                                                // by somebody who collects
  };
  Task<Result<void>> furnish(std::string sandbox, std::string project, std::string session);
  Task<Result<void>> mount(std::string sandbox, std::string project, managed::SessionFile file);
  Task<> collect_outputs(std::string sandbox);
  Task<Result<void>> keep_output(std::string sandbox, sandbox::FileInfo info);
  Task<Result<bool>> is_kept(const files::File& file);

  session::Hands& hands_;
  sandbox::Provider& provider_;
  files::FileStore& files_;
  FindFiles find_files_;
  std::map<std::string, Machine> machines_;  // by sandbox
  linux::TaskGroup tasks_;
};

}  // namespace pons::brain
