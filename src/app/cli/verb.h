#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/answer.h"
#include "app/requests/given_options.h"
#include "app/requests/request_field.h"
#include "core/exit_code.h"

namespace tributary::app {

/// The name of the positional that takes values of a configuration.
inline constexpr const char* kKeyWords = "key.path=value";

/// What a verb does once its arguments are read.
using Run = std::function<ExitCode()>;

/// Encoders beside the ranks of a job.
struct BesideRanks {
  std::vector<std::string> words = {};  // verb and arguments of each; empty: it has none
  std::int64_t planned = 0;             // how many the plan of the job has
  bool is_read = true;                  // the command line of the ranks could be read
};

/// What `launch` asks once, before it starts `ranks` processes that run a verb, with values of the
/// configuration behind its words: it refuses what each of them would refuse, and says what runs
/// beside them.
using BeforeLaunch =
    std::function<BesideRanks(std::int64_t ranks, const std::vector<std::string>& keys)>;

/// The arguments of one verb. A value keeps its default when the user does not give it; each value
/// must live until the verb has run (share it with the Run).
class Verb {
 public:
  struct State;  // wraps the parser library
  explicit Verb(State& state) : state_(state) {}

  void positional(const std::string& name, std::string& value, const std::string& help);
  void optional_positional(const std::string& name, std::string& value, const std::string& help);
  /// Takes all remaining words.
  void rest(const std::string& name, std::vector<std::string>& values, const std::string& help);
  /// `names` as in "-o,--output".
  void option(const std::string& names, std::string& value, const std::string& help);
  /// Null where the option was not given; an empty text is allowed.
  void option(const std::string& names, std::optional<std::string>& value, const std::string& help);
  void option(const std::string& names, std::int64_t& value, const std::string& help);
  void option(const std::string& names, double& value, const std::string& help);
  /// May be given several times.
  void option(const std::string& names, std::vector<std::string>& values, const std::string& help);
  void required(const std::string& names, std::string& value, const std::string& help);
  void required(const std::string& names, std::int64_t& value, const std::string& help);
  void flag(const std::string& names, bool& value, const std::string& help);
  /// Declares --json of a verb that prints text or writes files. A verb whose text and object are
  /// two forms of one table declares a flag and prints either.
  [[nodiscard]] Answer answer();
  /// Declares all arguments of a table. The user separates the texts of a list by commas.
  void fields(const std::vector<RequestField>& fields);
  /// The options that the user gave. Ask it only while the verb runs.
  [[nodiscard]] GivenOptions given() const;
  void before_launch(BeforeLaunch check);
  /// A command line that --help shows; every verb has one.
  void example(const std::string& line);
  /// Lines that --help shows below the examples.
  void note(const std::string& lines);

 private:
  State& state_;
};

/// The headings under which --help lists the verbs.
enum class Purpose { kTrain, kLook, kPlan };

/// One verb of the list. A name of two words is a verb in a group: "data make-demo".
struct Command {
  std::string name;
  Purpose purpose = Purpose::kTrain;
  std::string summary;
  Run (*declare)(Verb& verb);
};

/// All verbs, in the order of --help.
[[nodiscard]] const std::vector<Command>& all_commands();

/// An option of a verb, as it is typed.
struct VerbOption {
  std::vector<std::string> names = {};  // -o, --output
  bool takes_value = false;
  std::string help = {};
};

/// What may be typed behind a verb.
struct VerbWords {
  std::string name = {};  // as of Command
  std::string summary = {};
  std::vector<VerbOption> options = {};
  bool takes_keys = false;  // values of a configuration, key.path=value
};

/// The words of all verbs, in the order of --help.
[[nodiscard]] std::vector<VerbWords> list_verb_words();

/// Asks the verb of a command line, as BeforeLaunch. A command line that cannot be read is left to
/// the processes.
///
/// errors: those of the verb
[[nodiscard]] BesideRanks check_before_launch(const std::vector<std::string>& words,
                                              std::int64_t ranks,
                                              const std::vector<std::string>& keys);

/// Parses the command line, runs the verb, shows an error; returns the exit code.
[[nodiscard]] int run_command_line(int argc, char** argv);

}  // namespace tributary::app
