#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "body_share.h"
#include "client_side.h"
#include "model_metrics.h"
#include "pons/budget/book.h"
#include "provider.h"
#include "relay.h"
#include "routing.h"
#include "script.h"
#include "span_export.h"

namespace pons::gateway {

// A provider that answers over the network, or from a script.
struct Answerer {
  std::unique_ptr<Provider> provider;  // null: the script answers
  Script script;
};

// What all calls share.
struct Models {
  linux::Loop& loop;
  Routing& routing;
  budget::Book& book;
  std::map<std::string, Answerer, std::less<>> answerers;
  BodyMemory bodies = {};
  ModelMetrics metrics{};
  SpanExport* spans = nullptr;  // of calls; null: nobody wants them
};

// Who calls: the key whose limits and those above it count.
struct Caller {
  std::string key;
  std::string project;
  bool is_harness = false;  // in a sandbox, with a key of its session
};

// Answers one call for a model: finds who may answer, reserves what it can cost, asks one after the
// other until one answers, and settles what it did cost.
Task<> answer_model_call(Models& models, http::Exchange& exchange, models::Protocol protocol,
                         Caller caller);

// How many tokens the request is; an estimate that errs high, where the provider cannot be asked.
Task<> answer_token_count(Models& models, http::Exchange& exchange, Caller caller);

}  // namespace pons::gateway
