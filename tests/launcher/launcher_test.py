"""./kvcost in a scratch tree: what it does with nothing there, and that it does no more than needed."""

import os
import shutil
import time
import unittest

from support import ScratchTree

# What the launcher may use before it has installed anything.
BARE = "bash basename cat chmod cp cut dirname env find flock grep head mkdir mv nproc readlink rm sed sort touch uname".split()


class LauncherTest(ScratchTree):
    def setUp(self):
        super().setUp()
        self.copy("kvcost", "CMakeLists.txt", "CMakePresets.json", "cmake")
        self.write('app.add_subcommand("run", "");\napp.add_subcommand("list", "");\n', "src", "cli", "main.cpp")
        self.write("", "experiments", "window.cpp")
        fetched = self.path("models") + "/$1"
        self.stub("fetch.sh", f"mkdir -p {fetched} && touch {fetched}/{{w.gguf,.verified}}", where=("data",))
        for tool in BARE:
            os.makedirs(self.path("bin"), exist_ok=True)
            os.symlink(shutil.which(tool), self.path("bin", tool))

    def stub(self, name, body="", where=("bin",)):
        """A program that writes its call down in the file calls."""
        log = self.path("calls")
        self.write(f'#!/bin/bash\necho "{os.path.basename(name)} $*" >>{log}\n{body}\n', *where, name, mode=0o755)

    def calls(self):
        return self.read("calls").decode() if self.exists("calls") else ""

    def launch(self, *arguments, **environment):
        return self.run_script("kvcost", *arguments, PATH=self.path("bin"), HOME=self.tree, **environment)

    def put_binary(self):
        self.write('#!/bin/bash\necho "binary $*"\n', "build", "release", "kvcost", mode=0o755)
        self.write("", "build", "release", ".built")

    def put_tools(self):
        """Everything that is to be installed, as stubs; the build makes a binary."""
        self.stub("g++", "echo 12")
        self.stub(
            "cmake",
            f"""case $1 in
              --version) echo 'cmake version 3.25.1' ;;
              --preset) touch build/release/build.ninja ;;
              --build) [[ ! -e {self.path("fail")} ]] && printf '#!/bin/bash\\necho binary "$@"\\n' >$2/kvcost && chmod +x $2/kvcost ;;
            esac""",
        )
        for tool in ("ninja", "pkg-config", "curl", "python3", "apt-get"):
            self.stub(tool)
        self.stub("dpkg-query", "echo installed")
        self.write("", "torch", "include", "ATen", "ATen.h")
        return {"CMAKE_PREFIX_PATH": self.path("torch")}

    def assert_one_line(self, result, code, *words):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_help_with_nothing_installed(self):
        result = self.launch("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("./kvcost run configs/quick.json", result.stdout)

    def test_help_with_a_binary(self):
        self.put_binary()
        self.assertIn("binary --help", self.launch("--help").stdout)

    def test_version_with_nothing_installed(self):
        result = self.launch("--version")
        self.assertRegex(result.stdout, r"^\d+\.\d+\.\d+\n$")
        self.assertEqual(result.returncode, 0)

    def test_no_command(self):
        self.assertEqual(self.launch().returncode, 2)

    def test_unknown_command(self):
        self.assert_one_line(self.launch("rnu"), 2, "'rnu'", "run", "list")

    def test_unknown_option(self):
        self.assert_one_line(self.launch("--frob"), 2, "'--frob'")

    def test_setup_and_build_refuse_what_they_do_not_know(self):
        self.assert_one_line(self.launch("setup", "--all"), 2, "'--all'")
        self.assert_one_line(self.launch("build", "fast"), 2, "'fast'")

    def test_packages_are_listed_before_apt_is_called(self):
        self.stub("dpkg-query", "echo not-installed")
        self.stub("apt-get", "exit 100")
        self.stub("apt-cache")
        self.stub("sudo", 'exec "$@"')
        result = self.launch("setup")
        self.assertEqual(result.returncode, 1)
        lines = result.stderr.splitlines()
        self.assertRegex(lines[0], "^kvcost: installing with apt-get: .*g\\+\\+ cmake ninja-build .*libfmt-dev")
        self.assertIn("could not install", lines[-1])
        self.assertNotIn("clang", self.calls())

    def test_a_package_the_distribution_does_not_have(self):
        self.stub("dpkg-query", "echo not-installed")
        self.stub("apt-get")
        self.stub("apt-cache", "[[ $2 != libcli11-dev ]]")
        self.stub("sudo", 'exec "$@"')
        result = self.launch("setup")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no package libcli11-dev", result.stderr.splitlines()[-1])
        self.assertNotIn("install -y", self.calls())

    def test_valijson_is_unpacked_without_its_dependencies(self):
        tools = self.put_tools()
        self.stub("dpkg-query", "[[ $* != *libvalijson-dev* ]] && echo installed")
        self.stub("apt-get", "touch libvalijson-dev_1.deb")
        self.stub("dpkg-deb", "mkdir -p usr/include/valijson")
        self.assertEqual(self.launch("setup", **tools).returncode, 0)
        self.assertTrue(self.exists(".deps", "valijson", "usr", "include", "valijson"))
        self.assertIn("apt-get -q download libvalijson-dev", self.calls())
        os.remove(self.path("calls"))
        self.launch("setup", **tools)
        self.assertNotIn("apt-get", self.calls())

    def test_no_valijson_to_be_had(self):
        tools = self.put_tools()
        self.stub("dpkg-query", "[[ $* != *libvalijson-dev* ]] && echo installed")
        self.stub("apt-get", "exit 100")
        result = self.launch("setup", **tools)
        self.assertEqual(result.returncode, 1)
        self.assertIn("libvalijson-dev", result.stderr.splitlines()[-1])
        self.assertFalse(self.exists(".deps", "valijson"))

    def test_a_distribution_without_apt(self):
        self.write("", "torch", "include", "ATen", "ATen.h")
        result = self.launch("setup", CMAKE_PREFIX_PATH=self.path("torch"))
        self.assert_one_line(result, 0, "no apt-get", "libfmt-dev")

    def test_from_another_folder_through_a_link(self):
        self.put_binary()
        os.symlink(self.path("kvcost"), self.path("bin", "kvcost-link"))
        result = self.run_script("bin/kvcost-link", "list", PATH=self.path("bin"))
        self.assertEqual((result.stdout, result.stderr), ("binary list\n", ""))

    def test_nothing_is_installed_when_told_so(self):
        self.stub("dpkg-query", "echo not-installed")
        self.stub("apt-get")
        self.write("", "torch", "include", "ATen", "ATen.h")
        result = self.launch("setup", KVCOST_NO_INSTALL="1", CMAKE_PREFIX_PATH=f"/nowhere:{self.path('torch')}")
        self.assertEqual((result.returncode, self.calls()), (0, ""))

    def test_a_run_builds_fetches_and_hands_over(self):
        tools = self.put_tools()
        self.write('{"model": "smollm2-135m"}', "quick.json")
        result = self.launch("run", self.path("quick.json"), "--windows", "1", **tools)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, f"binary run {self.path('quick.json')} --windows 1\n")
        calls = self.calls()
        self.assertLess(calls.index("cmake --preset release"), calls.index("cmake --build"))
        self.assertIn("fetch.sh smollm2-135m", calls)
        self.assertNotIn("apt-get", calls)

    def test_nothing_is_done_twice(self):
        tools = self.put_tools()
        self.write('{"model": "smollm2-135m"}', "quick.json")
        self.launch("run", self.path("quick.json"), **tools)
        os.remove(self.path("calls"))
        start = time.monotonic()
        result = self.launch("run", self.path("quick.json"), **tools)
        self.assertLess(time.monotonic() - start, 1)
        self.assertEqual((result.stdout, result.stderr), (f"binary run {self.path('quick.json')}\n", ""))
        self.assertEqual(self.calls(), "")

    def test_a_changed_added_or_deleted_source_is_built_but_not_configured(self):
        tools = self.put_tools()
        self.launch("list", **tools)
        for change in (
            lambda: self.write("// new\n", "src", "cli", "table.cpp"),
            lambda: self.write("// changed\n", "src", "cli", "table.cpp"),
            lambda: os.remove(self.path("src", "cli", "table.cpp")),
        ):
            os.remove(self.path("calls"))
            time.sleep(0.02)
            change()
            self.assertEqual(self.launch("list", **tools).returncode, 0)
            self.assertIn("cmake --build", self.calls())
            self.assertNotIn("cmake --preset", self.calls())

    def test_another_libtorch_configures_again(self):
        self.launch("build", **self.put_tools())
        os.remove(self.path("calls"))
        self.write("", "other", "include", "ATen", "ATen.h")
        self.launch("build", CMAKE_PREFIX_PATH=self.path("other"))
        self.assertIn("cmake --preset", self.calls())

    def test_a_failed_build_is_not_taken_for_done(self):
        tools = self.put_tools()
        self.write("", "fail")
        result = self.launch("list", **tools)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        os.remove(self.path("fail"))
        self.assertEqual(self.launch("list", **tools).stdout, "binary list\n")

    def test_the_model_is_fetched_only_where_it_is_named(self):
        tools = self.put_tools()
        self.write('{"model": "qwen2.5-0.5b"}', "other.json")
        self.launch("list", "smollm2-135m", **tools)
        self.launch("run", self.path("other.json"), **tools)
        self.assertNotIn("fetch.sh", self.calls())
        self.launch("run", self.path("other.json"), "--set", "model=smollm2-135m", **tools)
        self.assertIn("fetch.sh smollm2-135m", self.calls())


class LibTorchTest(ScratchTree):
    def setUp(self):
        super().setUp()
        self.copy("kvcost")

    def set_up(self, files):
        pip = self.make_wheel("wheels", "torch", "2.13.0", files)
        return self.run_script("kvcost", "setup", KVCOST_NO_INSTALL="1", **pip)

    def test_only_what_cpp_needs_is_unpacked(self):
        wanted = ("torch/include/ATen/ATen.h", "torch/lib/libtorch_cpu.so", "torch/share/cmake/TorchConfig.cmake")
        unwanted = ("torch/__init__.py", "torch/lib/libtorch_python.so", "torch/bin/protoc")
        result = self.set_up({name: name for name in wanted + unwanted})
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in wanted:
            self.assertEqual(self.read(".deps", "libtorch", name).decode(), name)
        for name in unwanted:
            self.assertFalse(self.exists(".deps", "libtorch", name))
        self.assertEqual(os.listdir(self.path(".deps")), ["libtorch"])

    def test_what_an_interrupted_setup_left_is_no_hindrance(self):
        self.write("half", ".deps", "libtorch.part", "torch", "include", "ATen", "ATen.h")
        self.write("half", ".deps", "download", "torch-2.13.0-py3-none-any.whl")
        result = self.set_up({"torch/include/ATen/ATen.h": "whole"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.read(".deps", "libtorch", "torch", "include", "ATen", "ATen.h"), b"whole")

    def test_a_cuda_build_is_refused(self):
        result = self.set_up({"torch/include/ATen/ATen.h": "", "torch/lib/libtorch_cuda.so": ""})
        self.assertEqual(result.returncode, 1)
        self.assertIn("CUDA build", result.stderr.splitlines()[-1])
        self.assertIn("KVCOST_TORCH_INDEX", result.stderr.splitlines()[-1])
        self.assertEqual(os.listdir(self.path(".deps")), [])

    def test_no_wheel(self):
        pip = self.make_wheel("wheels", "other", "1.0", {})
        result = self.run_script("kvcost", "setup", KVCOST_NO_INSTALL="1", **pip)
        self.assertEqual(result.returncode, 1)
        self.assertIn("CMAKE_PREFIX_PATH", result.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
