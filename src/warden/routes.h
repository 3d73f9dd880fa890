#pragma once

#include <vector>

#include "pons/http/router.h"
#include "pons/sandbox/provider.h"

namespace pons::warden {

using sandbox::Provider;

// A route's work. Returns an error only before its answer began; it is answered then.
using Words = std::vector<std::string>;  // values of the path, decoded
using RouteWork = Task<Result<void>> (*)(Provider&, http::Exchange&, Words);

// The handler of one route: only the operator, front and brain may call.
http::RouteHandler handler_of(Provider& provider, RouteWork work);

// The provider's whole surface (see pons/sandbox/wire.h). It must outlive the routes.
std::vector<http::Route> sandbox_routes(Provider& provider);

void append_file_routes(Provider& provider, std::vector<http::Route>& routes);
void append_job_routes(Provider& provider, std::vector<http::Route>& routes);
void append_transaction_routes(Provider& provider, std::vector<http::Route>& routes);
void append_dial_route(Provider& provider, std::vector<http::Route>& routes);

// A blank line after so much silence: both ends see that the other one is there.
inline constexpr Duration kKeepAlive = std::chrono::seconds(15);

}  // namespace pons::warden
