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

// With a source of every kind and a constant of every kind.
ProbeBinding binding_of_everything() {
  ProbeBinding item;
  item.module = 1;
  item.library = 2;
  item.binding.operator_name = "attend";
  item.binding.operator_schema = "attend(Tensor q) -> ()";
  item.binding.device = "cuda";
  item.binding.symbols = {"f\xff(int)", "g()"};
  item.binding.mangled = {"_Z1fi", "_Z1gv"};
  item.binding.returns = "at::Tensor";
  item.binding.module_maps = true;
  item.binding.results = {{3, true}, {}};
  const auto add = [&item]() -> decltype(CallSource::source)& {
    return item.binding.call.emplace_back().source;
  };
  add().emplace<int>(4);
  for (const Literal& literal :
       {Literal{NoneLiteral{}}, Literal{false}, Literal{std::int64_t{1} << 62}, Literal{2.0},
        Literal{1e-300}, Literal{std::string("\xfe\n")}, Literal{std::string()},
        Literal{std::vector<std::int64_t>{-1, 2}}, Literal{std::vector<std::int64_t>{}}})
    add().emplace<Literal>(literal);
  add().emplace<ListItem>(ListItem{2, 1});
  add().emplace<InverseSqrtDefault>(InverseSqrtDefault{1, 0, -1});
  return item;
}

TEST(Messages, CarryBindingsAndPython) {
  Request request;
  request.python = PythonLibrary{"/p/libpython3.99.so.1.0", "libpython3.99.so.1.0", "3.99"};
  request.modules = {"/a.so", "/b.so"};
  request.libraries = {{"/l.so", false}, {"/m.so", false}, {"/n.so", false}};
  request.bindings = {binding_of_everything()};
  std::string fault;
  const auto read = parse_request(to_json(request), fault);
  ASSERT_TRUE(read) << fault;
  ASSERT_TRUE(read->python);
  EXPECT_EQ(read->python->path, request.python->path);
  EXPECT_EQ(read->python->soname, request.python->soname);
  EXPECT_EQ(read->python->version, "3.99");
  ASSERT_EQ(read->bindings.size(), 1u);
  const ProbeBinding& item = read->bindings[0];
  EXPECT_EQ(item.module, 1u);
  EXPECT_EQ(item.library, 2u);
  EXPECT_EQ(item.binding.operator_name, "attend");
  EXPECT_EQ(item.binding.operator_schema, "attend(Tensor q) -> ()");
  EXPECT_EQ(item.binding.device, "cuda");
  EXPECT_EQ(item.binding.symbols, request.bindings[0].binding.symbols);
  EXPECT_EQ(item.binding.mangled, request.bindings[0].binding.mangled);
  EXPECT_EQ(item.binding.returns, "at::Tensor");
  EXPECT_TRUE(item.binding.module_maps);
  EXPECT_EQ(item.binding.results, (std::vector<ResultTarget>{{3, true}, {}}));
  ASSERT_EQ(item.binding.call.size(), 12u);
  const auto literal = [&item](std::size_t at) -> const Literal& {
    return std::get<Literal>(item.binding.call[at].source);
  };
  EXPECT_EQ(std::get<int>(item.binding.call[0].source), 4);
  EXPECT_TRUE(std::holds_alternative<NoneLiteral>(literal(1)));
  EXPECT_EQ(std::get<bool>(literal(2)), false);
  EXPECT_EQ(std::get<std::int64_t>(literal(3)), std::int64_t{1} << 62);
  EXPECT_EQ(std::get<double>(literal(4)), 2.0) << "a float, not an integer";
  EXPECT_EQ(std::get<double>(literal(5)), 1e-300);
  EXPECT_EQ(std::get<std::string>(literal(6)), "\xfe\n");
  EXPECT_EQ(std::get<std::string>(literal(7)), "");
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(literal(8)), (std::vector<std::int64_t>{-1, 2}));
  EXPECT_TRUE(std::get<std::vector<std::int64_t>>(literal(9)).empty());
  const auto& list_item = std::get<ListItem>(item.binding.call[10].source);
  EXPECT_EQ(list_item.argument, 2);
  EXPECT_EQ(list_item.index, 1);
  const auto& number = std::get<InverseSqrtDefault>(item.binding.call[11].source);
  EXPECT_EQ(number.argument, 1);
  EXPECT_EQ(number.tensor, 0);
  EXPECT_EQ(number.dim, -1);
  EXPECT_EQ(to_json(*read), to_json(request));
}

TEST(Messages, WithoutPythonCarryNone) {
  std::string fault;
  const auto read = parse_request(to_json(Request{}), fault);
  ASSERT_TRUE(read) << fault;
  EXPECT_FALSE(read->python);
  EXPECT_TRUE(read->bindings.empty());
}

TEST(Messages, RefuseBindingsThatAreNotWhole) {
  Request request;
  request.bindings = {binding_of_everything()};
  const std::string whole = to_json(request);
  const auto fault_of = [&whole](const std::string& before, const std::string& after) {
    std::string changed = whole;
    const std::size_t at = changed.find(before);
    EXPECT_NE(at, std::string::npos) << before << " is not in " << whole;
    if (at != std::string::npos) changed.replace(at, before.size(), after);
    std::string fault;
    EXPECT_FALSE(parse_request(changed, fault)) << changed;
    return fault;
  };
  EXPECT_EQ(fault_of(R"(["argument",4])", R"(["argument"])"), "a source of the wrong length");
  EXPECT_EQ(fault_of(R"(["argument",4])", R"(["argument",4,5])"), "a source of the wrong length");
  EXPECT_EQ(fault_of(R"(["argument",4])", R"(["argument","4"])"), "`item` is no integer");
  EXPECT_EQ(fault_of(R"(["argument",4])", R"(["argument",4294967296])"), "`item` is out of range");
  EXPECT_EQ(fault_of(R"(["argument",4])", R"(["guess",4])"), "a source of no known kind");
  EXPECT_EQ(fault_of(R"(["argument",4])", "7"), "a source is no list");
  EXPECT_EQ(fault_of(R"(["argument",4])", "[]"), "a source is no list");
  EXPECT_EQ(fault_of(R"(["item",2,1])", R"(["item",2])"), "a source of the wrong length");
  EXPECT_EQ(fault_of(R"(["inverse_sqrt",1,0,-1])", R"(["inverse_sqrt",1,0])"),
            "a source of the wrong length");
  EXPECT_EQ(fault_of(R"(["constant",false])", R"(["constant",{}])"), "a constant of no known kind");
  EXPECT_EQ(fault_of(R"(["constant",[-1,2]])", R"(["constant",[-1,"2"]])"), "`item` is no integer");
  EXPECT_EQ(fault_of(R"("_Z1fi",)", ""), "symbols without names");
}

TEST(Findings, CarryWhatBecameOfBindingsAndPython) {
  Findings findings;
  const Rejection refused{"loader", "loader.bind_refused", "m.so: f", "bound", "no\xff", "do"};
  findings.bindings = {std::nullopt, refused};
  findings.python_rejection = refused;
  Digests digests;
  std::string fault;
  const auto read = parse_findings(to_json(findings, digests), digests, fault);
  ASSERT_TRUE(read) << fault;
  ASSERT_EQ(read->bindings.size(), 2u);
  EXPECT_FALSE(read->bindings[0]);
  ASSERT_TRUE(read->bindings[1]);
  EXPECT_EQ(to_string(*read->bindings[1]), to_string(refused));
  ASSERT_TRUE(read->python_rejection);
  EXPECT_EQ(to_string(*read->python_rejection), to_string(refused));
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
    return frame(R"({"type":"hello","protocol":2,"version":")" + std::string(opmux_version()) +
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

TEST_F(Talk, KnowsBindingsAndPythonInTheirOrder) {
  const auto step = [](const std::string& type, const std::string& what, int index) {
    return frame(R"({"type":")" + type + R"(","what":")" + what + R"(","index":)" +
                 std::to_string(index) + R"(,"rejection":null,"module":null})");
  };
  const auto both = [&step](const std::string& what, int index) {
    return step("loading", what, index) + step("loaded", what, index);
  };
  Conversation conversation(0, 1, 2);
  EXPECT_TRUE(conversation.take(hello() + both("torch", 0) + both("python", 0) +
                                both("library", 0) + both("binding", 1) + done()));
  EXPECT_TRUE(conversation.done());
  EXPECT_FALSE(conversation.python_rejection);
  ASSERT_EQ(conversation.bindings.size(), 2u);

  const auto fault_of = [](const std::string& bytes) {
    Conversation refused(0, 1, 2);
    refused.take(bytes);
    return refused.fault();
  };
  EXPECT_THAT(fault_of(hello() + both("binding", 0) + both("library", 0)),
              HasSubstr("a step out of order"));
  EXPECT_THAT(fault_of(hello() + both("python", 0) + both("torch", 0)),
              HasSubstr("a step out of order"));
  EXPECT_THAT(fault_of(hello() + both("binding", 2)), HasSubstr("a step that was not asked for"));
  EXPECT_THAT(fault_of(hello() + both("python", 1)), HasSubstr("a step that was not asked for"));
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
      Conversation conversation(1, 2, 2);
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
