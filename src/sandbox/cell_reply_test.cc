#include "cell_reply.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "layer_view.h"

namespace pons::sandbox {
namespace {

template <class T>
std::string bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

cell::ReadReply sound_reply() {
  cell::ReadReply reply{};
  std::strcpy(reply.state.job, "job");
  reply.state.output_end = 10;
  reply.output_offset = 4;
  reply.output_size = 3;
  return reply;
}

bool passes(const cell::ReadReply& reply, std::string_view tail = "abc") {
  return parse_read_answer(bytes(reply) + std::string(tail),
                           {.job = "job", .output_offset = 4, .bytes_max = 100})
      .has_value();
}

TEST(CellReplyTest, OnlyAnAnswerThatFitsItsQuestionPasses) {
  EXPECT_TRUE(passes(sound_reply()));
  EXPECT_FALSE(passes(sound_reply(), "ab"));
  EXPECT_FALSE(passes(sound_reply(), "abcd"));
  const std::function<void(cell::ReadReply&)> lies[] = {
      [](auto& r) { r.state.job[0] = 'x'; },
      [](auto& r) { r.state.ended = static_cast<cell::Ended>(5); },
      [](auto& r) { r.state.ended = cell::Ended::kExit, r.state.code = 256; },
      [](auto& r) { r.state.ended = cell::Ended::kSignal, r.state.code = 0; },
      [](auto& r) { r.output_offset = 3; },
      [](auto& r) { r.output_offset = 8; },
      [](auto& r) { r.output_offset = ~0ULL; },
      [](auto& r) { r.output_size = 0xFFFFFFFF, r.error_size = 4; },
      [](auto& r) { r.state.output_kept = 11; },
      [](auto& r) { r.error_offset = 1; },
      [](auto& r) { r.output_closed = 2; },
      [](auto& r) { r.state.pid = 1U << 30; },
  };
  for (std::size_t i = 0; i < std::size(lies); ++i) {
    cell::ReadReply reply = sound_reply();
    lies[i](reply);
    EXPECT_FALSE(passes(reply)) << i;
  }
}

TEST(CellReplyTest, RecordsAreReadInAnyCut) {
  cell::FileRecord record{.magic = cell::kFileRecordMagic,
                          .kind = cell::FileKind::kLink,
                          .name_size = 2,
                          .link_size = 1,
                          .has_end = 1,
                          .end_kind = cell::FileKind::kFile,
                          .end_path_size = 3,
                          .end_size = 7};
  const std::string whole = bytes(record) + "ab" + "c" + "/de";
  FileInfo info;
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(parse_file_record(whole.substr(0, size), info).state, RecordParse::State::kNeedMore);
  EXPECT_EQ(parse_file_record(whole, info).consumed, whole.size());
  EXPECT_EQ(info.link_target, "c");
  ASSERT_TRUE(info.link_end);
  EXPECT_EQ(info.link_end->path, "/de");
  EXPECT_EQ(info.link_end->kind, FileKind::kFile);
  EXPECT_EQ(info.link_end->size, 7U);
  for (auto lie : {&cell::FileRecord::has_end, &cell::FileRecord::end_path_size}) {
    cell::FileRecord wrong = record;
    wrong.*lie = 0xFFFFFFFF;
    EXPECT_EQ(parse_file_record(bytes(wrong) + whole, info).state, RecordParse::State::kRefused);
  }
  record.name_size = 0xFFFFFFFF;
  EXPECT_EQ(parse_file_record(bytes(record), info).state, RecordParse::State::kRefused);
}

TEST(LayerViewTest, ARunIsMergedOnlyBetweenCheckpoints) {
  LayerView view{.sandbox = 1};
  const auto switch_to = [&](std::uint32_t upper) {
    view.asked = {.upper = upper, .below = view.frozen()};
    view.switched();
  };
  for (std::uint32_t upper = 2; upper <= 6; ++upper) switch_to(upper);
  view.checkpoints.push_back({"keep", {{1, 3}, {1, 2}, {1, 1}}});
  const auto nobody = [](const spawner::OwnLayer&) { return false; };
  EXPECT_EQ(view.mergeable(nobody), (Layers{{1, 3}, {1, 2}, {1, 1}}));
  const auto fork = [](const spawner::OwnLayer& layer) { return layer.number == 2; };
  EXPECT_EQ(view.mergeable(fork), (Layers{{1, 5}, {1, 4}}));
  view.merged({{1, 3}, {1, 2}, {1, 1}}, 7);
  EXPECT_EQ(view.checkpoints[0].layers, (Layers{{1, 7}}));
  // The running view still stands on what was merged.
  EXPECT_TRUE(view.unneeded(nobody).empty());
  switch_to(8);
  EXPECT_EQ(view.unneeded(nobody), (std::vector<std::uint32_t>{1, 2, 3}));
}

}  // namespace
}  // namespace pons::sandbox
