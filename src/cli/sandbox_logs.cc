#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "help.h"
#include "job_follower.h"
#include "local_terminal.h"
#include "pons/sandbox/wire.h"
#include "sandbox_session.h"

namespace pons::cli {

namespace {

using sandbox::JobInfo;
using sandbox::Output;

constexpr const char* kStep = "show logs";
// For output that the list of jobs has counted and that does not come.
constexpr Duration kPatience = std::chrono::seconds(10);

struct Options {
  std::string sandbox;
  std::string job;
  bool follow = false;
  std::uint64_t from = 0;
};

// The job that was named, or else the newest.
Task<Result<JobInfo>> find_job(Session& session, const Options& options) {
  CO_TRY(const auto jobs, co_await session.provider.list_jobs(options.sandbox));
  if (jobs.empty())
    co_return make_error(ErrorCode::kInvalid, kStep,
                         fmt::format("nothing has run in {} yet", options.sandbox));
  if (options.job.empty()) co_return jobs.back();
  const auto found = std::ranges::find(jobs, options.job, &JobInfo::id);
  if (found == jobs.end())
    co_return make_error(
        ErrorCode::kInvalid, kStep,
        fmt::format("there is no job {} in {}; `pons sandbox inspect {}` lists them", options.job,
                    options.sandbox, options.sandbox));
  co_return *found;
}

// What there is up to now, without waiting for more.
Task<Result<int>> show_until_now(Session& session, std::unique_ptr<sandbox::JobStream> stream,
                                 JobInfo job, sandbox::JobOffsets at) {
  StandardStream output(session.loop, STDOUT_FILENO);
  StandardStream error(session.loop, STDERR_FILENO);
  while (job.outcome != sandbox::Outcome::kRunning || at.output < job.output_bytes ||
         at.error < job.error_bytes) {
    CO_TRY(const auto event, co_await stream->next(session.loop.now() + kPatience));
    if (!event) break;
    if (session.common.json)
      CO_TRY_VOID(co_await output.write(dump_json(sandbox::to_json(*event)) + "\n"));
    const auto* piece = std::get_if<Output>(&*event);
    if (piece == nullptr) break;
    const bool normal = piece->stream == Output::Stream::kOutput;
    (normal ? at.output : at.error) = piece->offset + piece->bytes.size();
    if (!session.common.json) CO_TRY_VOID(co_await (normal ? output : error).write(piece->bytes));
  }
  co_return 0;
}

Task<Result<int>> show(Session& session, const Options& options) {
  CO_TRY(const JobInfo job, co_await find_job(session, options));
  const sandbox::JobOffsets from{.output = options.from,
                                 .error = std::min(options.from, job.error_bytes)};
  CO_TRY(auto stream, co_await session.provider.attach(options.sandbox, job.id, from));
  if (!options.follow) co_return co_await show_until_now(session, std::move(stream), job, from);
  CO_TRY(auto signals, watch_person());
  co_return co_await follow_job(session, options.sandbox, std::move(stream), signals,
                                {.interrupt_job = false, .from = from});
}

}  // namespace

void add_sandbox_logs(CLI::App& group, Common& common, int& exit_code) {
  CLI::App* command = group.add_subcommand("logs", "Show the output of a job");
  auto options = std::make_shared<Options>();
  explain(
      *command,
      "Shows what a job wrote so far, from the beginning as far as it is kept, whether it still "
      "runs or has ended. Without\n"
      "JOB: that of the newest job. With -f it goes on until the job ends, and the exit status "
      "is the job's.");
  command->add_option("SANDBOX", options->sandbox, "Its id")->required();
  command->add_option("JOB", options->job, "The job's id (default: the newest)");
  command->add_flag("-f,--follow", options->follow, "Go on until the job ends");
  command->add_option("--from", options->from, "Skip so many bytes of output")->type_name("OFFSET");
  add_session_options(*command, common);
  command->footer(
      "EXAMPLES\n"
      "  pons sandbox logs work\n"
      "  pons sandbox logs -f work \"$(pons sandbox exec -d work -- make)\"");
  command->callback([&common, &exit_code, options] {
    exit_code = run_session(common, [options](Session& s) { return show(s, *options); });
  });
}

}  // namespace pons::cli
