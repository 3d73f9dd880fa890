#pragma once

#include "pons/base/secret.h"
#include "pons/http/router.h"
#include "provider.h"
#include "routing.h"
#include "span_export.h"

namespace pons::gateway {

// The collector of traces: reached as a provider is, with names resolved and certificates verified.
Result<std::unique_ptr<Provider>> make_collector(linux::Loop& loop, const std::string& endpoint,
                                                 names::Resolver& resolver);
// Sends to it; `headers` as read_otlp_headers takes them. Both must outlive what is returned.
SpanExport::Send send_to(Provider& collector, const Secret& headers);

// POST /spans, for the brain. The names of providers are added here: the brain does not know them.
std::vector<http::Route> span_routes(SpanExport& spans, const Routing& routing);

}  // namespace pons::gateway
