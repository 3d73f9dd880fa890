#include "model_call.h"

#include <algorithm>

#include <fmt/format.h>

#include "affinity.h"
#include "call_cost.h"
#include "call_span.h"
#include "pons/base/id.h"
#include "pons/base/log.h"
#include "refusals.h"
#include "sandbox_bound_key.h"

namespace pons::gateway {

namespace {

using models::Failing;
using models::Failure;
using models::Protocol;

constexpr unsigned kTriesMax = 8;                        // of one call, all in all
constexpr Duration kWaitMax = std::chrono::seconds(20);  // between tries, all in all
constexpr Duration kRefusedKeyRest = std::chrono::minutes(5);
constexpr Duration kBusyKeyRest = std::chrono::seconds(5);  // when the provider does not say
constexpr Duration kBusyKeyRestMax = std::chrono::minutes(1);
constexpr Duration kTellEvery = std::chrono::seconds(1);  // of a stream, the journal

std::uint64_t random_number() {
  std::uint64_t number = 0;
  random_bytes(&number, sizeof number);
  return number;
}

// The brain keeps budgets of its own. Whoever else sends the field gets what a provider would send.
bool wants_cost(const http::Exchange& exchange) {
  return exchange.peer().role == "brain" && exchange.request().find("x-pons-tell-cost") == "1";
}

// Nobody else's questions are asked after.
std::string question_of(const http::Exchange& exchange) {
  if (exchange.peer().role != "brain") return {};
  return std::string(exchange.request().find("x-pons-question").value_or(""));
}

// The brain makes traces of its own out of what it has stored, and a harness works within one of
// its turns.
bool is_traced(const Models& models, const http::Exchange& exchange, const Caller& caller) {
  return models.spans != nullptr && exchange.peer().role != "brain" && !caller.is_harness;
}

void tell_span(Models& models, const ClientSide& client, CallSpan* span) {
  if (span == nullptr) return;
  if (client.refusal()) span->error = error_type(*client.refusal());
  models.spans->add({span->end(client.cost_nano())});
}

// Frames of its coroutines stand alone, as those of a relay do.
class ModelCall {
 public:
  // `span`: null where nobody wants one.
  ModelCall(Models& models, ClientSide& client, ModelRequest& request, Caller caller,
            CallSpan* span)
      : models_(models),
        client_(client),
        request_(request),
        caller_(std::move(caller)),
        span_(span),
        begun_at_(models.loop.now()) {}

  [[gnu::noinline]] Task<> run() {
    co_await answer();
    co_await client_.close();
  }

 private:
  [[gnu::noinline]] Task<> answer() {
    const auto& head = client_.exchange().request();
    auto line = find_line(models_.routing.spreads(request_.facts.model)
                              ? affinity_of(request_, head, caller_.key)
                              : std::string());
    if (!line) {
      co_await client_.refuse(line.error());
      co_return;
    }
    line_ = std::move(*line);
    if (span_ != nullptr) span_->asked = shown_name();
    while (at_ < line_.size() && tries_in_all_ < kTriesMax)
      if (!co_await try_next()) co_return;
    if (refusal_ && !has_failed_)
      co_await refuse(*refusal_, {});
    else
      co_await client_.refuse(for_client(last_));
  }

  std::expected<Routing::Line, Failure> find_line(const std::string& affinity) {
    auto line = models_.routing.candidates(request_.facts.model, affinity);
    if (!line)
      return std::unexpected(Failure{
          .kind = Failing::kNotFound, .message = line.error().message, .code = "model_not_found"});
    if (const std::string& previous = request_.facts.previous_response_id; !previous.empty()) {
      const auto maker = models_.routing.maker_of(caller_.project, previous);
      if (maker == nullptr || std::ranges::find(*line, maker) == line->end())
        return std::unexpected(Failure{
            .kind = Failing::kInvalidRequest,
            .message = "previous_response_id: the gateway does not know who made it; it remembers "
                       "those of your project since its last start. Send the whole conversation "
                       "as input, without this field",
            .code = "previous_response_not_found"});
      *line = {maker};
    }
    return std::move(*line);
  }

  // A name that fits a pattern may be the client's invention.
  std::string_view shown_name() const {
    const std::string_view name = request_.facts.model;
    const ModelSettings& settings = models_.routing.settings();
    const std::size_t slash = name.find('/');
    const bool is_known =
        settings.routes.contains(std::string(name)) ||
        (slash != name.npos && settings.providers.contains(std::string(name.substr(0, slash))) &&
         models_.metrics.knows(name.substr(slash + 1)));
    return is_known ? name : models_.metrics.shown(name);
  }

  void note_error(std::string_view word) {
    if (span_ != nullptr) span_->error = word;
  }

  // False: the client has its answer.
  [[gnu::noinline]] Task<bool> try_next() {
    Candidate& candidate = *line_[at_];
    const Answerer& answerer = models_.answerers.find(candidate.deployment.provider)->second;
    Provider* const provider = answerer.provider.get();
    const auto key = ready_key(candidate, provider);
    if (!key) {
      pass_on();
      co_return true;
    }
    const budget::Price* const own_price = free_price(candidate, provider);
    const auto price = models_.book.prices().find(candidate.deployment.model);
    const CallCost cost(
        request_, candidate.deployment.model,
        own_price != nullptr ? own_price : price.value_or(nullptr),
        provider == nullptr ? CallCost::Maker::kScript : CallCost::Maker::kProvider);
    budget::Refused refused;
    auto reserved = models_.book.begin_call({.node_id = caller_.key,
                                             .model = candidate.deployment.model,
                                             .asked = request_.facts.model,
                                             .provider = candidate.deployment.provider,
                                             .question = question_of(client_.exchange()),
                                             .is_sent = true,
                                             .price = own_price,
                                             .price_percent = percent_for(provider),
                                             .estimate = cost.most()},
                                            &refused);
    if (!reserved) {
      const ErrorCode code = reserved.error().code;
      // What has no price, or what the key may not call, may stand in front of what it may.
      if (code == ErrorCode::kNotFound || code == ErrorCode::kDenied) {
        if (!refusal_) refusal_ = std::move(reserved.error());
        pass_on();
        co_return true;
      }
      co_await refuse(reserved.error(), refused);
      co_return false;
    }
    const Outcome outcome = co_await ask(candidate, answerer, *key, *reserved, cost);
    if (outcome.ending == Ending::kUnfit) {
      --tries_in_all_;
      if (span_ != nullptr) --span_->tries;
      reserved->withdraw();
    } else {
      client_.add_cost(settle(*reserved, outcome, cost));
    }
    co_return co_await judge(candidate, provider, *key, outcome);
  }

  [[gnu::noinline]] Task<> refuse(const Error& error, const budget::Refused& refused) {
    models_.metrics.count_refusal(error.code);
    Failure failure = failure_of_refusal(error, refused, wall_ms());
    // A harness would try for minutes what its session has no money for.
    if (caller_.is_harness && failure.kind == Failing::kBudget)
      failure = {.kind = Failing::kInvalidRequest, .message = "budget: " + failure.message};
    co_await client_.refuse(failure);
  }

  // Nothing when this one cannot be asked now; `last_` says why then.
  std::optional<std::size_t> ready_key(Candidate& candidate, Provider* provider) {
    const TimePoint now = models_.loop.now();
    const auto later = [&](Failing kind, std::string message, TimePoint until) {
      last_ = {.kind = kind, .message = std::move(message)};
      if (until > now) last_.retry_after = until - now;
      has_failed_ = true;
      return std::nullopt;
    };
    if (!candidate.health.may_try(now))
      return later(Failing::kOverloaded,
                   "the model's provider is failing; it is left alone a while",
                   candidate.health.open_until());
    const auto is_full = [](std::size_t active, std::size_t most) {
      return most > 0 && active >= most;
    };
    if (is_full(candidate.active, candidate.deployment.concurrent) ||
        (provider != nullptr && is_full(provider->active, provider->settings().concurrent)))
      return later(Failing::kRateLimit, "as many calls as this model may have are under way",
                   now + std::chrono::seconds(1));
    if (provider == nullptr) return 0;
    if (const auto key = provider->pick_key(now)) return key;
    const Provider::Resting next = provider->next_key();
    const bool is_refused = next.why == Provider::KeyRest::kRefused;
    return later(is_refused ? Failing::kAuthentication : Failing::kRateLimit,
                 is_refused ? "" : "the model provider wants fewer calls", next.until);
  }

  // A script costs nothing unless it plays a model that does.
  const budget::Price* free_price(const Candidate& candidate, const Provider* provider) const {
    static const budget::Price kNothing{};
    const bool is_priced = models_.book.prices().all().contains(candidate.deployment.model);
    return provider == nullptr && !is_priced ? &kNothing : nullptr;
  }

  // A wish for better service reaches only providers that read it.
  std::int64_t percent_for(const Provider* provider) const {
    if (provider == nullptr) return request_.facts.price_percent;
    const ProviderSettings& settings = provider->settings();
    const bool reads_it =
        request_.protocol == Protocol::kMessages
            ? settings.speaks(Protocol::kMessages)
            : settings.speaks(Protocol::kChat) || settings.speaks(Protocol::kResponses);
    return reads_it ? request_.facts.price_percent : 100;
  }

  [[gnu::noinline]] Task<Outcome> ask(Candidate& candidate, const Answerer& answerer,
                                      std::size_t key, budget::Call& reserved,
                                      const CallCost& cost) {
    struct Counted {
      std::size_t& count;
      explicit Counted(std::size_t& c) : count(c) { ++count; }
      ~Counted() { --count; }
    };
    const Counted one_more(candidate.active);
    struct Probe {
      Health& health;
      explicit Probe(Health& h) : health(h) { health.begin(); }
      ~Probe() { health.leave(); }  // also when the call is cancelled: the next one may find out
    } const probe(candidate.health);
    request_.patience = at_ + 1 == line_.size() ? kLastPatience : 1;
    ++tries_;
    ++tries_in_all_;
    // The journal need not hear of every piece of a stream.
    const TimePoint begun = asked_at_ = models_.loop.now();
    if (span_ != nullptr) {
      span_->provider = candidate.deployment.provider;
      span_->model = models_.metrics.shown(candidate.deployment.model);
      ++span_->tries;
    }
    const ProgressSink progress = [&, begun, heard = false, told = TimePoint{}](
                                      const models::Usage& usage, std::size_t bytes) mutable {
      candidate.health.succeed();  // it answers; others need not wait for the end
      if (!std::exchange(heard, true)) {
        models_.metrics.count_first_byte(candidate.deployment, models_.loop.now() - begun);
        if (span_ != nullptr && request_.facts.stream)
          span_->first_chunk = models_.loop.now() - begun_at_;
      }
      if (models_.loop.now() - told < kTellEvery) return;
      told = models_.loop.now();
      reserved.progress(cost.broken_off(usage, bytes, told - begun));
    };
    if (!answerer.provider)
      co_return co_await play_script(models_.loop, answerer.script, candidate.deployment.model,
                                     request_, client_, progress);
    const Counted one_more_there(answerer.provider->active);
    co_return co_await relay_call(models_.loop, *answerer.provider, key, candidate.deployment.model,
                                  request_, client_, progress);
  }

  // What it cost.
  std::int64_t settle(budget::Call& reserved, const Outcome& outcome, const CallCost& cost) {
    const auto pay = [&](const models::Usage& usage, budget::Outcome how) {
      if (span_ != nullptr) span_->add(usage);
      return reserved.settle(usage, how);
    };
    const auto broken_off = [&] {
      return outcome.is_usage_final ? outcome.usage
                                    : cost.broken_off(outcome.usage, outcome.output_bytes,
                                                      models_.loop.now() - asked_at_);
    };
    // Who answers with a refusal takes no money; who was silent or broke off may well.
    const bool refused = outcome.upstream_status != 0 && outcome.upstream_status != 200 &&
                         outcome.usage == models::Usage{};
    switch (outcome.ending) {
      case Ending::kAnswered:
        return pay(
            outcome.is_usage_known ? outcome.usage : cost.seen(outcome.usage, outcome.output_bytes),
            budget::Outcome::kDone);
      case Ending::kBroken:
        return pay(broken_off(), budget::Outcome::kFailed);
      case Ending::kClientGone:
        return pay(refused ? models::Usage{} : broken_off(), budget::Outcome::kCancelled);
      case Ending::kFailed:
      case Ending::kUnfit:  // never gets here
        break;
    }
    if (outcome.upstream_status == 200) return pay(broken_off(), budget::Outcome::kFailed);
    const bool worked =
        outcome.failure.kind == Failing::kTimeout || outcome.usage != models::Usage{};
    return pay(worked ? cost.seen(outcome.usage, outcome.output_bytes) : models::Usage{},
               budget::Outcome::kFailed);
  }

  // What follows from a try. False: the client has its answer.
  [[gnu::noinline]] Task<bool> judge(Candidate& candidate, Provider* provider, std::size_t key,
                                     const Outcome& outcome) {
    const TimePoint now = models_.loop.now();
    if (outcome.ending == Ending::kAnswered) {
      candidate.health.succeed();
      if (!outcome.response_id.empty())
        models_.routing.remember(caller_.project, outcome.response_id, line_[at_]);
      co_return false;
    }
    if (outcome.ending == Ending::kUnfit) {
      // Others may have words for it. Whoever failed says more than who could not be asked.
      if (!std::exchange(has_failed_, true)) last_ = outcome.failure;
      pass_on();
      co_return true;
    }
    if (outcome.ending != Ending::kFailed) {
      note_error(outcome.ending == Ending::kBroken ? error_type(outcome.failure.kind)
                                                   : std::string_view("cancelled"));
      if (outcome.ending == Ending::kBroken) candidate.health.fail(now);
      co_return false;
    }
    last_ = outcome.failure;
    has_failed_ = true;
    const NextStep step = step_after(last_.kind, outcome.upstream_status, tries_);
    LOG_DEBUG("a try failed", {"provider", candidate.deployment.provider},
              {"model", candidate.deployment.model}, {"status", outcome.upstream_status},
              {"reason", last_.message});
    switch (step) {
      case NextStep::kTellClient:
        if (outcome.upstream_status != 0) candidate.health.succeed();  // the question is wrong
        co_await client_.refuse(for_client(last_));
        co_return false;
      case NextStep::kAnotherKey:
        rest_key(provider, key, now);
        if (provider != nullptr && provider->pick_key(now)) co_return true;
        co_return co_await wait_or_pass_on(candidate);
      case NextStep::kSameAgain:
        candidate.health.fail(now);
        co_return co_await pause_and_retry(candidate);
      case NextStep::kNextInLine:
        if (blames_provider(last_.kind)) candidate.health.fail(now);
        pass_on();
        co_return true;
      case NextStep::kLargerModel:
        candidate.health.succeed();
        pass_to_larger(candidate);
        co_return true;
    }
    co_return true;
  }

  // What a client can bring about must not close a provider to others.
  static bool blames_provider(Failing kind) {
    return kind != Failing::kNotFound && kind != Failing::kPermission;
  }

  void rest_key(Provider* provider, std::size_t key, TimePoint now) {
    if (provider == nullptr) return;
    if (last_.kind == Failing::kRateLimit) {
      provider->rest_key(key,
                         now + std::min(last_.retry_after.value_or(kBusyKeyRest), kBusyKeyRestMax),
                         Provider::KeyRest::kBusy);
      return;
    }
    provider->rest_key(key, now + kRefusedKeyRest, Provider::KeyRest::kRefused);
    LOG_WARN("a provider refuses its key", {"provider", provider->settings().name},
             {"key", key + 1}, {"reason", last_.message});
  }

  // All keys are out. With nobody else to ask, a short wait is better than a refusal.
  [[gnu::noinline]] Task<bool> wait_or_pass_on(Candidate& candidate) {
    const bool is_last = at_ + 1 == line_.size();
    const Duration pause = last_.retry_after.value_or(kBusyKeyRest);
    if (last_.kind == Failing::kRateLimit && is_last && waited_ + pause <= kWaitMax &&
        models_.answerers.find(candidate.deployment.provider)->second.provider)
      co_return co_await wait(pause);
    pass_on();
    co_return true;
  }

  [[gnu::noinline]] Task<bool> pause_and_retry(Candidate& candidate) {
    if (!candidate.health.may_try(models_.loop.now())) {
      pass_on();
      co_return true;
    }
    const Duration pause = std::max(last_.retry_after.value_or(Duration::zero()),
                                    pause_before_retry(tries_, random_number()));
    if (waited_ + pause > kWaitMax) {
      pass_on();
      co_return true;
    }
    co_return co_await wait(pause);
  }

  // False: the client has left meanwhile.
  [[gnu::noinline]] Task<bool> wait(Duration pause) {
    waited_ += pause;
    models_.metrics.retries.add();
    const TimePoint until = models_.loop.now() + pause;
    while (true) {
      const TimePoint next =
          request_.facts.stream ? std::min(until, client_.keep_alive_at()) : until;
      if (co_await client_.exchange().wait_for_hang_up(next)) break;
      const TimePoint now = models_.loop.now();
      if (now >= until) co_return true;
      if (!co_await client_.keep_alive(now)) break;
    }
    note_error("cancelled");
    co_return false;
  }

  void pass_on() {
    ++at_;
    if (at_ < line_.size()) models_.metrics.fallbacks.add();
    tries_ = 0;
  }

  std::int64_t context_of(const Candidate& candidate) const {
    if (candidate.deployment.context_tokens > 0) return candidate.deployment.context_tokens;
    const auto price = models_.book.prices().find(candidate.deployment.model);
    return price ? (*price)->context_tokens : 0;
  }

  void pass_to_larger(const Candidate& full) {
    const std::int64_t too_small = context_of(full);
    do pass_on();
    while (at_ < line_.size() && context_of(*line_[at_]) <= too_small);
  }

  // A key that a provider refuses is not the caller's.
  static Failure for_client(const Failure& failure) {
    if (failure.kind == Failing::kAuthentication)
      return {.kind = Failing::kUpstream,
              .message =
                  "the model provider refuses the key it is called with; whoever runs Pons "
                  "has to replace it"};
    if (failure.kind == Failing::kPermission)
      return {.kind = Failing::kUpstream,
              .message =
                  "the model provider does not allow this request with the key it is called with; "
                  "ask for another model, or whoever runs Pons to look at its account there"};
    return failure;
  }

  Models& models_;
  ClientSide& client_;
  ModelRequest& request_;
  Caller caller_;
  CallSpan* span_;
  TimePoint begun_at_;
  Routing::Line line_;
  std::size_t at_ = 0;
  unsigned tries_ = 0;  // of the one in line now
  unsigned tries_in_all_ = 0;
  Duration waited_{};
  TimePoint asked_at_{};
  bool has_failed_ = false;       // `last_` says why somebody did not answer
  std::optional<Error> refusal_;  // the first of ours: of those who were not to be asked
  Failure last_{.kind = Failing::kOverloaded, .message = "nobody can answer now"};
};

}  // namespace

Task<> answer_model_call(Models& models, http::Exchange& exchange, Protocol protocol,
                         Caller caller) {
  ClientSide client(exchange, protocol, new_request_id());
  if (wants_cost(exchange)) client.tell_cost();
  const auto span = is_traced(models, exchange, caller)
                        ? CallSpan::begin(exchange.request(), caller.key)
                        : nullptr;
  auto request = co_await read_model_request(exchange, protocol, models.bodies);
  if (!request) {
    co_await client.refuse(request.error());
    tell_span(models, client, span.get());
    co_return;
  }
  client.hears(models.loop.now());
  if (caller.is_harness) request->facts.model = name_for_others(std::move(request->facts.model));
  ModelCall call(models, client, *request, std::move(caller), span.get());
  co_await call.run();
  tell_span(models, client, span.get());
}

}  // namespace pons::gateway
