#include "package_builds.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/session/tool_text.h"

namespace pons::brain {

namespace {

using managed::PackageSet;
using sandbox::TemplateInfo;

constexpr std::size_t kAtOnce = 2;
constexpr std::size_t kOutputBytesMax = 8'192;
constexpr std::size_t kErrorBytesMax = 1'500;
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::seconds(1);
constexpr const char* kLabel = "pons.packages";
constexpr const char* kKind = "packages";  // of the templates

// A disk, because what is installed may be larger than memory.
sandbox::Limits builder_limits(bool has_disk) {
  sandbox::Limits limits{.memory_bytes = 2ULL << 30,
                         .cpu_percent = 200,
                         .pids = 1'024,
                         .lifetime_max = std::chrono::hours(4)};
  if (has_disk) {
    limits.disk_upper = true;
    limits.disk_bytes = 16ULL << 30;
  }
  return limits;
}

bool may_be_back(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout ||
         error.os_error == ECONNREFUSED || error.os_error == ENOENT;
}

// What the managers said no to is so the next time, too.
bool is_refusal(const Error& error) {
  return error.code == ErrorCode::kInvalid || error.code == ErrorCode::kUnsupported ||
         error.code == ErrorCode::kNotFound;
}

std::string sandbox_of(const std::string& digest) {
  return "packages-" + digest;
}

// Until the template has its variables it has this name.
std::string unfinished_template(const std::string& digest) {
  return managed::package_template(digest) + ".new";
}

std::string end_of(std::string_view text, std::size_t bytes_max) {
  if (text.size() > bytes_max) {
    text.remove_prefix(text.size() - bytes_max);
    text.remove_prefix(std::min(text.find('\n') + 1, text.size()));
  }
  return session::printable(std::string(trim(text)));
}

std::string describe(const PackageSet& set) {
  std::string text;
  for (const PackageSet::Part& part : set.parts)
    text +=
        fmt::format("{}{}: {}", text.empty() ? "" : "; ", part.manager, fmt::join(part.names, " "));
  constexpr std::size_t kBytesMax = 300;
  return session::shorten(text + " on " + set.base, kBytesMax);
}

Error lacks_template(const std::string& name) {
  return make_error(ErrorCode::kNotFound, "build packages",
                    fmt::format("there is no template \"{}\"", name));
}

}  // namespace

const char* name_of(PackageBuilds::State state) {
  switch (state) {
    case PackageBuilds::State::kWaiting:
      return "waiting";
    case PackageBuilds::State::kBuilding:
      return "building";
    case PackageBuilds::State::kReady:
      return "ready";
    case PackageBuilds::State::kFailed:
      return "failed";
  }
  return "waiting";
}

PackageBuilds::PackageBuilds(linux::Loop& loop, const Clock& clock, sandbox::Provider& provider,
                             managed::PackageUses& uses, Options options)
    : loop_(loop),
      clock_(clock),
      provider_(provider),
      uses_(uses),
      options_(std::move(options)),
      news_(loop),
      work_(loop) {}

std::int64_t PackageBuilds::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

// ---- what is wanted

PackageBuilds::Build& PackageBuilds::ensure(const PackageSet& set) {
  const auto [entry, is_new] = builds_.try_emplace(set.digest(), loop_, set);
  Build& build = entry->second;
  const bool is_due = build.progress.state == State::kFailed && loop_.now() >= build.next_try;
  if (is_new || is_due) queue(build);
  return build;
}

void PackageBuilds::queue(Build& build) {
  build.progress = {};
  if (build.ended->is_set()) build.ended = std::make_shared<linux::Event>(loop_);
  waiting_.push_back(build.set.digest());
  start_some();
}

void PackageBuilds::begin(const PackageSet& set) {
  Build& build = ensure(set);
  if (build.progress.state == State::kFailed) queue(build);
}

void PackageBuilds::forget(const std::string& digest) {
  const auto found = builds_.find(digest);
  if (found != builds_.end() && found->second.progress.state == State::kReady) builds_.erase(found);
}

PackageBuilds::Progress PackageBuilds::progress_of(const std::string& digest) const {
  const auto found = builds_.find(digest);
  return found == builds_.end() ? Progress() : found->second.progress;
}

Task<Result<void>> PackageBuilds::wait_for(std::string digest, Duration at_most) {
  const TimePoint deadline = loop_.now() + at_most;
  if (!builds_.contains(digest)) {
    CO_TRY(const auto set, co_await uses_.find(digest));
    if (!set) co_return lacks_template(managed::package_template(digest));
    ensure(*set);
  } else {
    ensure(PackageSet(builds_.at(digest).set));
  }
  const auto ended = builds_.at(digest).ended;
  if (builds_.at(digest).progress.state != State::kReady) co_await ended->wait(deadline);
  const Progress now = progress_of(digest);
  if (now.state == State::kReady) co_return {};
  if (now.state == State::kFailed)
    co_return make_error(
        ErrorCode::kInvalid, "wait for packages",
        fmt::format("the packages of this environment could not be installed: {}", now.error));
  co_return make_error(
      ErrorCode::kInvalid, "wait for packages",
      fmt::format("the packages of this environment are still being installed ({}); nothing was "
                  "run, try again later",
                  now.step.empty() ? "others come first" : now.step));
}

// ---- at work

void PackageBuilds::start_some() {
  while (running_ < kAtOnce && !waiting_.empty()) {
    std::string digest = std::move(waiting_.front());
    waiting_.pop_front();
    if (!builds_.contains(digest)) continue;
    ++running_;
    work_.spawn(run(std::move(digest)));
  }
}

Task<> PackageBuilds::run(std::string digest) {
  // Nobody takes it away while it is not at its end.
  Build& build = builds_.at(digest);
  build.progress.state = State::kBuilding;
  build.progress.began_ms = now_ms();
  const auto made = co_await make(build);
  build.is_first = false;
  build.progress.ended_ms = now_ms();
  if (made) {
    build.progress.state = State::kReady;
    build.progress.step.clear();
  } else {
    const Times& times = options_.times;
    build.progress.state = State::kFailed;
    build.progress.error =
        made.error().message.empty() ? made.error().describe() : made.error().message;
    build.next_try =
        loop_.now() + (is_refusal(made.error()) ? times.after_refusal : times.after_trouble);
    LOG_WARN("packages of an environment cannot be installed", {"packages", describe(build.set)},
             {"template", managed::package_template(digest)}, {"error", build.progress.error});
  }
  build.ended->set();
  --running_;
  start_some();
}

Task<Result<std::vector<TemplateInfo>>> PackageBuilds::list_templates() {
  const TimePoint deadline = loop_.now() + options_.times.patience;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto listed = co_await provider_.list_templates();
    if (listed || !may_be_back(listed.error()) || loop_.now() >= deadline) co_return listed;
    co_await loop_.sleep_for(pause);
  }
}

Task<Result<void>> PackageBuilds::make(Build& build) {
  const std::string name = managed::package_template(build.set.digest());
  CO_TRY(const auto templates, co_await list_templates());
  const auto has_name = [](const std::string& wanted) {
    return [&wanted](const TemplateInfo& info) { return info.name == wanted; };
  };
  if (std::ranges::any_of(templates, has_name(name))) co_return {};
  const auto base = std::ranges::find_if(templates, has_name(build.set.base));
  if (base == templates.end()) co_return lacks_template(build.set.base);
  LOG_INFO("packages of an environment are installed", {"packages", describe(build.set)},
           {"template", name});
  const std::string sandbox = sandbox_of(build.set.digest());
  // What is left of a try that failed would only say so again.
  if (!build.is_first) CO_TRY_VOID(co_await provider_.destroy(sandbox));
  auto made = co_await make_in_sandbox(build, *base);
  if (const auto ended = co_await provider_.destroy(sandbox); !ended)
    LOG_WARN("a sandbox in which packages were installed is still there", {"sandbox", sandbox},
             {"error", ended.error()});
  if (made) LOG_INFO("packages of an environment are ready", {"template", name});
  co_return made;
}

Task<Result<void>> PackageBuilds::make_in_sandbox(Build& build, const TemplateInfo& base) {
  const auto steps = package_steps(build.set);
  build.progress.steps = steps.size() + 1;
  build.progress.step = "making a sandbox";
  CO_TRY_VOID(co_await create_sandbox(build));
  for (const PackageStep& step : steps) {
    build.progress.step = step.name;
    CO_TRY_VOID(co_await do_step(build, step));
    ++build.progress.steps_done;
  }
  build.progress.step = "keeping the template";
  CO_TRY_VOID(co_await keep_template(build, base));
  ++build.progress.steps_done;
  co_return {};
}

// One that is there already is the one that another process made.
Task<Result<std::string>> PackageBuilds::create_sandbox(const Build& build) {
  sandbox::CreateRequest request{.id = sandbox_of(build.set.digest()),
                                 .template_name = build.set.base,
                                 .hostname = "packages",
                                 .labels = {{kLabel, build.set.digest()}},
                                 .limits = builder_limits(true)};
  request.network.environment = options_.network;
  if (options_.network.empty()) {
    CO_TRY(request.network.policy, package_policy(build.set));
  }
  const TimePoint deadline = loop_.now() + options_.times.patience;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const auto info = co_await provider_.create(request);
    if (info) co_return info->id;
    const bool has_no_disk =
        info.error().code == ErrorCode::kUnsupported && request.limits.disk_upper;
    if (has_no_disk) request.limits = builder_limits(false);
    if (!has_no_disk && (!may_be_back(info.error()) || loop_.now() >= deadline))
      co_return info.error();
    co_await loop_.sleep_for(pause);
  }
}

Task<Result<void>> PackageBuilds::do_step(Build& build, const PackageStep& step) {
  build.progress.output.clear();
  const TimePoint deadline = loop_.now() + options_.times.step + options_.times.patience;
  std::optional<TimePoint> failing;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const auto end = co_await follow(build, step, deadline);
    if (end) {
      using sandbox::Outcome;
      if (end->outcome == Outcome::kExit && end->code == 0) co_return {};
      const std::string said = end_of(build.progress.output, kErrorBytesMax);
      if (end->outcome == Outcome::kInterrupted)
        co_return make_error(ErrorCode::kUnavailable, "build packages",
                             "the sandbox ended while they were installed");
      if (end->outcome == Outcome::kTimeout)
        co_return make_error(ErrorCode::kInvalid, "build packages",
                             fmt::format("{} takes too long: {}", step.name, said));
      co_return make_error(
          ErrorCode::kInvalid, "build packages",
          fmt::format("{}: {}{}{}", step.name, said, end->note.empty() ? "" : "; ", end->note));
    }
    if (!failing) failing = loop_.now();
    const bool is_over =
        loop_.now() >= deadline || loop_.now() - *failing >= options_.times.patience;
    if (end.error().code == ErrorCode::kNotFound)
      co_return make_error(ErrorCode::kUnavailable, "build packages",
                           "the sandbox ended while they were installed");
    if (!may_be_back(end.error()) || is_over) co_return end.error();
    co_await loop_.sleep_for(pause);
  }
}

// The job begins, or is joined: its id is the step's.
Task<Result<sandbox::JobInfo>> PackageBuilds::follow(Build& build, const PackageStep& step,
                                                     TimePoint deadline) {
  using std::chrono::duration_cast;
  CO_TRY(const auto stream,
         co_await provider_.execute(
             sandbox_of(build.set.digest()),
             {.id = step.name,
              .argv = step.argv,
              .environment = step_variables(options_.registries),
              .directory = "/",
              .user = "root",
              .timeout = duration_cast<sandbox::Milliseconds>(options_.times.step)}));
  for (;;) {
    CO_TRY(auto event, co_await stream->next(deadline));
    if (!event) co_return make_error(ErrorCode::kUnavailable, "follow packages", "it broke off");
    if (auto* end = std::get_if<sandbox::JobInfo>(&*event)) co_return std::move(*end);
    if (const auto* piece = std::get_if<sandbox::Output>(&*event)) {
      std::string& output = build.progress.output;
      output += piece->bytes;
      if (output.size() > 2 * kOutputBytesMax) output.erase(0, output.size() - kOutputBytesMax);
    }
  }
}

// By its own name it is there only when it is whole.
Task<Result<void>> PackageBuilds::keep_template(const Build& build, const TemplateInfo& base) {
  const std::string digest = build.set.digest();
  CO_TRY(auto info, co_await provider_.snapshot(sandbox_of(digest), unfinished_template(digest)));
  info.name = managed::package_template(digest);
  info.kind = kKind;
  info.source = describe(build.set);
  info.environment = package_variables(build.set, base.environment);
  info.held_layers.clear();
  CO_TRY_VOID(co_await provider_.put_template(std::move(info)));
  (void)co_await provider_.remove_template(unfinished_template(digest));
  co_return {};
}

// ---- what is there

Task<> PackageBuilds::keep_going() {
  for (;;) {
    if (const auto looked = co_await look_once(); !looked)
      LOG_WARN("packages of environments are not looked after", {"error", looked.error()});
    (void)co_await news_.wait(loop_.now() + options_.times.between_looks);
    news_.reset();
  }
}

Task<Result<void>> PackageBuilds::look_once() {
  CO_TRY(const auto wanted, co_await uses_.wanted());
  for (const PackageSet& set : wanted) ensure(set);
  CO_TRY(const auto used, co_await uses_.in_use());
  std::erase_if(builds_, [&](const auto& each) {
    const State state = each.second.progress.state;
    return (state == State::kReady || state == State::kFailed) && !used.contains(each.first);
  });
  co_await remove_unused(used);
  if (!has_looked_) co_await end_orphans();
  has_looked_ = true;
  co_return co_await uses_.sweep();
}

// One that a sandbox stands on stays for as long. Layers go when the operator collects them.
Task<> PackageBuilds::remove_unused(const std::set<std::string>& used) {
  const auto templates = co_await provider_.list_templates();
  if (!templates) co_return;
  constexpr std::string_view kUnfinished = ".new";
  for (const TemplateInfo& info : *templates) {
    std::string_view name = info.name;
    const bool is_unfinished = name.ends_with(kUnfinished);
    if (is_unfinished) name.remove_suffix(kUnfinished.size());
    const std::string digest(managed::digest_in(name));
    if (digest.empty()) continue;
    const auto build = builds_.find(digest);
    const bool is_at_work =
        build != builds_.end() && (build->second.progress.state == State::kBuilding ||
                                   build->second.progress.state == State::kWaiting);
    if (is_at_work || (used.contains(digest) && !is_unfinished)) continue;
    const auto removed = co_await provider_.remove_template(info.name);
    if (removed) LOG_INFO("packages that nobody uses are removed", {"template", info.name});
  }
}

// Of a process that died while it built something that nobody wants by now.
Task<> PackageBuilds::end_orphans() {
  const auto sandboxes = co_await provider_.list();
  if (!sandboxes) co_return;
  for (const sandbox::SandboxInfo& info : *sandboxes) {
    const auto label = info.labels.find(kLabel);
    if (label != info.labels.end() && !builds_.contains(label->second))
      (void)co_await provider_.destroy(info.id);
  }
}

}  // namespace pons::brain
