#include "src/cli/live_table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "src/harness/statistics.h"

namespace kvcost {
namespace {

std::string duration(double seconds) {
  auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

/// Running means over windows, and how long what is left will take.
class Tally {
 public:
  void start(const RunProgress::Plan& plan) {
    plan_ = plan;
    rows_.assign(plan.rows.size(), {});
  }

  void add_part(size_t row, int64_t tokens, double seconds) { part_ = {row, tokens, seconds}; }

  void add(size_t row, const Unit& unit, bool reused) {
    has_losses_ = !unit.loss_bits.empty();
    double loss = has_losses_ ? mean(unit.loss_bits) : 0;
    part_ = {};
    if (row == 0) full_now_ = loss;
    rows_[row].loss += loss;
    rows_[row].delta += loss - full_now_;
    ++rows_[row].windows;
    ++done_;
    if (!reused) rows_[row].seconds += unit.seconds, ++rows_[row].measured;
  }

  void add_perturbed(const Unit& unit, bool reused) {
    ++perturbed_;
    ++done_;
    if (!reused) perturbed_seconds_ += unit.seconds, ++perturbed_measured_;
  }

  size_t total() const {
    return plan_.rows.size() * plan_.windows.size() + static_cast<size_t>(plan_.perturbed_units);
  }
  size_t done() const { return done_; }

  /// By each row's own mean time where it has one, else by the mean of all; nullopt before the first.
  std::optional<double> seconds_left() const {
    double all_seconds = perturbed_seconds_ + part_.seconds;
    double all_work = static_cast<double>(perturbed_measured_ + static_cast<size_t>(part_.tokens));
    for (size_t r = 0; r < rows_.size(); ++r) {
      all_seconds += rows_[r].seconds, all_work += static_cast<double>(rows_[r].measured) * work(r);
    }
    if (all_work == 0) return std::nullopt;
    const double typical = all_seconds / all_work;
    double left = 0;
    for (size_t r = 0; r < rows_.size(); ++r) {
      const Row& row = rows_[r];
      double pace = row.measured > 0 ? row.seconds / static_cast<double>(row.measured) / work(r) : typical;
      double units = static_cast<double>(plan_.windows.size() - row.windows);
      if (part_.tokens > 0 && part_.row == r) {
        pace = part_.seconds / static_cast<double>(part_.tokens);
        units -= static_cast<double>(part_.tokens) / work(r);
      }
      left += units * work(r) * pace;
    }
    const double perturbed =
        perturbed_measured_ > 0 ? perturbed_seconds_ / static_cast<double>(perturbed_measured_) : typical;
    return left + static_cast<double>(plan_.perturbed_units - perturbed_) * perturbed;
  }

  std::string time_left() const {
    auto left = seconds_left();
    return left ? duration(*left) + " left" : "";
  }

  /// "3.235 (+0.172)", "" before the first window, or if no losses are measured.
  std::string cell(size_t row) const {
    const Row& sums = rows_[row];
    if (sums.windows == 0 || !has_losses_) return "";
    auto count = static_cast<double>(sums.windows);
    std::string loss = fmt::format("{:7.3f}", sums.loss / count);
    return row == 0 || !plan_.paired ? loss : loss + fmt::format("  ({:+.3f})", sums.delta / count);
  }
  /// "3/8" windows, or the share of the row's only one that is done.
  std::string progress(size_t row) const {
    if (!plan_.window_name.empty()) {
      return rows_[row].windows > 0 ? fmt::format("{}/{}", rows_[row].windows, plan_.windows.size()) : "";
    }
    if (part_.tokens == 0 || part_.row != row) return "";
    return fmt::format("{:.0f}%", 100 * static_cast<double>(part_.tokens) / work(row));
  }
  const RunProgress::Plan& plan() const { return plan_; }

 private:
  struct Row {
    double loss = 0, delta = 0, seconds = 0;
    size_t windows = 0, measured = 0;
  };
  /// Of the unit that is being measured; no tokens: nothing is known of it.
  struct Part {
    size_t row = 0;
    int64_t tokens = 0;
    double seconds = 0;
  };
  /// Of one unit: tokens, or 1 where every unit has equally many.
  double work(size_t row) const {
    return plan_.row_tokens.empty() ? 1 : static_cast<double>(plan_.row_tokens[row]);
  }
  RunProgress::Plan plan_;
  std::vector<Row> rows_;
  Part part_;
  double full_now_ = 0, perturbed_seconds_ = 0;
  bool has_losses_ = false;
  int64_t perturbed_ = 0, perturbed_measured_ = 0;
  size_t done_ = 0;
};

class PlainProgress : public RunProgress {
 public:
  void start(const Plan& plan) override {
    tally_.start(plan);
    std::fprintf(
        stderr, "%s",
        fmt::format(
            "{}: {} rows, {}{}\n", plan.name, plan.rows.size(),
            plan.window_name.empty() ? "" : fmt::format("{} {}s, ", plan.windows.size(), plan.window_name),
            plan.model)
            .c_str());
  }
  /// A line for every tenth of a row.
  void part(size_t row, int64_t tokens, double seconds) override {
    tally_.add_part(row, tokens, seconds);
    const int64_t all = tally_.plan().row_tokens[row], tenth = 10 * tokens / all;
    if (tenth == tenth_ || tokens + 1 >= all) return;
    tenth_ = tenth;
    std::fprintf(stderr, "%s",
                 fmt::format("[{}/{}] {}: {} of {} tokens, {:.1f} s, {}\n", tally_.done(), tally_.total(),
                             tally_.plan().rows[row], tokens, all, seconds, tally_.time_left())
                     .c_str());
  }
  void unit(int64_t window, size_t row, const Unit& unit, bool reused) override {
    tally_.add(row, unit, reused);
    tenth_ = 0;
    line(window, row, "", unit, reused);
  }
  void perturbed_unit(int64_t window, size_t row, int64_t repeat, const Unit& unit, bool reused) override {
    tally_.add_perturbed(unit, reused);
    line(window, row, fmt::format(", perturbed {}", repeat + 1), unit, reused);
  }
  void note(const std::string& line) override { std::fprintf(stderr, "kvcost: note: %s\n", line.c_str()); }

 private:
  void line(int64_t window, size_t row, const std::string& what, const Unit& unit, bool reused) {
    std::string time = reused ? "measured before" : fmt::format("{:.1f} s", unit.seconds);
    std::string left = tally_.time_left();
    const std::string& name = tally_.plan().window_name;
    std::string which = name.empty() ? "" : fmt::format("{} {}, ", name, window + 1);
    std::string loss = unit.loss_bits.empty() ? "" : fmt::format("{:.4f} bits, ", mean(unit.loss_bits));
    std::fprintf(stderr, "%s",
                 fmt::format("[{}/{}] {}{}{}: {}{}{}\n", tally_.done(), tally_.total(), which,
                             tally_.plan().rows[row], what, loss, time, left.empty() ? "" : ", " + left)
                     .c_str());
  }
  Tally tally_;
  int64_t tenth_ = 0;
};

class LiveTable : public RunProgress {
 public:
  void start(const Plan& plan) override {
    tally_.start(plan);
    for (const std::string& name : plan.rows) width_ = std::max(width_, name.size());
    draw(0);
  }
  void unit(int64_t, size_t row, const Unit& unit, bool reused) override {
    tally_.add(row, unit, reused);
    draw(row);
  }
  void perturbed_unit(int64_t, size_t row, int64_t, const Unit& unit, bool reused) override {
    tally_.add_perturbed(unit, reused);
    draw(row);
  }
  void part(size_t row, int64_t tokens, double seconds) override {
    tally_.add_part(row, tokens, seconds);
    draw(row);
  }
  void note(const std::string& line) override {
    erase();
    std::fprintf(stderr, "kvcost: note: %s\n", line.c_str());
  }
  /// The finished table goes to stdout; this one makes room for it.
  ~LiveTable() override { erase(); }

 private:
  void erase() {
    if (drawn_ > 0) std::fprintf(stderr, "\033[%zuF\033[J", drawn_);
    drawn_ = 0;
    std::fflush(stderr);
  }

  void draw(size_t current) {
    winsize size{};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 4;
    size_t height = known ? size.ws_row - 3u : 21u,
           columns = known && size.ws_col > 20 ? size.ws_col - 1u : 79u;
    const Plan& plan = tally_.plan();
    // Longer tables than the terminal: the part around the row that has just finished.
    size_t shown = std::min(plan.rows.size(), height);
    size_t first = current < shown ? 0 : std::min(current + 1 - shown / 2, plan.rows.size() - shown);
    std::string text;
    size_t lines = 0;
    auto add = [&](std::string line) {
      text += line.substr(0, columns) + "\n";
      ++lines;
    };
    for (size_t row = first; row < first + shown; ++row) {
      add(fmt::format("{:{}}  {:20} {}", plan.rows[row], width_, tally_.cell(row), tally_.progress(row)));
    }
    add(fmt::format("{} on {}: {} of {} units, {}", plan.name, plan.model, tally_.done(), tally_.total(),
                    tally_.time_left()));
    erase();
    std::fprintf(stderr, "%s", text.c_str());
    std::fflush(stderr);
    drawn_ = lines;
  }

  Tally tally_;
  size_t width_ = 0, drawn_ = 0;
};

}  // namespace

std::unique_ptr<RunProgress> make_progress(bool terminal) {
  if (terminal) return std::make_unique<LiveTable>();
  return std::make_unique<PlainProgress>();
}

}  // namespace kvcost
