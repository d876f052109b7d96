// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "core/probe/cache.hpp"
#include "core/probe/conversation.hpp"
#include "core/probe/ending.hpp"
#include "core/probe/frame.hpp"
#include "core/probe/messages.hpp"

namespace opmux::probing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Frames, ComeOutWholeHoweverTheyArrive) {
  const std::string stream = encode_frame("first") + encode_frame("") + encode_frame("third");
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    FrameReader reader;
    std::vector<std::string> payloads;
    std::string payload;
    for (std::size_t i = 0; i < stream.size(); i += step) {
      reader.append(std::string_view(stream).substr(i, step));
      while (reader.next(payload) == FrameReader::Next::kFrame) payloads.push_back(payload);
    }
    EXPECT_THAT(payloads, ElementsAre("first", "", "third"));
    EXPECT_EQ(reader.next(payload), FrameReader::Next::kIncomplete);
  }
}

TEST(Frames, AreRefusedAtTheFirstWrongByte) {
  FrameReader reader;
  std::string payload;
  reader.append("opmuxfx");
  EXPECT_EQ(reader.next(payload), FrameReader::Next::kBroken);
  EXPECT_EQ(reader.fault(), "bytes that begin no frame: \"opmuxfx\"");
  reader.append(encode_frame("too late"));
  EXPECT_EQ(reader.next(payload), FrameReader::Next::kBroken);
}

TEST(Frames, AreRefusedBeyondTheCapWithoutTakingMemory) {
  for (const std::uint64_t length :
       {kFrameCap + 1, std::uint64_t{0xfffffff0}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    std::string frame = encode_frame("");
    for (std::size_t i = 0; i < 8; ++i) frame[8 + i] = static_cast<char>(length >> (8 * i) & 0xff);
    FrameReader reader;
    std::string payload;
    reader.append(frame);
    EXPECT_EQ(reader.next(payload), FrameReader::Next::kBroken);
    EXPECT_EQ(reader.fault(),
              "a frame of " + std::to_string(length) + " bytes, the cap is 67108864");
  }
}

TEST(Messages, CarryAnyBytes) {
  Request request;
  request.parent = 12;
  request.limits.memory_bytes = ~std::uint64_t{0};
  request.driver = "/a b/\xff\xfe\x80\n\"\\/libcuda.so.1";
  request.torch_folder = "/\xc3\xa4/lib";
  request.modules = {"/m.so"};
  request.libraries = {{"/l.so", true}};
  std::string fault;
  const auto read = parse_request(to_json(request), fault);
  ASSERT_TRUE(read) << fault;
  EXPECT_EQ(read->driver, request.driver);
  EXPECT_EQ(read->torch_folder, request.torch_folder);
  EXPECT_EQ(read->limits.memory_bytes, request.limits.memory_bytes);
  EXPECT_EQ(read->libraries[0].path, "/l.so");
  EXPECT_TRUE(read->libraries[0].python_extension);
}

TEST(Messages, SayWhatIsWrong) {
  std::string fault;
  const auto fault_of = [&fault](std::string_view json) {
    EXPECT_FALSE(parse_reply(json, fault));
    return fault;
  };
  EXPECT_EQ(fault_of(""), "it is no JSON");
  EXPECT_EQ(fault_of("[1,2"), "it is no JSON");
  EXPECT_EQ(fault_of("7"), "an object was expected");
  EXPECT_EQ(fault_of("{}"), "`type` is missing");
  EXPECT_EQ(fault_of(R"({"type":7})"), "`type` is no text");
  EXPECT_EQ(fault_of(R"({"type":"hullo"})"), "an unknown word");
  EXPECT_EQ(fault_of(R"({"type":"hello","protocol":99999999999,"version":"1"})"),
            "`protocol` is out of range");
  EXPECT_EQ(fault_of(R"({"type":"loading","what":"library","index":-1})"),
            "`index` is out of range");
  EXPECT_EQ(fault_of(R"({"type":"devices","cuda_driver_version":1,"devices":7})"),
            "`devices` is no list");
}

class Talk : public testing::Test {
 protected:
  static std::string frame(const std::string& json) { return encode_frame(json); }
  static std::string hello() {
    return frame(R"({"type":"hello","protocol":1,"version":")" + std::string(opmux_version()) +
                 "\"}");
  }
  static std::string loading(int index) {
    return frame(R"({"type":"loading","what":"library","index":)" + std::to_string(index) + "}");
  }
  static std::string loaded(int index) {
    return frame(R"({"type":"loaded","what":"library","index":)" + std::to_string(index) +
                 R"(,"rejection":null,"module":null})");
  }
  static std::string done() { return frame(R"({"type":"done"})"); }

  // What is wrong with a conversation about two libraries.
  static std::string fault(const std::string& bytes) {
    Conversation conversation(0, 2);
    conversation.take(bytes);
    return conversation.fault();
  }
};

TEST_F(Talk, EndsWithDone) {
  Conversation conversation(0, 2);
  EXPECT_TRUE(conversation.take(hello() + loading(0) + loaded(0) + loading(1)));
  EXPECT_FALSE(conversation.over());
  EXPECT_EQ(conversation.last_step(), (Step{Step::What::kLibrary, 1}));
  EXPECT_TRUE(conversation.take(loaded(1) + done()));
  EXPECT_TRUE(conversation.done());
  EXPECT_TRUE(conversation.take("whatever comes after is not read"));
}

TEST_F(Talk, HasAnOrder) {
  EXPECT_THAT(fault(done()), HasSubstr("it comes before the greeting"));
  EXPECT_THAT(fault(hello() + hello()), HasSubstr("a second greeting"));
  EXPECT_THAT(fault(hello() + loaded(0)), HasSubstr("the end of a step that did not begin"));
  EXPECT_THAT(fault(hello() + loading(0) + loading(1)), HasSubstr("the step before is not over"));
  EXPECT_THAT(fault(hello() + loading(0) + done()), HasSubstr("the last step is not over"));
  EXPECT_THAT(fault(hello() + loading(1) + loaded(1) + loading(0)),
              HasSubstr("a step out of order"));
  EXPECT_THAT(fault(hello() + loading(0) + loaded(0) + loading(0)),
              HasSubstr("a step out of order"));
  EXPECT_THAT(fault(hello() + loading(2)), HasSubstr("a step that was not asked for"));
  EXPECT_THAT(fault(hello() + loading(0) + loaded(1)),
              HasSubstr("the end of a step that did not begin"));
  EXPECT_THAT(
      fault(hello() + frame(R"({"type":"refused","what":"module","index":0,"rejection":null})")),
      HasSubstr("a refusal by no module"));
}

TEST_F(Talk, SurvivesEachCutAndEachChangedByte) {
  const std::string bytes =
      hello() + loading(0) + loaded(0) +
      frame(R"json({"type":"registrations","registrations":[{"library":"/l",)json"
            R"json("schema":"a::b() -> ()","dispatch_keys":["CPU"]}]})json") +
      loading(1) + loaded(1) + done();
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    Conversation conversation(0, 2);
    EXPECT_TRUE(conversation.take(bytes.substr(0, cut)));
    EXPECT_FALSE(conversation.done());
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x15);
    Conversation conversation(0, 2);
    conversation.take(changed);  // whatever it says, it says it
    EXPECT_TRUE(!conversation.done() || conversation.fault().empty());
  }
}

TEST(Complaint, OfTorchIsUnderstood) {
  EXPECT_EQ(conflicting_namespace("Only a single TORCH_LIBRARY can be used to register the "
                                  "namespace _C; please put all"),
            "_C");
  EXPECT_EQ(conflicting_namespace("Tried to register an operator (_moe_C::topk(Tensor a) -> ()) "
                                  "with the same name and overload name multiple times."),
            "_moe_C");
  EXPECT_EQ(conflicting_namespace("something else"), std::nullopt);
}

// What the fuzz targets have kept.
TEST(Corpus, IsReplayed) {
  int files = 0;
  for (const char* target : {"fuzz_probe_reply", "fuzz_findings_cache"}) {
    const auto folder = std::filesystem::path(OPMUX_SOURCE_DIR) / "tests/corpus" / target;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(file)),
                              std::istreambuf_iterator<char>());
      Conversation conversation(1, 2);
      conversation.take(bytes);
      Digests digests;
      std::string fault;
      parse_findings_file(bytes, digests, fault);
      parse_findings(bytes, digests, fault);
      ++files;
    }
  }
  EXPECT_GE(files, 6);
}

}  // namespace
}  // namespace opmux::probing
