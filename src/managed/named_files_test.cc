// Files that events name, as a client of the API and as its model meet them.

#include "api_fixture.h"
#include "pons/base/text.h"
#include "pons/files/file_store.h"

namespace pons::managed {
namespace {

constexpr std::string_view kPng = "\x89PNG\r\n\x1A\n and more";

class NamedFiles : public ApiTest {
 protected:
  NamedFiles() : path_("/v1/sessions/" + make_session()) {}

  std::string make_session() {
    return ask("POST", "/v1/sessions",
               {{"agent", agent_.at("id")}, {"environment_id", environment_.at("id")}})
        .json.at("id");
  }
  Task<Result<files::File>> store_file(std::string bytes, std::string type, std::string project) {
    CO_TRY(auto upload, co_await files_.begin(std::move(project)));
    CO_TRY_VOID(co_await upload.write(bytes));
    co_return co_await upload.finish({.name = "a", .mime_type = std::move(type)});
  }
  std::string upload(std::string_view bytes, const char* type, const char* project = "default") {
    return run(store_file(std::string(bytes), type, project)).value().id;
  }
  static Json source(const std::string& file) { return {{"type", "file"}, {"file_id", file}}; }
  static Json message(const char* kind, Json source) {
    Json block = {{"type", kind}, {"source", std::move(source)}};
    return {{"type", "user.message"}, {"content", Json::array({std::move(block)})}};
  }
  Answer send(Json event) {
    Json events = Json::array();
    events.push_back(std::move(event));
    return ask("POST", path_ + "/events", {{"events", std::move(events)}});
  }
  void wait_until_idle() {
    while (ask("GET", path_).json.at("status") != "idle") continue;
  }
  // The blocks of the message that the model was asked with at last.
  Json heard() {
    const auto request = parse_json(model_.asked.at(model_.asked.size() - 1)).value();
    return request.at("messages").back().at("content");
  }
  void expect_refusal(Json event, int status, const char* says) {
    const Answer answer = send(std::move(event));
    EXPECT_EQ(answer.status, status) << answer.json.dump();
    EXPECT_NE(answer.json.dump().find(says), std::string::npos) << answer.json.dump();
  }

  files::FileStore files_{*store_, clock_};
  std::string path_;
};

TEST_F(NamedFiles, AreBytesForTheModelAndNamesForPeople) {
  const std::string file = upload(kPng, "image/png");
  const auto sent = send(message("image", source(file)));
  ASSERT_EQ(sent.status, 200) << sent.json.dump();
  EXPECT_EQ(sent.json.at("data")[0].at("content")[0].at("source"), source(file));
  wait_until_idle();
  EXPECT_EQ(heard()[0].at("source"),
            (Json{{"type", "base64"}, {"media_type", "image/png"}, {"data", base64_encode(kPng)}}));
  const auto events = ask("GET", path_ + "/events?types[]=user.message").json.at("data");
  EXPECT_EQ(events[0].at("content")[0].at("source"), source(file));
}

TEST_F(NamedFiles, AreWhatTheyWereWhenTheyWereSent) {
  const std::string file = upload(kPng, "image/png");
  ASSERT_EQ(send(message("image", source(file))).status, 200);
  wait_until_idle();
  ASSERT_TRUE(run(files_.remove("default", file)));
  ASSERT_EQ(send({{"type", "user.message"}, {"content", "and now?"}}).status, 200);
  wait_until_idle();
  ASSERT_EQ(model_.asked.size(), 2U);
  EXPECT_NE(model_.asked[1].find(base64_encode(kPng)), std::string::npos);
  expect_refusal(message("image", source(file)), 404, "file_not_found");
}

TEST_F(NamedFiles, OfTextAreDocumentsOfText) {
  for (const char* type : {"text/csv; charset=utf-8", "application/json", ""}) {
    ASSERT_EQ(send(message("document", source(upload("a,b\n", type)))).status, 200) << type;
    wait_until_idle();
    EXPECT_EQ(heard()[0].at("source"),
              (Json{{"type", "text"}, {"media_type", "text/plain"}, {"data", "a,b\n"}}));
  }
}

TEST_F(NamedFiles, WithoutATypeAreWhatTheyBeginWith) {
  ASSERT_EQ(send(message("document", source(upload("%PDF-1.7", "")))).status, 200);
  wait_until_idle();
  EXPECT_EQ(heard()[0].at("source").at("media_type"), "application/pdf");
}

TEST_F(NamedFiles, ThatNoModelTakesAreRefused) {
  expect_refusal(message("image", source(upload("no picture", "image/png"))), 400, "as an image");
  expect_refusal(message("image", source(upload("words", "text/plain"))), 400, "as an image");
  expect_refusal(message("document", source(upload("PK\x03\x04", "application/zip"))), 400, "PDF");
  expect_refusal(message("document", source(upload("\xFF\xFE", "text/plain"))), 400, "PDF");
  expect_refusal(message("document", source(upload("", "text/plain"))), 400, "PDF");
  expect_refusal(message("document", source(upload(kPng, "image/png"))), 400, "PDF");
}

TEST_F(NamedFiles, OfOthersAreNone) {
  expect_refusal(message("image", source(upload(kPng, "image/png", "q"))), 404, "file_not_found");
  expect_refusal(message("image", source("file_none")), 404, "file_not_found");
}

TEST_F(NamedFiles, AreNamedPlainly) {
  const std::string file = upload(kPng, "image/png");
  Json more = source(file);
  more["media_type"] = "image/png";
  expect_refusal(message("image", more), 400, "nothing else");
  expect_refusal(message("image", {{"type", "file"}}), 400, "nothing else");
  expect_refusal(message("image", {{"type", "file"}, {"file_id", 7}}), 400, "nothing else");
  // Whoever sends bytes cannot say that they came from a file.
  expect_refusal(message("image", {{"type", "base64"},
                                   {"media_type", "image/png"},
                                   {"data", base64_encode(kPng)},
                                   {"file_id", file}}),
                 400, "file_id");
}

TEST_F(NamedFiles, AreNotMoreThanOneRequestMaySay) {
  const std::string large = upload(std::string(7 << 20, 'x'), "text/plain");
  expect_refusal(message("document", source(large)), 400, "together");
  Json all = message("document", source(upload("x", "text/plain")));
  for (int i = 0; i < 100; ++i) all["content"].push_back(all["content"][0]);
  expect_refusal(all, 400, "at most 100 files");
}

TEST_F(NamedFiles, MayBeRubrics) {
  const Json outcome = {{"type", "user.define_outcome"},
                        {"description", "a door"},
                        {"rubric", source(upload("it is blue", "text/plain"))}};
  const auto sent = send(outcome);
  ASSERT_EQ(sent.status, 200) << sent.json.dump();
  EXPECT_EQ(sent.json.at("data")[0].at("rubric"), outcome.at("rubric"));
  const auto log = run(sessions_.read_all(path_.substr(path_.rfind('/') + 1))).value();
  for (const auto& stored : log)
    if (const auto* defined = std::get_if<session::OutcomeDefined>(&stored.event))
      EXPECT_EQ(defined->rubric, "it is blue");
  Json binary = outcome;
  binary["rubric"] = source(upload("\xFF", "text/plain"));
  expect_refusal(binary, 400, "is no text");
}

TEST_F(NamedFiles, AreReadWhenASessionBegins) {
  const std::string file = upload(kPng, "image/png");
  const Json events = Json::array({message("image", source(file))});
  const Json parts = {{"agent", agent_.at("id")},
                      {"environment_id", environment_.at("id")},
                      {"initial_events", events}};
  const auto made = ask("POST", "/v1/sessions", parts);
  ASSERT_EQ(made.status, 200) << made.json.dump();
  path_ = "/v1/sessions/" + made.json.at("id").get<std::string>();
  wait_until_idle();
  EXPECT_EQ(heard()[0].at("source").at("data"), base64_encode(kPng));
  Json deployment = parts;
  deployment["name"] = "nightly";
  const auto kept = ask("POST", "/v1/deployments", deployment);
  ASSERT_EQ(kept.status, 200) << kept.json.dump();
  EXPECT_EQ(kept.json.at("initial_events"), events) << "a deployment keeps the name";
  deployment["initial_events"][0]["content"][0]["source"] = source("file_none");
  EXPECT_EQ(ask("POST", "/v1/deployments", deployment).status, 404);
}

TEST_F(NamedFiles, AreNotNeededForBytesThatAreWhatTheySay) {
  const auto bytes = [](const char* type, std::string data) {
    return Json{{"type", "base64"}, {"media_type", type}, {"data", std::move(data)}};
  };
  EXPECT_EQ(send(message("image", bytes("image/png", base64_encode(kPng)))).status, 200);
  // A model would refuse the conversation from now on.
  expect_refusal(message("image", bytes("image/png", "bm8=")), 400, "is no image/png");
  expect_refusal(message("image", bytes("image/png", "not base64")), 400, "no base64");
  expect_refusal(message("document", bytes("text/plain", "eA==")), 400, "media_type");
  Json titled = message("image", bytes("image/png", base64_encode(kPng)));
  titled["content"][0]["title"] = 7;
  expect_refusal(titled, 400, "title");
}

}  // namespace
}  // namespace pons::managed
