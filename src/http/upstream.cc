#include "pons/http/upstream.h"

namespace pons::http {

namespace {

class Http1Answer final : public UpstreamAnswer {
 public:
  explicit Http1Answer(ClientResponse response) : response_(std::move(response)) {}
  const ResponseHead& head() const override { return response_.head(); }
  Task<Result<std::string_view>> read_body() override { return response_.read_body(); }
  Result<std::string_view> take_ready_body() override { return response_.take_ready_body(); }
  const OwnedFields& trailers() const override { return none_; }

 private:
  ClientResponse response_;
  const OwnedFields none_;
};

class Http1Link final : public UpstreamLink {
 public:
  Http1Link(linux::Loop& loop, Connector connector, std::string host, ClientLimits limits)
      : client_(loop, std::move(connector), std::move(host), limits) {}
  Task<Result<std::unique_ptr<UpstreamAnswer>>> send(ClientRequest request) override {
    CO_TRY(auto response, co_await client_.send(std::move(request)));
    co_return std::make_unique<Http1Answer>(std::move(response));
  }
  bool is_usable() const override { return true; }

 private:
  Client client_;
};

class Http2Answer final : public UpstreamAnswer {
 public:
  explicit Http2Answer(Http2Response response) : response_(std::move(response)) {}
  const ResponseHead& head() const override { return response_.head(); }
  Task<Result<std::string_view>> read_body() override { return response_.read_body(); }
  const OwnedFields& trailers() const override { return response_.trailers(); }

 private:
  Http2Response response_;
};

class Http2Link final : public UpstreamLink {
 public:
  Http2Link(linux::Loop& loop, std::unique_ptr<Transport> transport, std::string host,
            std::string scheme, Http2Limits limits)
      : client_(loop, std::move(transport), std::move(host), std::move(scheme), limits) {}
  Task<Result<std::unique_ptr<UpstreamAnswer>>> send(ClientRequest request) override {
    CO_TRY(auto response, co_await client_.send(std::move(request)));
    co_return std::make_unique<Http2Answer>(std::move(response));
  }
  bool is_usable() const override { return client_.is_usable(); }

 private:
  Http2Client client_;
};

}  // namespace

std::unique_ptr<UpstreamLink> link_over_http1(linux::Loop& loop, Connector connector,
                                              std::string host, ClientLimits limits) {
  return std::make_unique<Http1Link>(loop, std::move(connector), std::move(host), limits);
}

std::unique_ptr<UpstreamLink> link_over_http2(linux::Loop& loop,
                                              std::unique_ptr<Transport> transport,
                                              std::string host, std::string scheme,
                                              Http2Limits limits) {
  return std::make_unique<Http2Link>(loop, std::move(transport), std::move(host), std::move(scheme),
                                     limits);
}

}  // namespace pons::http
