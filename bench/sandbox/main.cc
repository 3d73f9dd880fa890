// Measures sandboxes from outside, by the monotonic clock. Each mode prints one JSON object: every
// value is the list of its samples, so that the caller draws the figures.
//   bench_sandbox latency SOCKET TEMPLATE ROUNDS PAUSE_MS PEERS      {"NAME":[first byte, ms …]}
//   bench_sandbox lifecycles SOCKET TEMPLATE SECONDS WORKERS PEERS SPAWNER   {"NAME":[per second]}
//   bench_sandbox checkpoints SOCKET SANDBOX ROUNDS                  {"checkpoint":[ms …],…}
//   bench_sandbox transactions SOCKET SANDBOX ROUNDS                 {"plain":[ms …],…}
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <thread>

#include "candidate.h"

namespace pons::bench {

namespace {

constexpr std::string_view kExec = R"({"argv":["sh","-c","echo hi"]})";
constexpr std::string_view kShellLine = R"({"shell_line":"echo hi"})";

using Samples = std::map<std::string, std::vector<double>>;

void print(const Samples& samples) {
  const char* between = "{";
  for (const auto& [name, values] : samples) {
    std::printf("%s\"%s\":[", between, name.c_str());
    for (std::size_t i = 0; i < values.size(); ++i)
      std::printf(i == 0 ? "%.4f" : ",%.4f", values[i]);
    std::printf("]");
    between = ",";
  }
  std::printf("}\n");
}

void rest(int pause_ms) {
  usleep(static_cast<useconds_t>(pause_ms) * 1000);
}

// The candidates take turns; the pause lets the pool refill and the taken-down ones go.
Samples measure_latency(const std::string& socket, const std::string& template_name, int rounds,
                        int pause_ms, const std::vector<Peer>& peers) {
  Warden warden(socket);
  Samples samples;
  const auto ours = [&](const std::string& name, std::string_view job) {
    Created created;
    const Taken taken = run_in_new_sandbox(warden, template_name, job, AfterJob::kKeep, created);
    const auto began = Clock::now();
    destroy_sandbox(warden, created.id);
    samples[name].push_back(taken.first_byte);
    samples[name + "_ended"].push_back(taken.ended + milliseconds(Clock::now() - began));
    samples[name + "_was_warm"].push_back(created.is_warm ? 1 : 0);
    rest(pause_ms);
  };
  for (int round = 0; round < rounds; ++round) {
    ours("pons", kExec);
    ours("pons_shell", kShellLine);
    for (const Peer& peer : peers) {
      const Taken taken = peer.run();
      samples[peer.name].push_back(taken.first_byte);
      samples[peer.name + "_ended"].push_back(taken.ended);
      rest(pause_ms);
    }
  }
  return samples;
}

std::size_t children_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/task/" + pid + "/children");
  return static_cast<std::size_t>(
      std::distance(std::istream_iterator<int>(file), std::istream_iterator<int>()));
}

// Whole lifecycles per second; `left_over` tells how many were not taken down to the end.
double count_lifecycles(int seconds, int workers,
                        const std::function<std::function<void()>()>& make,
                        const std::function<std::size_t()>& left_over) {
  std::atomic<std::size_t> done = 0;
  const auto began = Clock::now();
  const auto end = began + std::chrono::seconds(seconds);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker)
    threads.emplace_back([&] {
      const auto lifecycle = make();
      while (Clock::now() < end) {
        lifecycle();
        ++done;
      }
    });
  for (std::thread& thread : threads) thread.join();
  const double passed = milliseconds(Clock::now() - began) / 1000;
  return static_cast<double>(done - std::min(done.load(), left_over())) / passed;
}

Samples measure_lifecycles(const std::string& socket, const std::string& template_name, int seconds,
                           int workers, const std::vector<Peer>& peers,
                           const std::string& spawner) {
  Samples samples;
  const std::size_t before = children_of(spawner);
  const auto ours = [&]() -> std::function<void()> {
    auto warden = std::make_shared<Warden>(socket);
    return [&, warden] {
      Created created;
      run_in_new_sandbox(*warden, template_name, kExec, AfterJob::kDestroy, created);
    };
  };
  samples["pons"].push_back(count_lifecycles(seconds, workers, ours, [&] {
    const std::size_t now = children_of(spawner);
    return now > before ? now - before : 0;
  }));
  rest(1000);
  for (const Peer& peer : peers) {
    samples[peer.name].push_back(count_lifecycles(
        seconds, workers, [&]() -> std::function<void()> { return [&peer] { (void)peer.run(); }; },
        [] { return std::size_t{0}; }));
    rest(500);
  }
  return samples;
}

double timed(Warden& warden, const std::string& target, std::string_view body) {
  const auto began = Clock::now();
  warden.must("POST", target, body);
  return milliseconds(Clock::now() - began);
}

Samples measure_checkpoints(const std::string& socket, const std::string& id, int rounds) {
  constexpr std::string_view kDirty =
      R"({"shell_line":"for i in 0 1 2 3 4 5 6 7 8 9; do echo $$ >tree/d$i/f1; done"})";
  Warden warden(socket);
  const std::string sandbox = "/sandboxes/" + id;
  Samples samples;
  for (int round = 0; round < rounds; ++round) {
    const std::string name = "c" + std::to_string(round);
    warden.must("POST", sandbox + "/jobs", kDirty);
    samples["checkpoint"].push_back(
        timed(warden, sandbox + "/checkpoints", "{\"name\":\"" + name + "\"}"));
    warden.must("POST", sandbox + "/jobs", kDirty);
    const std::string checkpoint = sandbox + "/checkpoints/" + name;
    samples["rollback"].push_back(timed(warden, checkpoint + "/rollback", ""));
    samples["commit"].push_back(timed(warden, checkpoint + "/commit", ""));
    rest(5);
  }
  return samples;
}

Samples measure_transactions(const std::string& socket, const std::string& id, int rounds) {
  Warden warden(socket);
  const std::string jobs = "/sandboxes/" + id + "/jobs";
  Samples samples;
  for (int round = 0; round < rounds; ++round) {
    samples["plain"].push_back(timed(warden, jobs, R"({"argv":["sleep","0.1"]})"));
    samples["transaction"].push_back(
        timed(warden, jobs, R"({"argv":["sleep","0.1"],"transaction":"rollback_on_failure"})"));
  }
  return samples;
}

int run(const std::vector<std::string>& words) {
  const std::string mode = words.empty() ? "" : words[0];
  if (mode == "latency" && words.size() == 6)
    print(measure_latency(words[1], words[2], std::stoi(words[3]), std::stoi(words[4]),
                          read_peers(words[5])));
  else if (mode == "lifecycles" && words.size() == 7)
    print(measure_lifecycles(words[1], words[2], std::stoi(words[3]), std::stoi(words[4]),
                             read_peers(words[5]), words[6]));
  else if (mode == "checkpoints" && words.size() == 4)
    print(measure_checkpoints(words[1], words[2], std::stoi(words[3])));
  else if (mode == "transactions" && words.size() == 4)
    print(measure_transactions(words[1], words[2], std::stoi(words[3])));
  else
    fail("wrong words; bench/sandbox/run knows them");
  return 0;
}

}  // namespace

}  // namespace pons::bench

int main(int argc, char** argv) {
  return pons::bench::run({argv + 1, argv + argc});
}
