// How a guest comes to be there: its sandbox, its files, its key, its process.

#include <algorithm>

#include <fmt/format.h>

#include "arrival.h"
#include "guest.h"
#include "pons/base/id.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/guest/guests.h"
#include "pons/harness/installation.h"
#include "tool_name.h"

namespace pons::guest {

namespace {

constexpr std::string_view kHome = "/home/user";
constexpr std::string_view kGateway = "http://gateway.pons.internal";
constexpr std::string_view kTools = "http://tools.pons.internal/mcp";
constexpr std::uint32_t kPids = 256;
constexpr std::uint32_t kCpuPercent = 200;
// Of its memory, for its files: its notes of the conversation.
constexpr std::uint64_t kDiskShare = 4;
constexpr Duration kBetweenChecks = std::chrono::minutes(1);
// What a machine has for everything but the harness in it.
constexpr std::uint64_t kMachineBytes = 512ULL << 20;

class Bytes final : public sandbox::ByteSource {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}
  Task<Result<std::string>> next() override { co_return std::exchange(bytes_, {}); }

 private:
  std::string bytes_;
};

std::string sandbox_of(const session::Question& question, const harness::Recipe& recipe) {
  if (question.in_machine) return question.machine.sandbox;
  constexpr std::size_t kDigits = 24;
  return std::string(kCellPrefix) +
         sha256_hex(fmt::format("{}:{}", question.session, recipe.name)).substr(0, kDigits);
}

// Some harnesses want a name of this form for a conversation.
std::string random_uuid() {
  unsigned char bytes[16];
  random_bytes(bytes, sizeof bytes);
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);
  const std::string hex = to_hex({reinterpret_cast<const char*>(bytes), sizeof bytes});
  return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                     hex.substr(16, 4), hex.substr(20));
}

// Its own two names, and no others.
constexpr std::string_view kNoNetwork = R"({"mode":"none"})";

sandbox::CreateRequest order_of(const session::Question& question, const harness::Recipe& recipe,
                                const std::string& id, std::chrono::milliseconds idle_max) {
  sandbox::CreateRequest order{
      .id = id,
      .template_name = harness::brain_template(recipe),
      .labels = {{kSessionLabel, question.session}, {"pons.project", question.project}},
      .limits = {.memory_bytes = recipe.memory_bytes,
                 .cpu_percent = kCpuPercent,
                 .pids = kPids,
                 .disk_bytes = recipe.memory_bytes / kDiskShare,
                 .idle_max = idle_max}};
  order.network = {.environment = {}, .policy = std::string(kNoNetwork)};
  return order;
}

// The session's own machine, whose template has the harness on top.
session::ProvisionOrder machine_with(session::ProvisionOrder machine,
                                     const harness::Recipe& recipe) {
  machine.memory_bytes = recipe.memory_bytes + kMachineBytes;
  if (machine.environment.empty() && machine.network.empty()) machine.network = kNoNetwork;
  return machine;
}

Error not_installed(const harness::Recipe& recipe) {
  return make_error(ErrorCode::kUnsupported, "start harness",
                    fmt::format("the harness {} is not installed: run `pons harness install {}`",
                                recipe.name, recipe.name));
}

}  // namespace

Task<Result<void>> Guests::write_file(Guest& guest, std::string path, std::string text) {
  sandbox::WriteOptions options{.mode = 0600, .user = std::string(kGuestUser)};
  CO_TRY_VOID(co_await cells_.write_file(guest.sandbox, std::move(path), std::move(options),
                                         std::make_unique<Bytes>(std::move(text))));
  co_return {};
}

// Only one version has been tested.
Task<> Guests::check_version(const harness::Recipe& recipe, harness::Placement placement) {
  Installed& known = installed_[recipe.name];
  if (known.checked && loop_.now() - *known.checked < kBetweenChecks) co_return;
  const auto templates = co_await cells_.list_templates();
  if (!templates) co_return;
  known.checked = loop_.now();
  const std::string name = placement == harness::Placement::kBrain
                               ? harness::brain_template(recipe)
                               : harness::packages_template(recipe);
  const auto found = std::ranges::find(*templates, name, &sandbox::TemplateInfo::name);
  std::string doubt;
  if (found != templates->end() && found->source != harness::describe_installation(recipe))
    doubt = fmt::format("{} {} is installed and {} was tested: run `pons harness install {}`",
                        recipe.name, harness::find_version(found->source).value_or("of some kind"),
                        recipe.version(), recipe.name);
  if (!doubt.empty() && doubt != known.doubt)
    LOG_WARN("a harness was not tested", {"harness", doubt});
  known.doubt = std::move(doubt);
}

std::string Guests::doubt_about(const harness::Recipe& recipe) const {
  const auto found = installed_.find(recipe.name);
  return found == installed_.end() ? std::string() : found->second.doubt;
}

Task<Result<void>> Guests::make_cell(Guest& guest, const session::Question& question) {
  const harness::Recipe& recipe = *guest.recipe;
  co_await check_version(recipe, guest.placement);
  if (question.in_machine) {
    const auto made = co_await hands_.provision(machine_with(question.machine, recipe));
    if (!made && made.error().code == ErrorCode::kNotFound) co_return not_installed(recipe);
    if (!made) co_return made.error();
    co_return {};
  }
  auto made = co_await cells_.create(order_of(question, recipe, guest.sandbox, limits_.cell_idle));
  if (!made && made.error().code == ErrorCode::kNotFound) co_return not_installed(recipe);
  if (!made) co_return made.error();
  if (made->state == sandbox::State::kPaused) CO_TRY_VOID(co_await cells_.resume(guest.sandbox));
  co_return {};
}

Task<Result<void>> Guests::start(Guest& guest, const session::Question& question,
                                 const Dialogue& dialogue) {
  CO_TRY_VOID(co_await make_room());
  // From here on it counts as one that runs: others that begin meanwhile must see it.
  struct Arriving {
    Guest& guest;
    explicit Arriving(Guest& who) : guest(who) { guest.is_arriving = true; }
    Arriving(const Arriving&) = delete;
    Arriving& operator=(const Arriving&) = delete;
    ~Arriving() { guest.is_arriving = false; }
  };
  const Arriving arriving(guest);
  const harness::Recipe& recipe = *guest.recipe;
  const std::string sandbox = sandbox_of(question, recipe);
  if (guest.sandbox != sandbox) by_sandbox_.erase(guest.sandbox);
  guest.sandbox = sandbox;
  CO_TRY_VOID(co_await make_cell(guest, question));
  guest.is_paused = false;
  co_await end_leftovers(sandbox);

  guest.has_notes = true;  // for all that is known
  guest.last_time = LastTime::kEnded;
  std::string session = co_await recall(guest);
  // It must be how this conversation went, or the guest begins anew.
  if (session.empty() || !dialogue.news_since(guest.heard) ||
      guest.terms.offer != dialogue.terms(guest.placement).offer) {
    session.clear();
    guest.heard = {};
  }
  const bool resumes = !session.empty();
  if (!resumes && recipe.session_names == harness::Recipe::Names::kOurs) session = random_uuid();

  CO_TRY(const ModelKey key, co_await desk_.open({.project = question.project,
                                                  .agent = question.agent,
                                                  .session = question.session,
                                                  .sandbox = sandbox,
                                                  .model = dialogue.model(),
                                                  .cost_nano = question.cost_left_nano,
                                                  .tokens = question.tokens_left}));
  guest.key = key.id;
  guest.charged = {};
  CO_TRY(auto plan,
         harness::plan_start(recipe, guest.placement,
                             {.directory = fmt::format("/{}", harness::kInstallDirectory),
                              .home = std::string(kHome),
                              .model = dialogue.model(),
                              .gateway = std::string(kGateway),
                              .tools = std::string(kTools),
                              .key = key.text,
                              .session = session,
                              .resumes = resumes}));
  for (std::string& path : plan.removes) {
    const auto removed =
        co_await cells_.remove_file(guest.sandbox, std::move(path), "root");  // whosever it is
    if (!removed && removed.error().code != ErrorCode::kNotFound) co_return removed.error();
  }
  for (auto& [path, text] : plan.files)
    CO_TRY_VOID(co_await write_file(guest, path, std::move(text)));
  const bool in_brain = guest.placement == harness::Placement::kBrain;
  if (in_brain) plan.environment["PATH"] = "/nonexistent";
  sandbox::JobSpec job{.argv = {plan.program},
                       .environment = std::move(plan.environment),
                       .directory = std::string(kHome),
                       .user = std::string(kGuestUser)};
  job.argv.insert(job.argv.end(), plan.arguments.begin() + 1, plan.arguments.end());
  harness::Wish wish{.model = recipe.model_prefix + dialogue.model(),
                     .directory = std::string(kHome),
                     .session = session,
                     .tools = {},
                     .servers = {},
                     .only_these_tools = in_brain};
  if (recipe.tools == harness::Recipe::Tools::kStreams)
    wish.tools = dialogue.tools_for(guest.placement);
  if (recipe.protocol == harness::Protocol::kAcp)
    wish.servers = {
        {.name = std::string(kToolServer), .url = std::string(kTools), .bearer = key.text}};
  by_sandbox_[sandbox] = &guest;
  const auto process =
      std::make_shared<Process>(loop_, cells_, sandbox, job_prefix_ + random_text(12),
                                harness::create_adapter(recipe.protocol, std::move(wish)));
  guest.process = process;  // whoever asks may be gone before it has begun
  CO_TRY_VOID(co_await process->start(std::move(job)));
  LOG_INFO("a harness begins", {"session", guest.session}, {"harness", recipe.name},
           {"sandbox", sandbox}, {"resumes", resumes ? "yes" : "no"});
  co_return {};
}

}  // namespace pons::guest
