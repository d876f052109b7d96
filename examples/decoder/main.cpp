// SPDX-License-Identifier: Apache-2.0
//
// Generates tokens with a small decoder whose operators are served by whatever opmux routes to.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <thread>

#include "compare.hpp"
#include "generate.hpp"
#include "output.hpp"

namespace decoder {
namespace {

enum ExitCode : int { kFine = 0, kFinding = 1, kUsage = 2 };

struct Arguments {
  std::string config_file;
  Shape shape;
  // Of the first 60, one of those whose margins stay wide for a thousand tokens.
  std::uint64_t seed = 7;
  std::int64_t tokens = 64;
  std::int64_t delay_ms = 0;
  bool watch = false;
  bool compare = false;
  bool json = false;
};

void print(const std::string& text) {
  // At once: lines of changes come from another thread.
  const std::string line = text + '\n';
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

void print_error(const std::string& text) {
  std::fprintf(stderr, "opmux-decoder: %s\n", text.c_str());
}

int failed(const opmux::Status& status, bool json) {
  print_error(status.message());
  if (json) print(to_json(status));
  const opmux::Rejection* rejection = status.rejection();
  return rejection != nullptr && rejection->rule == "config.missing" ? kUsage : kFinding;
}

// What the runtime is asked for, in one place.
opmux::Options runtime_options(const Arguments& arguments) {
  opmux::Options options;
  if (!arguments.config_file.empty()) options.config_file = arguments.config_file;
  if (arguments.watch) options.watch = true;
  if (arguments.watch && !arguments.json)
    options.on_change = [](const opmux::ChangeReport& change) { print(to_line(change)); };
  return options;
}

int decode(const Arguments& arguments) {
  const opmux::Options options = runtime_options(arguments);
  const auto runtime = opmux::Runtime::open(options);
  if (!runtime.ok()) return failed(runtime.status(), arguments.json);
  auto operators = Operators::open(*runtime);
  if (!operators.ok()) return failed(operators.status(), arguments.json);

  const Model model = make_model(arguments.shape, arguments.seed);
  Run run;
  opmux::Status status =
      generate(model, *operators, arguments.tokens, run, [&](std::size_t i, const Step& step) {
        if (!arguments.json) print(to_line(i, step));
        if (arguments.delay_ms > 0)
          std::this_thread::sleep_for(std::chrono::milliseconds(arguments.delay_ms));
      });
  const opmux::Report report = runtime->report();
  std::optional<Comparison> comparison;
  if (status.ok() && arguments.compare) {
    const auto compared = compare(model, options, report, run);
    if (compared.ok())
      comparison = *compared;
    else
      status = compared.status();
  }
  if (!status.ok()) print_error(status.message());
  // What was generated before an error counts as much as what would have followed.
  if (arguments.json)
    print(to_json(model, arguments.seed, run, comparison, report, status));
  else if (!run.steps.empty())
    print(to_text(run, comparison));
  if (!status.ok()) return kFinding;
  if (comparison && !comparison->holds()) {
    print_error("the smallest margin, " + std::to_string(comparison->margin) + ", is not " +
                std::to_string(static_cast<int>(kLeastRatio)) +
                " times the largest difference between providers, " +
                std::to_string(comparison->difference) +
                ": a swap of providers may change a token. Choose another --seed.");
    return kFinding;
  }
  return kFine;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Generates tokens with a small decoder whose rms_norm, rotary_embedding, attention "
      "and silu_and_mul are served by the providers of opmux's routes.",
      "opmux-decoder"};
  app.set_help_flag("-h,--help", "Print this help");
  app.footer("Exit codes: 0 fine, 1 a finding, 2 wrong usage.");
  Arguments arguments;
  app.add_option("--config", arguments.config_file,
                 "opmux.yaml; else OPMUX_CONFIG, the user's, the system's")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string { return text.empty() ? "an empty value" : ""; },
          ""))
      ->type_name("FILE");
  app.add_option("--tokens", arguments.tokens, "Tokens to generate")
      ->check(CLI::Range(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--seed", arguments.seed, "Of the weights")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            // Left to itself, the library takes -1 for a large number.
            const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
            return digits ? "" : text + " is no whole number from 0";
          },
          ""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--layers", arguments.shape.layers, "Layers")
      ->check(CLI::Range(1, 32))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--hidden", arguments.shape.hidden, "Width: a multiple of the head size, 64")
      ->check(CLI::Range(64, 1024))
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            return std::stoll(text) % 64 == 0 ? "" : text + " is no multiple of 64";
          },
          ""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--delay-ms", arguments.delay_ms, "Wait so long after each step")
      ->check(CLI::Range(0, 60000))
      ->type_name("MS")
      ->capture_default_str();
  app.add_flag("--watch", arguments.watch,
               "Follow the configuration and the drop-in folders while running");
  app.add_flag("--compare", arguments.compare,
               "Repeat the tokens with each provider; exit 1 unless the smallest margin is 100 "
               "times the largest difference");
  app.add_flag("--json", arguments.json, "Print one JSON object");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    print_error(std::string{error.what()} + ". Type `opmux-decoder --help`.");
    return kUsage;
  }
  arguments.shape.positions = arguments.tokens;
  const int code = decode(arguments);
  // A full disk or closed pipe must not look like success.
  if (code == kFine && std::ferror(stdout) != 0) {
    print_error("the output could not be written: check the disk and the pipe.");
    return kFinding;
  }
  return code;
}

}  // namespace
}  // namespace decoder

int main(int argc, char** argv) {
  try {
    return decoder::run(argc, argv);
  } catch (const std::bad_alloc&) {
    decoder::print_error("out of memory: use smaller sizes.");
  } catch (const std::exception& error) {
    decoder::print_error(std::string{"unexpected: "} + error.what());
  }
  return decoder::kFinding;
}
