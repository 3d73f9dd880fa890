// What a server says that it has done.

#include <gmock/gmock.h>

#include "http_fixture.h"
#include "pons/http/router.h"

namespace pons::http {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Task<> answer(Exchange& exchange, int status) {
  exchange.respond({.status = status, .body = "12345"});
  co_return;
}

Task<> stream_until_left(Exchange& exchange) {
  expect_ok(co_await exchange.start({}));
  co_await exchange.wait_for_hang_up(kNever);
}

class ServerCountsTest : public ServerTest {
 protected:
  ServerCountsTest() {
    serve(route({
        {"GET", "/things/{id}", [](Exchange& e, const PathValues&) { return answer(e, 200); }},
        {"POST", "/things", [](Exchange& e, const PathValues&) { return answer(e, 409); }},
        {"GET", "/stream", [](Exchange& e, const PathValues&) { return stream_until_left(e); }},
    }));
  }
  std::string text() {
    return thread_.call([this] {
      telemetry::Page page;
      write_counts(page, "test", server_->counts(), server_->connection_count());
      return page.text();
    });
  }
  bool eventually(const std::string& line) {
    return thread_.eventually([this, &line] {
      telemetry::Page page;
      write_counts(page, "test", server_->counts(), server_->connection_count());
      return page.text().contains(line);
    });
  }
};

TEST_F(ServerCountsTest, RequestsAreCountedByPatternAndClassOfStatus) {
  TextPeer peer = dial();
  for (const char* request :
       {"GET /things/one", "GET /things/two", "POST /things", "GET /nothing", "PUT /things"}) {
    peer.send(std::string(request) + " HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)peer.read_answer();
  }
  peer.send("nonsense\r\n\r\n");
  (void)peer.read_answer();
  const std::string total = "pons_http_requests_total{listener=\"test\",route=";
  EXPECT_THAT(text(),
              AllOf(HasSubstr(total + "\"/things/{id}\",status=\"2xx\"} 2\n"),
                    HasSubstr(total + "\"/things\",status=\"4xx\"} 1\n"),
                    HasSubstr(total + "\"none\",status=\"4xx\"} 2\n"),
                    HasSubstr(total + "\"refused\",status=\"4xx\"} 1\n"), Not(HasSubstr("two"))));
}

TEST_F(ServerCountsTest, BytesGoBothWays) {
  TextPeer peer = dial();
  const std::string request = "GET /things/one HTTP/1.1\r\nHost: a\r\n\r\n";
  peer.send(request);
  (void)peer.read_answer();
  EXPECT_THAT(text(), HasSubstr("direction=\"in\"} " + std::to_string(request.size()) + "\n"));
  EXPECT_THAT(text(), Not(HasSubstr("direction=\"out\"} 0\n")));
}

TEST_F(ServerCountsTest, AStreamIsOpenUntilItsClientLeaves) {
  {
    TextPeer peer = dial();
    peer.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_TRUE(eventually("pons_http_streams{listener=\"test\"} 1\n"));
    EXPECT_TRUE(eventually("pons_http_connections{listener=\"test\"} 1\n"));
  }
  EXPECT_TRUE(eventually("pons_http_streams{listener=\"test\"} 0\n"));
  EXPECT_TRUE(eventually("pons_http_connections{listener=\"test\"} 0\n"));
  EXPECT_THAT(text(), HasSubstr("pons_http_connections_total{listener=\"test\"} 1\n"));
}

TEST(CountsTest, RoutesAreBounded) {
  ServerCounts counts;
  std::vector<std::string> names;
  for (int i = 0; i < 1'000; ++i) names.push_back(std::to_string(i));
  for (const std::string& name : names) counts.count_request(name, 200);
  telemetry::Page page;
  write_counts(page, "test", counts, 0);
  EXPECT_THAT(page.text(), AllOf(HasSubstr("route=\"other\",status=\"2xx\"} 873\n"),
                                 Not(HasSubstr("route=\"999\""))));
}

}  // namespace
}  // namespace pons::http
