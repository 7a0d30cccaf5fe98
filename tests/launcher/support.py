"""What the launcher's tests share: a scratch tree, and running a script of it with a chosen environment."""

import os
import shutil
import subprocess
import tempfile
import unittest
import zipfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class ScratchTree(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.mkdtemp(prefix="kvcost-launcher-")
        self.addCleanup(shutil.rmtree, self.tree)

    def path(self, *parts):
        return os.path.join(self.tree, *parts)

    def copy(self, *names):
        for name in names:
            source, target = os.path.join(SOURCE, name), self.path(name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, target)

    def write(self, text, *parts, mode=0o644):
        os.makedirs(os.path.dirname(self.path(*parts)), exist_ok=True)
        with open(self.path(*parts), "wb") as out:
            out.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(self.path(*parts), mode)

    def read(self, *parts):
        with open(self.path(*parts), "rb") as source:
            return source.read()

    def exists(self, *parts):
        return os.path.lexists(self.path(*parts))

    def run_script(self, *command, **environment):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KVCOST_", "CMAKE_"))}
        return subprocess.run(
            [self.path(command[0]), *command[1:]],
            env={**kept, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def make_wheel(self, folder, name, version, files):
        """A wheel that pip takes from a folder, with no index."""
        os.makedirs(self.path(folder), exist_ok=True)
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(self.path(folder, f"{name}-{version}-py3-none-any.whl"), "w") as wheel:
            for path, data in files.items():
                wheel.writestr(path, data)
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.path(folder), "PIP_CONFIG_FILE": os.devnull}
