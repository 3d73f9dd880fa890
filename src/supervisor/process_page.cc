#include "process_page.h"

#include <chrono>

#include "pons/base/version.h"
#include "pons/linux/process.h"
#include "pons/telemetry/page.h"

namespace pons::supervisor {

namespace {

constexpr Duration kTellEvery = std::chrono::seconds(5);
constexpr std::size_t kAnswerBytesMax = 4096;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string process_page(const std::vector<WatchedProcess>& processes) {
  using enum telemetry::Page::Type;
  telemetry::Page page;
  page.begin("pons_build_info", kGauge, "The version that runs; always 1.");
  page.add({{"version", version()}}, 1);
  const double now = seconds(std::chrono::system_clock::now().time_since_epoch());
  for (const WatchedProcess& process : processes) {
    const telemetry::Page::Label label{"process", process.name};
    page.begin("pons_process_ready", kGauge, "1 while the process is there and ready.");
    page.add({label}, process.ready ? 1 : 0);
    page.begin("pons_process_restarts_total", kCounter, "Starts after the first one.");
    page.add({label}, process.restarts);
    page.begin("pons_process_kept_descriptors", kGauge,
               "Descriptors that the supervisor keeps for its next life.");
    page.add({label}, process.kept_descriptors);
    const auto figures = linux::read_process_figures(process.pid);
    if (process.pid == 0 || !figures) continue;
    page.begin("pons_process_cpu_seconds_total", kCounter, "Processor time.");
    page.add({label}, seconds(figures->cpu));
    page.begin("pons_process_resident_bytes", kGauge, "Memory, shared pages included.");
    page.add({label}, figures->resident_bytes);
    page.begin("pons_process_threads", kGauge, "Threads.");
    page.add({label}, figures->threads);
    page.begin("pons_process_start_time_seconds", kGauge, "When it was started, since 1970.");
    page.add({label}, now - seconds(figures->age));
    if (figures->descriptors == 0) continue;
    page.begin("pons_process_open_descriptors", kGauge, "Open descriptors.");
    page.add({label}, figures->descriptors);
  }
  return page.text();
}

Task<> keep_telling_front(linux::Loop& loop, std::string front_socket,
                          std::function<std::string()> page) {
  http::Client front(loop, http::unix_connector(loop, std::move(front_socket)), "front");
  for (;;) {
    // One that is being restarted hears the next one.
    auto answer =
        co_await front.send({.method = "PUT", .target = "/metrics/supervisor", .body = page()});
    if (answer) (void)co_await answer->read_whole_body(kAnswerBytesMax);
    co_await loop.sleep_for(kTellEvery);
  }
}

}  // namespace pons::supervisor
