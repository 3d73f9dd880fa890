#pragma once

#include <concepts>
#include <type_traits>

#include "pons/sandbox/provider.h"
#include "pons/sandbox/wire.h"

// The JSON names of every value, once: the writer and the reader of wire.cc walk the same list, so
// that what one says the other understands.

namespace pons::sandbox {

// A T that may be const: the writer looks, the reader fills in.
template <class V, class T>
concept Some = std::same_as<std::remove_const_t<V>, T>;

template <class Visitor, Some<Limits> V>
void visit(Visitor& on, V& v) {
  on("memory_bytes", v.memory_bytes);
  on("swap_bytes", v.swap_bytes);
  on("cpu_percent", v.cpu_percent);
  on("pids", v.pids);
  on("disk_bytes", v.disk_bytes);
  on("disk_inodes", v.disk_inodes);
  on("disk_upper", v.disk_upper);
  on("io_read_bytes_per_second", v.io_read_bytes_per_second);
  on("io_write_bytes_per_second", v.io_write_bytes_per_second);
  on("io_read_operations_per_second", v.io_read_operations_per_second);
  on("io_write_operations_per_second", v.io_write_operations_per_second);
  on("idle_max_ms", v.idle_max);
  on("lifetime_max_ms", v.lifetime_max);
  on("pause_at_end", v.pause_at_end);
  on("freeze_after_ms", v.freeze_after);
}

template <class Visitor, Some<Weakening> V>
void visit(Visitor& on, V& v) {
  on("allow_sudo", v.allow_sudo);
  on("allow_nested_user_namespaces", v.allow_nested_user_namespaces);
}

template <class Visitor, Some<TemplateInfo> V>
void visit(Visitor& on, V& v) {
  on("name", v.name);
  on("kind", v.kind);
  on("layers", v.layers);
  on("held_layers", v.held_layers);
  on("user", v.user);
  on("directory", v.directory);
  on("environment", v.environment);
  on("weakening", v.weakening);
  on("bytes", v.bytes);
  on("created_unix_ms", v.created_unix_ms);
  on("source", v.source);
}

template <class Visitor, Some<NetworkRequest> V>
void visit(Visitor& on, V& v) {
  on("environment", v.environment);
  on("policy", v.policy);
}

template <class Visitor, Some<CreateRequest> V>
void visit(Visitor& on, V& v) {
  on("id", v.id);
  on("template", v.template_name);
  on("hostname", v.hostname);
  on("environment", v.environment);
  on("labels", v.labels);
  on("limits", v.limits);
  on("network", v.network);
  on("login_shell", v.login_shell);
  on("must_be_new", v.must_be_new);
  on("checkpoint", v.checkpoint);
  on("keep_checkpoint", v.keep_checkpoint);
  on("ephemeral", v.ephemeral);
}

template <class Visitor, Some<SandboxInfo> V>
void visit(Visitor& on, V& v) {
  on("id", v.id);
  on("template", v.template_name);
  on("state", v.state);
  on("warm", v.warm);
  on("created_unix_ms", v.created_unix_ms);
  on("used_unix_ms", v.used_unix_ms);
  on("ends_unix_ms", v.ends_unix_ms);
  on("labels", v.labels);
  on("limits", v.limits);
  on("checkpoints", v.checkpoints);
  on("jobs_running", v.jobs_running);
  on("ended_by", v.ended_by);
  on("end_reason", v.end_reason);
}

template <class Visitor, Some<Metrics> V>
void visit(Visitor& on, V& v) {
  on("memory_bytes", v.memory_bytes);
  on("memory_cache_bytes", v.memory_cache_bytes);
  on("memory_peak_bytes", v.memory_peak_bytes);
  on("cpu_usec", v.cpu_usec);
  on("pids", v.pids);
  on("oom_kills", v.oom_kills);
  on("disk_bytes", v.disk_bytes);
  on("disk_inodes", v.disk_inodes);
  on("io_read_bytes", v.io_read_bytes);
  on("io_write_bytes", v.io_write_bytes);
  on("io_read_operations", v.io_read_operations);
  on("io_write_operations", v.io_write_operations);
  on("memory_pressure", v.memory_pressure);
  on("cpu_pressure", v.cpu_pressure);
  on("io_pressure", v.io_pressure);
  on("memory_bytes_max", v.memory_bytes_max);
  on("disk_bytes_max", v.disk_bytes_max);
  on("pids_max", v.pids_max);
  on("cpu_percent_max", v.cpu_percent_max);
}

template <class Visitor, Some<TerminalSize> V>
void visit(Visitor& on, V& v) {
  on("rows", v.rows);
  on("columns", v.columns);
}

template <class Visitor, Some<JobSpec> V>
void visit(Visitor& on, V& v) {
  on("id", v.id);
  on("argv", v.argv);
  on("shell_line", v.shell_line);
  on("environment", v.environment);
  on("directory", v.directory);
  on("user", v.user);
  on("input", v.input);
  on("input_open", v.input_open);
  on("terminal", v.terminal);
  on("timeout_ms", v.timeout);
  on("kill_at_timeout", v.kill_at_timeout);
  on("output_bytes_max", v.output_bytes_max);
  on("open_files_max", v.open_files_max);
  on("file_bytes_max", v.file_bytes_max);
  on("transaction", v.transaction);
  on("announce_start", v.announce_start);
  on("label", v.label);
}

template <class Visitor, Some<RunRequest> V>
void visit(Visitor& on, V& v) {
  on("sandbox", v.sandbox);
  on("job", v.job);
  on("keep", v.keep);
}

template <class Visitor, Some<JobInfo> V>
void visit(Visitor& on, V& v) {
  on("id", v.id);
  on("outcome", v.outcome);
  on("code", v.code);
  on("pid", v.pid);
  on("duration_ms", v.duration);
  on("cpu_usec", v.cpu_usec);
  on("output_bytes", v.output_bytes);
  on("error_bytes", v.error_bytes);
  on("rolled_back", v.rolled_back);
  on("note", v.note);
  on("label", v.label);
  on("ended_ago_ms", v.ended_ago);
}

template <class Visitor, Some<JobStarted> V>
void visit(Visitor& on, V& v) {
  on("pid", v.pid);
}

template <class Visitor, Some<Output> V>
void visit(Visitor& on, V& v) {
  on("stream", v.stream);
  on("offset", v.offset);
  on("lost", v.lost);
  on("bytes", v.bytes);
}

template <class Visitor, Some<LinkEnd> V>
void visit(Visitor& on, V& v) {
  on("path", v.path);
  on("kind", v.kind);
  on("mode", v.mode);
  on("size", v.size);
}

template <class Visitor, Some<FileInfo> V>
void visit(Visitor& on, V& v) {
  on("path", v.path);
  on("kind", v.kind);
  on("mode", v.mode);
  on("uid", v.uid);
  on("gid", v.gid);
  on("size", v.size);
  on("inode", v.inode);
  on("modified_ns", v.modified_ns);
  on("link_target", v.link_target);
  on("link_end", v.link_end);
  on("attributes", v.attributes);
}

template <class Visitor, Some<FileChange> V>
void visit(Visitor& on, V& v) {
  on("kind", v.kind);
  on("path", v.path);
}

}  // namespace pons::sandbox
