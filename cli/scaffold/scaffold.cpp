// SPDX-License-Identifier: Apache-2.0
#include "cli/scaffold/scaffold.hpp"

#include <array>

#include "cli/scaffold/templates.hpp"

namespace opmux::cli {
namespace {

// What differs between serving an operator that opmux declares and declaring one.
struct Kernel {
  std::string_view schema;  // behind the name
  std::string_view formula;
  std::string_view misfit;    // when the columns of input and out do not go together
  std::string_view fit_text;  // what goes together, in words
  std::string_view body;
  std::string_view test_columns;
  std::string_view test_expected;
  std::string_view declaration;
};

constexpr Kernel kGated{"(Tensor input, Tensor(a!) out) -> ()",
                        "out = silu(input[..., :d]) * input[..., d:]",
                        "columns % 2 != 0 || out.shape[out.rank - 1] != columns / 2",
                        "out with half as many columns as input, and as many rows",
                        kGatedBody,
                        "8",
                        kGatedExpected,
                        ""};

constexpr Kernel kSquared{"(Tensor input, Tensor(a!) out) -> ()",
                          "out = max(input, 0)^2",
                          "out.shape[out.rank - 1] != columns",
                          "out with as many rows and columns as input",
                          kSquaredBody,
                          "4",
                          kSquaredExpected,
                          kDeclaration};

std::string filled(std::string_view text, std::string_view plugin, std::string_view operator_name,
                   const Kernel& kernel) {
  struct Field {
    std::string_view mark;
    std::string_view value;
  };
  // Values may hold the marks behind them.
  const std::array<Field, 10> fields{{{"@DECLARATION@", kernel.declaration},
                                      {"@BODY@", kernel.body},
                                      {"@EXPECTED@", kernel.test_expected},
                                      {"@SCHEMA@", kernel.schema},
                                      {"@FORMULA@", kernel.formula},
                                      {"@FIT@", kernel.fit_text},
                                      {"@MISFIT@", kernel.misfit},
                                      {"@COLUMNS@", kernel.test_columns},
                                      {"@OPERATOR@", operator_name},
                                      {"@PLUGIN@", plugin}}};
  std::string result{text};
  for (const Field& field : fields) {
    for (std::size_t at = result.find(field.mark); at != std::string::npos;
         at = result.find(field.mark, at + field.value.size()))
      result.replace(at, field.mark.size(), field.value);
  }
  return result;
}

}  // namespace

std::vector<ScaffoldFile> scaffold(std::string_view plugin, std::string_view operator_name) {
  const Kernel& kernel = operator_name == kScaffoldOperator ? kGated : kSquared;
  const std::string name{plugin};
  std::vector<ScaffoldFile> files{{"CMakeLists.txt", std::string{kBuildTemplate}},
                                  {"README.md", std::string{kReadmeTemplate}},
                                  {name + ".cpp", std::string{kSourceTemplate}},
                                  {name + ".yaml", std::string{kManifestTemplate}},
                                  {name + "_test.cpp", std::string{kTestTemplate}}};
  for (ScaffoldFile& file : files)
    file.content = filled(file.content, plugin, operator_name, kernel);
  return files;
}

}  // namespace opmux::cli
