#pragma once

#include "pons/sandbox/provider.h"

// For tests: a provider that can do nothing; those who derive from it can do what they need.

namespace pons::sandbox {

class RefusingProvider : public Provider {
 public:
  Task<Result<std::vector<TemplateInfo>>> list_templates() override { co_return refusal(); }
  Task<Result<void>> put_template(TemplateInfo) override { co_return refusal(); }
  Task<Result<std::vector<std::string>>> remove_template(std::string) override {
    co_return refusal();
  }
  Task<Result<SandboxInfo>> create(CreateRequest) override { co_return refusal(); }
  Task<Result<SandboxInfo>> inspect(std::string) override { co_return refusal(); }
  Task<Result<std::vector<SandboxInfo>>> list() override { co_return refusal(); }
  Task<Result<void>> destroy(std::string) override { co_return refusal(); }
  Task<Result<Metrics>> metrics(std::string) override { co_return refusal(); }
  Task<Result<SandboxInfo>> set_limits(std::string, Limits) override { co_return refusal(); }
  Task<Result<SandboxInfo>> set_lifetime(std::string, Milliseconds, bool) override {
    co_return refusal();
  }
  Task<Result<SandboxInfo>> set_label(std::string, std::string, std::string) override {
    co_return refusal();
  }
  Task<Result<SandboxInfo>> pause(std::string) override { co_return refusal(); }
  Task<Result<SandboxInfo>> resume(std::string) override { co_return refusal(); }
  Task<Result<std::unique_ptr<JobStream>>> execute(std::string, JobSpec) override {
    co_return refusal();
  }
  Task<Result<std::unique_ptr<JobStream>>> attach(std::string, std::string, JobOffsets) override {
    co_return refusal();
  }
  Task<Result<std::vector<JobInfo>>> list_jobs(std::string) override { co_return refusal(); }
  Task<Result<void>> write_input(std::string, std::string, std::string) override {
    co_return refusal();
  }
  Task<Result<void>> close_input(std::string, std::string) override { co_return refusal(); }
  Task<Result<void>> signal(std::string, std::string, int) override { co_return refusal(); }
  Task<Result<void>> kill(std::string, std::string) override { co_return refusal(); }
  Task<Result<void>> resize(std::string, std::string, TerminalSize) override {
    co_return refusal();
  }
  Task<Result<std::unique_ptr<ByteSource>>> read_file(std::string, std::string, std::string,
                                                      std::uint64_t, std::uint64_t) override {
    co_return refusal();
  }
  Task<Result<FileInfo>> write_file(std::string, std::string, WriteOptions,
                                    std::unique_ptr<ByteSource>) override {
    co_return refusal();
  }
  Task<Result<FileInfo>> stat_file(std::string, std::string, std::string) override {
    co_return refusal();
  }
  Task<Result<std::vector<FileInfo>>> list_files(std::string, std::string, std::string,
                                                 std::uint32_t) override {
    co_return refusal();
  }
  Task<Result<FileInfo>> make_directory(std::string, std::string, std::string,
                                        std::string) override {
    co_return refusal();
  }
  Task<Result<void>> remove_file(std::string, std::string, std::string) override {
    co_return refusal();
  }
  Task<Result<FileInfo>> rename_file(std::string, std::string, std::string, std::string) override {
    co_return refusal();
  }
  Task<Result<std::unique_ptr<ChangeStream>>> watch_files(std::string, std::string, std::string,
                                                          bool) override {
    co_return refusal();
  }
  Task<Result<std::string>> checkpoint(std::string, std::string) override { co_return refusal(); }
  Task<Result<void>> rollback(std::string, std::string) override { co_return refusal(); }
  Task<Result<void>> commit(std::string, std::string) override { co_return refusal(); }
  Task<Result<SandboxInfo>> fork(std::string, CreateRequest) override { co_return refusal(); }
  Task<Result<TemplateInfo>> snapshot(std::string, std::string) override { co_return refusal(); }
  Task<Result<linux::UniqueFd>> dial(std::string, std::uint16_t) override { co_return refusal(); }

 private:
  static Error refusal() { return make_error(ErrorCode::kUnsupported, "use sandbox", "not here"); }
};

}  // namespace pons::sandbox
