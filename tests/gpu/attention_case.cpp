// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/attention_case.hpp"

#include <algorithm>

namespace opmux::gpu {
namespace {

std::string dtype_text(DType dtype) { return dtype == DType::kFloat16 ? "float16" : "bfloat16"; }

// More queries than keys, no keys, and no queries are among them.
AttentionCase prefill(const std::string& name) {
  AttentionCase each;
  each.name = "varlen_" + name;
  each.queries = {37, 0, 5, 64, 3};
  each.keys = {37, 9, 130, 20, 0};
  return each;
}

AttentionCase decode(const std::string& name) {
  AttentionCase each;
  each.name = "kvcache_" + name;
  each.varlen = false;
  each.queries = {1, 1, 1, 1};
  each.keys = {1, 255, 300, 0};
  each.page_size = 256;
  return each;
}

// Head sizes, dtypes, causal or not, and every size of a group.
void add_prefills(std::vector<AttentionCase>& cases) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const std::int64_t head_size : {64, 128, 256}) {
      for (const bool causal : {false, true}) {
        for (const std::int64_t group : {1, 4, 8}) {
          AttentionCase each = prefill(dtype_text(dtype) + "_" + std::to_string(head_size) +
                                       (causal ? "_causal_" : "_full_") + std::to_string(group));
          each.dtype = dtype;
          each.head_size = head_size;
          each.causal = causal;
          each.group = group;
          cases.push_back(each);
        }
      }
    }
  }
}

void add_special_prefills(std::vector<AttentionCase>& cases) {
  AttentionCase each = prefill("causal_window");
  each.window_left = 16;
  each.window_right = 0;
  cases.push_back(each);
  each = prefill("window");
  each.causal = false;
  each.window_left = 20;
  each.window_right = 10;
  cases.push_back(each);
  each = prefill("scale");
  each.scale = 0.2;
  cases.push_back(each);
  each = prefill("softcap");
  each.softcap = 5.0;
  cases.push_back(each);
  each = prefill("alibi");
  each.slopes = true;
  cases.push_back(each);
  each.name += "_full";
  each.causal = false;
  cases.push_back(each);
  each = prefill("pages_256");
  each.page_size = 256;
  cases.push_back(each);
  each = prefill("pages_16");
  each.page_size = 16;
  cases.push_back(each);
  each = prefill("no_keys");
  each.keys = {0, 0, 0, 0, 0};
  cases.push_back(each);
  each = prefill("decode");
  each.queries = {1, 1, 1};
  each.keys = {7, 130, 1};
  cases.push_back(each);
  each = prefill("decode_one_kv_head");
  each.kv_heads = 1;
  each.queries = {1, 1, 1};
  each.keys = {7, 130, 1};
  cases.push_back(each);
  each = prefill("decode_with_an_empty_sequence");
  each.queries = {1, 0, 1};
  each.keys = {7, 130, 1};
  cases.push_back(each);
  each = prefill("head_size_96");
  each.head_size = 96;
  cases.push_back(each);
  each = prefill("head_size_160");
  each.head_size = 160;
  cases.push_back(each);
  each = prefill("int64_offsets");
  each.wide_lengths = true;
  cases.push_back(each);
  each = prefill("dropout");
  each.dropout = 0.5;
  cases.push_back(each);
}

void add_decodes(std::vector<AttentionCase>& cases) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const std::int64_t head_size : {64, 128, 256}) {
      for (const std::int64_t group : {1, 4, 8}) {
        for (const std::int64_t page_size : {0, 16, 256}) {
          AttentionCase each = decode(
              dtype_text(dtype) + "_" + std::to_string(head_size) + "_" + std::to_string(group) +
              (page_size == 0 ? "_contiguous" : "_pages_" + std::to_string(page_size)));
          each.dtype = dtype;
          each.head_size = head_size;
          each.group = group;
          each.page_size = page_size;
          cases.push_back(each);
        }
      }
    }
  }
}

void add_special_decodes(std::vector<AttentionCase>& cases) {
  AttentionCase each = decode("several_tokens");
  each.queries = {5, 5, 5, 5};
  cases.push_back(each);
  each.name += "_full";
  each.causal = false;
  cases.push_back(each);
  each = decode("window");
  each.window_left = 32;
  each.window_right = 0;
  cases.push_back(each);
  each = decode("alibi");
  each.slopes = true;
  cases.push_back(each);
  each.name += "_full";
  each.causal = false;
  cases.push_back(each);
  each = decode("softcap");
  each.softcap = 5.0;
  cases.push_back(each);
  each = decode("splits");
  each.keys = {2000, 1, 513, 1024};
  each.num_splits = 4;
  cases.push_back(each);
  each = decode("one_length");
  each.page_size = 0;
  each.keys = {77, 77, 77, 77};
  each.one_length = true;
  cases.push_back(each);
  each = decode("no_lengths");
  each.page_size = 0;
  each.keys = {96, 96, 96, 96};
  each.no_lengths = true;
  cases.push_back(each);
  each = decode("cache_rows");
  each.page_size = 0;
  each.cache_rows = true;
  cases.push_back(each);
  each = decode("left_padding");
  each.page_size = 0;
  each.left_padding = true;
  cases.push_back(each);
}

void add_appends(std::vector<AttentionCase>& cases) {
  for (const std::int64_t page_size : {0, 16, 256}) {
    for (const std::int64_t tokens : {1, 4}) {
      for (const std::int64_t pairs : {0, 32}) {
        AttentionCase each =
            decode("append_" + std::to_string(tokens) + (pairs > 0 ? "_rotary" : "") +
                   (page_size == 0 ? "_contiguous" : "_pages_" + std::to_string(page_size)));
        each.page_size = page_size;
        each.queries = {tokens, tokens, tokens, tokens};
        each.appended = tokens;
        each.rotary_pairs = pairs;
        cases.push_back(each);
      }
    }
  }
  AttentionCase each = decode("append_4_rotary_interleaved");
  each.queries = {4, 4, 4, 4};
  each.appended = 4;
  each.rotary_pairs = 64;
  each.interleaved = true;
  cases.push_back(each);
  // Not causal: all queries are rotated by the first one's position.
  each.name = "kvcache_append_4_rotary_full";
  each.interleaved = false;
  each.causal = false;
  cases.push_back(each);
  each.name = "kvcache_append_4_rotary_left_padding";
  each.causal = true;
  each.page_size = 0;
  each.left_padding = true;
  cases.push_back(each);
  each = decode("append_one_length");
  each.page_size = 0;
  each.keys = {77, 77, 77, 77};
  each.one_length = true;
  each.appended = 1;
  cases.push_back(each);
}

std::int64_t longest_query(const AttentionCase& each) {
  return *std::max_element(each.queries.begin(), each.queries.end());
}

std::int64_t longest_key(const AttentionCase& each) {
  return *std::max_element(each.keys.begin(), each.keys.end());
}

std::string refusal_of_flash_attn(const AttentionCase& each) {
  const bool paged = each.page_size > 0;
  if (each.wide_lengths) return "cu_seqlens_q: dtype int32";
  if (each.dropout > 0.0) return "dropout_p: 0.0";
  // Every call of the table asks for softmax_lse.
  if (each.slopes && each.causal) return "alibi_slopes: not given";
  if (paged && each.page_size % 256 != 0) return "dimension 1 a multiple of 256";
  return {};
}

std::string refusal_of_fa2(const AttentionCase& each) {
  if (each.wide_lengths) return "cu_seqlens_q: dtype int32";
  if (each.one_length) return "none in the route";
  if (each.slopes && each.causal) return "alibi_slopes: not given";
  if (each.varlen) {
    if (longest_query(each) < 2) return "max_seqlen_q: at least 2";
    if (longest_key(each) < 1) return "max_seqlen_k: at least 1";
    if (each.dropout > 0.0) return "dropout_p: 0.0";
    return {};
  }
  if (each.cache_rows) return "cache_batch_idx: not given";
  if (each.left_padding) return "cache_leftpad: not given";
  if (each.page_size == 0) return "block_table: given";
  return {};
}

std::string refusal_of_fa3(const AttentionCase& each) {
  if (each.one_length) return "none in the route";
  if (each.appended > 0) return "k: not given";
  if (each.no_lengths) return "cache_seqlens: given";
  if (each.cache_rows) return "cache_batch_idx: not given";
  if (each.left_padding) return "cache_leftpad: not given";
  if (each.slopes) return "alibi_slopes: not given";
  if (each.varlen && each.page_size > 0) return "block_table: not given";
  if (each.head_size == 160) return "one of 64, 96, 128, 192, 256";
  if (each.varlen && longest_key(each) < 1) return "k: dimension 0";
  if (each.wide_lengths) return "cu_seqlens_q: dtype int32";
  if (each.dropout > 0.0) return "dropout_p: 0.0";
  return {};
}

}  // namespace

std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> cases;
  add_prefills(cases);
  add_special_prefills(cases);
  add_decodes(cases);
  add_special_decodes(cases);
  add_appends(cases);
  return cases;
}

std::string expected_refusal(const AttentionCase& each, const std::string& provider) {
  if (provider == "flash_attn") return refusal_of_flash_attn(each);
  return provider == "vllm_fa2" ? refusal_of_fa2(each) : refusal_of_fa3(each);
}

bool may_be_built_without(const AttentionCase& each) {
  return each.slopes || each.softcap > 0.0 || each.head_size % 32 != 0 ||
         (each.head_size > 128 && each.head_size % 64 != 0);
}

}  // namespace opmux::gpu
