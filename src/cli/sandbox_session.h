#pragma once

#include <functional>
#include <string>
#include <vector>

#include "command.h"
#include "pons/base/task.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/provider.h"

namespace pons::cli {

// What a command about sandboxes works with: the warden of the running Pons.
struct Session {
  linux::Loop& loop;
  sandbox::Provider& provider;
  const Common& common;
};

// Runs one command to its exit status; an error is printed with what to do about it and becomes
// `failure`.
using Work = std::function<Task<Result<int>>(Session& session)>;
int run_session(const Common& common, const Work& work, int failure = 1);

// The options that every command about sandboxes has.
void add_session_options(CLI::App& app, Common& common);

// One line of text, or one JSON value, on standard output.
void print_json(const Json& value);

// Exit statuses of the commands that run something: those of the command itself, and these.
inline constexpr int kPonsFailed = 125;
inline constexpr int kTimedOut = 124;

// Each adds one command to `pons sandbox`.
void add_sandbox_create(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_fork(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_ls(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_inspect(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_exec(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_run(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_shell(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_logs(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_cp(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_checkpoints(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_states(CLI::App& group, Common& common, int& exit_code);
void add_sandbox_top(CLI::App& group, Common& common, int& exit_code);

}  // namespace pons::cli
