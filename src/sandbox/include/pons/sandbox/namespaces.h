#pragma once

#include <cstdint>
#include <memory>
#include <set>

#include "pons/base/clock.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/network_gate.h"
#include "pons/sandbox/provider.h"
#include "pons/spawner/client.h"
#include "pons/telemetry/page.h"

namespace pons::sandbox {

struct NamespacesSettings {
  std::string state_dir = ".";  // holds sandboxes/ and templates/
  std::uint64_t pool_memory_bytes = 128ULL << 20;
  std::size_t warm_min = 2;
  std::size_t warm_max = 128;
  std::size_t sandboxes_max = 2000;
  Duration check_every = std::chrono::seconds(5);  // those that wait in the pool
  Duration check_time = std::chrono::seconds(10);  // who has not answered by then is taken down
  NetworkGate* network_gate = nullptr;  // null: no sandbox has a network; must outlive the provider
  Limits defaults;  // for a request whose memory_bytes, cpu_percent, pids or io_… is 0
};

// What the spawner may have on behalf of this provider; everything else is a leak.
struct Known {
  std::set<std::uint64_t> keys;  // those that wait, are being built or taken down included
  std::size_t disks_max = 0;
};

class Fleet;

// Sandboxes of this host, made by the spawner out of namespaces, control groups and overlays. One
// loop, no threads. Sandboxes outlive the object: the next one with the same state directory takes
// them over, with their jobs. Both arguments must outlive it.
class NamespacesProvider final : public Provider {
 public:
  static Result<std::unique_ptr<NamespacesProvider>> create(linux::Loop& loop,
                                                            spawner::Client& client,
                                                            NamespacesSettings settings);
  ~NamespacesProvider() override;

  // Ends every sandbox; nothing can be created afterwards.
  Task<> end_all(TimePoint deadline);

  Task<Result<Known>> known();
  void write_metrics(telemetry::Page& page) const;

  Task<Result<std::vector<TemplateInfo>>> list_templates() override;
  Task<Result<void>> put_template(TemplateInfo info) override;
  Task<Result<std::vector<std::string>>> remove_template(std::string name) override;

  Task<Result<SandboxInfo>> create(CreateRequest request) override;
  Task<Result<SandboxInfo>> create_for_job(CreateRequest request) override;
  Task<Result<SandboxInfo>> inspect(std::string id) override;
  Task<Result<std::vector<SandboxInfo>>> list() override;
  Task<Result<void>> destroy(std::string id) override;
  Task<Result<Metrics>> metrics(std::string id) override;
  Task<Result<SandboxInfo>> set_limits(std::string id, Limits limits) override;
  Task<Result<SandboxInfo>> set_lifetime(std::string id, Milliseconds from_now,
                                         bool pause_at_end) override;
  Task<Result<SandboxInfo>> set_label(std::string id, std::string name, std::string value) override;
  Task<Result<SandboxInfo>> pause(std::string id) override;
  Task<Result<SandboxInfo>> resume(std::string id) override;

  Task<Result<std::unique_ptr<JobStream>>> execute(std::string id, JobSpec job) override;
  Task<Result<std::unique_ptr<JobStream>>> attach(std::string id, std::string job,
                                                  JobOffsets from) override;
  Task<Result<std::vector<JobInfo>>> list_jobs(std::string id) override;
  Task<Result<void>> write_input(std::string id, std::string job, std::string bytes) override;
  Task<Result<void>> close_input(std::string id, std::string job) override;
  Task<Result<void>> signal(std::string id, std::string job, int number) override;
  Task<Result<void>> kill(std::string id, std::string job) override;
  Task<Result<void>> resize(std::string id, std::string job, TerminalSize size) override;

  Task<Result<std::unique_ptr<ByteSource>>> read_file(std::string id, std::string path,
                                                      std::string user, std::uint64_t offset,
                                                      std::uint64_t size) override;
  Task<Result<FileInfo>> write_file(std::string id, std::string path, WriteOptions options,
                                    std::unique_ptr<ByteSource> bytes) override;
  Task<Result<FileInfo>> stat_file(std::string id, std::string path, std::string user) override;
  Task<Result<std::vector<FileInfo>>> list_files(std::string id, std::string path, std::string user,
                                                 std::uint32_t depth) override;
  Task<Result<FileInfo>> make_directory(std::string id, std::string path, std::string user,
                                        std::string owner) override;
  Task<Result<void>> remove_file(std::string id, std::string path, std::string user) override;
  Task<Result<FileInfo>> rename_file(std::string id, std::string from, std::string to,
                                     std::string user) override;
  Task<Result<std::unique_ptr<ChangeStream>>> watch_files(std::string id, std::string path,
                                                          std::string user,
                                                          bool recursive) override;

  Task<Result<std::string>> checkpoint(std::string id, std::string name) override;
  Task<Result<void>> rollback(std::string id, std::string name) override;
  Task<Result<void>> commit(std::string id, std::string name) override;
  Task<Result<SandboxInfo>> fork(std::string id, CreateRequest request) override;
  Task<Result<TemplateInfo>> snapshot(std::string id, std::string template_name) override;

  Task<Result<linux::UniqueFd>> dial(std::string id, std::uint16_t port) override;
  std::shared_ptr<const void> hold(const std::string& id) override;

 private:
  explicit NamespacesProvider(std::unique_ptr<Fleet> fleet);
  std::unique_ptr<Fleet> fleet_;
};

}  // namespace pons::sandbox
