#include "drivers/command_line.hpp"

#include <mpi.h>

#include <algorithm>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/options.hpp"
#include "base/petsc_options.hpp"
#include "base/provenance.hpp"
#include "base/session.hpp"
#include "drivers/commands.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/deck_file.hpp"
#include "drivers/common/earlier_runs.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/former_names.hpp"
#include "drivers/registry.hpp"
#include "io/hdf5/checker.hpp"
#include "io/hdf5/finished_file.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/layout.hpp"

namespace fluxformer {

namespace po = boost::program_options;

namespace {

struct Arguments {
  std::string experiment, deck;
  std::vector<std::string> overrides;
  bool help = false, validate = false, quiet = false, version = false;
  std::string describe;  ///< "json", or empty
  std::string command_line;
};

Arguments read_arguments(int argc, char** argv) {
  Arguments a;
  for (int i = 0; i < argc; ++i) a.command_line += (i > 0 ? " " : "") + std::string(argv[i]);
  po::options_description flags;
  flags.add_options()("help,h", "")("validate", "")("quiet", "")("version", "");
  // Settings are passed through as they are: Boost would reject the empty value of --section.key=, which
  // clears a word.
  const auto setting = [](const std::string& argument) -> std::pair<std::string, std::string> {
    if (!argument.starts_with("--") || argument.find('=') == std::string::npos) return {};
    return {argument.substr(2), ""};
  };
  const auto parsed = po::command_line_parser(argc, argv)
                          .options(flags)
                          .extra_parser(setting)
                          .style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing)
                          .allow_unregistered()
                          .run();
  for (const po::option& option : parsed.options) {
    const std::string& key = option.string_key;
    if (option.position_key >= 0) {
      const std::string& word = option.value.front();
      if (word.empty()) throw BadInput("an empty argument; is a variable of a script not set?");
      if (!a.deck.empty()) throw BadInput(word + ": one deck at a time (the first was " + a.deck + ")");
      (a.experiment.empty() ? a.experiment : a.deck) = word;
    } else if (key == "describe=json") {
      a.describe = "json";
    } else if (key.starts_with("describe")) {
      throw BadInput("--" + key + ": the only format is --describe=json");
    } else if (!option.unregistered) {
      (key == "help" ? a.help : key == "validate" ? a.validate : key == "quiet" ? a.quiet : a.version) = true;
    } else if (key.find('=') != std::string::npos) {
      a.overrides.push_back(key);
    } else {
      throw BadInput(option.original_tokens.front() +
                     ": a setting is written --section.key=value; the other options are --help, --validate, "
                     "--quiet and --version");
    }
  }
  return a;
}

/// One line for each experiment, grouped by family; the family's name stands in its first line.
std::string experiments_by_family() {
  std::vector<std::string> families;  // in the order of the registry
  std::size_t widest_family = 0, widest_name = 0;
  for (const auto& entry : experiments()) {
    if (std::ranges::find(families, entry.family) == families.end()) families.push_back(entry.family);
    widest_family = std::max(widest_family, entry.family.size());
    widest_name = std::max(widest_name, entry.name.size());
  }
  const auto column = [](const std::string& word, std::size_t width) {
    return word + std::string(width + 2 - word.size(), ' ');
  };
  std::string text;
  for (const auto& family : families) {
    std::string heading = family;
    for (const auto& entry : experiments()) {
      if (entry.family != family) continue;
      text += "  " + column(heading, widest_family) + column(entry.name, widest_name) + entry.sentence + '\n';
      heading.clear();
    }
  }
  return text;
}

/// One line for each command: how it is called, and what it does.
std::string list_of(const std::vector<Command>& commands) {
  std::size_t widest = 0;
  for (const auto& one : commands) widest = std::max(widest, one.name.size() + 1 + one.arguments.size());
  std::string text;
  for (const auto& one : commands) {
    const std::string call = one.name + ' ' + one.arguments;
    text += "  " + call + std::string(widest + 2 - call.size(), ' ') + one.sentence + '\n';
  }
  return text;
}

std::string overview() {
  const auto package = python_package();
  return "fluxformer: a Transformer solved as a partial differential equation over depth and tokens\n\n"
         "  fluxformer EXPERIMENT DECK [--section.key=value ...] [--validate] [--quiet]\n"
         "  fluxformer EXPERIMENT --help      every key: unit, default, allowed values, one sentence\n"
         "  fluxformer COMMAND ...            one of those below; --help explains it\n"
         "  fluxformer --describe=json        experiments, keys and what the files hold, for programs\n\n"
         "commands:\n" +
         list_of(commands_with(package)) + (package.missing.empty() ? "" : "  (" + package.missing + ")\n") +
         "\nexperiments, by family:\n" + experiments_by_family();
}

/// Text of --help: the keys of the experiment of this name or, for a former name, of all that had it.
std::string help_of(const std::string& name) {
  const auto called = experiments_called(name);
  std::string text;
  if (called.front()->name != name)
    text = name + " is a former name: " + name + ".study chooses one of the experiments below\n\n";
  for (const auto* one : called)
    text += (one == called.front() ? "" : "\n") + ("fluxformer " + one->name) + ": " + one->sentence +
            "\n\n" + options_help(Options(one->declare));
  return text;
}

using Json = nlohmann::ordered_json;

Json key_of(const Option& option) {
  constexpr const char* types[] = {"flag",         "whole number",          "number",
                                   "word",         "list of whole numbers", "list of numbers",
                                   "list of words"};  // in the order of OptionValue
  static_assert(std::size(types) == std::variant_size_v<OptionValue>);
  constexpr const char* roles[] = {"run",    "model", "data",
                                   "output", "free",  "permission"};  // in the order of Role
  Json key{{"name", option.name}, {"type", types[option.fallback.index()]}, {"sentence", option.doc}};
  std::visit([&](const auto& value) { key["default"] = value; }, option.fallback);
  if (!option.unit.empty()) key["unit"] = option.unit;
  if (std::isfinite(option.minimum)) key[option.above_minimum ? "above" : "minimum"] = option.minimum;
  if (std::isfinite(option.maximum)) key["maximum"] = option.maximum;
  if (!option.choices.empty()) key["choices"] = option.choices;
  if (option.not_empty) key["not_empty"] = true;
  key["role"] = roles[static_cast<std::size_t>(option.role)];
  if (!option.when.clauses.empty()) key["when"] = option.when.text();
  return key;
}

Json experiment_of(const ExperimentEntry& entry) {
  const Options options(entry.declare);
  io::Description files;
  entry.describe(files);
  Json keys = Json::array(), variables = Json::array();
  for (const auto& option : options.all()) keys.push_back(key_of(option));
  for (const auto& one : files.entries())
    variables.push_back(
        {{"path", one.path}, {"axes", one.axes}, {"unit", one.unit}, {"meaning", one.meaning}});
  return {{"name", entry.name},   {"family", entry.family}, {"sentence", entry.sentence},
          {"cites", entry.cites}, {"keys", keys},           {"variables", variables}};
}

/// A machine-readable description of the program, for documents and the scripts of postprocess/:
/// {"schema_version": ..., "experiments": [{"name", "family", "sentence", "cites", "keys": [...],
/// "variables": [{"path", "axes", "unit", "meaning"}]}], "commands": [{"name", "arguments", "sentence"}]}.
std::string description_as_json(const std::vector<const ExperimentEntry*>& experiments) {
  Json list = Json::array(), commands = Json::array();
  for (const auto* entry : experiments) list.push_back(experiment_of(*entry));
  for (const auto& one : commands_with(python_package()))
    commands.push_back({{"name", one.name}, {"arguments", one.arguments}, {"sentence", one.sentence}});
  return Json{{"schema_version", schema_version}, {"experiments", list}, {"commands", commands}}.dump(1);
}

/// Reports on rank 0 which stored options do not count.
void report_left_out(const Settings& settings, const std::string& deck) {
  std::string list;
  for (const auto& name : settings.left_out()) list += (list.empty() ? "" : ", ") + name;
  if (!list.empty())
    std::cerr << "fluxformer: left out of the settings in " << deck << ": " << list
              << "; what can open files is given on the command line\n";
}

void refuse_unused(const std::vector<std::string>& unused) {
  if (unused.empty()) return;
  std::string list;
  for (const auto& name : unused) list += (list.empty() ? "" : ", ") + name;
  throw BadInput("[petsc] " + list + ": PETSc did not use this; check the name");
}

int run_experiment(const ExperimentEntry& entry, const Settings& settings, const RunContext& context,
                   const Arguments& arguments) {
  const bool root = mpi::is_root(context.comm);
  const auto experiment = entry.make(settings, context);
  // All solvers are set up, so PETSc has looked up every option it knows.
  refuse_unused(remove_unused_petsc_options(settings.petsc()));
  if (arguments.validate) {
    if (settings.options()->find("checkpoint.restart") != nullptr) find_checkpoint(context.comm, settings);
    if (root) std::cout << experiment->describe() << "\nThe deck is valid.\n";
    return 0;
  }
  const auto report = experiment->run();
  if (root && !report.summary.empty())
    (report.code == ExitCode::done ? std::cout : std::cerr) << report.summary << std::endl;
  return static_cast<int>(report.code);
}

std::string version() {
  std::string text;
  for (const auto& [name, value] : provenance())
    if (!value.empty()) text += name + " = " + value + '\n';  // a run has more
  return text;
}

std::string description_of(const std::string& experiment) {
  if (!experiment.empty()) return description_as_json(experiments_called(experiment)) + '\n';
  std::vector<const ExperimentEntry*> all;
  for (const auto& entry : experiments()) all.push_back(&entry);
  return description_as_json(all) + '\n';
}

/// The text that the program says of itself, if it was asked for one.
std::optional<std::string> answer(const Arguments& arguments) {
  if (arguments.version) return version();
  if (!arguments.describe.empty()) return description_of(arguments.experiment);
  if (arguments.experiment.empty()) return overview();
  if (arguments.help) return help_of(arguments.experiment);
  return {};
}

/// Replaces line breaks, so that a message is one line even if names in it contain some.
std::string in_one_line(std::string message) {
  for (char& c : message)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7F') c = c == '\n' ? ' ' : '?';
  return message;
}

void report(const Error& e) {
  std::cerr << "fluxformer: " << in_one_line(e.what()) << std::endl;
}

constexpr const char* help_of_check =
    "fluxformer check FILE...\n\n"
    "Whether HDF5 survives the file: it crashes on some that are damaged, or comes to no end. A second\n"
    "process reads all attributes, texts and chunked numbers (but no dataset beyond 256 MB), as one does in\n"
    "a run before the run reads the file. One line a file. Exit code 0: HDF5 survives all; 2: not all, or\n"
    "one is no HDF5 file; 1: one could not be tried.\n";

/// The words after `check`; returns the exit code.
int check_files(const std::vector<std::string>& files) {
  if (files.empty()) throw BadInput("check: no file; fluxformer check FILE...");
  if (std::ranges::any_of(files, [](auto& word) { return word == "--help" || word == "-h"; })) {
    std::cout << help_of_check;
    return 0;
  }
  io::quiet_hdf5();
  int code = 0;
  for (const auto& file : files) {
    std::string said = "HDF5 survives it";
    try {
      io::open_finished(file);
    } catch (const Error& e) {
      said = e.what();
      code = std::max(code, static_cast<int>(e.code()));
    }
    std::cout << in_one_line(file + ": " + said) << std::endl;
  }
  return code;
}

bool checks(int argc, char** argv) {
  return argc > 1 && std::string_view(argv[1]) == "check";
}

/// The package, if this word is a command of it and no experiment.
std::optional<PythonPackage> package_with(const std::string& word) {
  const auto has = [&](const ExperimentEntry& entry) { return entry.name == word || entry.former == word; };
  if (word.empty() || word.starts_with("-") || std::ranges::any_of(experiments(), has)) return {};
  auto package = python_package();
  if (std::ranges::find(package.commands, word, &Command::name) == package.commands.end()) return {};
  return package;
}

/// Does what needs no MPI and returns the exit code; nothing for a run. A command of the Python package does not
/// return: it takes the place of the process that speaks, and the others are done.
std::optional<int> without_mpi(int argc, char** argv, bool speaks) {
  if (checks(argc, argv)) return check_files({argv + 2, argv + argc});
  if (const auto package = package_with(argc > 1 ? argv[1] : "")) {
    if (!speaks) return 0;
    try {
      become_python_command(*package, {argv + 1, argv + argc});
    } catch (const BadInput& e) {
      report(e);
      return static_cast<int>(e.code());
    }
  }
  const auto arguments = read_arguments(argc, argv);
  const auto text = answer(arguments);
  if (!text) {
    experiments_called(arguments.experiment);  // refuses what is none
    return {};
  }
  if (speaks) std::cout << *text;
  return 0;
}

/// The rank of this process, as its launcher has put it into the environment: there is no MPI yet to ask.
/// Empty if there is no launcher.
std::string_view launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return rank;
  return {};
}

/// Whether the last word on it says so: the deck itself may be an HDF5 file.
bool trusts_files(const std::vector<std::string>& overrides) {
  const auto option = trust_files_option();
  bool trusted = std::get<bool>(option.fallback);
  for (const auto& text : overrides)
    if (text.starts_with(option.name + "="))
      trusted = std::get<bool>(parse_value(option, text.substr(option.name.size() + 1)));
  return trusted;
}

int run(int argc, char** argv, MPI_Comm comm, bool root) {
  const auto arguments = read_arguments(argc, argv);
  if (const auto text = answer(arguments)) {  // of a program that has not called run_program
    if (root) std::cout << *text;
    return 0;
  }
  // Other ranks read what rank 0 has read before.
  io::trust_files(trusts_files(arguments.overrides) || !root);
  const auto names = names_in_files(arguments.experiment);
  const Deck deck = arguments.deck.empty() ? Deck{} : read_deck_file(comm, arguments.deck, names);
  const std::string source = arguments.deck.empty() ? "no deck" : arguments.deck;
  const auto request = in_names_of_today(arguments.experiment, deck, arguments.overrides, source);
  const auto& entry = *request.experiment;
  if (root && entry.name != arguments.experiment)
    std::cerr << "fluxformer: " << arguments.experiment << ": this study is now the experiment " << entry.name
              << '\n';
  Settings settings(std::make_shared<const Options>(entry.declare), request.deck, request.settings, source,
                    deck.origin);
  io::trust_files(settings.flag(trust_files_key) || !root);
  if (root) report_left_out(settings, arguments.deck);
  leave_model_to_file(settings);
  leave_data_to_file(settings);
  settings = with_edges_from_file(settings, comm);
  settings.refuse_idle_keys();
  set_petsc_options(settings.petsc());
  try {
    return run_experiment(entry, settings,
                          {comm, entry.name, entry.cites, arguments.command_line, deck.text, arguments.quiet},
                          arguments);
  } catch (const PetscFailure& e) {
    if (settings.petsc().empty()) throw;
    std::string list;
    for (const auto& [name, value] : settings.petsc()) list += (list.empty() ? "" : ", ") + name;
    throw BadInput("[petsc] " + list + ": cannot be done: " + e.what());
  }
}

/// Ends the program for an exception that is no Error. It was not agreed on: other ranks may be waiting in a
/// collective call. Without a handler for it, std::terminate is called where it was thrown, before any
/// destructor could wait for them. Rank 0 speaks first; if it fails, too, mpiexec ends the others meanwhile.
[[noreturn]] void end_at_once() {
  int started = 0, ended = 0, rank = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started != 0 && ended == 0)
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  else if (const auto launched = launched_rank(); !launched.empty())
    rank = std::atoi(launched.data());
  if (rank != 0) std::this_thread::sleep_for(std::chrono::seconds(10));
  const char* why = "ended by std::terminate";
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    why = out_of_memory;
  } catch (const std::exception& e) {
    why = e.what();
  } catch (...) {
    why = "unknown exception";
  }
  std::fprintf(stderr, "fluxformer: rank %d: %s\n", rank, why);
  std::_Exit(static_cast<int>(ExitCode::failure));
}

}  // namespace

int run_program(int argc, char** argv) {
  if (const auto code = io::serve_as_checker(argc, argv)) return *code;
  std::set_terminate(end_at_once);
  const auto rank = launched_rank();
  try {
    if (const auto code = without_mpi(argc, argv, rank.empty() || rank == "0")) {
      if (!std::cout.flush()) throw Error(ExitCode::failure, "standard output cannot be written");
      return *code;
    }
  } catch (const Error& e) {
    if (rank.empty() || checks(argc, argv)) {
      report(e);
      return static_cast<int>(e.code());
    }  // otherwise it is thrown again below: a rank that ended now could end rank 0 before that has spoken
  }
  const Session session(argc, argv);
  return run_command_line(argc, argv);
}

int run_command_line(int argc, char** argv) {
  std::set_terminate(end_at_once);  // for a caller that is not run_program
  const MPI_Comm comm = MPI_COMM_WORLD;
  const bool root = mpi::is_root(comm);
  try {
    return run(argc, argv, comm, root);
  } catch (const Error& e) {
    if (root) report(e);
    return static_cast<int>(e.code());
  }
}

}  // namespace fluxformer
