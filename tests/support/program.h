#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace kvcost {

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The program in another process, run inside `folder`.
class Program {
 public:
  Program(const std::filesystem::path& folder, std::vector<std::string> arguments) {
    static int count = 0;
    std::string stem = "program-" + std::to_string(getpid()) + "-" + std::to_string(count++);
    out_ = folder / (stem + ".out"), err_ = folder / (stem + ".err");
    process_ = fork();
    if (process_ == 0) {
      int out = open(out_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
      int err = open(err_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
      dup2(out, STDOUT_FILENO);
      dup2(err, STDERR_FILENO);
      if (chdir(folder.c_str()) != 0) _exit(126);
      setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
      std::vector<char*> pointers = {const_cast<char*>(KVCOST_BINARY)};
      for (std::string& argument : arguments) pointers.push_back(argument.data());
      pointers.push_back(nullptr);
      execv(KVCOST_BINARY, pointers.data());
      _exit(127);
    }
  }
  ~Program() { wait(); }
  Program(const Program&) = delete;

  void kill(int signal) const { ::kill(process_, signal); }
  /// The exit code, or 128 + the signal that ended it.
  int wait() {
    if (code_ < 0) {
      int status = 0;
      waitpid(process_, &status, 0);
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return code_;
  }
  std::string out() { return wait(), content_of(out_); }
  std::string err() { return wait(), content_of(err_); }

 private:
  std::filesystem::path out_, err_;
  pid_t process_ = -1;
  int code_ = -1;
};

}  // namespace kvcost
