#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "pons/managed/fields.h"
#include "routes.h"
#include "work_items.h"

namespace pons::managed {

namespace {

constexpr Duration kWorkerSeen = std::chrono::seconds(30);
constexpr Duration kBetweenLooks = std::chrono::milliseconds(150);
constexpr std::int64_t kBlockMax = 999;
constexpr std::int64_t kReclaimMs = 5'000;
constexpr std::int64_t kReclaimMaxMs = 3'600'000;
constexpr std::int64_t kTtlMin = 10;
constexpr std::int64_t kTtlMax = 3'600;
constexpr std::size_t kWorkersMax = 10'000;

struct Context {
  Objects& objects;
  SessionTokens& tokens;
  WorkItems items;
  // When each worker of an environment has asked last.
  std::map<std::string, std::map<std::string, TimePoint>> workers = {};
};

Json time_or_null(std::optional<std::int64_t> ms) {
  return ms ? Json(write_time(*ms)) : Json(nullptr);
}

Result<Json> show(const WorkItem& item, const Secret* secret = nullptr) {
  Json text = nullptr;
  if (secret != nullptr) text = base64_encode(dump_json({{"sessions_token", secret->reveal()}}));
  if (text.is_string()) {  // as in addresses
    auto& words = text.get_ref<std::string&>();
    std::ranges::replace(words, '+', '-');
    std::ranges::replace(words, '/', '_');
  }
  return Json{{"id", item.id},
              {"type", "work"},
              {"environment_id", item.environment},
              {"data", {{"type", "session"}, {"id", item.session}}},
              {"state", item.state},
              {"secret", std::move(text)},
              {"metadata", TRY(parse_json(item.metadata))},
              {"created_at", write_time(item.created_ms)},
              {"acknowledged_at", time_or_null(item.acknowledged_ms)},
              {"started_at", time_or_null(item.started_ms)},
              {"latest_heartbeat_at", time_or_null(item.heartbeat_ms)},
              {"stop_requested_at", time_or_null(item.stop_requested_ms)},
              {"stopped_at", time_or_null(item.stopped_ms)}};
}

// The environment whose queue it is: one whose tools somebody else runs.
Task<Reply<WorkPlace>> find_place(Context& context, Call& call) {
  CO_TRY(const auto environment,
         co_await context.objects.environments.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto said, parse_json(environment.text));
  if (said.at("config").at("type") != "self_hosted")
    co_return bad_request("only self_hosted environments have work for workers");
  co_return WorkPlace{.project = call.caller.project, .environment = environment.id};
}

void note_worker(Context& context, Call& call) {
  const auto worker = call.exchange.request().find("anthropic-worker-id");
  auto& seen = context.workers[call.ids[0]];
  const TimePoint now = call.exchange.loop().now();
  std::erase_if(seen, [&](const auto& each) { return each.second < now - kWorkerSeen; });
  if (worker && worker->size() <= 256 && seen.size() < kWorkersMax)
    seen[std::string(*worker)] = now;
}

Task<Reply<Json>> poll(Context& context, Call& call) {
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  CO_TRY(const auto block, query.number("block_ms", kBlockMax));
  CO_TRY(const auto reclaim, query.number("reclaim_older_than_ms", kReclaimMaxMs));
  CO_TRY(const auto place, co_await find_place(context, call));
  note_worker(context, call);
  linux::Loop& loop = call.exchange.loop();
  const TimePoint end = loop.now() + std::chrono::milliseconds(block.value_or(0));
  for (;;) {
    CO_TRY(const auto item, co_await context.items.offer(
                                place, std::chrono::milliseconds(reclaim.value_or(kReclaimMs))));
    if (item) {
      CO_TRY(const auto secret,
             co_await context.tokens.create(item->project, item->session, item->id));
      CO_TRY(auto shown, show(*item, &secret));
      co_return shown;
    }
    if (loop.now() + kBetweenLooks > end) co_return Json(nullptr);
    co_await loop.sleep_for(kBetweenLooks);
  }
}

Task<Reply<Json>> ack(Context& context, Call& call) {
  CO_TRY(const auto place, co_await find_place(context, call));
  CO_TRY(const auto item, co_await context.items.acknowledge(place, call.ids[1]));
  CO_TRY(auto shown, show(item));
  co_return shown;
}

Json heartbeat_of(const WorkItem& item, bool lease_extended) {
  return {{"type", "work_heartbeat"},
          {"last_heartbeat", time_or_null(item.heartbeat_ms)},
          {"lease_extended", lease_extended},
          {"state", item.state},
          {"ttl_seconds", item.ttl_seconds}};
}

// Whoever lost the work is told how it stands with whoever has it.
Task<Reply<Json>> refuse_heartbeat(Context& context, WorkPlace place, std::string id,
                                   Refusal refusal) {
  if (refusal.status != 412) co_return refusal;
  CO_TRY(const auto item, co_await context.items.find(std::move(place), std::move(id)));
  Json state = heartbeat_of(item, false);
  state.erase("type");
  refusal.details = dump_json({{"current_state", std::move(state)}});
  co_return refusal;
}

Task<Reply<Json>> heartbeat(Context& context, Call& call) {
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  CO_TRY(const auto wanted, query.number("desired_ttl_seconds", 1'000'000'000));
  CO_TRY(const auto place, co_await find_place(context, call));
  const std::int64_t ttl = wanted ? std::clamp(*wanted, kTtlMin, kTtlMax) : 0;
  const auto item = co_await context.items.heartbeat(place, call.ids[1], ttl,
                                                     query.find("expected_last_heartbeat"));
  if (!item) co_return co_await refuse_heartbeat(context, place, call.ids[1], item.error());
  const bool goes_on = item->state == "active";
  if (goes_on)
    CO_TRY_VOID(
        co_await context.tokens.extend(item->id, 2 * std::chrono::seconds(item->ttl_seconds)));
  co_return heartbeat_of(*item, goes_on);
}

Task<Reply<Json>> stop(Context& context, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  const JsonPlace place{.value = body, .pointer = {}};
  CO_TRY_VOID(place.expect_object({"force"}));
  CO_TRY(const auto force, flag_or(place, "force", false));
  CO_TRY(const auto where, co_await find_place(context, call));
  CO_TRY(const auto item,
         co_await context.items.stop(where, call.ids[1],
                                     force ? WorkItems::Stop::kNow : WorkItems::Stop::kAsk));
  if (item.state == "stopped") CO_TRY_VOID(co_await context.tokens.end(item.id));
  CO_TRY(auto shown, show(item));
  co_return shown;
}

Task<Reply<Json>> stats(Context& context, Call& call) {
  CO_TRY(const auto place, co_await find_place(context, call));
  CO_TRY(const auto stats, co_await context.items.count(place));
  const TimePoint now = call.exchange.loop().now();
  const auto& seen = context.workers[call.ids[0]];
  const auto polling = std::ranges::count_if(
      seen, [&](const auto& each) { return each.second >= now - kWorkerSeen; });
  co_return Json{{"type", "work_queue_stats"},
                 {"depth", stats.queued},
                 {"pending", stats.offered},
                 {"oldest_queued_at", time_or_null(stats.oldest_ms)},
                 {"workers_polling", polling}};
}

Task<Reply<Json>> get(Context& context, Call& call) {
  CO_TRY(const auto place, co_await find_place(context, call));
  CO_TRY(const auto item, co_await context.items.find(place, call.ids[1]));
  CO_TRY(auto shown, show(item));
  co_return shown;
}

Task<Reply<Json>> update(Context& context, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  const JsonPlace place{.value = body, .pointer = {}};
  CO_TRY_VOID(place.expect_object({"metadata"}));
  CO_TRY(const auto where, co_await find_place(context, call));
  CO_TRY(const auto before, co_await context.items.find(where, call.ids[1]));
  CO_TRY(const auto known, parse_json(before.metadata));
  CO_TRY(const auto metadata, patch_metadata(known, place, "metadata"));
  CO_TRY(const auto after, co_await context.items.replace_metadata(before, dump_json(metadata)));
  CO_TRY(auto shown, show(after));
  co_return shown;
}

Task<Reply<Json>> list(Context& context, Call& call) {
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  CO_TRY(const auto wish, read_page(query, "work", {.usual = 20, .max = 100}));
  CO_TRY(const auto place, co_await find_place(context, call));
  CO_TRY(const auto items, co_await context.items.list(place, wish));
  Json list = Json::array();
  Json next = nullptr;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (static_cast<std::int64_t>(i) == wish.limit) {
      next = write_cursor("work", {fmt::format("{}", items[i - 1].created_ms), items[i - 1].id});
      break;
    }
    CO_TRY(auto shown, show(items[i]));
    list.push_back(std::move(shown));
  }
  co_return Json{{"data", std::move(list)}, {"next_page", std::move(next)}};
}

}  // namespace

std::vector<http::Route> work_routes(Objects& objects, SessionTokens& tokens) {
  const auto context = std::make_shared<Context>(
      Context{.objects = objects, .tokens = tokens, .items = {objects.store, objects.clock}});
  const auto with = [&context](Task<Reply<Json>> (*work)(Context&, Call&)) {
    return answering([context, work](Call& call) { return work(*context, call); });
  };
  // Words stand before names: the first that fits answers.
  return {{"GET", "/v1/environments/{id}/work/poll", with(poll)},
          {"GET", "/v1/environments/{id}/work/stats", with(stats)},
          {"GET", "/v1/environments/{id}/work", with(list)},
          {"GET", "/v1/environments/{id}/work/{work}", with(get)},
          {"POST", "/v1/environments/{id}/work/{work}", with(update)},
          {"POST", "/v1/environments/{id}/work/{work}/ack", with(ack)},
          {"POST", "/v1/environments/{id}/work/{work}/heartbeat", with(heartbeat)},
          {"POST", "/v1/environments/{id}/work/{work}/stop", with(stop)}};
}

}  // namespace pons::managed
