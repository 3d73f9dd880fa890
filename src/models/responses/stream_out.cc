#include "responses/answer_out.h"
#include "responses/free_form_input.h"

namespace pons::models::responses {

namespace {

class Writer final : public AnswerWriter {
 public:
  explicit Writer(const Request& request) : response_(request) {
    for (const Tool& tool : request.tools)
      if (tool.kind == Tool::Kind::kFreeForm) request_.tools.push_back(tool);
  }

  void take(const AnswerEvent& event, std::string& out) override {
    if (over_) return;
    std::visit([&](const auto& each) { on(each, out); }, event);
  }

  void keep_alive(std::string& out) override { out += http::kEventStreamKeepAlive; }

  void go_on(const Told& told) {
    sequence_ = told.next;
    begun_ = !told.id.empty();
    response_.go_on(told.id, told.model);
  }
  void say_error(const Failure& failure, std::string& out) {
    say(out, "error", [&](JsonWriter& json) {
      json.field("code", failure_code(failure)).field("message", failure.message);
      json.key("param").null();
    });
  }
  void say_failed(const Failure& failure, std::string& out) {
    if (begun_)
      say_response(out, "response.failed", {.status = "failed", .failure = &failure}, nullptr);
    over_ = true;
  }

 private:
  template <class Fill>
  void say(std::string& out, std::string_view type, Fill fill) {
    out.append("event: ").append(type).append("\ndata: ");
    JsonWriter json(out);
    json.begin_object().field("type", type).field("sequence_number", sequence_++);
    fill(json);
    json.end_object();
    out += "\n\n";
  }

  void say_response(std::string& out, std::string_view type, const Ending& ending,
                    const Usage* usage) {
    say(out, type, [&](JsonWriter& json) {
      json.key("response");
      response_.write(json, ending, items_, usage);
    });
  }

  // An event of the open part; `index_name` is content_index, summary_index or nothing.
  template <class Fill>
  void say_of_part(std::string& out, std::string_view type, std::string_view index_name,
                   Fill fill) {
    say(out, type, [&](JsonWriter& json) {
      json.field("item_id", item_.id).field("output_index", output_index_);
      if (index_name == "content_index")
        json.field(index_name, item_.parts.size() - 1);
      else if (!index_name.empty())
        json.field(index_name, 0);
      fill(json);
    });
  }

  void say_item(std::string& out, std::string_view type, std::string_view status) {
    say(out, type, [&](JsonWriter& json) {
      json.field("output_index", output_index_).key("item");
      write_item(json, item_, status);
    });
  }

  void on(const AnswerBegins& begins, std::string& out) {
    if (begun_) return;
    begun_ = true;
    response_.begin(begins.id, begins.model);
    say_response(out, "response.created", {}, nullptr);
    say_response(out, "response.in_progress", {}, nullptr);
  }

  void on(const PartBegins& begins, std::string& out) {
    auto part = shown(begins.part, request_);
    is_shown_ = part.has_value();
    if (!part) return;
    const auto* call = std::get_if<ToolCallPart>(&begins.part.content);
    is_wrapped_ = call != nullptr && is_wrapped(*call, request_);
    unwrapping_ = {};
    wrapped_.clear();
    if (item_.parts.empty() || !joins_message(item_, *part)) {
      close_item(out, "completed");
      item_.id = response_.item_id(*part, output_index_);
      item_.parts.push_back(std::move(*part));
      say_item(out, "response.output_item.added", "in_progress");
    } else {
      item_.parts.push_back(std::move(*part));
    }
    has_summary_ = false;
    if (item_.is_message()) say_content_part(out, "response.content_part.added");
  }

  void say_content_part(std::string& out, std::string_view type) {
    say_of_part(out, type, "content_index", [&](JsonWriter& json) {
      json.key("part");
      write_content_part(json, item_.parts.back());
    });
  }

  void on(const PartGrows& grows, std::string& out) {
    if (!is_shown_ || item_.parts.empty() || grows.text.empty()) return;
    Part& part = item_.parts.back();
    if (auto* text = std::get_if<TextPart>(&part.content)) {
      text->text += grows.text;
      say_of_part(out, "response.output_text.delta", "content_index", [&](JsonWriter& json) {
        json.field("delta", grows.text).raw_field("logprobs", "[]");
      });
    } else if (auto* refusal = std::get_if<RefusalPart>(&part.content)) {
      refusal->text += grows.text;
      say_delta(out, "response.refusal.delta", "content_index", grows.text);
    } else if (auto* call = std::get_if<ToolCallPart>(&part.content)) {
      if (!is_wrapped_) {
        grow_call(*call, grows.text, out);
      } else {
        wrapped_ += grows.text;
        grow_call(*call, unwrapping_.feed(grows.text), out);
      }
    } else if (auto* thinking = std::get_if<ThinkingPart>(&part.content)) {
      if (!has_summary_) say_summary_part(out, "response.reasoning_summary_part.added", "");
      has_summary_ = true;
      thinking->text += grows.text;
      say_delta(out, "response.reasoning_summary_text.delta", "summary_index", grows.text);
    }
  }

  void say_delta(std::string& out, std::string_view type, std::string_view index_name,
                 std::string_view delta) {
    say_of_part(out, type, index_name, [&](JsonWriter& json) { json.field("delta", delta); });
  }

  void grow_call(ToolCallPart& call, std::string_view delta, std::string& out) {
    if (delta.empty()) return;
    call.input += delta;
    say_delta(out,
              call.free_form ? "response.custom_tool_call_input.delta"
                             : "response.function_call_arguments.delta",
              "", delta);
  }

  void say_summary_part(std::string& out, std::string_view type, std::string_view text) {
    say_of_part(out, type, "summary_index", [&](JsonWriter& json) {
      json.key("part").begin_object().field("type", "summary_text").field("text", text);
      json.end_object();
    });
  }

  void on(const ProofCame& came, std::string& /*out*/) {
    if (!is_shown_ || item_.parts.empty()) return;
    if (auto* thinking = std::get_if<ThinkingPart>(&item_.parts.back().content))
      thinking->proof += came.proof;
  }

  void on(const CitationCame& came, std::string& out) {
    if (!is_shown_ || item_.parts.empty()) return;
    auto* text = std::get_if<TextPart>(&item_.parts.back().content);
    if (text == nullptr) return;
    if (came.cited_in == Protocol::kResponses) {
      cite(*text, came.json, out);
      return;
    }
    // How far the cited text goes is known at its end.
    foreign_.cited_in = came.cited_in;
    foreign_.citations += (foreign_.citations.empty() ? "[" : ",") + came.json;
  }

  void cite(TextPart& text, const std::string& citation, std::string& out) {
    say_of_part(out, "response.output_text.annotation.added", "content_index",
                [&](JsonWriter& json) {
                  json.field("annotation_index", annotations_++);
                  json.raw_field("annotation", citation);
                });
    text.cited_in = Protocol::kResponses;
    if (text.citations.empty())
      text.citations = "[" + citation + "]";
    else
      text.citations.replace(text.citations.size() - 1, 1, "," + citation + "]");
  }

  void cite_foreign(TextPart& text, std::string& out) {
    if (foreign_.citations.empty()) return;
    TextPart cited = std::exchange(foreign_, {});
    cited.text = text.text;
    cited.citations += "]";
    map_citations(cited);
    JsonDocument document;
    if (const auto list = document.parse(cited.citations))
      (void)list->for_each([&](const JsonNode& one) -> Result<void> {
        cite(text, one.raw(), out);
        return {};
      });
  }

  void on(const PartEnds& /*ends*/, std::string& out) {
    if (!is_shown_ || item_.parts.empty()) return;
    Part& part = item_.parts.back();
    if (auto* text = std::get_if<TextPart>(&part.content)) {
      cite_foreign(*text, out);
      annotations_ = 0;
      say_of_part(out, "response.output_text.done", "content_index", [&](JsonWriter& json) {
        json.field("text", text->text).raw_field("logprobs", "[]");
      });
      say_content_part(out, "response.content_part.done");
    } else if (auto* refusal = std::get_if<RefusalPart>(&part.content)) {
      say_of_part(out, "response.refusal.done", "content_index",
                  [&](JsonWriter& json) { json.field("refusal", refusal->text); });
      say_content_part(out, "response.content_part.done");
      has_refusal_ = true;
    } else if (auto* call = std::get_if<ToolCallPart>(&part.content)) {
      end_call(*call, out);
    } else if (auto* thinking = std::get_if<ThinkingPart>(&part.content);
               thinking && has_summary_) {
      say_of_part(out, "response.reasoning_summary_text.done", "summary_index",
                  [&](JsonWriter& json) { json.field("text", thinking->text); });
      say_summary_part(out, "response.reasoning_summary_part.done", thinking->text);
    }
  }

  void end_call(ToolCallPart& call, std::string& out) {
    if (is_wrapped_ && !unwrapping_.has_begun()) grow_call(call, unwrap(wrapped_), out);
    if (call.free_form)
      say_of_part(out, "response.custom_tool_call_input.done", "",
                  [&](JsonWriter& json) { json.field("input", call.input); });
    else
      say_of_part(out, "response.function_call_arguments.done", "", [&](JsonWriter& json) {
        json.field("name", call.name).field("arguments", call.input);
      });
  }

  // Later than the end of its last part: only what comes next says whether a message goes on, and
  // whether the last item was cut off.
  void close_item(std::string& out, std::string_view status) {
    if (item_.parts.empty()) return;
    say_item(out, "response.output_item.done", status);
    if (!items_.empty()) items_ += ',';
    JsonWriter json(items_);
    write_item(json, item_, status);
    item_ = {};
    ++output_index_;
  }

  void on(const AnswerEnds& ends, std::string& out) {
    const Ending ending = ending_of(ends.stop, has_refusal_);
    close_item(out, ending.status);
    say_response(out, ending.status == "completed" ? "response.completed" : "response.incomplete",
                 ending, &ends.usage);
    over_ = true;
  }

  void on(const Failure& failure, std::string& out) {
    say_error(failure, out);
    say_failed(failure, out);
  }

  Request request_;  // of the client's, the free-form tools only
  ResponseObject response_;
  std::int64_t sequence_ = 0;
  std::int64_t output_index_ = 0;
  std::int64_t annotations_ = 0;
  TextPart foreign_;   // another protocol's citations of the open text
  OutputItem item_;    // the open one; no parts: none
  std::string items_;  // the closed ones, as JSON
  bool begun_ = false;
  bool over_ = false;
  bool is_shown_ = false;
  bool is_wrapped_ = false;  // the open call; then what came of it, and what is inside
  std::string wrapped_;
  FreeFormInput unwrapping_;
  bool has_summary_ = false;  // the open reasoning has said some
  bool has_refusal_ = false;
};

}  // namespace

void end_stream(const Told& told, const Failure& failure, std::string& out) {
  if (told.end) return;
  Writer writer({});
  writer.go_on(told);
  if (!told.error) writer.say_error(failure, out);
  writer.say_failed(failure, out);
}

std::unique_ptr<AnswerWriter> stream_writer(const Request& request) {
  return std::make_unique<Writer>(request);
}

}  // namespace pons::models::responses
