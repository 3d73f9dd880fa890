#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "package_steps.h"
#include "pons/base/clock.h"
#include "pons/linux/loop.h"
#include "pons/managed/package_uses.h"
#include "pons/sandbox/provider.h"

namespace pons::brain {

// Templates out of packages, made in sandboxes, in the background: one for each set, whoever wants
// it. A build is a sandbox and jobs with names of their own, so the next process joins where this
// one was. Nothing else is kept: whether a template is there, the provider knows.
class PackageBuilds {
 public:
  struct Times {
    Duration step = std::chrono::minutes(30);      // for one manager
    Duration patience = std::chrono::seconds(60);  // with a provider that starts again
    Duration between_looks = std::chrono::seconds(15);
    // Until something that failed is tried again by itself: for what may pass, and for what the
    // managers said no to.
    Duration after_trouble = std::chrono::minutes(1);
    Duration after_refusal = std::chrono::minutes(30);
  };
  struct Options {
    std::string network;  // rules of the configuration by name; empty: the managers' own hosts
    std::map<std::string, std::string> registries =
        {};  // that managers of this machine are told of
    Times times = {};
  };

  enum class State : std::uint8_t { kWaiting, kBuilding, kReady, kFailed };
  struct Progress {
    State state = State::kWaiting;
    std::string step;  // what is done now, or was when it failed
    std::size_t steps_done = 0;
    std::size_t steps = 0;
    std::int64_t began_ms = 0;  // 0: not yet, or by another process
    std::int64_t ended_ms = 0;
    std::string error;
    std::string output;  // the end of what the managers wrote
  };

  // What it is given outlives it.
  PackageBuilds(linux::Loop& loop, const Clock& clock, sandbox::Provider& provider,
                managed::PackageUses& uses, Options options);

  // The template is there; or why it is not, in words for an agent.
  Task<Result<void>> wait_for(std::string digest, Duration at_most);
  // It turned out not to be there.
  void forget(const std::string& digest);
  Progress progress_of(const std::string& digest) const;
  // Also one that failed, and now.
  void begin(const managed::PackageSet& set);
  // Environments may want others than before.
  void look() { news_.set(); }
  // Builds what environments want, and removes what nobody uses. Runs as long as the process.
  Task<> keep_going();
  Task<Result<void>> look_once();

 private:
  struct Build {
    Build(linux::Loop& loop, managed::PackageSet wanted)
        : set(std::move(wanted)), ended(std::make_shared<linux::Event>(loop)) {}
    managed::PackageSet set;
    Progress progress;
    TimePoint next_try{};  // of one that failed
    std::shared_ptr<linux::Event> ended;
    bool is_first = true;  // what there is of it is another process's, and is joined
  };

  Build& ensure(const managed::PackageSet& set);
  void queue(Build& build);
  void start_some();
  Task<> run(std::string digest);
  Task<Result<void>> make(Build& build);
  Task<Result<void>> make_in_sandbox(Build& build, const sandbox::TemplateInfo& base);
  Task<Result<std::string>> create_sandbox(const Build& build);
  Task<Result<void>> do_step(Build& build, const PackageStep& step);
  Task<Result<sandbox::JobInfo>> follow(Build& build, const PackageStep& step, TimePoint deadline);
  Task<Result<void>> keep_template(const Build& build, const sandbox::TemplateInfo& base);
  Task<Result<std::vector<sandbox::TemplateInfo>>> list_templates();
  Task<> remove_unused(const std::set<std::string>& used);
  Task<> end_orphans();
  std::int64_t now_ms() const;

  linux::Loop& loop_;
  const Clock& clock_;
  sandbox::Provider& provider_;
  managed::PackageUses& uses_;
  const Options options_;
  std::map<std::string, Build> builds_;  // by digest
  std::deque<std::string> waiting_;      // digests, first come first served
  std::size_t running_ = 0;
  bool has_looked_ = false;
  linux::Event news_;
  linux::TaskGroup work_;
};

const char* name_of(PackageBuilds::State state);

}  // namespace pons::brain
