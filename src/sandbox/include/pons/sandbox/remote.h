#pragma once

#include "pons/base/json.h"
#include "pons/http/client.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/provider.h"

namespace pons::sandbox {

// Sandboxes of another process, by the HTTP of wire.h. An error there is the same error here, code
// and message. What the other side says is checked before it is believed.
//
// Streams, byte sources and tasks it gave out must be gone before it is, and it before the loop. A
// job's stream that is cut before the job's end is kUnavailable; the message names the offsets from
// which attach() goes on.
class RemoteProvider final : public Provider {
 public:
  RemoteProvider(linux::Loop& loop, http::Connector connector, std::string host = "pons");

  Task<Result<std::vector<TemplateInfo>>> list_templates() override;
  Task<Result<void>> put_template(TemplateInfo info) override;
  Task<Result<std::vector<std::string>>> remove_template(std::string name) override;

  Task<Result<SandboxInfo>> create(CreateRequest request) override;
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

  // One end of a socket pair whose other end is carried as long as this provider lives.
  Task<Result<linux::UniqueFd>> dial(std::string id, std::uint16_t port) override;

 private:
  Task<Result<http::ClientResponse>> send(http::ClientRequest request);
  Task<Result<Json>> ask(http::ClientRequest request);
  Task<Result<void>> tell(http::ClientRequest request);
  template <class T>
  Task<Result<T>> ask_for(http::ClientRequest request);
  template <class T>
  Task<Result<std::vector<T>>> ask_for_list(http::ClientRequest request, const char* key);
  Task<Result<std::unique_ptr<JobStream>>> follow(http::ClientRequest request, JobOffsets from);

  linux::Loop& loop_;
  http::Client client_;
  linux::TaskGroup dialled_;
};

}  // namespace pons::sandbox
