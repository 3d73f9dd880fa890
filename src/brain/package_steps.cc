#include "package_steps.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::brain {

namespace {

using managed::PackageSet;

// Whatever a template's own places are: here root can write in each of them, also where /usr is the
// host's. Only apt puts things elsewhere, where it can.
struct Manager {
  std::string_view name;
  const char* script;                // its words are the packages
  std::vector<const char*> folders;  // for PATH
  std::vector<std::pair<const char*, const char*>> variables;
};

constexpr const char* kUsualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

constexpr std::string_view kPrelude =
    "set -e\n"
    "need() { command -v \"$1\" >/dev/null || lacks \"$1\"; }\n"
    "lacks() { echo \"there is no $1 in this template\" >&2; exit 97; }\n";

// Where /usr cannot be written (it is the host's), what apt would install is unpacked beside it.
// What the host has already is left as it is: another libc would be everybody's.
constexpr const char* kApt =
    "need apt-get\nneed dpkg-deb\n"
    "[ -s /var/lib/dpkg/status ] || lacks /var/lib/dpkg/status\n"
    "export DEBIAN_FRONTEND=noninteractive\n"
    "mkdir -p /var/lib/apt/lists/partial /var/cache/apt/archives/partial\n"
    "get() { apt-get -q -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 "
    "-o Acquire::Retries=3 -o Acquire::Languages=none \"$@\"; }\n"
    "get update || echo 'some sources cannot be read' >&2\n"
    "if [ -w /usr/bin ]; then\n"
    "  get install -y --no-install-recommends -- \"$@\"\n"
    "else\n"
    "  get install -y --no-install-recommends --download-only -- \"$@\"\n"
    "  mkdir -p /opt/packages/apt\n"
    "  for file in /var/cache/apt/archives/*.deb; do\n"
    "    [ -e \"$file\" ] || continue\n"
    "    name=$(dpkg-deb -f \"$file\" Package)\n"
    "    if dpkg-query -W -f '${db:Status-Status}\\n' \"$name\" 2>/dev/null | grep -qx installed; "
    "then\n"
    "      echo \"$name is the host's own\"\n"
    "      continue\n"
    "    fi\n"
    "    dpkg-deb -x \"$file\" /opt/packages/apt\n"
    "  done\n"
    "  mkdir -p /etc/ld.so.conf.d\n"
    "  [ -e /etc/ld.so.conf ] || echo 'include /etc/ld.so.conf.d/*.conf' >/etc/ld.so.conf\n"
    "  for folder in /opt/packages/apt/usr/lib/*-linux-gnu* /opt/packages/apt/lib/*-linux-gnu* "
    "/opt/packages/apt/usr/lib; do\n"
    "    [ ! -d \"$folder\" ] || echo \"$folder\"\n"
    "  done >/etc/ld.so.conf.d/zz-packages.conf\n"
    "  ldconfig\n"
    "fi\n"
    "apt-get clean\n"
    "rm -rf /var/lib/apt/lists/*\n";

constexpr const char* kNpm =
    "need npm\n"
    "npm install --global --prefix /opt/packages/npm --no-audit --no-fund "
    "--no-update-notifier --loglevel=error -- \"$@\"\n"
    "rm -rf /root/.npm\n";

constexpr const char* kPip =
    "need python3\n"
    "python3 -m pip --version >/dev/null 2>&1 || lacks pip\n"
    "python3 -m pip install --disable-pip-version-check --no-input --no-cache-dir --progress-bar "
    "off "
    "--root-user-action ignore --target /opt/packages/pip -- \"$@\"\n";

constexpr const char* kCargo =
    "need cargo\n"
    "cargo install --quiet --root /opt/packages/cargo -- \"$@\"\n"
    "rm -rf /root/.cargo/registry\n";

constexpr const char* kGem =
    "need gem\n"
    "gem install --no-document --install-dir /opt/packages/gem --bindir /opt/packages/gem/bin "
    "\"$@\"\n";

// Each by itself: those of different modules cannot be named together.
constexpr const char* kGo =
    "need go\n"
    "export GOBIN=/opt/packages/go/bin GOPATH=/tmp/go-packages GOFLAGS=-modcacherw\n"
    "for package in \"$@\"; do\n"
    "  case $package in *@*) ;; *) package=$package@latest ;; esac\n"
    "  go install \"$package\"\n"
    "done\n"
    "rm -rf /tmp/go-packages /root/.cache/go-build\n";

// A login shell sets its PATH by itself.
constexpr const char* kSettle =
    "[ ! -d /etc ] || printf 'PATH=\"%s:$PATH\"\\nexport PATH\\n' \"$1\" >>/etc/profile\n";

const std::vector<Manager>& managers() {
  static const std::vector<Manager> kManagers = {
      {.name = "apt",
       .script = kApt,
       .folders = {"/opt/packages/apt/usr/bin", "/opt/packages/apt/usr/sbin",
                   "/opt/packages/apt/bin", "/opt/packages/apt/sbin",
                   "/opt/packages/apt/usr/games"},
       .variables = {}},
      {.name = "npm",
       .script = kNpm,
       .folders = {"/opt/packages/npm/bin"},
       .variables = {{"NODE_PATH", "/opt/packages/npm/lib/node_modules"}}},
      {.name = "pip",
       .script = kPip,
       .folders = {"/opt/packages/pip/bin"},
       .variables = {{"PYTHONPATH", "/opt/packages/pip"}}},
      {.name = "cargo", .script = kCargo, .folders = {"/opt/packages/cargo/bin"}, .variables = {}},
      {.name = "gem",
       .script = kGem,
       .folders = {"/opt/packages/gem/bin"},
       .variables = {{"GEM_PATH", "/opt/packages/gem"}}},
      {.name = "go", .script = kGo, .folders = {"/opt/packages/go/bin"}, .variables = {}},
  };
  return kManagers;
}

const Manager& manager_of(const PackageSet::Part& part) {
  return *std::ranges::find(managers(), part.manager, &Manager::name);
}

std::string folders_of(const PackageSet& set) {
  std::string path;
  for (const PackageSet::Part& part : set.parts)
    for (const char* folder : manager_of(part).folders)
      path += (path.empty() ? "" : ":") + std::string(folder);
  return path;
}

std::vector<std::string> argv_of(std::string_view script, std::vector<std::string> words) {
  std::vector<std::string> argv = {"/bin/sh", "-c", fmt::format("{}{}", kPrelude, script),
                                   "packages"};
  std::ranges::move(words, std::back_inserter(argv));
  return argv;
}

}  // namespace

std::vector<PackageStep> package_steps(const PackageSet& set) {
  std::vector<PackageStep> steps;
  for (const PackageSet::Part& part : set.parts)
    steps.push_back({.name = part.manager, .argv = argv_of(manager_of(part).script, part.names)});
  steps.push_back({.name = "settle", .argv = argv_of(kSettle, {folders_of(set)})});
  return steps;
}

std::map<std::string, std::string> step_variables(
    const std::map<std::string, std::string>& registries) {
  std::map<std::string, std::string> variables = {{"HOME", "/root"}, {"LC_ALL", "C.UTF-8"}};
  for (const auto& [manager, variable] :
       {std::pair{"npm", "NPM_CONFIG_REGISTRY"}, std::pair{"pip", "PIP_INDEX_URL"}})
    if (const auto url = registries.find(manager); url != registries.end())
      variables[variable] = url->second;
  return variables;
}

Result<std::string> package_policy(const PackageSet& set) {
  Json words = Json::array();
  for (const PackageSet::Part& part : set.parts) {
    if (part.manager == "gem" || part.manager == "go")
      return make_error(
          ErrorCode::kUnsupported, "build packages",
          fmt::format("this machine names no hosts of {}: the operator has to say what builds may "
                      "reach (package_network)",
                      part.manager));
    words.push_back(part.manager);
  }
  return dump_json(
      {{"mode", "list"}, {"packages", std::move(words)}, {"note", "packages of an environment"}});
}

std::map<std::string, std::string> package_variables(const PackageSet& set,
                                                     std::map<std::string, std::string> base) {
  std::string& path = base.try_emplace("PATH", kUsualPath).first->second;
  path = folders_of(set) + ":" + path;
  for (const PackageSet::Part& part : set.parts)
    for (const auto& [name, value] : manager_of(part).variables) {
      std::string& now = base[name];
      now = now.empty() ? value : fmt::format("{}:{}", value, now);
    }
  return base;
}

}  // namespace pons::brain
