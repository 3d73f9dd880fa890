#include "template_store.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>

#include <fmt/format.h>

namespace pons::sandbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string layer(int number) {
  return fmt::format("{:064x}", number);
}

class TemplateStoreTest : public testing::Test {
 protected:
  TemplateStoreTest() { EXPECT_TRUE(store_.load()); }
  ~TemplateStoreTest() override { std::filesystem::remove_all(directory_); }

  void put(std::string name, std::vector<std::string> layers) {
    EXPECT_TRUE(store_.put({.name = std::move(name), .kind = "oci", .layers = std::move(layers)}));
  }

  std::string directory_ = [] {
    char path[] = "/tmp/pons-templates-XXXXXX";
    return std::string(mkdtemp(path));
  }();
  TemplateStore store_{directory_};
};

TEST_F(TemplateStoreTest, TheLastNameOfAStackLiesOnTop) {
  put("one", {layer(2), layer(1)});
  put("two", {layer(3)});
  EXPECT_THAT(store_.resolve("one+two")->layers, ElementsAre(layer(3), layer(2), layer(1)));
  EXPECT_THAT(store_.resolve("two+one")->layers, ElementsAre(layer(2), layer(1), layer(3)));
  EXPECT_EQ(store_.resolve("one+two")->name, "one+two");
}

TEST_F(TemplateStoreTest, ALayerThatTwoPartsHaveIsThereOnceOnTop) {
  put("one", {layer(2), layer(1)});
  put("two", {layer(3), layer(1)});
  EXPECT_THAT(store_.resolve("one+two")->layers, ElementsAre(layer(3), layer(1), layer(2)));
  EXPECT_THAT(store_.resolve("one+one")->layers, ElementsAre(layer(2), layer(1)));
}

TEST_F(TemplateStoreTest, UserAndDirectoryAreOfTheLowestAndVariablesOfTheHighest) {
  EXPECT_TRUE(store_.put({.name = "one",
                          .layers = {layer(1)},
                          .user = "app",
                          .directory = "/srv",
                          .environment = {{"A", "1"}, {"B", "1"}},
                          .weakening = {.allow_sudo = true},
                          .bytes = 5}));
  EXPECT_TRUE(store_.put({.name = "two",
                          .layers = {layer(2)},
                          .directory = "/opt",
                          .environment = {{"B", "2"}},
                          .bytes = 7}));
  const auto stack = store_.resolve("one+two");
  ASSERT_TRUE(stack);
  EXPECT_EQ(stack->user, "app");
  EXPECT_EQ(stack->directory, "/srv");
  EXPECT_EQ(stack->environment, (std::map<std::string, std::string>{{"A", "1"}, {"B", "2"}}));
  EXPECT_TRUE(stack->weakening.allow_sudo);
  EXPECT_FALSE(stack->weakening.allow_nested_user_namespaces);
  EXPECT_EQ(stack->bytes, 12U);
}

TEST_F(TemplateStoreTest, APartThatIsNotThereIsNamed) {
  for (const char* name : {"host+none", "none+host", "none", "host+none+host"}) {
    const auto refused = store_.resolve(name);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::kNotFound) << name;
    EXPECT_THAT(refused.error().message, HasSubstr("\"none\"")) << name;
  }
  for (const char* name : {"", "+", "host+", "+host", "host++host"})
    EXPECT_EQ(store_.resolve(name).error().code, ErrorCode::kNotFound) << name;
}

TEST_F(TemplateStoreTest, PartsAndLayersOfAStackAreBounded) {
  EXPECT_TRUE(store_.resolve("host+host+host+host"));
  EXPECT_EQ(store_.resolve("host+host+host+host+host").error().code, ErrorCode::kLimit);
  std::vector<std::string> layers;
  for (int i = 1; i <= 31; ++i) layers.push_back(layer(i));
  put("many", layers);
  EXPECT_EQ(store_.resolve("host+many")->layers.size(), 32U);
  put("one", {layer(100)});
  EXPECT_EQ(store_.resolve("host+many+one").error().code, ErrorCode::kLimit);
}

TEST_F(TemplateStoreTest, NoTemplateIsCalledLikeAStack) {
  EXPECT_EQ(store_.put({.name = "a+b", .layers = {layer(1)}}).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace pons::sandbox
